//! [`FieldIndex`]: the columns and comments of tables, views and namespaces in memory.
//!
//! A *term* is a distinct text, such as the name of a column. Catalogs have far fewer distinct
//! column names than columns, so a search scans all terms in a short time. Many tables have equal
//! schemas. The terms of a schema are therefore stored once, as a *set* of terms, which refers to
//! the tables with this schema.
//!
//! Terms and sets that no table refers to stay in memory until the index is compacted.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use uuid::Uuid;

use super::offsets::{index_of, text_at};
use super::query::{MatchQuality, SearchQuery, WordsIn, fold};
use super::texts::ColumnText;
use crate::Result;

/// The byte before each term in the text. It never occurs in UTF-8.
const SEPARATOR: u8 = 0xFF;
/// The absence of a set.
const NO_SET: SetId = SetId::MAX;
/// Number of replaced sets up to which the index is not compacted, beside a half of its entries.
const REPLACED_MAX: usize = 10_000;

/// The index of a term.
pub(super) type TermId = u32;
/// The index of a set of terms.
pub(super) type SetId = u32;

/// The kind of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TermKind {
    /// The path of a column.
    Column,
    /// The comment of the column before it in its set.
    ColumnComment,
    /// The comment of a table, view or namespace.
    Comment,
}

struct Term {
    /// The offset of the folded term in the text.
    start: u32,
    kind: TermKind,
    /// The sets with this term.
    sets: Vec<SetId>,
}

struct TermSet {
    terms: Box<[TermId]>,
    /// The entries of the index of names with these terms, in ascending order.
    entries: Vec<u32>,
}

/// The terms of an entry of the index of names.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryFields {
    /// The id of the table, view or namespace whose metadata contains the terms.
    pub(super) id: Uuid,
    columns: SetId,
    comment: SetId,
}

/// The columns and comments in memory. See the [module](self).
#[derive(Default)]
pub(super) struct FieldIndex {
    text: Vec<u8>,
    terms: Vec<Term>,
    /// The terms that differ from their folded form.
    originals: HashMap<TermId, Box<str>>,
    term_ids: HashTable<TermId>,
    sets: Vec<TermSet>,
    set_ids: HashTable<SetId>,
    of_entry: Vec<Option<EntryFields>>,
    hasher: RandomState,
    replaced: usize,
    /// Whether the entries of the sets may be in any order, because many entries are being added.
    is_unsorted: bool,
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
    /// Returns the set of these columns and their comments. `None` if there are no columns.
    pub(super) fn columns(&mut self, columns: &[ColumnText]) -> Result<Option<SetId>> {
        let mut terms = Vec::with_capacity(columns.len());
        for ColumnText { path, comment } in columns {
            terms.push(self.term(TermKind::Column, path)?);
            if let Some(comment) = comment {
                terms.push(self.term(TermKind::ColumnComment, comment)?);
            }
        }
        self.set(terms)
    }

    /// Returns the set of this comment of a table, view or namespace.
    pub(super) fn comment(&mut self, comment: Option<&str>) -> Result<Option<SetId>> {
        let term = comment.map(|comment| self.term(TermKind::Comment, comment)).transpose()?;
        self.set(term.into_iter().collect())
    }

    /// Empties the index, and prepares it for many new entries in any order. [`sort`](Self::sort)
    /// ends this.
    pub(super) fn begin_build(&mut self) {
        *self = Self { is_unsorted: true, ..Self::default() };
    }

    /// Sorts the entries of the sets. Searches need this order.
    pub(super) fn sort(&mut self) {
        for set in &mut self.sets {
            set.entries.sort_unstable();
            set.entries.shrink_to_fit();
        }
        self.is_unsorted = false;
    }

