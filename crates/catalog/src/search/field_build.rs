//! [`FieldBuild`]: the terms of the entries while the index of columns and comments is built.

use std::ops::Range;

use super::varint;

/// The index of a term.
pub(super) type TermId = u32;

/// The terms of entries in any order, in few bytes.
#[derive(Default)]
pub(super) struct FieldBuild {
    /// For each entry, the number of its terms, and the differences between these ascending terms.
    terms: Vec<u8>,
    /// For each entry, the number after the offset of its terms. 0 if it has none.
    offsets: Vec<u32>,
}

impl FieldBuild {
    /// Assigns ascending terms to an entry, instead of its current terms.
    pub(super) fn assign(&mut self, entry: u32, terms: &[TermId]) {
        let at = entry as usize;
        if self.offsets.len() <= at {
            self.offsets.resize(at + 1, 0);
        }
        self.offsets[at] = 0;
        if terms.is_empty() {
            return;
        }
        // `fields::INDEX_BYTES_MAX` limits the length of the list.
        self.offsets[at] = self.terms.len() as u32 + 1;
        varint::encode(terms.len() as u32, &mut self.terms);
        let mut before = 0;
        for term in terms {
            varint::encode(term - before, &mut self.terms);
            before = *term;
        }
    }

    /// Returns the memory used, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.terms.len() + self.offsets.len() * size_of::<u32>()
    }

    /// Writes the entries before `limit` of each term, as differences between the ascending
    /// entries. Returns the end of the entries of each term.
    pub(super) fn postings(&self, terms: usize, limit: usize, into: &mut Vec<u8>) -> Vec<u32> {
        let (mut ends, mut next) = (vec![0_u32; terms], vec![0_u32; terms]);
        self.each_posting(limit, |term, entry| {
            ends[term] += varint::len(entry - next[term]) as u32;
            next[term] = entry + 1;
        });
        let mut start = 0;
        let mut write_at: Vec<u32> = Vec::with_capacity(terms);
        for end in &mut ends {
            write_at.push(start);
            start += *end;
            *end = start;
        }
        into.resize(start as usize, 0);
        next.fill(0);
        let mut encoded = Vec::new();
        self.each_posting(limit, |term, entry| {
            encoded.clear();
            varint::encode(entry - next[term], &mut encoded);
            let at = write_at[term] as usize;
            into[at..at + encoded.len()].copy_from_slice(&encoded);
            write_at[term] += encoded.len() as u32;
            next[term] = entry + 1;
        });
        ends
    }

    fn each_posting(&self, limit: usize, mut visit: impl FnMut(usize, u32)) {
        for (entry, terms) in self.entries(0..self.offsets.len().min(limit)) {
            terms.for_each(|term| visit(term as usize, entry));
        }
    }

    /// Returns the entries from `first` on, with their terms.
    pub(super) fn entries_from(
        &self,
        first: usize,
    ) -> impl Iterator<Item = (u32, impl Iterator<Item = TermId>)> {
        self.entries(first..self.offsets.len())
    }

    fn entries(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (u32, impl Iterator<Item = TermId>)> {
        range.filter_map(|at| {
            let offset = self.offsets[at].checked_sub(1)?;
            let mut numbers = varint::decode(&self.terms[offset as usize..]);
            let count = numbers.next()?;
            let mut term = 0;
            let terms = numbers.take(count as usize).map(move |difference| {
                term += difference;
                term
            });
            // The number of entries is checked when an entry is added.
            Some((at as u32, terms))
        })
    }
}
