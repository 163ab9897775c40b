//! How the store is opened.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use slatedb::config::GarbageCollectorOptions;

/// Settings of the store; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Bytes of memory for cached blocks of sorted runs.
    pub block_cache_bytes: u64,
    /// Bytes of memory for cached indexes and filters.
    pub meta_cache_bytes: u64,
    /// Bytes of memory for names, namespaces and the records of tables and views that were read lately.
    pub record_cache_bytes: u64,
    /// Bytes of memory for pages of names that were listed lately.
    pub page_cache_bytes: u64,
    /// Bytes at which a memtable becomes a file of level 0.
    pub l0_sst_bytes: usize,
    /// Bytes that may wait to be flushed before writers are held back.
    pub unflushed_bytes_max: usize,
    /// Milliseconds between two looks for a newer writer's manifest: the longest time for which an
    /// idle deposed writer still answers.
    pub manifest_poll_ms: u64,
    /// Tries of one transaction against others that touch the same records.
    pub transaction_attempts_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            block_cache_bytes: 256 << 20,
            meta_cache_bytes: 64 << 20,
            record_cache_bytes: 64 << 20,
            page_cache_bytes: 16 << 20,
            l0_sst_bytes: 16 << 20,
            unflushed_bytes_max: 256 << 20,
            manifest_poll_ms: 500,
            transaction_attempts_max: 64,
        }
    }
}

impl Settings {
    /// How garbage is collected. `conditional_update` says whether the object store can replace an
    /// object on the condition that it is unchanged, which a local directory cannot: garbage
    /// collection then works without its boundary files.
    pub(super) fn garbage_collector(&self, conditional_update: bool) -> GarbageCollectorOptions {
        GarbageCollectorOptions {
            boundary_files_enabled: conditional_update,
            ..GarbageCollectorOptions::default()
        }
    }

    /// SlateDB's view of these settings, but for garbage collection.
    pub(super) fn for_slatedb(&self) -> slatedb::Settings {
        slatedb::Settings {
            // No timer flushes the log: the flusher does, as soon as something waits.
            flush_interval: None,
            manifest_poll_interval: Duration::from_millis(self.manifest_poll_ms),
            l0_sst_size_bytes: self.l0_sst_bytes,
            max_unflushed_bytes: self.unflushed_bytes_max,
            garbage_collector_options: None,
            // Without end: SlateDB closes itself for ever when it gives up on a put, and each caller
            // has a deadline of its own.
            object_store_max_retries: None,
            ..Default::default()
        }
    }
}