    /// Assigns terms to an entry, instead of its current terms.
    pub(super) fn assign(
        &mut self,
        entry: u32,
        id: Uuid,
        columns: Option<SetId>,
        comment: Option<SetId>,
    ) {
        self.clear(entry);
        let fields = EntryFields {
            id,
            columns: columns.unwrap_or(NO_SET),
            comment: comment.unwrap_or(NO_SET),
        };
        for set in fields.sets() {
            let entries = &mut self.sets[set as usize].entries;
            match entries.last() {
                Some(last) if *last > entry && !self.is_unsorted => {
                    let at = entries.partition_point(|other| *other < entry);
                    entries.insert(at, entry);
                }
                _ => entries.push(entry),
            }
        }
        let at = entry as usize;
        if self.of_entry.len() <= at {
            self.of_entry.resize(at + 1, None);
        }
        self.of_entry[at] = Some(fields);
    }

    /// Removes the terms of an entry.
    pub(super) fn clear(&mut self, entry: u32) {
        let Some(fields) = self.of_entry.get_mut(entry as usize).and_then(Option::take) else {
            return;
        };
        for set in fields.sets() {
            let entries = &mut self.sets[set as usize].entries;
            let at = match self.is_unsorted {
                true => entries.iter().position(|other| *other == entry),
                false => entries.binary_search(&entry).ok(),
            };
            if let Some(at) = at {
                entries.remove(at);
            }
            self.replaced += 1;
        }
    }

    /// Returns the terms of an entry.
    pub(super) fn of_entry(&self, entry: u32) -> Option<EntryFields> {
        self.of_entry.get(entry as usize).copied().flatten()
    }

    /// Whether the index should be compacted, because it contains many unused terms.
    pub(super) fn is_sparse(&self) -> bool {
        self.replaced > REPLACED_MAX + self.of_entry.len() / 2
    }

    /// Returns the index in which the entries have these new numbers, without unused terms.
    pub(super) fn renumbered(&self, order: &[u32]) -> Result<Self> {
        let mut new = Self::default();
        let mut known = HashMap::new();
        for (entry, old) in (0..).zip(order) {
            let Some(fields) = self.of_entry(*old) else { continue };
            let mut mapped = [None, None];
            for (mapped, set) in mapped.iter_mut().zip([fields.columns, fields.comment]) {
                if set == NO_SET {
                    continue;
                }
                *mapped = match known.get(&set) {
                    Some(known) => *known,
                    None => {
                        let terms = self.sets[set as usize].terms.iter();
                        let terms = terms.map(|term| {
                            new.term(self.terms[*term as usize].kind, self.term_text(*term))
                        });
                        let copied = terms.collect::<Result<_>>()?;
                        let copied = new.set(copied)?;
                        known.insert(set, copied);
                        copied
                    }
                };
            }
            new.assign(entry, fields.id, mapped[0], mapped[1]);
        }
        Ok(new)
    }

    /// Returns the memory used, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let originals = self.originals.values().map(|it| it.len() + size_of::<(u32, Box<str>)>());
        let terms = self.terms.iter().map(|it| it.sets.capacity() * size_of::<SetId>());
        let sets = self.sets.iter().map(|it| {
            it.terms.len() * size_of::<TermId>() + it.entries.capacity() * size_of::<u32>()
        });
        self.text.capacity()
            + originals.sum::<usize>()
            + terms.sum::<usize>()
            + sets.sum::<usize>()
            + self.terms.capacity() * size_of::<Term>()
            + self.sets.capacity() * size_of::<TermSet>()
            + self.of_entry.capacity() * size_of::<Option<EntryFields>>()
            + self.term_ids.allocation_size()
            + self.set_ids.allocation_size()
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

    /// Returns the hits of the kinds in `kinds`, the best first.
    pub(super) fn ranked(
        &self,
        hits: &TermHits,
        kinds: &[TermKind],
    ) -> Vec<(MatchQuality, TermId)> {
        let of_kind = |term: TermId| kinds.contains(&self.terms[term as usize].kind);
        let wanted = hits.0.iter().filter(|(term, _)| of_kind(**term));
        let mut ranked: Vec<_> = wanted.map(|(term, words)| (words.quality, *term)).collect();
        ranked.sort_unstable_by_key(|(quality, term)| (*quality, self.folded(*term), *term));
        ranked
    }

