//! [`NameIndex`]: the names of all tables, views, namespaces and functions in memory.
//!
//! When the index is built or compacted, its entries are sorted by name, and a [`BlockIndex`]
//! refers to the blocks of these names that can contain a word. A search reads only these blocks,
//! with vector instructions. It finds the best matches of a frequent word first, and stops early.
//! This needs much less memory than an inverted index of all parts of the names.
//!
//! Names that are added later are behind the sorted entries, in any order, and a search scans all
//! of them. A removed name stays in the text until the index is compacted.
//!
//! The columns and comments of the entries are in a [`FieldIndex`].

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use hashbrown::HashTable;
use uuid::Uuid;

use super::blocks::BlockIndex;
use super::containers::{Container, ContainerId, Containers};
use super::field_index::{FieldIndex, TermId};
use super::name_list::{Entry, NameList};
use super::query::fold;
use crate::Result;
use slateberg_authz::resource::Kind;

/// Number of removed or added names up to which the index is not compacted, beside the part of its
/// names that `CHANGED_DIVISOR` determines.
const CHANGES_MAX: usize = 10_000;
/// Divisor of the number of names.
const CHANGED_DIVISOR: usize = 16;

/// The names in memory. See the [module](self).
#[derive(Default)]
pub(super) struct NameIndex {
    names: NameList,
    containers: Containers,
    /// Number of sorted entries. The others follow in the order in which they were added.
    sorted: usize,
    blocks: BlockIndex,
    /// The existing entries behind the sorted ones, by container, kind and name.
    added: HashTable<u32>,
    hasher: RandomState,
    removed: usize,
    /// The columns and comments of the entries.
    fields: FieldIndex,
}

impl NameIndex {
    /// Builds the index of these names, each of which must occur once.
    pub(super) fn build(containers: Containers, names: &NameList) -> Result<Self> {
        let order = sorted_order(names, &containers.positions());
        Self::in_order(containers, names, &order)
    }

    /// Returns the same index with sorted entries, and without removed names.
    pub(super) fn compacted(&self) -> Result<Self> {
        let order = sorted_order(&self.names, &self.containers.positions());
        // The ids of the containers stay the same, because searches use them.
        let mut new = Self::in_order(self.containers.clone(), &self.names, &order)?;
        new.fields = self.fields.renumbered(&order, self.names.len());
        Ok(new)
    }

    fn in_order(containers: Containers, names: &NameList, order: &[u32]) -> Result<Self> {
        let mut sorted = NameList::with_capacity(names.text().len(), order.len());
        for at in order {
            sorted.push_from(names, *at)?;
        }
        sorted.shrink_to_fit();
        // The number of entries is checked when an entry is added.
        let blocks = BlockIndex::build((0..order.len() as u32).map(|at| sorted.folded(at)));
        Ok(Self { names: sorted, containers, sorted: order.len(), blocks, ..Self::default() })
    }

    /// Returns the id of a container, which is added if it is new.
    pub(super) fn container(&mut self, container: Container) -> Result<ContainerId> {
        self.containers.add(container)
    }

    /// Adds the name of an object, unless the index contains it.
    pub(super) fn insert(
        &mut self,
        container: ContainerId,
        kind: Kind,
        name: &str,
        id: Uuid,
    ) -> Result<()> {
        if let Some(entry) = self.entry_of(container, kind, name) {
            self.names.set_id(entry, id);
            return Ok(());
        }
        let entry = self.names.push(container, kind, name, Some(id))?;
        let Self { names, added, hasher, .. } = self;
        let hash = hasher.hash_one((container, kind, name));
        added.insert_unique(hash, entry, |at| {
            let entry = names.entry(*at);
            hasher.hash_one((entry.container(), entry.kind(), names.name(*at)))
        });
        Ok(())
    }

    /// Removes a name, if the index contains it.
    pub(super) fn remove(&mut self, container: ContainerId, kind: Kind, name: &str) {
        let Some(at) = self.entry_of(container, kind, name) else { return };
        let hash = self.hasher.hash_one((container, kind, name));
        if let Ok(found) = self.added.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        self.names.remove(at);
        self.fields.clear(at);
        self.removed += 1;
    }

    /// Whether the index should be compacted, because many names were removed or added.
    pub(super) fn is_sparse(&self) -> bool {
        let added = self.names.len() - self.sorted;
        let changes_max = CHANGES_MAX + self.len() / CHANGED_DIVISOR;
        self.removed > changes_max || added > changes_max || self.fields.is_sparse()
    }

