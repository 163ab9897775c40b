//! Finds the best matches of a query in the index.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::containers::{Container, ContainerId};
use super::field_index::{TermId, TermKind};
use super::name_index::{NameIndex, partition};
use super::name_list::IdTail;
use super::query::{MatchQuality, fold};
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

    /// Whether the source consists of terms of this kind.
    pub(super) fn has(self, kind: TermKind) -> bool {
        self == match kind {
            TermKind::Column => Self::Columns,
            TermKind::ColumnComment(_) | TermKind::Comment => Self::Comments,
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
    pub(super) id: IdTail,
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
    pub(super) rank: Rank,
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
    pub(super) fn compare(&self, index: &NameIndex, at: u32) -> Ordering {
        let (names, entry) = (index.names(), index.names().entry(at));
        names
            .folded(at)
            .cmp(&self.folded)
            .then_with(|| entry.kind().cmp(&self.kind))
            .then_with(|| index.holder(entry).cmp(&self.container))
            .then_with(|| names.name(at).cmp(&self.name))
    }

    /// Returns the first sorted entry whose name is after that of the match.
    pub(super) fn first_entry(&self, index: &NameIndex) -> usize {
        // The number of entries is checked when an entry is added.
        partition(0..index.sorted(), |at| self.compare(index, at as u32) != Ordering::Greater)
    }
}

/// A match in the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) rank: Rank,
    pub(super) at: u32,
    /// The matching column or comment. `None` if the name matches.
    pub(super) term: Option<TermId>,
}

impl Found {
    pub(super) fn name(quality: MatchQuality, at: u32) -> Self {
        Self { rank: Rank { source: SearchSource::Names, quality }, at, term: None }
    }
}

/// The best matches that a scan has found so far.
pub(super) struct BestMatches<'a> {
    index: &'a NameIndex,
    /// Up to twice as many matches as requested, so that they need not be in order.
    found: Vec<Found>,
    count: usize,
    /// The worst match that can still be one of the best.
    worst: Option<Found>,
}

impl<'a> BestMatches<'a> {
    pub(super) fn new(index: &'a NameIndex, count: usize) -> Self {
        Self { index, found: Vec::new(), count, worst: None }
    }

    /// Whether enough matches are found.
    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= self.count
    }

    fn compare(&self, a: &Found, b: &Found) -> Ordering {
        a.rank.cmp(&b.rank).then_with(|| self.index.compare(a.at, b.at))
    }

    /// Whether a match would be one of the best.
    pub(super) fn takes(&self, found: Found) -> bool {
        self.worst.is_none_or(|worst| self.compare(&found, &worst) != Ordering::Greater)
    }

    /// Whether a further match of this rank can be one of the best.
    pub(super) fn may_contain(&self, rank: Rank) -> bool {
        self.worst.is_none_or(|worst| rank <= worst.rank)
    }

    pub(super) fn add(&mut self, found: Found) {
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

    pub(super) fn into_sorted(mut self) -> Vec<Found> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_unstable_by(|a, b| self.compare(a, b));
        found.truncate(self.count);
        found
    }
}
