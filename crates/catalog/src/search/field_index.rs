//! [`FieldIndex`]: the columns and comments of tables, views and namespaces in memory.
//!
//! A *term* is a distinct text, such as the name of a column. Catalogs have far fewer distinct
//! column names than columns, even if each table has its own schema. So a search scans all terms in
//! a short time, and then reads the entries of the terms that match.
//!
//! The entries of all terms are in one list of bytes, which does not change. The terms of entries
//! that change later are in a map, until the index is compacted.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::bits::Bits;
use super::columns::ColumnText;
use super::field_build::FieldBuild;
pub(super) use super::field_build::TermId;
use super::offsets::{index_of, text_at};
use super::query::{MatchQuality, SearchQuery, WordsIn, fold};
use super::varint;
use crate::Result;

/// The byte before each term in the text. It never occurs in UTF-8.
const SEPARATOR: u8 = 0xFF;
/// Number of changed entries up to which the index is not compacted, beside the part of its entries
/// that `CHANGED_DIVISOR` determines.
const CHANGES_MAX: usize = 10_000;
/// Divisor of the number of entries.
const CHANGED_DIVISOR: usize = 16;

/// Memory for an entry in the map of changed entries, in bytes, without its terms.
const CHANGED_BYTES: usize = 40;
/// Memory for a term that differs from its folded form, in bytes, without the term.
const ORIGINAL_BYTES: usize = size_of::<(TermId, Box<str>)>() + 1;

/// The kind of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TermKind {
    /// The path of a column.
    Column,
    /// The comment of a column.
    ColumnComment(TermId),
    /// The comment of a table, view or namespace.
    Comment,
}

#[derive(Debug, Clone, Copy)]
struct Term {
    /// The offset of the folded term in the text.
    start: u32,
    /// The end of the entries of the term in `postings`.
    postings_end: u32,
    kind: TermKind,
}

/// The columns and comments in memory. See the [module](self).
#[derive(Default)]
pub(super) struct FieldIndex {
    text: Vec<u8>,
    terms: Vec<Term>,
    /// The terms that differ from their folded form.
    originals: HashMap<TermId, Box<str>>,
    term_ids: HashTable<TermId>,
    hasher: RandomState,
    /// The differences between the ascending entries of each term.
    postings: Vec<u8>,
    /// Number of entries that can be in `postings`.
    entries: usize,
    /// Entries whose terms in `postings` are outdated.
    outdated: Bits,
    outdated_count: usize,
    /// The terms of the entries that were assigned after the build, in ascending order.
    changed: BTreeMap<u32, Box<[TermId]>>,
    /// Number of terms in `changed`.
    changed_terms: usize,
    /// Size of `originals`, in bytes.
    originals_bytes: usize,
    /// The terms of the entries during the build.
    build: Option<FieldBuild>,
    /// The texts that the index lacks because of its maximum size.
    missing: MissingTexts,
}

/// The texts that an index lacks because of its maximum size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MissingTexts {
    pub(super) columns: bool,
    pub(super) comments: bool,
}

/// The terms that contain a word of a query.
#[derive(Default)]
pub(super) struct TermHits(HashMap<TermId, WordsIn>);

impl TermHits {
    pub(super) fn of(&self, term: TermId) -> Option<WordsIn> {
        self.0.get(&term).copied()
    }
}

