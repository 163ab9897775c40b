//! Finds the columns and comments of a [`Scan`].

use super::Scan;
use crate::search::best::{Found, Rank, SearchSource};
use crate::search::bits::Bits;
use crate::search::field_index::{TermId, TermKind};

impl Scan<'_> {
    /// Finds entries by their columns or comments.
    pub(super) fn fields(&mut self, source: SearchSource) {
        let index = self.index;
        let mut seen = match source {
            SearchSource::Comments if self.scope.sources.contains(&SearchSource::Columns) => {
                self.entries_with_columns()
            }
            _ => Bits::default(),
        };
        let ranked = index.fields().ranked(&self.hits, |kind| source.has(kind));
        for (quality, term) in ranked {
            let rank = Rank { source, quality };
            if !self.best.may_contain(rank) {
                break;
            }
            for at in index.fields().unchanged(term) {
                let found = Found { rank, at, term: Some(term) };
                if !self.best.takes(found) {
                    // All further names are worse.
                    break;
                }
                self.add_field(found, &mut seen);
            }
        }
        for (at, terms) in index.fields().changed() {
            for found in self.best_terms(source, at, terms) {
                self.add_field(found, &mut seen);
            }
        }
    }

    /// Returns the matching terms of an entry, the best first.
    fn best_terms(&self, source: SearchSource, at: u32, terms: &[TermId]) -> Vec<Found> {
        let fields = self.index.fields();
        let mut found: Vec<_> = terms
            .iter()
            .filter(|term| source.has(fields.kind_of(**term)))
            .filter_map(|term| Some((self.hits.of(*term)?.quality, *term)))
            .collect();
        found.sort_unstable_by_key(|(quality, term)| (*quality, fields.folded(*term), *term));
        let found = found.into_iter().map(|(quality, term)| {
            let rank = Rank { source, quality };
            Found { rank, at, term: Some(term) }
        });
        found.collect()
    }

    /// Adds an entry with a column or comment, unless a better one of the entry has been added.
    fn add_field(&mut self, found: Found, seen: &mut Bits) {
        let Some(words) = found.term.and_then(|term| self.hits.of(term)) else { return };
        if !seen.contains(found.at as usize)
            && self.is_in_scope(found.at)
            && self.fits(found.at, words.words)
        {
            seen.insert(found.at);
            self.add(found);
        }
    }

    /// Returns the entries with columns that match.
    fn entries_with_columns(&mut self) -> Bits {
        let mut entries = Bits::default();
        let index = self.index;
        let is_column = |kind| kind == TermKind::Column;
        for (_, term) in index.fields().ranked(&self.hits, is_column) {
            let Some(words) = self.hits.of(term) else { continue };
            for at in index.fields().unchanged(term) {
                if self.fits(at, words.words) {
                    entries.insert(at);
                }
            }
        }
        for (at, terms) in index.fields().changed() {
            for term in terms.iter().filter(|term| is_column(index.fields().kind_of(**term))) {
                if let Some(words) = self.hits.of(*term)
                    && self.fits(at, words.words)
                {
                    entries.insert(at);
                }
            }
        }
        entries
    }
}