    /// Returns the entry of a name.
    pub(super) fn entry_of(&self, container: ContainerId, kind: Kind, name: &str) -> Option<u32> {
        let is_named = |at: u32| {
            let entry = self.names.entry(at);
            !entry.is_removed()
                && entry.container() == container
                && entry.kind() == kind
                && self.names.name(at) == name
        };
        let hash = self.hasher.hash_one((container, kind, name));
        if let Some(at) = self.added.find(hash, |at| is_named(*at)) {
            return Some(*at);
        }
        let folded = fold(name);
        let key = (kind, self.containers.get(container)?);
        let first = partition(0..self.sorted, |at| {
            let order = self.names.folded_bytes(at as u32).cmp(folded.as_bytes());
            order.then_with(|| self.key(at as u32).cmp(&key)) == Ordering::Less
        });
        // Names that differ only in their case are next to each other.
        let same = (first as u32..self.sorted as u32).take_while(|at| {
            self.key(*at) == key && self.names.folded_bytes(*at) == folded.as_bytes()
        });
        same.into_iter().find(|at| is_named(*at))
    }

    /// Returns the columns and comments.
    pub(super) fn fields(&self) -> &FieldIndex {
        &self.fields
    }

    /// Returns the columns and comments, to change them.
    pub(super) fn fields_mut(&mut self) -> &mut FieldIndex {
        &mut self.fields
    }

    /// Ends the build of the columns and comments.
    pub(super) fn finish_fields(&mut self) {
        self.fields.finish_build(self.sorted);
    }

    /// Assigns the terms of a table, view or namespace to its name, if the index contains the name.
    pub(super) fn assign_fields(
        &mut self,
        (container, kind, name): (ContainerId, Kind, &str),
        id: Uuid,
        terms: Vec<TermId>,
    ) {
        if let Some(entry) = self.entry_of(container, kind, name) {
            self.names.set_id(entry, id);
            self.fields.assign(entry, terms);
        }
    }

    /// Removes the terms of a name.
    pub(super) fn clear_fields(&mut self, container: ContainerId, kind: Kind, name: &str) {
        if let Some(entry) = self.entry_of(container, kind, name) {
            self.fields.clear(entry);
        }
    }

    /// Returns the number of names.
    pub(super) fn len(&self) -> usize {
        self.names.len() - self.removed
    }

    /// Returns the memory used, in bytes, without the containers.
    pub(super) fn bytes(&self) -> usize {
        self.names.bytes()
            + self.blocks.bytes()
            + self.added.allocation_size()
            + self.fields.bytes()
    }

    /// Returns the names with their entries.
    pub(super) fn names(&self) -> &NameList {
        &self.names
    }

    /// Returns the containers of the names.
    pub(super) fn containers(&self) -> &Containers {
        &self.containers
    }

    /// Returns the blocks of the sorted names.
    pub(super) fn blocks(&self) -> &BlockIndex {
        &self.blocks
    }

    /// Returns the number of sorted entries, which are before the others.
    pub(super) fn sorted(&self) -> usize {
        self.sorted
    }

    /// Returns the container of an entry.
    pub(super) fn holder(&self, entry: Entry) -> &Container {
        self.containers.of(entry.container())
    }

    /// Returns the sorted entries whose folded names are equal to a text, or begin with it.
    pub(super) fn sorted_with(&self, text: &str, is_prefix: bool) -> Range<usize> {
        let text = text.as_bytes();
        let start = partition(0..self.sorted, |at| self.names.folded_bytes(at as u32) < text);
        let end = partition(start..self.sorted, |at| {
            let folded = self.names.folded_bytes(at as u32);
            if is_prefix { folded.starts_with(text) } else { folded == text }
        });
        start..end
    }

    /// Compares the names of two entries.
    pub(super) fn compare(&self, a: u32, b: u32) -> Ordering {
        if (a as usize) < self.sorted && (b as usize) < self.sorted {
            return a.cmp(&b);
        }
        let (folded, other) = (self.names.folded_bytes(a), self.names.folded_bytes(b));
        folded
            .cmp(other)
            .then_with(|| self.key(a).cmp(&self.key(b)))
            .then_with(|| self.names.name(a).cmp(self.names.name(b)))
    }

    fn key(&self, at: u32) -> (Kind, &Container) {
        let entry = self.names.entry(at);
        (entry.kind(), self.holder(entry))
    }
}

/// Returns the existing names in their order. `positions` are the positions of the containers.
fn sorted_order(names: &NameList, positions: &[u32]) -> Vec<u32> {
    // The number of entries is checked when an entry is added.
    let present = (0..names.len() as u32).filter(|at| !names.entry(*at).is_removed());
    // The beginnings of the names decide most comparisons, without a random access to the text.
    let mut order: Vec<_> = present.map(|at| (names.beginning(at), at)).collect();
    let key = |at: u32| {
        let entry = names.entry(at);
        (entry.kind(), positions[entry.container() as usize])
    };
    order.sort_unstable_by(|(beginning, at), (other_beginning, other)| {
        beginning
            .cmp(other_beginning)
            .then_with(|| names.folded_bytes(*at).cmp(names.folded_bytes(*other)))
            .then_with(|| key(*at).cmp(&key(*other)))
            .then_with(|| names.name(*at).cmp(names.name(*other)))
    });
    order.into_iter().map(|(_, at)| at).collect()
}

/// Returns the first number of a range for which `is_before` is false.
pub(super) fn partition(range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
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
