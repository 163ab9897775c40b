//! [`VersionCache`]: versions of tables and views, ready to be sent and to be committed to.
//!
//! A version is one state of one record and never changes, so no entry can be stale: a reader that asks for a
//! version has read from the store that it is the current one. Commits insert their versions when they are
//! accepted; readers use them once the store says that they are durable.

use std::sync::Arc;

use uuid::Uuid;

use slateberg_model::table::TableMetadata;
use slateberg_model::text::Text;
use slateberg_model::view::ViewMetadata;
use slateberg_telemetry::cache::{ByteCache, CacheUsage};

/// The id of a table or view, and the version of its record.
pub(crate) type Version = (Uuid, u64);

/// Bytes of an entry beside its text.
const ENTRY_BYTES: usize = 1 << 10;
/// The expected size of a version, in bytes.
const TYPICAL_BYTES: u64 = 16 << 10;

/// Recently used versions, bounded in bytes.
pub(crate) struct VersionCache(ByteCache<Version, CachedVersion>);

/// A cached version.
#[derive(Clone)]
pub(crate) struct CachedVersion {
    /// Its metadata, as JSON.
    pub text: Text,
    /// The same parsed, once a commit, a policy or a read restriction has needed it.
    pub parsed: Option<Parsed>,
}

/// Parsed metadata.
#[derive(Clone)]
pub enum Parsed {
    /// The metadata of a table.
    Table(Arc<TableMetadata>),
    /// The metadata of a view.
    View(Arc<ViewMetadata>),
}

impl VersionCache {
    /// Returns a cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self(ByteCache::new(bytes_max, TYPICAL_BYTES))
    }

    /// Returns a version, if it is cached.
    pub(crate) fn get(&self, version: Version) -> Option<CachedVersion> {
        self.0.get(&version)
    }

    /// Inserts a version, and removes the one before the previous: readers see the previous one until this
    /// one is durable.
    pub(crate) fn insert(&self, version: Version, cached: CachedVersion) {
        let (id, number) = version;
        self.0.remove(&(id, number.saturating_sub(2)));
        let bytes = cached.text.len() + ENTRY_BYTES;
        self.0.insert(version, cached, bytes);
    }

    /// Returns how the cache is used.
    pub(crate) fn usage(&self) -> CacheUsage {
        self.0.usage()
    }
}
