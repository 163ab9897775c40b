//! Measures the language of comments, documentation and messages. A sentence names its actor and
//! begins with a noun or a verb; `CONTRIBUTING.md` has the rules.

use std::fs;
use std::path::Path;

use super::literals::literals;
use super::{files_below, is_test_file, root, sources};

/// Words at the start of a sentence whose subject is a clause.
const HEADS: [&str; 12] = [
    "What", "Who", "Whoever", "Whatever", "Whom", "Whose", "Which", "How", "Of what", "By whom",
    "None if", "If any",
];
/// Pronouns in place of the actor.
const PRONOUNS: [&str; 5] = ["nobody", "somebody", "whoever", "everybody", "whomever"];
/// Words and phrases with a plainer substitute.
const BANNED: [(&str, &str); 13] = [
    ("tell", "return, report, include"),
    ("tells", "returns, reports, includes"),
    ("told", "returned, reported, configured"),
    ("telling", "returning, reporting"),
    ("stands", "is"),
    ("by now", "omit it, or name the moment"),
    ("any more", "no longer"),
    ("but for", "except"),
    ("to the letter", "exactly"),
    ("comes to", "becomes, reaches"),
    ("is none", "is not a"),
    ("so long as", "while, if"),
    ("so many", "name the parameter"),
];

/// Sentences of one kind of text, and those that break a rule.
struct Measure {
    kind: &'static str,
    sentences: usize,
    /// The rule, the file and the sentence.
    flagged: Vec<(Rule, String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The subject is a clause: name it.
    Headless,
    /// The actor is a pronoun: name the client, caller, server, writer or operator.
    Pronoun,
    /// The phrase has a plainer substitute.
    Banned(&'static str, &'static str),
}

impl Rule {
    /// Returns the first rule that a sentence breaks.
    fn broken_by(sentence: &str) -> Option<Self> {
        let is_question = sentence.contains('?');
        if !is_question && HEADS.iter().any(|head| starts_with_words(sentence, head)) {
            return Some(Self::Headless);
        }
        let words = words(sentence);
        if words.iter().any(|word| PRONOUNS.contains(&word.as_str())) {
            return Some(Self::Pronoun);
        }
        let has = |phrase: &str| {
            let phrase: Vec<_> = phrase.split(' ').collect();
            words.windows(phrase.len()).any(|window| window == phrase)
        };
        let (phrase, substitute) = BANNED.into_iter().find(|(phrase, _)| has(phrase))?;
        Some(Self::Banned(phrase, substitute))
    }

    fn is_same_kind(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl Measure {
    fn new(kind: &'static str) -> Self {
        Self { kind, sentences: 0, flagged: Vec::new() }
    }

    fn add(&mut self, file: &str, block: &str) {
        for sentence in sentences(block) {
            self.sentences += 1;
            if let Some(rule) = Rule::broken_by(&sentence) {
                self.flagged.push((rule, file.to_owned(), sentence));
            }
        }
    }

    /// Panics if more than `per_mille_max` of a thousand sentences break one of the rules, or if a
    /// sentence contains a banned phrase and `permits_banned` is false.
    #[track_caller]
    fn assert_at_most(&self, per_mille_max: usize, permits_banned: bool) {
        assert!(self.sentences > 500, "{}: only {} sentences were read", self.kind, self.sentences);
        for rule in [Rule::Headless, Rule::Pronoun, Rule::Banned("", "")] {
            let flagged = self.flagged.iter().filter(|(broken, ..)| broken.is_same_kind(rule));
            let is_strict = matches!(rule, Rule::Banned(..)) && !permits_banned;
            let per_mille_max = if is_strict { 0 } else { per_mille_max };
            let lines: Vec<_> =
                flagged.map(|(rule, file, text)| format!("{file}: {rule:?}: {text}")).collect();
            assert!(
                lines.len() * 1000 <= self.sentences * per_mille_max,
                "{} of {} sentences of {} break a rule of CONTRIBUTING.md, which is more than {} in 1,000:\n{}",
                lines.len(),
                self.sentences,
                self.kind,
                per_mille_max,
                lines.join("\n")
            );
        }
    }
}

/// Returns the words of a text, in lower case.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn starts_with_words(sentence: &str, head: &str) -> bool {
    let rest = sentence.strip_prefix(head);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '\''))
}