impl FieldIndex {
    /// Returns the terms of these columns, and of their comments if `with_comments`.
    pub(super) fn columns(
        &mut self,
        columns: &[ColumnText<'_>],
        with_comments: bool,
    ) -> Result<Vec<TermId>> {
        let mut terms = Vec::with_capacity(columns.len());
        for ColumnText { path, comment } in columns {
            let column = self.term(TermKind::Column, path)?;
            terms.push(column);
            if let Some(comment) = comment.as_ref().filter(|_| with_comments) {
                terms.push(self.term(TermKind::ColumnComment(column), comment)?);
            }
        }
        Ok(terms)
    }

    /// Returns the term of this comment of a table, view or namespace.
    pub(super) fn comment(&mut self, comment: &str) -> Result<TermId> {
        self.term(TermKind::Comment, comment)
    }

    /// Empties the index, and prepares it for many new entries in any order.
    /// [`finish_build`](Self::finish_build) ends this.
    pub(super) fn begin_build(&mut self) {
        *self = Self { build: Some(FieldBuild::default()), ..Self::default() };
    }

    /// Makes the entries searchable. Those from `sorted` on are not in the order of their names.
    pub(super) fn finish_build(&mut self, sorted: usize) {
        let Some(build) = self.build.take() else { return };
        let ends = build.postings(self.terms.len(), sorted, &mut self.postings);
        for (term, end) in self.terms.iter_mut().zip(ends) {
            term.postings_end = end;
        }
        let added = build.entries_from(sorted);
        self.changed = added.map(|(entry, terms)| (entry, terms.collect())).collect();
        self.changed_terms = self.changed.values().map(|terms| terms.len()).sum();
        self.entries = sorted;
        self.text.shrink_to_fit();
    }

    /// Assigns terms to an entry, instead of its current terms.
    pub(super) fn assign(&mut self, entry: u32, mut terms: Vec<TermId>) {
        terms.sort_unstable();
        terms.dedup();
        match &mut self.build {
            Some(build) => build.assign(entry, &terms),
            None => {
                self.clear(entry);
                self.changed_terms += terms.len();
                self.changed.insert(entry, terms.into());
            }
        }
    }

    /// Removes the terms of an entry.
    pub(super) fn clear(&mut self, entry: u32) {
        match &mut self.build {
            Some(build) => build.assign(entry, &[]),
            None => {
                self.changed_terms -= self.changed.remove(&entry).map_or(0, |terms| terms.len());
                let has_terms = (entry as usize) < self.entries;
                self.outdated_count += usize::from(has_terms && self.outdated.insert(entry));
            }
        }
    }

    /// Whether the index should be compacted, because the terms of many entries have changed.
    pub(super) fn is_sparse(&self) -> bool {
        let changes_max = CHANGES_MAX + self.entries / CHANGED_DIVISOR;
        self.changed.len().max(self.outdated_count) > changes_max
    }

    /// Returns the index in which the entries have these new numbers, without unused terms. There
    /// were `entries` entries.
    pub(super) fn renumbered(&self, order: &[u32], entries: usize) -> Self {
        let mut numbers = vec![None; entries];
        for (new, old) in (0..).zip(order) {
            numbers[*old as usize] = Some(new);
        }
        let mut changed: Vec<(TermId, u32)> = Vec::new();
        for (entry, terms) in &self.changed {
            if let Some(Some(new)) = numbers.get(*entry as usize) {
                changed.extend(terms.iter().map(|term| (*term, *new)));
            }
        }
        changed.sort_unstable();
        let mut new = Self { entries: order.len(), missing: self.missing, ..Self::default() };
        let (mut changed, mut ids) = (&*changed, HashMap::new());
        // The number of terms is checked when a term is added.
        for term in 0..self.terms.len() as TermId {
            let (of_term, others) = changed.split_at(changed.partition_point(|it| it.0 == term));
            changed = others;
            let unchanged = self.unchanged(term).filter_map(|old| numbers[old as usize]);
            let mut entries: Vec<u32> =
                unchanged.chain(of_term.iter().map(|(_, entry)| *entry)).collect();
            if entries.is_empty() {
                continue;
            }
            entries.sort_unstable();
            let mut next = 0;
            for entry in entries {
                varint::encode(entry - next, &mut new.postings);
                next = entry + 1;
            }
            let kind = match self.terms[term as usize].kind {
                // The entries of the comment also have its column, which is an earlier term.
                TermKind::ColumnComment(column) => {
                    TermKind::ColumnComment(ids.get(&column).copied().unwrap_or_default())
                }
                kind => kind,
            };
            let id = new.add_term(kind, self.term_text(term), fold(self.term_text(term)));
            new.terms[id as usize].postings_end = new.postings.len() as u32;
            ids.insert(term, id);
        }
        new.text.shrink_to_fit();
        new.postings.shrink_to_fit();
        new
    }

    /// Returns the memory used, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
            + self.originals_bytes
            + self.terms.len() * size_of::<Term>()
            + self.postings.len()
            + self.outdated.bytes()
            + self.term_ids.allocation_size()
            + self.changed.len() * CHANGED_BYTES
            + self.changed_terms * size_of::<TermId>()
            + self.build.as_ref().map_or(0, FieldBuild::bytes)
    }

    /// Returns the texts that the index lacks.
    pub(super) fn missing(&self) -> MissingTexts {
        self.missing
    }

    /// Records that the index lacks texts.
    pub(super) fn set_missing(&mut self, missing: MissingTexts) {
        self.missing.columns |= missing.columns;
        self.missing.comments |= missing.comments;
    }

    /// Returns the terms that contain a word of a query.
    pub(super) fn hits(&self, query: &SearchQuery) -> TermHits {
        let mut hits = HashMap::new();
        for word in 0..query.words() {
            let mut from = 0;
            while let Some(found) = query.find(word, &self.text[from..]) {
                let offset = from + found;
                let term = self.terms.partition_point(|it| it.start as usize <= offset) - 1;
                from = self.end(term) + 1;
                // The number of terms is checked when a term is added.
                if let Some(words) = query.words_in(self.folded(term as TermId))
                    && words.first() == word
                {
                    hits.insert(term as TermId, words);
                }
            }
        }
        TermHits(hits)
    }

