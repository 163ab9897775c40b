//! [`VersionCache`]: caches the metadata of tables and views for responses and commits.
//!
//! A version is an immutable state of one record, and readers get the current version number from
//! the store. So no entry can be stale. A commit inserts its version when the store accepts the
//! commit. Readers use the version when the store reports it as durable.

use std::sync::Arc;

use uuid::Uuid;

use slateberg_model::segmented_json::SegmentedJson;
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_telemetry::cache::{ByteCache, CacheUsage};

/// The id of a table or view, and the version of its record.
pub(crate) type Version = (Uuid, u64);

/// Size of an entry in bytes, without its metadata.
const ENTRY_BYTES: usize = 1 << 10;
/// Size of the parsed metadata of a table without snapshots in bytes, measured as the growth of a
/// server that creates tables. Parsed snapshots share the memory of the JSON.
const PARSED_BYTES: usize = 6 << 10;
/// The expected size of a version, in bytes.
const TYPICAL_BYTES: u64 = 16 << 10;

/// Recently used versions, limited in bytes.
pub(crate) struct VersionCache(ByteCache<Version, CachedVersion>);

/// A cached version.
#[derive(Clone)]
pub(crate) struct CachedVersion {
    /// The metadata, as JSON.
    pub text: SegmentedJson,
    /// The parsed metadata. `None` until a commit, a policy or a read restriction needs it.
    pub parsed: Option<ParsedMetadata>,
}

/// Parsed metadata.
#[derive(Clone)]
pub enum ParsedMetadata {
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

    /// Returns a version if it is cached.
    pub(crate) fn get(&self, version: Version) -> Option<CachedVersion> {
        self.0.get(&version)
    }

    /// Inserts version n and removes version n - 2. Version n - 1 stays, because readers get it
    /// until version n is durable.
    pub(crate) fn insert(&self, version: Version, cached: CachedVersion) {
        let (id, number) = version;
        self.0.remove(&(id, number.saturating_sub(2)));
        let parsed_bytes = cached.parsed.as_ref().map_or(0, |_| PARSED_BYTES);
        let bytes = cached.text.memory_bytes() + parsed_bytes + ENTRY_BYTES;
        self.0.insert(version, cached, bytes);
    }

    /// Removes all versions.
    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    /// Returns the memory use and hit rate.
    pub(crate) fn usage(&self) -> CacheUsage {
        self.0.usage()
    }
}
