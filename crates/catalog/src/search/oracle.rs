//! Compares the matches of the index with those of a plain scan of all names, columns and comments.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::best::{AfterMatch, Cursor, Match, SearchScope, SearchSource};
use super::columns::ColumnText;
use super::containers::Container;
use super::name_index::NameIndex;
use super::query::{MatchQuality, SearchQuery, fold};
use slateberg_authz::resource::Kind;

const KINDS: [Kind; 4] = [Kind::Namespace, Kind::Table, Kind::View, Kind::Function];
const WORDS: [&str; 14] = [
    "order", "orders", "Daily", "a", "ab", "x9", "9", "straße", "STRASSE", "été", "Οδος", "sales",
    "rde", "_",
];
const SEPARATORS: [&str; 5] = ["_", "", "-", " ", "é"];

/// Numbers that look random, and that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed >> 33) as usize % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn text(&mut self, words_max: usize) -> String {
        let mut text = self.pick(&WORDS).to_owned();
        for _ in 0..self.below(words_max) {
            text += self.pick(&SEPARATORS);
            text += self.pick(&WORDS);
        }
        text
    }

    fn columns(&mut self) -> Vec<ColumnText<'static>> {
        let column = |numbers: &mut Self| ColumnText {
            path: numbers.text(2).into(),
            comment: Some(numbers.text(3).into()).filter(|_| numbers.below(2) == 0),
        };
        (0..self.below(4)).map(|_| column(self)).collect()
    }

    fn container(&mut self) -> Container {
        let levels = [vec!["sales"], vec!["sales", "Order"], vec!["hr"], vec![]];
        let levels = levels[self.below(4)].iter().map(|level| (*level).to_owned()).collect();
        Container { warehouse: Uuid::from_u128(self.below(2) as u128), levels }
    }

    fn query(&mut self) -> String {
        let words: Vec<_> = (0..1 + self.below(3)).map(|_| self.text(2)).collect();
        let query = words.join(self.pick(&[" ", ".", "/"]));
        if query.trim_matches([' ', '.', '/']).is_empty() { "order".to_owned() } else { query }
    }
}

#[derive(Debug, Clone, Default)]
struct Fields {
    columns: Vec<ColumnText<'static>>,
    comment: Option<String>,
}

/// All names with their columns and comments.
type Objects = BTreeMap<(Container, Kind, String), Fields>;

/// A match in the order of the matches: the source, the quality, the folded name, the kind, the
/// container, the name, and the folded column or the comment.
type Expected = (SearchSource, MatchQuality, String, Kind, Container, String, Option<String>);

/// Returns the quality of the match of a word, according to docs/search.md.
fn quality(word: &str, text: &str) -> Option<MatchQuality> {
    if text == word {
        return Some(MatchQuality::Exact);
    }
    if text.starts_with(word) {
        return Some(MatchQuality::Prefix);
    }
    let starts = text.char_indices().filter(|(at, _)| text[*at..].starts_with(word));
    let qualities = starts.map(|(at, _)| match text[..at].chars().next_back() {
        Some(before) if before.is_alphanumeric() => MatchQuality::Substring,
        _ => MatchQuality::Word,
    });
    qualities.min()
}

/// Returns the quality of the match of a query in a text, whose other words are in `others`.
fn matched(query: &str, text: &str, others: &[&str]) -> Option<MatchQuality> {
    let whole = fold(query.trim());
    let words = whole.split(|it: char| it.is_whitespace() || it == '.' || it == '/');
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let in_text: Vec<_> = words.iter().filter_map(|word| quality(word, text)).collect();
    let missing = words.iter().filter(|word| !text.contains(**word));
    let is_complete = missing.into_iter().all(|word| others.iter().any(|it| it.contains(word)));
    let worst = in_text.into_iter().max().filter(|_| is_complete)?;
    Some(if text == whole { MatchQuality::Exact } else { worst })
}

fn expected(objects: &Objects, query: &str, scope: &SearchScope) -> Vec<Expected> {
    let mut all = Vec::new();
    for ((container, kind, name), Fields { columns, comment }) in objects {
        let is_hidden = scope.warehouse.is_some_and(|only| only != container.warehouse)
            || !(scope.kinds.is_empty() || scope.kinds.contains(kind));
        if is_hidden {
            continue;
        }
        let (folded, inside) = (fold(name), fold(&container.levels.join("\n")));
        let others = [&*folded, &*inside];
        let in_name = matched(query, &folded, &[&inside]).map(|quality| (quality, None));
        let paths = columns.iter().map(|it| it.path.clone());
        let in_columns = paths
            .filter_map(|path| Some((matched(query, &fold(&path), &others)?, Some(fold(&path)))));
        let comments = columns.iter().filter_map(|it| it.comment.as_deref());
        let in_comments = comments.chain(comment.as_deref()).filter_map(|comment| {
            Some((matched(query, &fold(comment), &others)?, Some(fold(comment))))
        });
        let found = scope.sources.iter().find_map(|source| {
            let best = match source {
                SearchSource::Names => in_name.clone(),
                SearchSource::Columns => in_columns.clone().min(),
                SearchSource::Comments => in_comments.clone().min(),
            };
            best.map(|(quality, text)| (*source, quality, text))
        });
        if let Some((source, quality, text)) = found {
            let (container, name) = (container.clone(), name.clone());
            all.push((source, quality, folded, *kind, container, name, text));
        }
    }
    all.sort();
    all
}