    /// Returns the hits of the kinds for which `is_wanted` is true, the best first.
    pub(super) fn ranked(
        &self,
        hits: &TermHits,
        is_wanted: impl Fn(TermKind) -> bool,
    ) -> Vec<(MatchQuality, TermId)> {
        let wanted = hits.0.iter().filter(|(term, _)| is_wanted(self.terms[**term as usize].kind));
        let mut ranked: Vec<_> = wanted.map(|(term, words)| (words.quality, *term)).collect();
        ranked.sort_unstable_by_key(|(quality, term)| (*quality, self.folded(*term), *term));
        ranked
    }

    /// Returns the sorted entries with a term that have not changed since the build, in ascending
    /// order.
    pub(super) fn unchanged(&self, term: TermId) -> impl Iterator<Item = u32> {
        let before = (term as usize).checked_sub(1);
        let start = before.map_or(0, |before| self.terms[before].postings_end) as usize;
        let end = self.terms[term as usize].postings_end as usize;
        // Terms that were added after the build have no entries in the list.
        let postings = self.postings.get(start..end).unwrap_or_default();
        let mut next = 0;
        let entries = varint::decode(postings).map(move |difference| {
            next += difference + 1;
            next - 1
        });
        entries.filter(|entry| !self.outdated.contains(*entry as usize))
    }

    /// Returns the entries whose terms were assigned after the build, with their terms.
    pub(super) fn changed(&self) -> impl Iterator<Item = (u32, &[TermId])> {
        self.changed.iter().map(|(entry, terms)| (*entry, &**terms))
    }

    /// Whether one of these terms is the comment of a column.
    pub(super) fn have_comments(&self, terms: &[TermId]) -> bool {
        terms.iter().any(|term| matches!(self.kind_of(*term), TermKind::ColumnComment(_)))
    }

    pub(super) fn kind_of(&self, term: TermId) -> TermKind {
        self.terms[term as usize].kind
    }

    /// Returns a term, in its original form.
    pub(super) fn term_text(&self, term: TermId) -> &str {
        match self.originals.get(&term) {
            Some(original) => original,
            None => self.folded(term),
        }
    }

    /// Returns the path of the column to which a term belongs. `None` for a comment of a table, view
    /// or namespace.
    pub(super) fn column_of(&self, term: TermId) -> Option<&str> {
        match self.kind_of(term) {
            TermKind::Comment => None,
            TermKind::Column => Some(self.term_text(term)),
            TermKind::ColumnComment(column) => Some(self.term_text(column)),
        }
    }

    pub(super) fn folded(&self, term: TermId) -> &str {
        let term = term as usize;
        text_at(&self.text, self.terms[term].start as usize, self.end(term))
    }

    fn term(&mut self, kind: TermKind, term: &str) -> Result<TermId> {
        let hash = self.hasher.hash_one((kind, term));
        let is_equal =
            |at: &TermId| self.terms[*at as usize].kind == kind && self.term_text(*at) == term;
        if let Some(known) = self.term_ids.find(hash, is_equal) {
            return Ok(*known);
        }
        let folded = fold(term);
        index_of(self.terms.len())?;
        index_of(self.text.len() + folded.len() + 2)?;
        Ok(self.add_term(kind, term, folded))
    }

    /// Adds a term that the index does not contain.
    fn add_term(&mut self, kind: TermKind, term: &str, folded: String) -> TermId {
        if self.text.is_empty() {
            self.text.push(SEPARATOR);
        }
        // `term` has checked both numbers.
        let (id, start) = (self.terms.len() as TermId, self.text.len() as u32);
        self.text.extend_from_slice(folded.as_bytes());
        self.text.push(SEPARATOR);
        let postings_end = self.terms.last().map_or(0, |last| last.postings_end);
        self.terms.push(Term { start, postings_end, kind });
        if folded != term {
            self.originals.insert(id, term.into());
            self.originals_bytes += term.len() + ORIGINAL_BYTES;
        }
        let mut ids = std::mem::take(&mut self.term_ids);
        ids.insert_unique(self.hasher.hash_one((kind, term)), id, |at| {
            self.hasher.hash_one((self.terms[*at as usize].kind, self.term_text(*at)))
        });
        self.term_ids = ids;
        id
    }

    fn end(&self, term: usize) -> usize {
        self.terms.get(term + 1).map_or(self.text.len(), |next| next.start as usize) - 1
    }
}
