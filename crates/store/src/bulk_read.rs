//! Reads of many records that bypass the caches.

use std::marker::PhantomData;

use slatedb::config::DurabilityLevel;
use uuid::Uuid;

use super::error::Error;
use super::key_space::KeySpace;
use super::keys::{Key, NAME_PARENT_BYTES};
use super::read::{DurableView, KeyRange, corrupt, decode_entry, read_entries, scan_options};
use slateberg_base::boxed;

impl DurableView<'_> {
    /// Calls `visit` with the parent and the name of each record of a key space whose keys consist
    /// of these two. Adds nothing to the caches.
    #[boxed]
    pub async fn visit_names(
        &self,
        space: KeySpace,
        visit: &mut (dyn FnMut(Uuid, &str) + Send),
    ) -> Result<(), Error> {
        let mut options = scan_options(DurabilityLevel::Remote);
        options.cache_blocks = false;
        let range = KeyRange::all(space);
        let mut iterator = self.db.scan_with_options(range.bounds(), &options).await?;
        while let Some(entry) = iterator.next().await? {
            let (parent, name) = parent_and_name(&entry.key)
                .ok_or_else(|| corrupt(&entry.key, "the key does not contain a name"))?;
            visit(parent, name);
        }
        Ok(())
    }
}

/// Reads all records of a key space in pages, in the order of their keys.
pub struct Pages<K> {
    /// The range that is not read yet. `None` after the last page.
    rest: Option<KeyRange>,
    records: usize,
    key: PhantomData<fn() -> K>,
}

impl<K: Key> Pages<K> {
    /// Starts at the beginning of a key space. A page has at most this number of records.
    pub fn of(space: KeySpace, records: usize) -> Self {
        Self { rest: Some(KeyRange::all(space)), records, key: PhantomData }
    }

    /// Reads the next page. Returns `None` after the last one. Adds nothing to the caches.
    #[boxed]
    pub async fn next(
        &mut self,
        store: &DurableView<'_>,
    ) -> Result<Option<Vec<(K, K::Value)>>, Error> {
        let Some(range) = self.rest.take() else { return Ok(None) };
        let mut options = scan_options(DurabilityLevel::Remote);
        options.cache_blocks = false;
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
