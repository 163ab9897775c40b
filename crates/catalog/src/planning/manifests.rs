//! [`ManifestCache`]: manifest lists and manifests in memory.
//!
//! These files never change, so no entry can be stale. The key of an entry contains the warehouse,
//! and the values that the manifest inherits from its list.

use std::sync::Arc;

use uuid::Uuid;

use super::deletes::DeleteFiles;
use super::permitted_files::PermittedFiles;
use crate::{Error, Result};
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::read_restrictions::RulesKey;
use slateberg_objects::manifest::{Inherited, Manifest, NeededColumns};
use slateberg_objects::manifest_list::ManifestList;
use slateberg_telemetry::cache::ByteCache;
use slateberg_telemetry::collection::Collection;

/// Expected size of an entry, in bytes.
const TYPICAL_BYTES: u64 = 64 << 10;
/// Size of a key and an entry of the cache, without the content, in bytes.
const ENTRY_BYTES: usize = 256;
/// Approximate size of an entry of a manifest list, in bytes.
const LIST_ENTRY_BYTES: usize = 400;

/// Recently used manifest lists and manifests, bounded in bytes.
pub(super) struct ManifestCache(ByteCache<Key, Cached>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// A manifest list: the warehouse and the location.
    List(Uuid, String),
    /// A manifest: the warehouse, the location, the length, and the inherited values.
    Manifest(Uuid, String, i64, Inherited),
    /// The delete files of a snapshot: the table, the manifest list, and the schema.
    Deletes(Uuid, String, i32),
    /// The permitted files of a snapshot.
    Permitted(PermittedKey),
}

/// The table, the manifest list, the current schema, and the rules of a reader.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PermittedKey {
    pub(super) table: Uuid,
    pub(super) list: String,
    pub(super) schema_id: i32,
    pub(super) rules: RulesKey,
}

#[derive(Debug, Clone)]
enum Cached {
    List(Arc<ManifestList>),
    Manifest(Arc<Manifest>),
    Deletes(Arc<DeleteFiles>),
    Permitted(Arc<PermittedFiles>),
}

fn manifest_key(warehouse: Uuid, manifest: &ManifestFile) -> Key {
    Key::Manifest(warehouse, manifest.path.clone(), manifest.length, Inherited::of(manifest))
}

/// Returns a cached manifest if it includes these columns.
fn including(cached: Option<Cached>, needed: &NeededColumns) -> Option<Arc<Manifest>> {
    match cached {
        Some(Cached::Manifest(manifest)) if manifest.needed_columns().include(needed) => {
            Some(manifest)
        }
        _ => None,
    }
}

fn wrong_entry() -> Error {
    Error::internal("a cached manifest has a key of another kind")
}

