//! [`VersionCache`]: versions of tables and views, ready to be answered and to be committed to.
//!
//! A version is one state of one record and never changes, so that nothing here can be out of date: who
//! asks for a version has read from the store that it is the current one. Commits leave theirs here when
//! they are accepted; readers find them once the store tells that they are durable.

use std::sync::Arc;

use uuid::Uuid;

use slateberg_model::table::TableMetadata;
use slateberg_model::text::Text;
use slateberg_telemetry::cache::{ByteCache, CacheUsage};

/// The id of a table or view, and the version of its record.
pub type Version = (Uuid, u64);

/// Bytes that an entry takes beside its text.
const ENTRY_BYTES: usize = 1 << 10;
/// Bytes of a version, as the cache expects it.
const TYPICAL_BYTES: u64 = 16 << 10;

/// Versions that were used lately, bounded in bytes.
pub struct VersionCache(ByteCache<Version, Cached>);

/// A version that is kept.
#[derive(Clone)]
pub struct Cached {
    /// Its metadata, as JSON.
    pub text: Text,
    /// The same parsed, if it is a table's that was committed to, or shown to somebody in part.
    pub metadata: Option<Arc<TableMetadata>>,
}

impl VersionCache {
    /// A cache of at most so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self(ByteCache::new(bytes_max, TYPICAL_BYTES))
    }

    /// A version, if it is kept.
    pub fn get(&self, version: Version) -> Option<Cached> {
        self.0.get(&version)
    }

    /// Keeps a version. The one before it is what readers see until this one is durable; the one before
    /// that goes.
    pub fn keep(&self, version: Version, cached: Cached) {
        let (id, number) = version;
        self.0.remove(&(id, number.saturating_sub(2)));
        let bytes = cached.text.len() + ENTRY_BYTES;
        self.0.insert(version, cached, bytes);
    }

    /// How it is used.
    pub fn usage(&self) -> CacheUsage {
        self.0.usage()
    }
}
