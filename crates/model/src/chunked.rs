//! [`ChunkedList`]: a list that grows at its end. Its versions share all older items.
//!
//! All items except the newest are in *sealed* chunks. A sealed chunk has at most `N` items, and
//! stores their JSON as a [`Chunk`]. A clone of the list copies one pointer per chunk. The items
//! after the sealed chunks are the *open end*. `push` changes only the open end, and a new version
//! of the list renders only the items of the open end again. If there is a sealed chunk, the open
//! end is never empty, so a comma follows every sealed item.
//!
//! Any two neighboring chunks together contain more than `N` items. Without this rule, many
//! removals could leave a list of thousands of chunks with one item each.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::segmented_json::{Chunk, SegmentedJsonWriter};

/// An item of a [`ChunkedList`].
pub trait Item: Clone {
    /// Returns the id by which [`ChunkedList::find`] looks the item up.
    fn id(&self) -> i64;

    /// Writes the item's JSON.
    fn write(&self, out: &mut Vec<u8>);

    /// Returns the same item. `json` is a slice of the JSON of the item's chunk. The returned item
    /// may store `json` instead of its own copy of the JSON.
    fn with_json(&self, json: Bytes) -> Self;
}

/// A list of `T` in chunks of at most `N` items.
#[derive(Clone)]
pub struct ChunkedList<T, const N: usize> {
    sealed: Vec<Arc<SealedChunk<T>>>,
    open: Vec<T>,
    len: usize,
}

/// Items that are stored together.
struct SealedChunk<T> {
    /// The ids of the items, contiguous in memory, because a search reads only these.
    ids: Vec<i64>,
    items: Vec<T>,
    /// The items' JSON, with a comma after each item.
    json: Chunk,
}

impl<T: Item> SealedChunk<T> {
    fn new(items: Vec<T>) -> Self {
        let (text, ends) = render(&items);
        let text = Bytes::from(text);
        let mut start = 0;
        let share = |(item, end): (&T, usize)| {
            let json = text.slice(start..end - 1);
            start = end;
            item.with_json(json)
        };
        let items: Vec<T> = items.iter().zip(ends).map(share).collect();
        Self { ids: items.iter().map(T::id).collect(), json: Chunk::new(text), items }
    }

    /// Creates a chunk from items that were parsed from `json`. Keeps `json` as the chunk's JSON if
    /// rendering the items yields the same bytes. Otherwise, renders the items again.
    fn read_from(items: Vec<T>, json: &Chunk) -> Self {
        if render(&items).0 != *json.text() {
            return Self::new(items);
        }
        Self { ids: items.iter().map(T::id).collect(), json: json.clone(), items }
    }
}

/// Renders items with a comma after each. Returns the JSON and the end offset of each item.
fn render<T: Item>(items: &[T]) -> (Vec<u8>, Vec<usize>) {
    let mut text = Vec::new();
    let write = |item: &T| {
        item.write(&mut text);
        text.push(b',');
        text.len()
    };
    let ends = items.iter().map(write).collect();
    (text, ends)
}

