//! [`SearchQuery`]: the words that a search looks for, and how well a name matches them.

use memchr::memmem;

use super::bits::ones;
use super::blocks::is_word_start;
use crate::{Error, Result};
use slateberg_model::members::brief;

/// Maximum size of a query, in bytes.
const QUERY_BYTES_MAX: usize = 256;
/// Maximum number of words of a query.
const WORDS_MAX: usize = Words::BITS as usize;

/// The quality of a match. The best match is the smallest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchQuality {
    /// The name is the query.
    Exact,
    /// The name begins with the query.
    Prefix,
    /// A word of the name begins with the query.
    Word,
    /// The name contains the query.
    Substring,
}

impl MatchQuality {
    const ALL: [Self; 4] = [Self::Exact, Self::Prefix, Self::Word, Self::Substring];

    /// Returns the name of the quality in responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Prefix => "prefix",
            Self::Word => "word",
            Self::Substring => "substring",
        }
    }

    /// Returns the quality with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quality| quality.as_str() == name)
    }
}

/// A parsed query. All texts are folded.
#[derive(Debug, Clone)]
pub(super) struct SearchQuery {
    whole: String,
    words: Vec<Word>,
}

#[derive(Debug, Clone)]
struct Word {
    text: String,
    finder: memmem::Finder<'static>,
}

/// Removes the differences between upper and lower case. Applies the mapping to upper case first,
/// so that `ß` equals `ss`, and a final sigma equals any other sigma.
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

impl SearchQuery {
    /// Parses a query. White space, dots and slashes separate its words.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::Invalid(
                "Invalid search query: it is empty. Write a part of a name".to_owned(),
            ));
        }
        if text.len() > QUERY_BYTES_MAX {
            return Err(Error::Invalid(format!(
                "Invalid search query: it has {} bytes, but at most {QUERY_BYTES_MAX} are allowed",
                text.len()
            )));
        }
        let whole = fold(text);
        let separates = |char: char| char.is_whitespace() || char == '.' || char == '/';
        let mut words: Vec<&str> = whole.split(separates).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            words.push(&whole);
        }
        if words.len() > WORDS_MAX {
            return Err(Error::Invalid(format!(
                "Invalid search query '{}': it has {} words, but at most {WORDS_MAX} are allowed",
                brief(text),
                words.len()
            )));
        }
        let words = words.into_iter().map(Word::new).collect();
        Ok(Self { whole, words })
    }

    /// Returns the number of words.
    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    /// Returns the set of all words.
    pub(super) fn all_words(&self) -> Words {
        (0..self.words.len()).fold(0, |words, at| words | 1 << at)
    }

    /// Returns a word.
    pub(super) fn word(&self, at: usize) -> &str {
        &self.words[at].text
    }

    /// Returns the folded query.
    pub(super) fn whole(&self) -> &str {
        &self.whole
    }

    /// Returns the position of the first occurrence of a word in a text.
    pub(super) fn find(&self, word: usize, text: &[u8]) -> Option<usize> {
        self.words[word].finder.find(text)
    }

    /// Calls `visit` with the position of each occurrence of a word in a text. `visit` returns the
    /// position from which the next occurrence matters.
    pub(super) fn visit(&self, word: usize, text: &[u8], mut visit: impl FnMut(usize) -> usize) {
        let mut from = 0;
        while let Some(found) = self.find(word, &text[from..]) {
            from = visit(from + found);
        }
    }

    /// Returns the words that a folded text contains, without their quality.
    pub(super) fn contained_words(&self, text: &str) -> Words {
        let contained = self.words.iter().enumerate().filter(|(_, word)| word.is_in(text));
        contained.fold(0, |words, (at, _)| words | 1 << at)
    }

    /// Returns the words that a folded text contains. `None` if it contains no word.
    pub(super) fn words_in(&self, text: &str) -> Option<WordsIn> {
        let mut found: Option<WordsIn> = None;
        for (at, word) in self.words.iter().enumerate() {
            let Some(quality) = word.quality(text.as_bytes()) else { continue };
            let WordsIn { words, quality: worst } =
                found.unwrap_or(WordsIn { words: 0, quality: MatchQuality::Exact });
            found = Some(WordsIn { words: words | 1 << at, quality: worst.max(quality) });
        }
        found.map(|it| match text == self.whole {
            true => WordsIn { quality: MatchQuality::Exact, ..it },
            false => it,
        })
    }

    /// Whether a folded name matches with this quality, if the container of the name contains some
    /// words. Counts exact matches as prefixes.
    pub(super) fn matches(&self, name: &[u8], in_container: Words, quality: MatchQuality) -> bool {
        let (mut worst, all) = (None, self.all_words());
        // Most names lack a word that the container does not contain.
        for words in [all & !in_container, all & in_container] {
            for word in ones(words.into()) {
                match self.words[word].quality(name) {
                    Some(of_word) if of_word <= quality => worst = worst.max(Some(of_word)),
                    Some(_) => return false,
                    None if in_container & 1 << word == 0 => return false,
                    None => {}
                }
            }
        }
        worst.map(|worst| worst.max(MatchQuality::Prefix)) == Some(quality)
    }
}

