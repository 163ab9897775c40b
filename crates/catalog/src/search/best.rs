//! Finds the best matches of a query in the index.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::field_index::{TermHits, TermId, TermKind};
use super::name_index::{Container, ContainerId, Entry, NameIndex};
use super::query::{MatchQuality, SearchQuery, WordsIn, fold};
use slateberg_authz::resource::Kind;

/// The texts that a search compares with the query. The matches of a smaller value come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SearchSource {
    /// The names of tables, views, namespaces and functions.
    Names,
    /// The columns of tables and views.
    Columns,
    /// The comments of columns, tables, views and namespaces.
    Comments,
}

impl SearchSource {
    /// All sources, in their order.
    pub const ALL: [Self; 3] = [Self::Names, Self::Columns, Self::Comments];

    /// Returns the name of the source in requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::Columns => "columns",
            Self::Comments => "comments",
        }
    }

    /// Returns the source with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == name)
    }

    fn terms(self) -> &'static [TermKind] {
        match self {
            Self::Names => &[],
            Self::Columns => &[TermKind::Column],
            Self::Comments => &[TermKind::ColumnComment, TermKind::Comment],
        }
    }
}

/// The names that a search considers.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchScope {
    /// Only names in this warehouse.
    pub(super) warehouse: Option<Uuid>,
    /// Only names of these kinds. Empty for all kinds.
    pub(super) kinds: Vec<Kind>,
    /// The sources, in their order.
    pub(super) sources: Vec<SearchSource>,
    /// Contents that the caller does not see.
    pub(super) hidden: HashSet<(ContainerId, Kind)>,
}

/// A match, without its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) rank: Rank,
    pub(super) kind: Kind,
    pub(super) container: ContainerId,
    pub(super) name: String,
    /// The matching column or comment. `None` if the name matches.
    pub(super) field: Option<MatchedField>,
}

/// A column or comment that matches a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MatchedField {
    /// The id of the table, view or namespace when the index read its metadata.
    pub(super) id: Uuid,
    /// The path of the column. `None` for a comment of the table, view or namespace.
    pub(super) column: Option<String>,
    /// The beginning of the comment, if the comment matches.
    pub(super) comment: Option<String>,
}

/// The rank of a match. The best match is the smallest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) source: SearchSource,
    pub(super) quality: MatchQuality,
}

/// A place in the order of matches: directly after a match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) source: String,
    pub(super) quality: String,
    pub(super) kind: String,
    pub(super) warehouse: Uuid,
    pub(super) levels: Vec<String>,
    pub(super) name: String,
}

/// A parsed [`Cursor`].
pub(super) struct AfterMatch {
    rank: Rank,
    folded: String,
    kind: Kind,
    container: Container,
    name: String,
}

impl AfterMatch {
    /// Parses a cursor. `None` if its texts are invalid.
    pub(super) fn parse(cursor: Cursor, kinds: &[Kind]) -> Option<Self> {
        let Cursor { source, quality, kind, warehouse, levels, name } = cursor;
        let source = SearchSource::named(&source)?;
        let rank = Rank { source, quality: MatchQuality::named(&quality)? };
        let kind = kinds.iter().copied().find(|known| known.as_str() == kind)?;
        let container = Container { warehouse, levels };
        Some(Self { rank, folded: fold(&name), kind, container, name })
    }

    /// Compares the name of an entry with the name of the match.
    fn compare(&self, index: &NameIndex, at: u32) -> Ordering {
        let entry = index.entries()[at as usize];
        index
            .folded(at as usize)
            .cmp(&self.folded)
            .then_with(|| entry.kind.cmp(&self.kind))
            .then_with(|| index.holder(entry).container.cmp(&self.container))
            .then_with(|| index.name(at).cmp(&self.name))
    }
}

/// A search in the index.
struct Scan<'a> {
    index: &'a NameIndex,
    query: &'a SearchQuery,
    scope: &'a SearchScope,
    after: Option<&'a AfterMatch>,
    /// The first sorted entry whose name is after that of `after`.
    after_from: usize,
    hits: TermHits,
    best: BestMatches<'a>,
}

