//! Reads of many records that bypass the caches.

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

    /// Returns the records of a key range, at most `limit`, in the order of their keys. Adds nothing
    /// to the caches.
    #[boxed]
    pub async fn scan_uncached<K: Key>(
        &self,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(K, K::Value)>, Error> {
        let mut options = scan_options(DurabilityLevel::Remote);
        options.cache_blocks = false;
        let iterator = self.db.scan_with_options(range.bounds(), &options).await?;
        read_entries(iterator, Some(limit)).await?.iter().map(decode_entry).collect()
    }
}

/// Returns the parent and the name in a key that consists of these two.
fn parent_and_name(key: &[u8]) -> Option<(Uuid, &str)> {
    let (parent, name) = key.split_at_checked(NAME_PARENT_BYTES)?;
    Some((Uuid::from_slice(parent.get(1..)?).ok()?, std::str::from_utf8(name).ok()?))
}
