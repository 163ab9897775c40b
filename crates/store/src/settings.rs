//! How the store is opened.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use slatedb::config::{GarbageCollectorOptions, ObjectStoreCacheOptions};

/// Between two looks at the manifest of a bucket: each is two requests.
const BUCKET_POLL: Duration = Duration::from_secs(2);
/// The same in a local directory, which is locked: nobody else can have become the writer, so that only the
/// results of compactions are looked for.
const DIRECTORY_POLL: Duration = Duration::from_secs(5);

/// What is copied to the local disk at once. SlateDB's 4 MiB would make the first read of a record as slow
/// as a download of a thousand others.
const CACHED_PART_BYTES: usize = 256 << 10;

/// Bytes that may wait to be flushed in a store without a memory budget.
const UNFLUSHED_BYTES_MAX: usize = 64 << 20;

/// Sorted runs of so many keys have a filter. The flush of a quiet half minute is as short as this, and there
/// may be eight of them: without filters, a name that is free is looked for in all.
const FILTERED_KEYS_MIN: u32 = 16;

/// Bits of a filter for each key. With the 10 that are SlateDB's own, one in a hundred looks into a run for
/// a name that is free reads a block for nothing, and there are up to a dozen runs.
pub(super) const FILTER_BITS_PER_KEY: u32 = 14;

/// Settings of the store; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Bytes of memory for cached blocks of sorted runs; 0, here and below, for a share of
    /// `memory_bytes_max`.
    pub block_cache_bytes: u64,
    /// Bytes of memory for cached indexes and filters.
    pub meta_cache_bytes: u64,
    /// Bytes of memory for names, namespaces and the records of tables and views that were read lately.
    pub record_cache_bytes: u64,
    /// Bytes of memory for pages of names that were listed lately.
    pub page_cache_bytes: u64,
    /// Bytes at which a memtable becomes a file of level 0, if they are at most half of
    /// `unflushed_bytes_max`.
    pub l0_sst_bytes: usize,
    /// Bytes that may wait to be flushed before writers are held back; 0 for a share of `memory_bytes_max`.
    pub unflushed_bytes_max: usize,
    /// Milliseconds between two looks for a newer writer's manifest: the longest time for which an
    /// idle deposed writer still answers; 0 for what fits the kind of store.
    pub manifest_poll_ms: u64,
    /// Directory on this machine for copies of sorted runs; empty for none.
    pub object_cache_dir: PathBuf,
    /// Bytes that those copies may take.
    pub object_cache_bytes: usize,
    /// Seconds that the warm-up of a bucket may go on beside the server; 0 for none.
    pub warm_up_seconds_max: u64,
    /// Tries of one transaction against others that touch the same records.
    pub transaction_attempts_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            block_cache_bytes: 0,
            meta_cache_bytes: 0,
            record_cache_bytes: 0,
            page_cache_bytes: 0,
            l0_sst_bytes: 16 << 20,
            unflushed_bytes_max: 0,
            manifest_poll_ms: 0,
            object_cache_dir: PathBuf::new(),
            object_cache_bytes: 8 << 30,
            warm_up_seconds_max: 30,
            transaction_attempts_max: 64,
        }
    }
}

impl Settings {
    /// How garbage is collected. `conditional_update` says whether the object store can replace an
    /// object on the condition that it is unchanged, which a local directory cannot: garbage
    /// collection then works without its boundary files. A clone never takes back what keeps its parent's
    /// objects: that would write to the parent, which a clone does not.
    pub(super) fn garbage_collector(&self, conditional_update: bool) -> GarbageCollectorOptions {
        GarbageCollectorOptions {
            boundary_files_enabled: conditional_update,
            detach_options: None,
            ..GarbageCollectorOptions::default()
        }
    }

    /// How often the manifest is looked at.
    fn manifest_poll(&self, is_directory: bool) -> Duration {
        match self.manifest_poll_ms {
            0 if is_directory => DIRECTORY_POLL,
            0 => BUCKET_POLL,
            set => Duration::from_millis(set),
        }
    }

    /// Whether copies of sorted runs are kept on this machine's disk.
    pub fn has_object_cache(&self) -> bool {
        !self.object_cache_dir.as_os_str().is_empty()
    }

    /// What is kept on this machine's disk, if anything is: sorted runs as they are written and read.
    fn object_cache(&self) -> ObjectStoreCacheOptions {
        ObjectStoreCacheOptions {
            root_folder: self.has_object_cache().then(|| self.object_cache_dir.clone()),
            max_cache_size_bytes: Some(self.object_cache_bytes),
            part_size_bytes: CACHED_PART_BYTES,
            cache_on_flush: true,
            cache_on_compaction: true,
            ..ObjectStoreCacheOptions::default()
        }
    }

    /// Bytes that may wait to be flushed. With 0, which is left where there is no memory budget,
    /// SlateDB would block the first write.
    fn unflushed_bytes(&self) -> usize {
        match self.unflushed_bytes_max {
            0 => UNFLUSHED_BYTES_MAX,
            set => set,
        }
    }

    /// SlateDB's view of these settings, but for garbage collection.
    pub(super) fn for_slatedb(&self, is_directory: bool) -> slatedb::Settings {
        slatedb::Settings {
            // No timer flushes the log: the flusher does, as soon as something waits.
            flush_interval: None,
            manifest_poll_interval: self.manifest_poll(is_directory),
            object_store_cache_options: self.object_cache(),
            min_filter_keys: FILTERED_KEYS_MIN,
            // A second memtable fills while the first is flushed.
            l0_sst_size_bytes: self.l0_sst_bytes.min(self.unflushed_bytes() / 2),
            max_unflushed_bytes: self.unflushed_bytes(),
            garbage_collector_options: None,
            // Without end: SlateDB closes itself for ever when it gives up on a put, and each caller
            // has a deadline of its own.
            object_store_max_retries: None,
            ..Default::default()
        }
    }
}
