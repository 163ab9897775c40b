//! Reads of many records that bypass the caches.

use std::marker::PhantomData;
use std::ops::Bound;

use slatedb::config::DurabilityLevel;
use uuid::Uuid;

use super::error::Error;
use super::key_space::KeySpace;
use super::keys::{Key, NAME_PARENT_BYTES};
use super::read::{DurableView, KeyRange, corrupt, decode_entry, read_entries, scan_options};
use slateberg_base::boxed;

impl DurableView<'_> {
    /// Calls `visit` with the parent and the name of each record of a key space whose keys consist
    /// of these two, if the parent is in `parents`. Adds nothing to the caches.
    #[boxed]
    pub async fn visit_names(
        &self,
        space: KeySpace,
        parents: &Parents,
        visit: &mut (dyn FnMut(Uuid, &str) + Send),
    ) -> Result<(), Error> {
        let mut options = scan_options(DurabilityLevel::Remote);
        options.cache_blocks = false;
        let mut iterator = self.db.scan_with_options(parents.bounds(space), &options).await?;
        while let Some(entry) = iterator.next().await? {
            let (parent, name) = parent_and_name(&entry.key)
                .ok_or_else(|| corrupt(&entry.key, "the key does not contain a name"))?;
            visit(parent, name);
        }
        Ok(())
    }
}

/// A range of the parents of names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parents {
    /// The first parent. `None` for no limit.
    first: Option<Uuid>,
    /// The end of the range, exclusively. `None` for no limit.
    end: Option<Uuid>,
}

impl From<(Option<Uuid>, Option<Uuid>)> for Parents {
    fn from((first, end): (Option<Uuid>, Option<Uuid>)) -> Self {
        Self { first, end }
    }
}

impl Parents {
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

    /// Adds the read blocks to the block cache: for records that are read again and again.
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
        options.cache_blocks = self.cache_blocks;
        let iterator = store.db.scan_with_options(range.bounds(), &options).await?;
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
