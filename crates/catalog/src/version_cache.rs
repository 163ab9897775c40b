//! [`VersionCache`]: versions of tables and views, ready to be answered and to be committed to.
//!
//! A version is one state of one record and never changes, so that nothing here can be out of date: who
//! asks for a version has read from the store that it is the current one. Commits leave theirs here when
//! they are accepted; readers find them once the store tells that they are durable.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use uuid::Uuid;

use slateberg_model::table::TableMetadata;
use slateberg_model::text::Text;
use slateberg_telemetry::cache::{CacheRequests, CacheSize, CacheUsage};

/// The id of a table or view, and the version of its record.
pub type Version = (Uuid, u64);

/// Bytes that an entry takes beside its text.
const ENTRY_BYTES: usize = 1 << 10;
/// Bytes of a version, as the cache expects it.
const TYPICAL_BYTES: u64 = 16 << 10;

/// Versions that were used lately, bounded in bytes.
pub struct VersionCache {
    versions: Cache<Version, Cached, Weight>,
    requests: CacheRequests,
}

/// A version that is kept.
#[derive(Clone)]
pub struct Cached {
    /// Its metadata, as JSON.
    pub text: Text,
    /// The same parsed, if it is a table's that was committed to, or shown to somebody in part.
    pub metadata: Option<Arc<TableMetadata>>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Version, Cached> for Weight {
    fn weight(&self, _version: &Version, cached: &Cached) -> u64 {
        (cached.text.len() + ENTRY_BYTES) as u64
    }
}

impl VersionCache {
    /// A cache of at most so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        let entries = usize::try_from(bytes_max / TYPICAL_BYTES).unwrap_or(usize::MAX);
        let versions = Cache::with_weighter(entries.max(16), bytes_max, Weight);
        Self { versions, requests: CacheRequests::default() }
    }

    /// A version, if it is kept.
    pub fn get(&self, version: Version) -> Option<Cached> {
        let found = self.versions.get(&version);
        self.requests.count(found.is_some());
        found
    }

    /// Keeps a version. The one before it is what readers see until this one is durable; the one before
    /// that goes.
    pub fn keep(&self, version: Version, cached: Cached) {
        let (id, number) = version;
        self.versions.remove(&(id, number.saturating_sub(2)));
        self.versions.insert(version, cached);
    }

    /// How it is used.
    pub fn usage(&self) -> CacheUsage {
        self.requests.usage(CacheSize::of(&self.versions))
    }
}