/// Reads all matches, in pages of `count`.
fn found(index: &NameIndex, query: &str, scope: &SearchScope, count: usize) -> Vec<Expected> {
    let query = SearchQuery::parse(query).expect("it is valid");
    let (mut all, mut after): (Vec<Expected>, Option<AfterMatch>) = (Vec::new(), None);
    loop {
        let page = index.best(&query, scope, after.as_ref(), count);
        assert!(page.len() <= count);
        let Some(last) = page.last() else { return all };
        let container = index.containers().of(last.container).clone();
        let cursor = Cursor {
            source: last.rank.source.as_str().to_owned(),
            quality: last.rank.quality.as_str().to_owned(),
            kind: last.kind.as_str().to_owned(),
            warehouse: container.warehouse,
            levels: container.levels,
            name: last.name.clone(),
        };
        after = AfterMatch::parse(cursor, &KINDS);
        all.extend(page.into_iter().map(|Match { rank, kind, container, name, field }| {
            let text = field.and_then(|field| match rank.source {
                SearchSource::Comments => field.comment,
                _ => field.column,
            });
            let container = index.containers().of(container).clone();
            let text = text.map(|text| fold(&text));
            (rank.source, rank.quality, fold(&name), kind, container, name, text)
        }));
    }
}

fn assert_equal(index: &NameIndex, objects: &Objects, numbers: &mut Numbers) {
    for _ in 0..20 {
        let query = numbers.query();
        let sources = SearchSource::ALL.into_iter().filter(|_| numbers.below(2) == 0).collect();
        let warehouse = Some(Uuid::from_u128(0)).filter(|_| numbers.below(4) == 0);
        let kinds = KINDS.into_iter().filter(|_| numbers.below(8) == 0).collect();
        let scope = SearchScope { sources, warehouse, kinds, ..SearchScope::default() };
        let count = [1, 3, 10, 1000][numbers.below(4)];
        let expected = expected(objects, &query, &scope);
        assert_eq!(found(index, &query, &scope, count), expected, "{query} {scope:?} {count}");
    }
}

/// The index and the objects that it must contain.
#[derive(Default)]
struct Both {
    index: NameIndex,
    objects: Objects,
}

impl Both {
    fn insert(&mut self, (container, kind, name): &(Container, Kind, String)) {
        let id = self.index.container(container.clone()).expect("room");
        self.index.insert(id, *kind, name, Uuid::nil()).expect("room");
        self.objects.entry((container.clone(), *kind, name.clone())).or_default();
    }

    fn remove(&mut self, (container, kind, name): &(Container, Kind, String)) {
        let id = self.index.container(container.clone()).expect("room");
        self.index.remove(id, *kind, name);
        self.objects.remove(&(container.clone(), *kind, name.clone()));
    }

    fn assign(&mut self, object: &(Container, Kind, String), fields: Fields) {
        let (container, kind, name) = object;
        let id = self.index.container(container.clone()).expect("room");
        let mut terms = self.index.fields_mut().columns(&fields.columns, true).expect("room");
        let comment = fields.comment.as_deref();
        let comment = comment.map(|it| self.index.fields_mut().comment(it).expect("room"));
        terms.extend(comment);
        self.index.assign_fields((id, *kind, name), Uuid::nil(), terms);
        self.objects.insert(object.clone(), fields);
    }

    fn random(&self, numbers: &mut Numbers) -> Option<(Container, Kind, String)> {
        let at = numbers.below(self.objects.len().max(1));
        self.objects.keys().nth(at).cloned()
    }

    /// Changes a random object, or the structure of the index.
    fn change(&mut self, numbers: &mut Numbers) {
        match numbers.below(10) {
            0..4 => {
                let kind = KINDS[numbers.below(4)];
                self.insert(&(numbers.container(), kind, numbers.text(4)));
            }
            4..6 => {
                if let Some(object) = self.random(numbers) {
                    self.remove(&object);
                }
            }
            6 => {
                if let Some(object) = self.random(numbers) {
                    let fields = self.objects[&object].clone();
                    self.remove(&object);
                    let renamed = (numbers.container(), object.1, numbers.text(4));
                    self.insert(&renamed);
                    self.assign(&renamed, fields);
                }
            }
            _ => {
                if let Some(object) = self.random(numbers) {
                    let comment = Some(numbers.text(3)).filter(|_| numbers.below(2) == 0);
                    let fields = Fields { columns: numbers.columns(), comment };
                    self.assign(&object, fields);
                }
            }
        }
    }

    /// Builds the columns and comments again, as the first search for them does.
    fn rebuild_fields(&mut self, numbers: &mut Numbers) {
        self.index.fields_mut().begin_build();
        for (object, fields) in self.objects.clone() {
            self.assign(&object, fields);
        }
        // Some objects disappear before the end of the build.
        if let Some(object) = self.random(numbers) {
            self.remove(&object);
        }
        self.index.finish_fields();
    }
}

#[test]
fn matches_of_the_index_equal_those_of_a_plain_scan() {
    for seed in 0..8 {
        let mut numbers = Numbers(seed);
        let mut both = Both::default();
        for _ in 0..6 {
            (0..250).for_each(|_| both.change(&mut numbers));
            assert_equal(&both.index, &both.objects, &mut numbers);
            both.index = both.index.compacted().expect("room");
            assert_equal(&both.index, &both.objects, &mut numbers);
            if numbers.below(2) == 0 {
                (0..20).for_each(|_| both.change(&mut numbers));
                both.rebuild_fields(&mut numbers);
            }
            (0..40).for_each(|_| both.change(&mut numbers));
            assert_equal(&both.index, &both.objects, &mut numbers);
        }
    }
}
