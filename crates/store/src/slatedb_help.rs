//! Descriptions of SlateDB's metrics, because SlateDB registers most of them without a description.

/// Returns the description of SlateDB's metric with this name.
pub(super) fn help(name: &str) -> Option<&'static str> {
    let (_, help) = HELP.iter().find(|(known, _)| name.strip_prefix("slatedb.") == Some(known))?;
    Some(help)
}

const HELP: [(&str, &str); 52] = [
    ("compactor.bytes_compacted", "Bytes that compactions wrote."),
    (
        "compactor.epoch",
        "Epoch of the compactor: it grows by one with each process that takes over compaction.",
    ),
    ("compactor.jobs_claimed", "Compactions that a worker began."),
    (
        "compactor.jobs_reclaimed",
        "Compactions that were scheduled again because their worker stopped reporting.",
    ),
    (
        "compactor.last_compaction_timestamp_sec",
        "Time of the last compaction, in seconds since the Unix epoch.",
    ),
    ("compactor.running_compactions", "Compactions in progress."),
    ("compactor.ssts_written", "Sorted files that compactions wrote."),
    (
        "compactor.total_bytes_being_compacted",
        "Bytes of the inputs of all compactions in progress.",
    ),
    ("compactor.total_throughput_bytes_per_sec", "Bytes that all compactions process in a second."),
    (
        "compactor.worker_last_heartbeat_ms",
        "Time of a worker's last report, in milliseconds since the Unix epoch.",
    ),
    (
        "db.backpressure_count",
        "Writes that waited because unflushed data exceeded store.unflushed_bytes_max.",
    ),
    (
        "db.external_db_count",
        "Other databases with which this one shares sorted files, such as the parent of a clone.",
    ),
    ("db.immutable_memtable_flushes", "Memtables that were flushed to level 0."),
    ("db.l0_flush_bytes", "Bytes of the sorted files that flushes of memtables wrote."),
    ("db.l0_sst_count", "Sorted files of level 0."),
    (
        "db.l0_stall_count",
        "Flushes of memtables that waited because level 0 had too many files, by the limit that was reached.",
    ),
    ("db.memtable_write_bytes", "Bytes of keys and values that were inserted into the memtable."),
    ("db.request_count", "Requests to the database, by operation."),
    ("db.segment_max_l0_sst_count", "Maximum number of sorted files of level 0 in one segment."),
    ("db.sorted_run_count", "Sorted runs below level 0."),
    ("db.sst_count", "Sorted files of all levels."),
    (
        "db.sst_filter_false_positive_count",
        "Reads of a sorted file that did not contain the key, although its filter allowed for it.",
    ),
    (
        "db.sst_filter_negative_count",
        "Sorted files that were not read because their filter excluded the key.",
    ),
    (
        "db.sst_filter_positive_count",
        "Sorted files that were read because their filter did not exclude the key.",
    ),
    ("db.sst_view_count", "References of the manifest to sorted files or to ranges of them."),
    (
        "db.total_mem_size_bytes",
        "Bytes of memtables and of the write-ahead log's buffer that are not flushed yet.",
    ),
    ("db.write_batch_count", "Batches of writes."),
    ("db.write_ops", "Puts and deletions in all batches of writes."),
    (
        "db_cache.access_count",
        "Requests to the block and metadata caches, by kind of entry and result.",
    ),
    ("db_cache.error_count", "Errors of the block and metadata caches, by kind of entry."),
    ("gc.count", "Runs of the garbage collection."),
    ("gc.deleted_count", "Objects that the garbage collection deleted, by kind."),
    (
        "gc.version_count",
        "Versions of the manifest and of the list of compactions that the last run found.",
    ),
    ("memtable_flush.checkpoint_request_count", "Requests for a checkpoint that follows a flush."),
    ("memtable_flush.flush_request_count", "Requests to flush the memtable."),
    ("memtable_flush.l0_flush_count", "Flushes whose sorted file was added to the manifest."),
    ("memtable_flush.l0_upload_count", "Sorted files of level 0 that were uploaded."),
    ("memtable_flush.manifest_refresh_count", "Reads of the manifest because of flushes."),
    ("memtable_flush.memtable_freeze_count", "Memtables that became immutable, to be flushed."),
    ("object_store.error_count", "Requests to the object store that failed."),
    ("object_store.request_count", "Requests to the object store."),
    ("object_store.request_duration_seconds", "Duration of requests to the object store."),
    (
        "object_store_cache.cache_bytes",
        "Bytes of the copies of sorted files in store.object_cache_dir.",
    ),
    ("object_store_cache.cache_keys", "Objects with a copy in store.object_cache_dir."),
    (
        "object_store_cache.evicted_bytes",
        "Bytes that were deleted from store.object_cache_dir to make room.",
    ),
    (
        "object_store_cache.evicted_keys",
        "Objects that were deleted from store.object_cache_dir to make room.",
    ),
    (
        "object_store_cache.part_access_count",
        "Requests for a part of an object in store.object_cache_dir.",
    ),
    ("object_store_cache.part_hit_count", "Parts of objects that were in store.object_cache_dir."),
    ("wal.wal_buffer_estimated_bytes", "Estimated bytes in the buffer of the write-ahead log."),
    ("wal.wal_buffer_flush_requests", "Requests to flush the buffer of the write-ahead log."),
    ("wal.wal_buffer_flushes", "Flushes of the buffer of the write-ahead log."),
    ("wal.wal_flush_bytes", "Bytes that flushes of the write-ahead log wrote."),
];
