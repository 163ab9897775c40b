//! [`NameIndex`]: the names of all tables, views, namespaces and functions in memory.
//!
//! A search scans the folded names of the whole catalog. They are in one contiguous text, which
//! vector instructions search at several gigabytes per second. This needs much less memory than an
//! inverted index of all substrings, and a change of a name takes constant time.
//!
//! When the index is built or compacted, its entries are sorted by name. So the best matches of a
//! frequent word are found first, and the scan can stop early. Names that are added later are behind
//! the sorted entries, in any order. A removed name stays in the text until the index is compacted.
//!
//! The columns and comments of the entries are in a [`FieldIndex`].

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use uuid::Uuid;

use super::field_index::{FieldIndex, SetId};
use super::offsets::{index_of, text_at};
use super::query::fold;
use crate::Result;
use slateberg_authz::resource::Kind;

/// The byte before each name in the text. It never occurs in UTF-8.
const SEPARATOR: u8 = 0xFF;

/// Number of removed or added names up to which the index is not compacted, beside a half of its
/// names.
const CHANGES_MAX: usize = 10_000;

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

pub(super) struct IndexedContainer {
    pub(super) container: Container,
    /// The folded levels, separated by line feeds.
    pub(super) folded: String,
}

/// A name in the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The offset of the folded name in the text.
    pub(super) start: u32,
    pub(super) container: ContainerId,
    pub(super) kind: Kind,
    pub(super) is_removed: bool,
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
    /// Number of sorted entries. The others follow in the order in which they were added.
    sorted: usize,
    /// The columns and comments of the entries.
    fields: FieldIndex,
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
        if self.entry_of(container, kind, name).is_some() {
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
            self.fields.clear(at);
            self.removed += 1;
        }
    }

    /// Whether the index should be compacted, because many names were removed or added.
    pub(super) fn is_sparse(&self) -> bool {
        let added = self.entries.len() - self.sorted;
        let changes_max = CHANGES_MAX + self.by_name.len() / 2;
        self.removed > changes_max || added > changes_max || self.fields.is_sparse()
    }

    /// Returns the same index with sorted entries, and without removed names.
    pub(super) fn compacted(&self) -> Result<Self> {
        let is_present = |at: &u32| !self.entries[*at as usize].is_removed;
        // The number of entries is checked when an entry is added.
        let present = (0..self.entries.len() as u32).filter(is_present);
        // The beginnings of the names decide most comparisons, without a random access to the text.
        let mut order: Vec<_> = present.map(|at| (self.beginning(at), at)).collect();
        order.sort_unstable_by(|(beginning, at), (other_beginning, other)| {
            beginning.cmp(other_beginning).then_with(|| self.compare(*at, *other))
        });
        let order: Vec<u32> = order.into_iter().map(|(_, at)| at).collect();
        let mut new = Self::default();
        new.text.reserve_exact(self.text.len());
        for IndexedContainer { container, .. } in &self.containers {
            new.container(container.clone())?;
        }
        new.entries.reserve_exact(order.len());
        for at in &order {
            let Entry { container, kind, .. } = self.entries[*at as usize];
            new.insert(container, kind, self.name(*at))?;
        }
        new.sorted = new.entries.len();
        new.fields = self.fields.renumbered(&order)?;
        new.text.shrink_to_fit();
        new.originals.shrink_to_fit();
        Ok(new)
    }

    /// Returns the entry of a name.
    pub(super) fn entry_of(&self, container: ContainerId, kind: Kind, name: &str) -> Option<u32> {
        let hash = self.hash(container, kind, name);
        self.by_name.find(hash, |at| self.is_named(*at, container, kind, name)).copied()
    }

    /// Returns the columns and comments.
    pub(super) fn fields(&self) -> &FieldIndex {
        &self.fields
    }

    /// Returns the columns and comments, to change them.
    pub(super) fn fields_mut(&mut self) -> &mut FieldIndex {
        &mut self.fields
    }

    /// Assigns the terms of a table, view or namespace to its name, if the index contains the name.
    pub(super) fn assign_fields(
        &mut self,
        (container, kind, name): (ContainerId, Kind, &str),
        id: Uuid,
        columns: Option<SetId>,
        comment: Option<SetId>,
    ) {
        if let Some(entry) = self.entry_of(container, kind, name) {
            self.fields.assign(entry, id, columns, comment);
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
        self.by_name.len()
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
            + self.fields.bytes()
    }

    /// Returns the folded names, each after a separator.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the entries, in the order of their offsets.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the number of sorted entries, which are before the others.
    pub(super) fn sorted(&self) -> usize {
        self.sorted
    }

    /// Returns the container of an entry.
    pub(super) fn holder(&self, entry: Entry) -> &IndexedContainer {
        &self.containers[entry.container as usize]
    }

    /// Returns a container.
    pub(super) fn container_of(&self, id: ContainerId) -> Option<&Container> {
        self.containers.get(id as usize).map(|it| &it.container)
    }

    /// Returns the entry that contains an offset. It is not before the entry `from`.
    pub(super) fn entry_at(&self, from: usize, offset: usize) -> usize {
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
    pub(super) fn end(&self, at: usize) -> usize {
        end_of(&self.entries, &self.text, at)
    }

    pub(super) fn folded(&self, at: usize) -> &str {
        text_at(&self.text, self.entries[at].start as usize, self.end(at))
    }

    pub(super) fn name(&self, at: u32) -> &str {
        name_of(&self.entries, &self.originals, &self.text, at)
    }

    fn hash(&self, container: ContainerId, kind: Kind, name: &str) -> u64 {
        self.hasher.hash_one((container, kind, name))
    }

    fn is_named(&self, at: u32, container: ContainerId, kind: Kind, name: &str) -> bool {
        let entry = &self.entries[at as usize];
        entry.container == container && entry.kind == kind && self.name(at) == name
    }

    /// Returns the first bytes of a folded name, as a number with the same order.
    fn beginning(&self, at: u32) -> u128 {
        let mut bytes = [0; 16];
        let folded = self.folded(at as usize).as_bytes();
        let len = folded.len().min(bytes.len());
        bytes[..len].copy_from_slice(&folded[..len]);
        u128::from_be_bytes(bytes)
    }

    /// Compares the names of two entries.
    pub(super) fn compare(&self, a: u32, b: u32) -> Ordering {
        if (a as usize) < self.sorted && (b as usize) < self.sorted {
            return a.cmp(&b);
        }
        let (entry, other) = (&self.entries[a as usize], &self.entries[b as usize]);
        let key = |entry: &Entry| (entry.kind, &self.holder(*entry).container);
        self.folded(a as usize)
            .cmp(self.folded(b as usize))
            .then_with(|| key(entry).cmp(&key(other)))
            .then_with(|| self.name(a).cmp(self.name(b)))
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
    text_at(text, start, end_of(entries, text, at as usize))
}