impl NameIndex {
    /// Returns the best matches after a cursor, at most `count`, the best first.
    pub(super) fn best(
        &self,
        query: &SearchQuery,
        scope: &SearchScope,
        after: Option<&AfterMatch>,
        count: usize,
    ) -> Vec<Match> {
        let hits = match &*scope.sources {
            [SearchSource::Names] => TermHits::default(),
            _ => self.fields().hits(query),
        };
        let best = BestMatches { index: self, found: Vec::new(), count, worst: None };
        let after_from = after.map_or(0, |after| self.first_after(after));
        let mut scan = Scan { index: self, query, scope, after, after_from, hits, best };
        let first = after.map_or(SearchSource::Names, |after| after.rank.source);
        for source in scope.sources.iter().copied().filter(|source| *source >= first) {
            if scan.best.found.len() >= count {
                break;
            }
            match source {
                SearchSource::Names => scan.names(),
                SearchSource::Columns | SearchSource::Comments => scan.fields(source),
            }
        }
        let sorted = scan.best.into_sorted();
        sorted.into_iter().map(|found| self.found(found)).collect()
    }

    fn first_after(&self, after: &AfterMatch) -> usize {
        let (mut low, mut high) = (0, self.sorted());
        while low < high {
            let middle = low.midpoint(high);
            // The number of entries is checked when an entry is added.
            match after.compare(self, middle as u32) {
                Ordering::Greater => high = middle,
                Ordering::Less | Ordering::Equal => low = middle + 1,
            }
        }
        low
    }

    fn found(&self, Found { rank, at, term }: Found) -> Match {
        let Entry { kind, container, .. } = self.entries()[at as usize];
        let field = term.and_then(|term| {
            let fields = self.fields().of_entry(at)?;
            let is_comment = rank.source == SearchSource::Comments;
            Some(MatchedField {
                id: fields.id,
                column: self.fields().column_with(fields, term).map(ToOwned::to_owned),
                comment: is_comment.then(|| self.fields().term_text(term).to_owned()),
            })
        });
        Match { rank, kind, container, name: self.name(at).to_owned(), field }
    }
}

impl Scan<'_> {
    /// Finds names.
    fn names(&mut self) {
        let (sorted, all) = (self.index.sorted(), self.index.entries().len());
        let Some(only_word) = self.query.only_word() else {
            (0..self.query.words()).for_each(|word| self.names_within(0..all, word));
            return;
        };
        self.names_within(sorted..all, 0);
        let beginning = self.names_with_prefix(only_word);
        let within = Rank { source: SearchSource::Names, quality: MatchQuality::Word };
        if self.best.may_contain(within) {
            self.names_within(0..beginning.start, 0);
            self.names_within(beginning.end..sorted, 0);
        }
    }

    /// Finds the sorted names that begin with the only word of the query. Returns their range.
    fn names_with_prefix(&mut self, word: &str) -> Range<usize> {
        let sorted = 0..self.index.sorted();
        let start = partition(sorted.clone(), |at| self.index.folded(at) < word);
        let end = partition(start..sorted.end, |at| self.index.folded(at).starts_with(word));
        for at in start..end {
            let is_exact = self.index.folded(at).len() == word.len();
            let quality = if is_exact { MatchQuality::Exact } else { MatchQuality::Prefix };
            let found = Found::name(quality, at as u32);
            if !self.best.takes(found) {
                // All further names are worse.
                break;
            }
            if self.is_in_scope(found.at) {
                self.add(found);
            }
        }
        start..end
    }

    /// Finds the names in a range of entries in which `word` is the first word that the name
    /// contains.
    fn names_within(&mut self, entries: Range<usize>, word: usize) {
        let Some(first) = self.index.entries().get(entries.start).filter(|_| !entries.is_empty())
        else {
            return;
        };
        let is_sorted = entries.end <= self.index.sorted() && self.query.only_word().is_some();
        let text = &self.index.text()[..self.index.end(entries.end - 1)];
        let (mut from, mut at) = (first.start as usize, entries.start);
        while let Some(found) = self.query.find(word, &text[from..]) {
            at = self.index.entry_at(at, from + found);
            from = self.index.end(at);
            let entry = at as u32;
            if is_sorted && !self.best.takes(Found::name(MatchQuality::Word, entry)) {
                // The range contains no names that begin with the word. All further names are worse.
                break;
            }
            if self.is_in_scope(entry)
                && let Some(words) = self.query.words_in(self.index.folded(at))
                && words.first() == word
                && self.query.is_complete(words.words, &[&self.holder(entry).folded])
            {
                self.add(Found::name(words.quality, entry));
            }
        }
    }

    /// Finds entries by their columns or comments.
    fn fields(&mut self, source: SearchSource) {
        let index = self.index;
        let mut seen = vec![0_u64; index.entries().len().div_ceil(64)];
        for (quality, term) in index.fields().ranked(&self.hits, source.terms()) {
            let rank = Rank { source, quality };
            if !self.best.may_contain(rank) {
                break;
            }
            let Some(words) = self.hits.of(term) else { continue };
            for entries in index.fields().entries_with(term) {
                let sorted = entries.partition_point(|at| (*at as usize) < index.sorted());
                let mut from = 0;
                while let Some(at) = entries.get(from).copied() {
                    from += 1;
                    let found = Found { rank, at, term: Some(term) };
                    if !self.best.takes(found) {
                        // All further sorted names are worse.
                        from = from.max(sorted);
                        continue;
                    }
                    let (block, bit) = (at as usize / 64, 1 << (at % 64));
                    if seen[block] & bit == 0 && self.is_in_scope(at) && self.fits(found, words) {
                        seen[block] |= bit;
                        self.add(found);
                    }
                }
            }
        }
    }

    /// Whether the column or comment, the name and the namespace of an entry contain all words, and
    /// the entry is not a match of an earlier source.
    fn fits(&self, found: Found, words: WordsIn) -> bool {
        let name = self.index.folded(found.at as usize);
        let others = [name, &*self.holder(found.at).folded];
        let searches = |source| self.scope.sources.contains(&source);
        if !self.query.is_complete(words.words, &others) {
            return false;
        }
        if searches(SearchSource::Names)
            && let Some(in_name) = self.query.words_in(name)
            && self.query.is_complete(in_name.words, &others)
        {
            return false;
        }
        let fields = self.index.fields();
        found.rank.source == SearchSource::Columns
            || !searches(SearchSource::Columns)
            || !fields.of_entry(found.at).is_some_and(|of_entry| {
                let mut columns = fields.columns_of(of_entry).filter_map(|it| self.hits.of(it));
                columns.any(|column| self.query.is_complete(column.words, &others))
            })
    }

    fn holder(&self, at: u32) -> &super::name_index::IndexedContainer {
        self.index.holder(self.index.entries()[at as usize])
    }

    fn is_in_scope(&self, at: u32) -> bool {
        let Entry { container, kind, is_removed, .. } = self.index.entries()[at as usize];
        let SearchScope { warehouse, kinds, hidden, .. } = self.scope;
        !is_removed
            && (kinds.is_empty() || kinds.contains(&kind))
            && (hidden.is_empty() || !hidden.contains(&(container, kind)))
            && warehouse.is_none_or(|only| only == self.holder(at).container.warehouse)
    }

    /// Adds a match, if it is after the cursor.
    fn add(&mut self, found: Found) {
        let is_after = self.after.is_none_or(|after| match found.rank.cmp(&after.rank) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal if (found.at as usize) < self.index.sorted() => {
                found.at as usize >= self.after_from
            }
            Ordering::Equal => after.compare(self.index, found.at) == Ordering::Greater,
        });
        if is_after {
            self.best.add(found);
        }
    }
}