impl ManifestCache {
    /// Creates a cache of at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self(ByteCache::new(bytes_max, TYPICAL_BYTES))
    }

    /// Removes all manifests.
    pub(super) fn clear(&self) {
        self.0.clear();
    }

    /// Collects the metrics of the cache.
    pub(super) fn collect(&self, into: &mut Collection) {
        self.0.usage().collect(into, "manifest", "Manifest lists and manifests of scans");
    }

    /// Returns a manifest if it is cached with these columns.
    pub(super) fn cached(
        &self,
        warehouse: Uuid,
        manifest: &ManifestFile,
        needed: &NeededColumns,
    ) -> Option<Arc<Manifest>> {
        including(self.0.get(&manifest_key(warehouse, manifest)), needed)
    }

    /// Whether a manifest with these columns is cached. Does not count as a use.
    pub(super) fn has(
        &self,
        warehouse: Uuid,
        manifest: &ManifestFile,
        needed: &NeededColumns,
    ) -> bool {
        including(self.0.peek(&manifest_key(warehouse, manifest)), needed).is_some()
    }

    /// Returns the manifest list at a location. Reads it if it is not cached.
    pub(super) async fn list(
        &self,
        warehouse: Uuid,
        location: &str,
        read: impl Future<Output = Result<ManifestList>>,
    ) -> Result<Arc<ManifestList>> {
        let of = |cached| match cached {
            Cached::List(list) => Some(list),
            _ => None,
        };
        let create = async {
            let list = read.await?;
            let bytes = list.entries.len() * LIST_ENTRY_BYTES;
            Ok((Cached::List(Arc::new(list)), bytes))
        };
        self.entry(&Key::List(warehouse, location.to_owned()), of, create).await
    }

    /// Returns the delete files of a table, manifest list and schema. Builds them if they are not
    /// cached.
    pub(super) async fn deletes(
        &self,
        (table, list, schema_id): (Uuid, &str, i32),
        build: impl Future<Output = Result<DeleteFiles>>,
    ) -> Result<Arc<DeleteFiles>> {
        let of = |cached| match cached {
            Cached::Deletes(deletes) => Some(deletes),
            _ => None,
        };
        let create = async {
            let deletes = build.await?;
            let bytes = deletes.bytes();
            Ok((Cached::Deletes(Arc::new(deletes)), bytes))
        };
        self.entry(&Key::Deletes(table, list.to_owned(), schema_id), of, create).await
    }

    /// Whether these permitted files are cached.
    pub(super) fn has_permitted(&self, key: &PermittedKey) -> bool {
        self.0.peek(&Key::Permitted(key.clone())).is_some()
    }

    /// Returns permitted files. Finds them if they are not cached.
    pub(super) async fn permitted(
        &self,
        key: PermittedKey,
        find: impl Future<Output = Result<PermittedFiles>>,
    ) -> Result<Arc<PermittedFiles>> {
        let of = |cached| match cached {
            Cached::Permitted(permitted) => Some(permitted),
            _ => None,
        };
        let create = async {
            let permitted = find.await?;
            let bytes = permitted.bytes();
            Ok((Cached::Permitted(Arc::new(permitted)), bytes))
        };
        self.entry(&Key::Permitted(key), of, create).await
    }

    /// Returns the entry of a key. Creates it, with its size in bytes, if it is not cached. `of`
    /// returns `None` for an entry of another kind.
    async fn entry<T>(
        &self,
        key: &Key,
        of: impl Fn(Cached) -> Option<Arc<T>>,
        create: impl Future<Output = Result<(Cached, usize)>>,
    ) -> Result<Arc<T>> {
        if let Some(found) = self.0.get(key).and_then(&of) {
            return Ok(found);
        }
        let load = async {
            let (cached, bytes) = create.await?;
            Ok::<_, Error>((cached, ENTRY_BYTES + bytes))
        };
        of(self.0.get_or_insert(key, load).await?).ok_or_else(wrong_entry)
    }

    /// Returns a manifest with the statistics of these columns. Reads it if it is not cached.
    pub(super) async fn manifest<F: Future<Output = Result<Manifest>>>(
        &self,
        (warehouse, manifest): (Uuid, &ManifestFile),
        needed: &NeededColumns,
        read: impl Fn(NeededColumns) -> F,
    ) -> Result<Arc<Manifest>> {
        let key = manifest_key(warehouse, manifest);
        let mut needed = needed.clone();
        match self.0.get(&key) {
            Some(Cached::Manifest(known)) if known.needed_columns().include(&needed) => {
                return Ok(known);
            }
            Some(Cached::Manifest(known)) => {
                needed = needed.union(known.needed_columns());
                self.0.remove(&key);
            }
            _ => {}
        }
        let load = async {
            let manifest = read(needed.clone()).await?;
            let bytes = ENTRY_BYTES + manifest.bytes();
            Ok::<_, Error>((Cached::Manifest(Arc::new(manifest)), bytes))
        };
        match self.0.get_or_insert(&key, load).await? {
            Cached::Manifest(found) if found.needed_columns().include(&needed) => Ok(found),
            // Another request inserted the manifest with other columns.
            _ => read(needed).await.map(Arc::new),
        }
    }
}
