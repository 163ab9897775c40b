//! Settings of the store, and their translation to SlateDB's options.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, GarbageCollectorOptions, ObjectStoreCacheOptions,
    SizeTieredCompactionSchedulerOptions,
};

/// Interval between reads of the manifest in a bucket. Each read takes two requests.
const BUCKET_POLL: Duration = Duration::from_secs(2);
/// Interval between reads of the manifest in a local directory. The lock of the directory excludes
/// other writers, so only results of compactions can be new.
const DIRECTORY_POLL: Duration = Duration::from_secs(5);
/// Interval between reads of the manifest by a replica.
const REPLICA_POLL: Duration = Duration::from_secs(24 * 60 * 60);

/// Size of the parts in which sorted runs are copied to the local disk. With SlateDB's 4 MiB, the
/// first read of a record would download a thousand other records as well.
const CACHED_PART_BYTES: usize = 256 << 10;

/// Bytes that may wait for a flush in a store without a memory budget.
const UNFLUSHED_BYTES_MAX: usize = 64 << 20;

/// Maximum number of files of level 0. If there are more, writes wait for compactions. SlateDB's 8
/// are for files of 64 MiB, and those of this store have at most 16 MiB.
const L0_FILES_MAX: usize = 32;

/// Interval of each step of a compaction: the search for files to compact, the start, and the
/// completion. With SlateDB's five seconds and one second, the compaction of eight files of level 0
/// took up to eleven seconds, and writes waited for it. In a bucket, each of these polls costs
/// requests.
const DIRECTORY_COMPACTOR_POLL: Duration = Duration::from_millis(500);
/// Number of flushes of the log after which a memtable becomes a file of level 0, however small it
/// is. SlateDB's 4096 limit the number of objects that a start reads. A log in a directory has few
/// files, and one client can cause 4096 flushes in two seconds.
const DIRECTORY_LOG_FLUSHES_MAX: u64 = 1 << 18;

/// Number of compactions at the same time, and of parts into which a large one is divided. With a
/// single compaction, a large one would delay those of small runs, and so the flushes of memtables.
const COMPACTIONS_MAX: usize = 2;
/// Maximum number of inputs of a compaction. With SlateDB's 8, the compactions in a bucket, which
/// begin every five seconds, could not keep up with a few thousand commits per second.
const COMPACTION_INPUTS_MAX: usize = 16;
/// Number of bytes of each request of a compaction, and number of requests for each input at the
/// same time. With SlateDB's four requests of 2 MiB and four compactions, the inputs alone could
/// take 500 MiB.
const COMPACTION_REQUEST_BYTES: usize = 512 << 10;
const COMPACTION_REQUESTS_MAX: usize = 2;

/// Sorted runs with fewer keys have no filter. SlateDB's default is 1000. If there are few writes,
/// the flush after half a minute creates a run with fewer than 1000 keys, and there may be eight
/// such runs. Without filters, a lookup of a missing name would read all eight runs.
const FILTERED_KEYS_MIN: u32 = 16;

/// Settings of the store. `config/default.toml` documents the defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Bytes of memory for cached blocks of sorted runs. In all memory settings of the store, 0
    /// means a share of `memory_bytes_max`.
    pub block_cache_bytes: u64,
    /// Bytes of memory for cached indexes and filters.
    pub meta_cache_bytes: u64,
    /// Bytes of memory for cached names, namespaces, and records of tables and views.
    pub record_cache_bytes: u64,
    /// Bytes of memory for cached pages of names.
    pub page_cache_bytes: u64,
    /// Size at which a memtable becomes a file of level 0, limited to half of
    /// `unflushed_bytes_max`.
    pub l0_sst_bytes: usize,
    /// Bytes that may wait for a flush before writers are blocked. 0 means a share of
    /// `memory_bytes_max`.
    pub unflushed_bytes_max: usize,
    /// Milliseconds between checks for the manifest of a newer writer. A fenced writer that writes
    /// nothing may still respond to requests for this time. 0 means a default for the kind of
    /// store.
    pub manifest_poll_ms: u64,
    /// Local directory for copies of sorted runs. If it is empty, there are no copies.
    pub object_cache_dir: PathBuf,
    /// Maximum size of the copies in bytes.
    pub object_cache_bytes: usize,
    /// Maximum duration of the warm-up of a bucket, in seconds. 0 means no warm-up.
    pub warm_up_seconds_max: u64,
    /// Maximum number of attempts of a transaction that conflicts with other transactions.
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

