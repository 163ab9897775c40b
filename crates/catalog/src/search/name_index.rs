//! [`NameIndex`]: the names of all tables, views, namespaces and functions in memory.
//!
//! A search scans the folded names of the whole catalog. They are in one contiguous text, which
//! vector instructions search at several gigabytes per second. This needs much less memory than an
//! inverted index of all substrings, and a change of a name takes constant time.
//!
//! A removed name stays in the text until the index is built again.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::query::{MatchQuality, SearchQuery, fold};
use crate::{Error, Result};
use slateberg_authz::resource::Kind;

/// The byte before each name in the text. It never occurs in UTF-8.
const SEPARATOR: u8 = 0xFF;

/// Number of removed names up to which the index is not built again, beside a half of its names.
const REMOVED_MAX: usize = 10_000;

/// The warehouse or namespace that contains names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Container {
    /// The id of the warehouse.
    pub(super) warehouse: Uuid,
    /// The levels of the namespace. Empty for the root of the warehouse.
    pub(super) levels: Vec<String>,
}

/// The index of a [`Container`] in the index.
pub(super) type ContainerId = u32;

struct IndexedContainer {
    container: Container,
    /// The folded levels, separated by line feeds.
    folded: String,
}

/// A name in the index.
struct Entry {
    /// The offset of the folded name in the text.
    start: u32,
    container: ContainerId,
    kind: Kind,
    is_removed: bool,
}

/// The names that a search considers.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchScope {
    /// Only names in this warehouse.
    pub(super) warehouse: Option<Uuid>,
    /// Only names of these kinds. Empty for all kinds.
    pub(super) kinds: Vec<Kind>,
    /// Contents that the caller does not see.
    pub(super) hidden: HashSet<(ContainerId, Kind)>,
}

/// A match, without its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) quality: MatchQuality,
    pub(super) kind: Kind,
    pub(super) container: ContainerId,
    pub(super) name: String,
}

/// A place in the order of matches: directly after a match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) quality: String,
    pub(super) kind: String,
    pub(super) warehouse: Uuid,
    pub(super) levels: Vec<String>,
    pub(super) name: String,
}

/// A parsed [`Cursor`].
pub(super) struct AfterMatch {
    quality: MatchQuality,
    folded: String,
    kind: Kind,
    container: Container,
    name: String,
}

/// The names in memory. See the [module](self).
#[derive(Default)]
pub(super) struct NameIndex {
    /// The folded names, each after a separator, and a separator at the end.
    text: Vec<u8>,
    /// The entries, in the order of their offsets.
    entries: Vec<Entry>,
    /// The names that differ from their folded form.
    originals: HashMap<u32, Box<str>>,
    containers: Vec<IndexedContainer>,
    container_ids: HashMap<Container, ContainerId>,
    /// The existing entries, by container, kind and name.
    by_name: HashTable<u32>,
    hasher: RandomState,
    removed: usize,
}

impl AfterMatch {
    /// Parses a cursor. `None` if its texts are invalid.
    pub(super) fn parse(cursor: Cursor, kinds: &[Kind]) -> Option<Self> {
        let Cursor { quality, kind, warehouse, levels, name } = cursor;
        let quality = MatchQuality::named(&quality)?;
        let kind = kinds.iter().copied().find(|known| known.as_str() == kind)?;
        let container = Container { warehouse, levels };
        Some(Self { quality, folded: fold(&name), kind, container, name })
    }
}

impl NameIndex {
    /// Returns the id of a container, which is added if it is new.
    pub(super) fn container(&mut self, container: Container) -> Result<ContainerId> {
        if let Some(id) = self.container_ids.get(&container) {
            return Ok(*id);
        }
        let id = index_of(self.containers.len())?;
        let folded = fold(&container.levels.join("\n"));
        self.containers.push(IndexedContainer { container: container.clone(), folded });
        self.container_ids.insert(container, id);
        Ok(id)
    }