/// Returns the first number of a range for which `is_before` is false.
fn partition(range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// A match in the index.
#[derive(Debug, Clone, Copy)]
struct Found {
    rank: Rank,
    at: u32,
    /// The matching column or comment. `None` if the name matches.
    term: Option<TermId>,
}

impl Found {
    fn name(quality: MatchQuality, at: u32) -> Self {
        Self { rank: Rank { source: SearchSource::Names, quality }, at, term: None }
    }
}

/// The best matches that a scan has found so far.
struct BestMatches<'a> {
    index: &'a NameIndex,
    /// Up to twice as many matches as requested, so that they need not be in order.
    found: Vec<Found>,
    count: usize,
    /// The worst match that can still be one of the best.
    worst: Option<Found>,
}

impl BestMatches<'_> {
    fn compare(&self, a: &Found, b: &Found) -> Ordering {
        a.rank.cmp(&b.rank).then_with(|| self.index.compare(a.at, b.at))
    }

    /// Whether a match would be one of the best.
    fn takes(&self, found: Found) -> bool {
        self.worst.is_none_or(|worst| self.compare(&found, &worst) != Ordering::Greater)
    }

    /// Whether a further match of this rank can be one of the best.
    fn may_contain(&self, rank: Rank) -> bool {
        self.worst.is_none_or(|worst| rank <= worst.rank)
    }

    fn add(&mut self, found: Found) {
        if !self.takes(found) {
            return;
        }
        self.found.push(found);
        if self.found.len() >= 2 * self.count.max(1) {
            let last = self.count.max(1) - 1;
            let mut all = std::mem::take(&mut self.found);
            all.select_nth_unstable_by(last, |a, b| self.compare(a, b));
            all.truncate(self.count);
            self.worst = all.get(last).copied();
            self.found = all;
        }
    }

    fn into_sorted(mut self) -> Vec<Found> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_unstable_by(|a, b| self.compare(a, b));
        found.truncate(self.count);
        found
    }
}