/// Returns the options of compactions, which must not take much memory.
fn compactor(is_directory: bool) -> CompactorOptions {
    let mut worker = CompactionWorkerOptions {
        max_concurrent_compactions: COMPACTIONS_MAX,
        max_subcompactions: COMPACTIONS_MAX,
        bytes_to_fetch: COMPACTION_REQUEST_BYTES,
        max_fetch_tasks: COMPACTION_REQUESTS_MAX,
        min_filter_keys: FILTERED_KEYS_MIN,
        ..CompactionWorkerOptions::default()
    };
    let mut compactor = CompactorOptions {
        max_concurrent_compactions: COMPACTIONS_MAX,
        scheduler_options: SizeTieredCompactionSchedulerOptions {
            max_compaction_sources: COMPACTION_INPUTS_MAX,
            ..SizeTieredCompactionSchedulerOptions::default()
        }
        .into(),
        ..CompactorOptions::default()
    };
    if is_directory {
        worker.compactions_poll_interval = DIRECTORY_COMPACTOR_POLL;
        compactor.poll_interval = DIRECTORY_COMPACTOR_POLL;
        compactor.commit_compacted_interval = DIRECTORY_COMPACTOR_POLL;
    }
    CompactorOptions { worker: Some(worker), ..compactor }
}

impl Settings {
    /// Returns the options of garbage collection. `conditional_update` states whether the object
    /// store can replace an object on the condition that it is unchanged. A local directory cannot
    /// do so. Therefore garbage collection works without boundary files there. A clone never
    /// removes the pin in its parent, because that would be a write to the parent.
    pub(super) fn garbage_collector(&self, conditional_update: bool) -> GarbageCollectorOptions {
        GarbageCollectorOptions {
            boundary_files_enabled: conditional_update,
            detach_options: None,
            ..GarbageCollectorOptions::default()
        }
    }

    /// Returns the interval between reads of the manifest.
    fn manifest_poll(&self, is_directory: bool) -> Duration {
        match self.manifest_poll_ms {
            0 if is_directory => DIRECTORY_POLL,
            0 => BUCKET_POLL,
            set => Duration::from_millis(set),
        }
    }

    /// Whether sorted runs are copied to the local disk.
    pub fn has_object_cache(&self) -> bool {
        !self.object_cache_dir.as_os_str().is_empty()
    }

    /// Returns the options for copies of sorted runs on the local disk. A run is copied when it is
    /// written and when it is read.
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

    /// Returns the number of bytes that may wait for a flush. Without a memory budget, the setting
    /// may still be 0, and SlateDB would then block the first write. In this case, this function
    /// returns a constant.
    fn unflushed_bytes(&self) -> usize {
        match self.unflushed_bytes_max {
            0 => UNFLUSHED_BYTES_MAX,
            set => set,
        }
    }

    /// Returns SlateDB's settings, without those of garbage collection.
    pub(super) fn for_slatedb(&self, is_directory: bool) -> slatedb::Settings {
        let defaults = slatedb::Settings::default();
        let log_flushes_max = match is_directory {
            true => DIRECTORY_LOG_FLUSHES_MAX,
            false => defaults.max_wal_flushes_before_l0_flush,
        };
        slatedb::Settings {
            max_wal_flushes_before_l0_flush: log_flushes_max,
            l0_max_ssts: L0_FILES_MAX,
            l0_max_ssts_per_key: L0_FILES_MAX,
            // The flusher flushes the log as soon as a transaction waits, without a timer.
            flush_interval: None,
            manifest_poll_interval: self.manifest_poll(is_directory),
            object_store_cache_options: self.object_cache(),
            min_filter_keys: FILTERED_KEYS_MIN,
            // A memtable may have at most half of these bytes, because a second memtable fills
            // while the first one is flushed.
            l0_sst_size_bytes: self.l0_sst_bytes.min(self.unflushed_bytes() / 2),
            max_unflushed_bytes: self.unflushed_bytes(),
            garbage_collector_options: None,
            compactor_options: Some(compactor(is_directory)),
            // The number of retries is unlimited, because SlateDB closes itself permanently when it
            // gives up on a put. Requests have their own deadlines.
            object_store_max_retries: None,
            ..defaults
        }
    }

    /// Returns SlateDB's settings for a replica, whose writes stay in memory. It has no compactor,
    /// and no other process writes its manifest. It is replaced before it has many memtables.
    pub(super) fn for_replica(&self) -> slatedb::Settings {
        slatedb::Settings {
            manifest_poll_interval: REPLICA_POLL,
            compactor_options: None,
            l0_max_ssts: usize::MAX,
            l0_max_ssts_per_key: usize::MAX,
            object_store_cache_options: ObjectStoreCacheOptions::default(),
            ..self.for_slatedb(false)
        }
    }
}