    /// Adds a name, unless the index contains it.
    pub(super) fn insert(&mut self, container: ContainerId, kind: Kind, name: &str) -> Result<()> {
        let hash = self.hash(container, kind, name);
        if self.by_name.find(hash, |at| self.is_named(*at, container, kind, name)).is_some() {
            return Ok(());
        }
        let folded = fold(name);
        let entry = index_of(self.entries.len())?;
        if self.text.is_empty() {
            self.text.push(SEPARATOR);
        }
        let start = index_of(self.text.len())?;
        self.text.extend_from_slice(folded.as_bytes());
        self.text.push(SEPARATOR);
        self.entries.push(Entry { start, container, kind, is_removed: false });
        if folded != name {
            self.originals.insert(entry, name.into());
        }
        let Self { entries, originals, text, hasher, .. } = self;
        let hash_again = |at: &u32| {
            let Entry { container, kind, .. } = entries[*at as usize];
            hasher.hash_one((container, kind, name_of(entries, originals, text, *at)))
        };
        self.by_name.insert_unique(hash, entry, hash_again);
        Ok(())
    }

    /// Removes a name, if the index contains it.
    pub(super) fn remove(&mut self, container: ContainerId, kind: Kind, name: &str) {
        let hash = self.hash(container, kind, name);
        let Self { by_name, entries, originals, text, .. } = self;
        let is_named = |at: &u32| {
            let entry = &entries[*at as usize];
            entry.container == container
                && entry.kind == kind
                && name_of(entries, originals, text, *at) == name
        };
        if let Ok(found) = by_name.find_entry(hash, is_named) {
            let (at, _) = found.remove();
            self.entries[at as usize].is_removed = true;
            self.originals.remove(&at);
            self.removed += 1;
        }
    }

    /// Returns whether so many names were removed that the index should be built again.
    pub(super) fn is_sparse(&self) -> bool {
        self.removed > REMOVED_MAX + self.by_name.len() / 2
    }

    /// Returns the number of names.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Releases memory that was reserved for further names.
    pub(super) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.originals.shrink_to_fit();
    }

    /// Returns the memory used, in bytes, without the containers.
    pub(super) fn bytes(&self) -> usize {
        let originals = self.originals.values().map(|name| name.len()).sum::<usize>();
        let of_original = size_of::<(u32, Box<str>)>() + 1;
        self.text.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.originals.capacity() * of_original
            + originals
            + self.by_name.allocation_size()
    }

    /// Returns a container.
    pub(super) fn container_of(&self, id: ContainerId) -> Option<&Container> {
        self.containers.get(id as usize).map(|it| &it.container)
    }

    /// Returns the best matches after a cursor, at most `count`, the best first.
    pub(super) fn best(
        &self,
        query: &SearchQuery,
        scope: &SearchScope,
        after: Option<&AfterMatch>,
        count: usize,
    ) -> Vec<Match> {
        let mut best = BestMatches { index: self, found: Vec::new(), count, worst: None };
        for word in 0..query.words() {
            self.scan(query, word, scope, |quality, at| {
                if after.is_none_or(|after| self.is_after(quality, at, after)) {
                    best.add(quality, at);
                }
            });
        }
        best.into_sorted().into_iter().map(|(quality, at)| self.found(quality, at)).collect()
    }

    /// Calls `visit` for each match in which `word` is the first word that the name contains.
    fn scan(
        &self,
        query: &SearchQuery,
        word: usize,
        scope: &SearchScope,
        mut visit: impl FnMut(MatchQuality, u32),
    ) {
        let (mut from, mut at) = (0, 0);
        while let Some(found) = query.find(word, &self.text[from..]) {
            at = self.entry_at(at, from + found);
            from = self.end(at) + 1;
            let Entry { container, kind, is_removed, .. } = self.entries[at];
            let in_scope = !is_removed
                && (scope.kinds.is_empty() || scope.kinds.contains(&kind))
                && (scope.hidden.is_empty() || !scope.hidden.contains(&(container, kind)));
            let holder = &self.containers[container as usize];
            if in_scope
                && scope.warehouse.is_none_or(|only| only == holder.container.warehouse)
                && let Some(quality) = query.quality(word, self.folded(at), &holder.folded)
            {
                // The number of entries is checked when an entry is added.
                visit(quality, at as u32);
            }
        }
    }

    /// Returns the entry that contains an offset. It is not before the entry `from`.
    fn entry_at(&self, from: usize, offset: usize) -> usize {
        let mut step = 1;
        let begins_before =
            |at: usize| self.entries.get(at).is_some_and(|it| it.start as usize <= offset);
        // Matches are usually close to each other, or far apart.
        while begins_before(from + step) {
            step *= 2;
        }
        let (low, high) = (from + step / 2, (from + step).min(self.entries.len()));
        let low = if step == 1 { from } else { low };
        let further = self.entries[low..high].partition_point(|it| it.start as usize <= offset);
        low + further.saturating_sub(1)
    }

    /// Returns the offset of the separator after a name.
    fn end(&self, at: usize) -> usize {
        end_of(&self.entries, &self.text, at)
    }

    fn folded(&self, at: usize) -> &str {
        let bytes = &self.text[self.entries[at].start as usize..self.end(at)];
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    fn name(&self, at: u32) -> &str {
        name_of(&self.entries, &self.originals, &self.text, at)
    }

    fn hash(&self, container: ContainerId, kind: Kind, name: &str) -> u64 {
        self.hasher.hash_one((container, kind, name))
    }

    fn is_named(&self, at: u32, container: ContainerId, kind: Kind, name: &str) -> bool {
        let entry = &self.entries[at as usize];
        entry.container == container && entry.kind == kind && self.name(at) == name
    }

    fn found(&self, quality: MatchQuality, at: u32) -> Match {
        let Entry { kind, container, .. } = self.entries[at as usize];
        Match { quality, kind, container, name: self.name(at).to_owned() }
    }

    fn compare(&self, a: (MatchQuality, u32), b: (MatchQuality, u32)) -> Ordering {
        let ((quality, at), (other_quality, other)) = (a, b);
        let (entry, other_entry) = (&self.entries[at as usize], &self.entries[other as usize]);
        let holder = |entry: &Entry| &self.containers[entry.container as usize].container;
        quality
            .cmp(&other_quality)
            .then_with(|| self.folded(at as usize).cmp(self.folded(other as usize)))
            .then_with(|| entry.kind.cmp(&other_entry.kind))
            .then_with(|| holder(entry).cmp(holder(other_entry)))
            .then_with(|| self.name(at).cmp(self.name(other)))
    }

    fn is_after(&self, quality: MatchQuality, at: u32, after: &AfterMatch) -> bool {
        let entry = &self.entries[at as usize];
        let container = &self.containers[entry.container as usize].container;
        let order = quality
            .cmp(&after.quality)
            .then_with(|| self.folded(at as usize).cmp(&after.folded))
            .then_with(|| entry.kind.cmp(&after.kind))
            .then_with(|| container.cmp(&after.container))
            .then_with(|| self.name(at).cmp(&after.name));
        order == Ordering::Greater
    }
}

