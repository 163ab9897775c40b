//! [`NameList`]: names with their folded forms, in one contiguous text.

use std::collections::HashMap;

use uuid::Uuid;

use super::containers::ContainerId;
use super::offsets::{index_of, text_at};
use super::query::fold;
use crate::{Error, Result};
use slateberg_authz::resource::Kind;

/// The byte before each name in the text. It never occurs in UTF-8.
const SEPARATOR: u8 = 0xFF;
/// Number of bits of the container in an entry. The others are the kind, and whether the entry is
/// removed.
const CONTAINER_BITS: u32 = 29;
const CONTAINER_MASK: u32 = (1 << CONTAINER_BITS) - 1;
const REMOVED: u32 = 1 << 31;
/// Memory for a name that differs from its folded form, in bytes, without the name.
const ORIGINAL_BYTES: usize = size_of::<(u32, Box<str>)>() + 1;
/// The kinds of names, by their number in an entry.
const KINDS: [Kind; 4] = [Kind::Namespace, Kind::Table, Kind::View, Kind::Function];

/// Part of the UUID of a table, view or namespace. All ids of the catalog differ in this part,
/// because it is random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct IdTail(u64);

impl From<Uuid> for IdTail {
    fn from(id: Uuid) -> Self {
        Self(id.as_u64_pair().1)
    }
}

impl IdTail {
    /// Returns a hash. The multiplication mixes ids that are not random, as those of tests.
    pub(super) fn hash(self) -> u64 {
        self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// A name in a [`NameList`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The offset of the folded name in the text.
    start: u32,
    /// The container, the kind, and whether the entry is removed.
    packed: u32,
}

impl Entry {
    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    pub(super) fn container(self) -> ContainerId {
        self.packed & CONTAINER_MASK
    }

    pub(super) fn kind(self) -> Kind {
        KINDS[(self.packed >> CONTAINER_BITS & 3) as usize]
    }

    pub(super) fn is_removed(self) -> bool {
        self.packed & REMOVED != 0
    }
}

/// Names in any order. See the [module](self).
#[derive(Default)]
pub(super) struct NameList {
    /// The folded names, each after a separator, and a separator at the end.
    text: Vec<u8>,
    /// The entries, in the order of their offsets.
    entries: Vec<Entry>,
    /// The ids of the named objects, by entry. The default value for unknown ids.
    ids: Vec<IdTail>,
    /// The names that differ from their folded form.
    originals: HashMap<u32, Box<str>>,
    /// Size of `originals`, in bytes.
    originals_bytes: usize,
}

impl NameList {
    /// Returns an empty list with room for a text of this length and this many names.
    pub(super) fn with_capacity(text: usize, names: usize) -> Self {
        let (text, entries) = (Vec::with_capacity(text), Vec::with_capacity(names));
        Self { text, entries, ids: Vec::with_capacity(names), ..Self::default() }
    }

    /// Adds the name of an object, and the id of the object if it is known. Returns the number of
    /// the name.
    pub(super) fn push(
        &mut self,
        container: ContainerId,
        kind: Kind,
        name: &str,
        id: Option<Uuid>,
    ) -> Result<u32> {
        let folded = fold(name);
        let entry = self.push_folded(container, kind, &folded)?;
        self.ids.push(id.map(IdTail::from).unwrap_or_default());
        if *folded != *name {
            self.insert_original(entry, name.into());
        }
        Ok(entry)
    }

    fn push_folded(&mut self, container: ContainerId, kind: Kind, folded: &str) -> Result<u32> {
        let entry = index_of(self.entries.len())?;
        if self.text.is_empty() {
            self.text.push(SEPARATOR);
        }
        let start = index_of(self.text.len())?;
        let kind = KINDS.iter().position(|known| *known == kind);
        let (Some(kind), true) = (kind, container <= CONTAINER_MASK) else {
            return Err(Error::internal("the index of names cannot contain this name"));
        };
        self.text.extend_from_slice(folded.as_bytes());
        self.text.push(SEPARATOR);
        index_of(self.text.len())?;
        self.entries.push(Entry { start, packed: container | (kind as u32) << CONTAINER_BITS });
        Ok(entry)
    }