impl<T: Item, const N: usize> ChunkedList<T, N> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self { sealed: Vec::new(), open: Vec::new(), len: 0 }
    }

    /// Builds a list from its parsed JSON. `chunks` are the sealed chunks with their items, and
    /// `behind` are the items after the last chunk.
    pub(super) fn read_from<'a>(
        chunks: impl IntoIterator<Item = (Vec<T>, &'a Chunk)>,
        behind: Vec<T>,
    ) -> Self {
        let read = |(items, json): (Vec<T>, &Chunk)| Arc::new(SealedChunk::read_from(items, json));
        let sealed: Vec<_> = chunks.into_iter().map(read).collect();
        let len = sealed.iter().map(|chunk| chunk.items.len()).sum();
        let mut list = Self { sealed, open: Vec::new(), len };
        list.extend(behind);
        list
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the items, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.sealed.iter().flat_map(|chunk| &chunk.items).chain(&self.open)
    }

    /// Returns the newest item.
    pub fn last(&self) -> Option<&T> {
        self.open.last()
    }

    /// Returns the ids of the items, oldest first.
    pub fn ids(&self) -> impl Iterator<Item = i64> {
        let sealed = self.sealed.iter().flat_map(|chunk| chunk.ids.iter().copied());
        sealed.chain(self.open.iter().map(T::id))
    }

    /// Returns the newest item with this id.
    pub fn find(&self, id: i64) -> Option<&T> {
        if let Some(item) = self.open.iter().rev().find(|item| item.id() == id) {
            return Some(item);
        }
        let chunk = self.sealed.iter().rev().find(|chunk| chunk.ids.contains(&id))?;
        chunk.items.iter().rev().find(|item| item.id() == id)
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        if self.open.len() >= N {
            let full = std::mem::take(&mut self.open);
            self.sealed.push(Arc::new(SealedChunk::new(full)));
        }
        self.open.push(item);
        self.len += 1;
    }

    /// Retains the items for whose ids `keep` returns `true`. Calls `keep` once per item, oldest
    /// first.
    pub(crate) fn retain_ids(&mut self, mut keep: impl FnMut(i64) -> bool) {
        let mut parts = Parts::<T, N>(Vec::with_capacity(self.sealed.len() + 1));
        for chunk in std::mem::take(&mut self.sealed) {
            match chunk.ids.iter().position(|id| !keep(*id)) {
                None => parts.push(Part::Whole(chunk)),
                Some(first) => {
                    let mut left = chunk.items[..first].to_vec();
                    let behind = chunk.items[first + 1..].iter();
                    left.extend(behind.filter(|item| keep(item.id())).cloned());
                    parts.push(Part::Partial(left));
                }
            }
        }
        self.open.retain(|item| keep(item.id()));
        parts.push(Part::Partial(std::mem::take(&mut self.open)));
        self.open = parts.0.pop().map(Part::into_items).unwrap_or_default();
        self.sealed = parts.0.into_iter().map(Part::into_sealed).collect();
        self.len = self.sealed.iter().map(|chunk| chunk.items.len()).sum::<usize>();
        self.len += self.open.len();
    }

    /// Writes the list as a JSON array.
    pub(super) fn write(&self, out: &mut SegmentedJsonWriter) {
        out.inline().push(b'[');
        self.sealed.iter().for_each(|chunk| out.chunk(&chunk.json));
        for (at, item) in self.open.iter().enumerate() {
            if at > 0 {
                out.inline().push(b',');
            }
            item.write(out.inline());
        }
        out.inline().push(b']');
    }
}

/// Consecutive items during a removal.
enum Part<T> {
    /// A chunk from which no item was removed.
    Whole(Arc<SealedChunk<T>>),
    /// Items that remain of a chunk.
    Partial(Vec<T>),
}

impl<T: Item> Part<T> {
    fn items(&self) -> &[T] {
        match self {
            Self::Whole(chunk) => &chunk.items,
            Self::Partial(items) => items,
        }
    }

    fn into_items(self) -> Vec<T> {
        match self {
            Self::Whole(chunk) => chunk.items.clone(),
            Self::Partial(items) => items,
        }
    }

    fn into_sealed(self) -> Arc<SealedChunk<T>> {
        match self {
            Self::Whole(chunk) => chunk,
            Self::Partial(items) => Arc::new(SealedChunk::new(items)),
        }
    }
}

/// Consecutive items, which are merged into chunks.
struct Parts<T, const N: usize>(Vec<Part<T>>);

impl<T: Item, const N: usize> Parts<T, N> {
    /// Appends items. Merges them with the previous items if all of them fit into one chunk.
    fn push(&mut self, part: Part<T>) {
        if part.items().is_empty() {
            return;
        }
        match self.0.pop() {
            Some(before) if before.items().len() + part.items().len() <= N => {
                let mut items = before.into_items();
                items.extend(part.into_items());
                self.0.push(Part::Partial(items));
            }
            before => self.0.extend(before.into_iter().chain([part])),
        }
    }
}

impl<T: Item, const N: usize> Default for ChunkedList<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Item, const N: usize> Extend<T> for ChunkedList<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T: Item, const N: usize> FromIterator<T> for ChunkedList<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::new();
        list.extend(items);
        list
    }
}

impl<T: Item + PartialEq, const N: usize> PartialEq for ChunkedList<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T: Item + fmt::Debug, const N: usize> fmt::Debug for ChunkedList<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
