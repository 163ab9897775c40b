//! Reads of many records that bypass the caches.

use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use slatedb::DbIterator;
use slatedb::config::DurabilityLevel;
use uuid::Uuid;

use super::error::Error;
use super::filters;
use super::key_space::KeySpace;
use super::keys::{Key, MetadataKey, NAME_PARENT_BYTES, TabularNameKey};
use super::read::{
    DurableView, KeyRange, corrupt, decode_entry, decode_key, decode_value, read_entries,
    scan_options,
};
use slateberg_base::boxed;

impl DurableView<'_> {
    /// Calls `visit` for each name of the tables, views or functions whose parent is in `parents`.
    /// Adds nothing to the caches.
    #[boxed]
    pub async fn visit_names(
        &self,
        space: KeySpace,
        parents: &IdRange,
        visit: &mut (dyn FnMut(VisitedName<'_>) + Send),
    ) -> Result<(), Error> {
        let mut iterator = self.scan_uncached(space, parents).await?;
        while let Some(entry) = iterator.next().await? {
            let (parent, name) = parent_and_name(&entry.key)
                .ok_or_else(|| corrupt(&entry.key, "the key does not contain a name"))?;
            let id = match space {
                KeySpace::Functions => None,
                _ => Some(decode_value::<TabularNameKey>(&entry.key, &entry.value)?.id),
            };
            visit(VisitedName { parent, name, id });
        }
        Ok(())
    }

    /// Calls `visit` with the id and the metadata, without chunks, of each table and view whose id
    /// is in `ids`, in the order of the ids. Ends early if `visit` breaks. Adds nothing to the
    /// caches.
    #[boxed]
    pub async fn visit_metadata(
        &self,
        ids: &IdRange,
        visit: &mut (dyn FnMut(Uuid, Bytes) -> ControlFlow<()> + Send),
    ) -> Result<(), Error> {
        let mut iterator = self.scan_uncached(KeySpace::Metadata, ids).await?;
        while let Some(entry) = iterator.next().await? {
            let MetadataKey(id) = decode_key(&entry)?;
            let head = decode_value::<MetadataKey>(&entry.key, &entry.value)?;
            if visit(id, head.json_without_chunks().clone()).is_break() {
                break;
            }
        }
        Ok(())
    }

    async fn scan_uncached(&self, space: KeySpace, ids: &IdRange) -> Result<DbIterator, Error> {
        let mut options = scan_options(DurabilityLevel::Remote);
        options.cache_blocks = false;
        Ok(self.db.scan_with_options(ids.bounds(space), &options).await?)
    }
}

/// A name of a table, view or function.
#[derive(Debug, Clone, Copy)]
pub struct VisitedName<'a> {
    /// The id of the namespace.
    pub parent: Uuid,
    /// The name in the namespace.
    pub name: &'a str,
    /// The id of the table or view. `None` for a function.
    pub id: Option<Uuid>,
}

/// A range of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// The first id. `None` for no limit.
    first: Option<Uuid>,
    /// The end of the range, exclusively. `None` for no limit.
    end: Option<Uuid>,
}

impl IdRange {
    /// Divides all ids into ranges that begin at these ids, and one range before them. The ids must
    /// ascend.
    pub fn divided_at(starts: &[Uuid]) -> Vec<Self> {
        let starts = starts.iter().copied().map(Some);
        let firsts = [None].into_iter().chain(starts.clone());
        firsts.zip(starts.chain([None])).map(|(first, end)| Self { first, end }).collect()
    }

    fn bounds(&self, space: KeySpace) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let (first, end) = KeyRange::all(space).bounds();
        let key = |id: Uuid| KeyRange::below(space, id).prefix;
        (
            self.first.map_or(first, |id| Bound::Included(key(id))),
            self.end.map_or(end, |id| Bound::Excluded(key(id))),
        )
    }
}

/// Reads the records of a key space or range in pages, in the order of their keys.
pub struct Pages<K> {
    /// The range that is not read yet. `None` after the last page.
    rest: Option<KeyRange>,
    records: usize,
    cache_blocks: bool,
    key: PhantomData<fn() -> K>,
}

impl<K: Key> Pages<K> {
    /// Starts at the beginning of a key space. A page has at most this number of records.
    pub fn of(space: KeySpace, records: usize) -> Self {
        Self::within(KeyRange::all(space), records)
    }

    /// Reads only this range.
    pub fn within(range: KeyRange, records: usize) -> Self {
        Self { rest: Some(range), records, cache_blocks: false, key: PhantomData }
    }

    /// Adds the read blocks to the block cache: for records that are read again and again. If the
    /// state is in a local directory, Linux has the blocks in its page cache, and this does nothing.
    #[must_use]
    pub fn cached(self) -> Self {
        Self { cache_blocks: true, ..self }
    }

    /// Begins after a key instead. `None` for the beginning of the key space.
    #[must_use]
    pub fn behind(self, key: Option<&K>) -> Self {
        let rest = self.rest.map(|range| range.behind(key.map(Key::encode)));
        Self { rest, ..self }
    }

    /// Reads the next page. Returns `None` after the last one. Adds nothing to the caches,
    /// unless they are [`cached`](Self::cached).
    #[boxed]
    pub async fn next(
        &mut self,
        store: &DurableView<'_>,
    ) -> Result<Option<Vec<(K, K::Value)>>, Error> {
        let Some(range) = self.rest.take() else { return Ok(None) };
        let mut options = scan_options(DurabilityLevel::Remote);
        options.cache_blocks = self.cache_blocks && !store.shared.location.is_local();
        let iterator = filters::scan(store.db, &range, &options).await?;
        let entries = read_entries(iterator, Some(self.records)).await?;
        let page = entries.iter().map(decode_entry::<K>).collect::<Result<Vec<_>, _>>()?;
        if page.len() == self.records {
            let last = page.last().map(|(key, _)| key.encode());
            self.rest = Some(range.behind(last));
        }
        Ok(Some(page))
    }
}

/// Returns the parent and the name in a key that consists of these two.
fn parent_and_name(key: &[u8]) -> Option<(Uuid, &str)> {
    let (parent, name) = key.split_at_checked(NAME_PARENT_BYTES)?;
    Some((Uuid::from_slice(parent.get(1..)?).ok()?, std::str::from_utf8(name).ok()?))
}