    /// Adds all names of another list.
    pub(super) fn append(&mut self, other: &Self) -> Result<()> {
        let first = index_of(self.entries.len())?;
        // The new text begins with the separator at the end of this text.
        let shift = index_of(self.text.len().saturating_sub(1))?;
        index_of(self.text.len() + other.text.len())?;
        index_of(self.entries.len() + other.entries.len())?;
        let skipped = usize::from(!self.text.is_empty() && !other.text.is_empty());
        self.text.extend_from_slice(&other.text[skipped..]);
        let moved = other.entries.iter().map(|it| Entry { start: it.start + shift, ..*it });
        self.entries.extend(moved);
        self.ids.extend_from_slice(&other.ids);
        for (at, name) in &other.originals {
            self.insert_original(first + at, name.clone());
        }
        Ok(())
    }

    /// Adds a name of another list.
    pub(super) fn push_from(&mut self, other: &Self, at: u32) -> Result<()> {
        let source = other.entry(at);
        let entry = self.push_folded(source.container(), source.kind(), other.folded(at))?;
        self.ids.push(other.id(at));
        if let Some(original) = other.originals.get(&at) {
            self.insert_original(entry, original.clone());
        }
        Ok(())
    }

    fn insert_original(&mut self, entry: u32, name: Box<str>) {
        self.originals_bytes += name.len() + ORIGINAL_BYTES;
        self.originals.insert(entry, name);
    }

    /// Marks a name as removed. It stays in the text.
    pub(super) fn remove(&mut self, at: u32) {
        self.entries[at as usize].packed |= REMOVED;
        if let Some(name) = self.originals.remove(&at) {
            self.originals_bytes -= name.len() + ORIGINAL_BYTES;
        }
    }

    /// Frees the memory that further names would use.
    pub(super) fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.ids.shrink_to_fit();
        self.originals.shrink_to_fit();
    }

    /// Returns the number of names, including the removed ones.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the memory used, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let entry_bytes = size_of::<Entry>() + size_of::<IdTail>();
        self.text.len() + self.entries.len() * entry_bytes + self.originals_bytes
    }

    /// Returns the folded names, each after a separator.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn entry(&self, at: u32) -> Entry {
        self.entries[at as usize]
    }

    /// Returns the id of the named object, or the default value if it is unknown.
    pub(super) fn id(&self, at: u32) -> IdTail {
        self.ids[at as usize]
    }

    /// Sets the id of the named object.
    pub(super) fn set_id(&mut self, at: u32, id: Uuid) {
        self.ids[at as usize] = id.into();
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the offset of the separator after a name.
    pub(super) fn end(&self, at: usize) -> usize {
        self.entries.get(at + 1).map_or(self.text.len(), |next| next.start()) - 1
    }

    pub(super) fn folded(&self, at: u32) -> &str {
        text_at(&self.text, self.entry(at).start(), self.end(at as usize))
    }

    /// Returns the bytes of a folded name. They have the same order as the folded names.
    pub(super) fn folded_bytes(&self, at: u32) -> &[u8] {
        &self.text[self.entry(at).start()..self.end(at as usize)]
    }

    pub(super) fn name(&self, at: u32) -> &str {
        match self.originals.get(&at) {
            Some(original) => original,
            None => self.folded(at),
        }
    }

    /// Returns the first bytes of a folded name, as a number with the same order.
    pub(super) fn beginning(&self, at: u32) -> u128 {
        let mut bytes = [0; 16];
        let folded = self.folded_bytes(at);
        let len = folded.len().min(bytes.len());
        bytes[..len].copy_from_slice(&folded[..len]);
        u128::from_be_bytes(bytes)
    }
}