/// Returns the sentences of a block that have at least three words. Code in backticks is one word.
fn sentences(block: &str) -> Vec<String> {
    let plain: String =
        block.split('`').enumerate().map(|(i, it)| if i % 2 == 0 { it } else { "X" }).collect();
    let mut sentences = vec![String::new()];
    for word in plain.split_whitespace() {
        let sentence = sentences.last_mut().expect("there is one");
        sentence.push_str(word);
        sentence.push(' ');
        if word.ends_with(['.', ';', ':']) {
            sentences.push(String::new());
        }
    }
    let marks = [' ', '-', '*', '|', '#', '>'];
    let trimmed = sentences.iter().map(|it| it.trim_matches(marks).to_owned());
    trimmed.filter(|it| it.split_whitespace().count() >= 3).collect()
}

/// Returns the blocks of consecutive lines that begin with a marker.
fn comments(text: &str, markers: &[&str]) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        let line = line.trim_start();
        let comment = markers.iter().find_map(|marker| line.strip_prefix(marker));
        let block = blocks.last_mut().expect("there is one");
        match comment {
            Some(comment) => {
                block.push_str(comment.trim());
                block.push(' ');
            }
            None if !block.is_empty() => blocks.push(String::new()),
            None => {}
        }
    }
    blocks
}

/// Returns the paragraphs, rows and items of a page, without its code blocks and comments.
fn paragraphs(page: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    let (mut in_code, mut in_comment) = (false, false);
    for line in page.lines() {
        let text = line.trim_start();
        let is_fence = text.starts_with("```");
        in_comment |= text.starts_with("<!--");
        if !is_fence && !in_code && !in_comment {
            if text.is_empty() || text.starts_with(['-', '*', '|', '#']) {
                blocks.push(String::new());
            }
            let block = blocks.last_mut().expect("there is one");
            block.push_str(text);
            block.push(' ');
        }
        in_code ^= is_fence;
        in_comment &= !text.contains("-->");
    }
    blocks
}

/// Returns the names and contents of all files below a directory that have one of the extensions.
fn texts_below(directory: &Path, extensions: &[&str], found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("the entry can be read").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", ".git", "node_modules", "dist"].contains(&name.as_str()) {
                texts_below(&path, extensions, found);
            }
        } else if extensions.iter().any(|extension| name.ends_with(extension)) {
            let text = fs::read_to_string(&path).expect("the file can be read");
            found.push((path.to_string_lossy().into_owned(), text));
        }
    }
}

#[test]
fn comments_of_the_code_are_in_plain_english() {
    let mut measure = Measure::new("comments");
    let tests = files_below("tests");
    for source in sources().iter().chain(&tests) {
        for block in comments(&source.text, &["///", "//!", "//"]) {
            measure.add(&source.name, &block);
        }
    }
    measure.assert_at_most(5, true);
}

#[test]
fn documentation_is_in_plain_english() {
    let mut measure = Measure::new("the documentation");
    let mut pages = Vec::new();
    texts_below(&root(), &[".md"], &mut pages);
    for (name, page) in &pages {
        paragraphs(page).iter().for_each(|block| measure.add(name, block));
    }
    let mut settings = Vec::new();
    for directory in ["config", "helm", "policies"] {
        let extensions = [".toml", ".yaml", ".cedar", ".cedarschema"];
        texts_below(&root().join(directory), &extensions, &mut settings);
    }
    for (name, text) in &settings {
        for block in comments(text, &["#", "//"]) {
            measure.add(name, &block);
        }
    }
    measure.assert_at_most(2, false);
}

#[test]
fn messages_are_in_plain_english() {
    let mut measure = Measure::new("messages");
    for source in sources().iter().filter(|it| !is_test_file(&it.name)) {
        for literal in literals(&source.code().collect::<Vec<_>>().join("\n")) {
            measure.add(&source.name, &literal);
        }
    }
    let mut help = Vec::new();
    texts_below(&root().join("tests/cli/snapshots"), &[".snap"], &mut help);
    for (name, text) in &help {
        paragraphs(text).iter().for_each(|block| measure.add(name, block));
    }
    measure.assert_at_most(2, false);
}

#[test]
fn a_sentence_that_breaks_a_rule_is_recognized() {
    let broken = |text| Rule::broken_by(text);
    assert_eq!(broken("What is told of each request"), Some(Rule::Headless));
    assert_eq!(broken("What does a commit write?"), None);
    assert_eq!(broken("Whatsoever returns the records"), None);
    assert_eq!(broken("Lets nobody in without a key"), Some(Rule::Pronoun));
    assert_eq!(
        broken("Returns so many records"),
        Some(Rule::Banned("so many", "name the parameter"))
    );
    assert_eq!(broken("Returns the records of a table"), None);
    let block = "Reads `a.b: c`. It returns nothing else; callers retry it. Two words.";
    let found = sentences(block);
    assert_eq!(found, ["It returns nothing else;", "callers retry it."]);
}