/// The best matches that a scan has found so far.
struct BestMatches<'a> {
    index: &'a NameIndex,
    /// Up to twice as many matches as requested, so that they need not be in order.
    found: Vec<(MatchQuality, u32)>,
    count: usize,
    /// The worst match that can still be one of the best.
    worst: Option<(MatchQuality, u32)>,
}

impl BestMatches<'_> {
    fn add(&mut self, quality: MatchQuality, at: u32) {
        let is_worse = |worst| self.index.compare((quality, at), worst) == Ordering::Greater;
        if self.worst.is_some_and(is_worse) {
            return;
        }
        self.found.push((quality, at));
        if self.found.len() >= 2 * self.count.max(1) {
            let last = self.count.max(1) - 1;
            self.found.select_nth_unstable_by(last, |a, b| self.index.compare(*a, *b));
            self.found.truncate(self.count);
            self.worst = self.found.get(last).copied();
        }
    }

    fn into_sorted(mut self) -> Vec<(MatchQuality, u32)> {
        self.found.sort_unstable_by(|a, b| self.index.compare(*a, *b));
        self.found.truncate(self.count);
        self.found
    }
}

/// Returns the offset of the separator after a name.
fn end_of(entries: &[Entry], text: &[u8], at: usize) -> usize {
    entries.get(at + 1).map_or(text.len(), |next| next.start as usize) - 1
}