    /// Returns the entries of each set with a term, in ascending order.
    pub(super) fn entries_with(&self, term: TermId) -> impl Iterator<Item = &[u32]> {
        let sets = self.terms[term as usize].sets.iter();
        sets.map(|set| &*self.sets[*set as usize].entries)
    }

    /// Returns the columns of an entry.
    pub(super) fn columns_of(&self, fields: EntryFields) -> impl Iterator<Item = TermId> {
        let set = self.sets.get(fields.columns as usize);
        let terms = set.into_iter().flat_map(|set| set.terms.iter().copied());
        terms.filter(|term| self.terms[*term as usize].kind == TermKind::Column)
    }

    /// Returns a term, in its original form.
    pub(super) fn term_text(&self, term: TermId) -> &str {
        match self.originals.get(&term) {
            Some(original) => original,
            None => self.folded(term),
        }
    }

    /// Returns the path of the column to which a term of an entry belongs. `None` for a comment of
    /// the table, view or namespace.
    pub(super) fn column_with(&self, fields: EntryFields, term: TermId) -> Option<&str> {
        match self.terms[term as usize].kind {
            TermKind::Comment => None,
            TermKind::Column => Some(self.term_text(term)),
            TermKind::ColumnComment => {
                let terms = &self.sets.get(fields.columns as usize)?.terms;
                let at = terms.iter().position(|other| *other == term)?;
                Some(self.term_text(*terms.get(at.checked_sub(1)?)?))
            }
        }
    }

    fn term(&mut self, kind: TermKind, term: &str) -> Result<TermId> {
        let hash = self.hasher.hash_one((kind, term));
        let is_equal =
            |at: &TermId| self.terms[*at as usize].kind == kind && self.term_text(*at) == term;
        if let Some(known) = self.term_ids.find(hash, is_equal) {
            return Ok(*known);
        }
        let id = index_of(self.terms.len())?;
        if self.text.is_empty() {
            self.text.push(SEPARATOR);
        }
        let folded = fold(term);
        let start = index_of(self.text.len())?;
        self.text.extend_from_slice(folded.as_bytes());
        self.text.push(SEPARATOR);
        index_of(self.text.len())?;
        self.terms.push(Term { start, kind, sets: Vec::new() });
        if folded != term {
            self.originals.insert(id, term.into());
        }
        let mut ids = std::mem::take(&mut self.term_ids);
        ids.insert_unique(hash, id, |at| {
            self.hasher.hash_one((self.terms[*at as usize].kind, self.term_text(*at)))
        });
        self.term_ids = ids;
        Ok(id)
    }

    fn set(&mut self, terms: Vec<TermId>) -> Result<Option<SetId>> {
        if terms.is_empty() {
            return Ok(None);
        }
        let hash = self.hasher.hash_one(&*terms);
        if let Some(known) = self.set_ids.find(hash, |at| *self.sets[*at as usize].terms == *terms)
        {
            return Ok(Some(*known));
        }
        let id = index_of(self.sets.len())?;
        for term in &terms {
            let sets = &mut self.terms[*term as usize].sets;
            // Several columns can have the same comment.
            if sets.last() != Some(&id) {
                sets.push(id);
            }
        }
        self.sets.push(TermSet { terms: terms.into(), entries: Vec::new() });
        let Self { set_ids, sets, hasher, .. } = self;
        set_ids.insert_unique(hash, id, |at| hasher.hash_one(&*sets[*at as usize].terms));
        Ok(Some(id))
    }

    fn end(&self, term: usize) -> usize {
        self.terms.get(term + 1).map_or(self.text.len(), |next| next.start as usize) - 1
    }

    fn folded(&self, term: TermId) -> &str {
        let term = term as usize;
        text_at(&self.text, self.terms[term].start as usize, self.end(term))
    }
}

impl EntryFields {
    fn sets(self) -> impl Iterator<Item = SetId> {
        [self.columns, self.comment].into_iter().filter(|set| *set != NO_SET)
    }
}
