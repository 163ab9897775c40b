//! Describes the best matches of a query.

use super::best::{AfterMatch, Found, Match, MatchedField, SearchScope, SearchSource};
use super::name_index::NameIndex;
use super::query::SearchQuery;
use super::scan::Scan;

impl NameIndex {
    /// Returns the best matches after a cursor, at most `count`, the best first.
    pub(super) fn best(
        &self,
        query: &SearchQuery,
        scope: &SearchScope,
        after: Option<&AfterMatch>,
        count: usize,
    ) -> Vec<Match> {
        let found = Scan::new(self, query, scope, after, count).run();
        found.into_iter().map(|found| self.found(found)).collect()
    }

    fn found(&self, Found { rank, at, term }: Found) -> Match {
        let entry = self.names().entry(at);
        let field = term.map(|term| MatchedField {
            id: self.names().id(at),
            column: self.fields().column_of(term).map(ToOwned::to_owned),
            comment: (rank.source == SearchSource::Comments)
                .then(|| self.fields().term_text(term).to_owned()),
        });
        let name = self.names().name(at).to_owned();
        Match { rank, kind: entry.kind(), container: entry.container(), name, field }
    }
}