fn name_of<'a>(
    entries: &[Entry],
    originals: &'a HashMap<u32, Box<str>>,
    text: &'a [u8],
    at: u32,
) -> &'a str {
    if let Some(name) = originals.get(&at) {
        return name;
    }
    let start = entries[at as usize].start as usize;
    let bytes = &text[start..end_of(entries, text, at as usize)];
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Converts an offset or a number of entries.
fn index_of(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| {
        Error::unavailable(
            "The search index is full: the names of the catalog have more than 4 GiB",
            "the names exceed the offsets of the index",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 4] = [Kind::Namespace, Kind::Table, Kind::View, Kind::Function];

    fn index(names: &[&str]) -> (NameIndex, ContainerId) {
        let mut index = NameIndex::default();
        let levels = vec!["Sales".to_owned()];
        let inside = index.container(Container { warehouse: Uuid::nil(), levels }).expect("room");
        names.iter().for_each(|name| index.insert(inside, Kind::Table, name).expect("room"));
        (index, inside)
    }

    fn names(index: &NameIndex, query: &str, count: usize) -> Vec<String> {
        let query = SearchQuery::parse(query).expect("it is valid");
        let found = index.best(&query, &SearchScope::default(), None, count);
        found.into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn better_matches_come_first_and_equal_matches_by_name() {
        let (index, _) = index(&["reorders", "x_orders", "ORDERS", "orders_b", "Orders_a", "else"]);
        let all = ["ORDERS", "Orders_a", "orders_b", "x_orders", "reorders"];
        for count in 1..=6 {
            assert_eq!(names(&index, "orders", count), all[..count.min(5)], "{count}");
        }
    }

    #[test]
    fn name_is_found_once_although_it_contains_several_words() {
        let (index, _) = index(&["orders_orders_sales", "sales_orders", "sales"]);
        assert_eq!(names(&index, "sales orders", 9), ["orders_orders_sales", "sales_orders"]);
        assert_eq!(names(&index, "orders", 9), ["orders_orders_sales", "sales_orders"]);
    }

    #[test]
    fn removed_name_is_not_found_until_it_is_added_again() {
        let (mut index, inside) = index(&["Orders", "orders"]);
        index.remove(inside, Kind::View, "Orders");
        index.remove(inside, Kind::Table, "Orders");
        index.remove(inside, Kind::Table, "Orders");
        assert_eq!((names(&index, "orders", 9), index.len()), (vec!["orders".to_owned()], 1));
        index.insert(inside, Kind::Table, "Orders").expect("room");
        index.insert(inside, Kind::Table, "Orders").expect("room");
        assert_eq!((names(&index, "orders", 9).len(), index.len()), (2, 2));
    }

    #[test]
    fn scope_limits_warehouse_kind_and_visible_contents() {
        let (mut index, inside) = index(&["orders"]);
        index.insert(inside, Kind::View, "orders_v").expect("room");
        let query = SearchQuery::parse("orders").expect("it is valid");
        let found = |scope: SearchScope| index.best(&query, &scope, None, 9).len();
        assert_eq!(found(SearchScope::default()), 2);
        assert_eq!(
            found(SearchScope { warehouse: Some(Uuid::max()), ..SearchScope::default() }),
            0
        );
        assert_eq!(found(SearchScope { kinds: vec![Kind::View], ..SearchScope::default() }), 1);
        let hidden = HashSet::from([(inside, Kind::Table)]);
        assert_eq!(found(SearchScope { hidden, ..SearchScope::default() }), 1);
    }

    #[test]
    fn pages_contain_each_match_exactly_once() {
        let all: Vec<_> = (0..100).map(|number| format!("t{number}_T{}", number % 7)).collect();
        let (index, inside) = index(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let query = SearchQuery::parse("t").expect("it is valid");
        let container = index.container_of(inside).expect("it exists").clone();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = index.best(&query, &SearchScope::default(), after.as_ref(), 7);
            let Some(last) = page.last() else { break };
            let cursor = Cursor {
                quality: last.quality.as_str().to_owned(),
                kind: last.kind.as_str().to_owned(),
                warehouse: container.warehouse,
                levels: container.levels.clone(),
                name: last.name.clone(),
            };
            after = AfterMatch::parse(cursor, &KINDS);
            found.extend(page.into_iter().map(|it| it.name));
        }
        assert_eq!(found.len(), all.len());
        assert_eq!(found.iter().collect::<HashSet<_>>(), all.iter().collect());
        assert_eq!(found, names(&index, "t", 1000));
    }
}