/// A set of words of a query: one bit for each word.
pub(super) type Words = u8;

/// The words of a query that a text contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WordsIn {
    /// The words.
    pub(super) words: Words,
    /// The worst match of these words.
    pub(super) quality: MatchQuality,
}

impl WordsIn {
    /// Returns the first word.
    pub(super) fn first(self) -> usize {
        self.words.trailing_zeros() as usize
    }
}

impl Word {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), finder: memmem::Finder::new(text).into_owned() }
    }

    fn is_in(&self, text: &str) -> bool {
        self.finder.find(text.as_bytes()).is_some()
    }

    fn quality(&self, name: &[u8]) -> Option<MatchQuality> {
        if name.starts_with(self.text.as_bytes()) {
            let is_exact = name.len() == self.text.len();
            return Some(if is_exact { MatchQuality::Exact } else { MatchQuality::Prefix });
        }
        let (mut quality, mut from) = (None, 0);
        while let Some(found) = self.finder.find(&name[from..]) {
            if is_word_start(name, from + found) {
                return Some(MatchQuality::Word);
            }
            (quality, from) = (Some(MatchQuality::Substring), from + found + 1);
        }
        quality
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(query: &str, name: &str, namespace: &str) -> Option<MatchQuality> {
        let query = SearchQuery::parse(query).expect("it is valid");
        let (name, namespace) = (fold(name), fold(namespace));
        // Without a word in the name, the search never reaches the name.
        let found = query.words_in(&name)?;
        let words = found.words | query.contained_words(&namespace);
        (words == query.all_words()).then_some(found.quality)
    }

    #[test]
    fn quality_depends_on_the_place_of_the_word() {
        for (name, expected) in [
            ("Orders", Some(MatchQuality::Exact)),
            ("orders_2025", Some(MatchQuality::Prefix)),
            ("daily-ORDERS", Some(MatchQuality::Word)),
            ("reorders_orders", Some(MatchQuality::Word)),
            ("reorders", Some(MatchQuality::Substring)),
            ("order", None),
        ] {
            assert_eq!(quality("orders", name, ""), expected, "{name}");
        }
    }

    #[test]
    fn all_words_must_occur_in_the_name_or_its_namespace() {
        assert_eq!(quality("sales.orders", "orders", "sales"), Some(MatchQuality::Exact));
        assert_eq!(quality("orders sales", "orders", "Sales"), Some(MatchQuality::Exact));
        assert_eq!(quality("sales orders", "sales_orders", ""), Some(MatchQuality::Word));
        assert_eq!(quality("my table", "My Table", ""), Some(MatchQuality::Exact));
        assert_eq!(quality("sales orders", "orders", "hr"), None);
    }

    #[test]
    fn case_is_ignored_in_every_script() {
        for (query, name) in [("STRASSE", "straße"), ("ΟΔΟΣ", "οδος"), ("имя", "ИМЯ"), ("é", "É")]
        {
            assert_eq!(quality(query, name, ""), Some(MatchQuality::Exact), "{query}");
        }
    }

    #[test]
    fn separators_alone_are_one_word() {
        assert_eq!(quality(".", "a.b", ""), Some(MatchQuality::Substring));
        let error = SearchQuery::parse(" \t").expect_err("it is empty");
        assert_eq!(error.kind(), crate::error::Kind::Invalid);
        assert!(SearchQuery::parse(&"a".repeat(257)).is_err(), "it is too long");
        assert!(SearchQuery::parse("a b c d e f g h i").is_err(), "it has too many words");
    }
}
