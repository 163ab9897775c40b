//! The rules of the key spaces of the catalog: its resources, jobs and change log.

use super::rules::{
    CacheRule, Check, CloneRule, Expiry, ExportRule, FileOwner, FilesRule, LineKind, Removal,
    ReplicaRule, RestoreRule, Rules,
};

pub(super) const STORE: Rules = Rules {
    name: "the store itself",
    key: "–",
    value: "format version, id of the catalog, timeline, and the parent of a clone",
    check: Check::Store,
    restore: RestoreRule::NewTimeline,
    clone: CloneRule::NewIdentity,
    export: ExportRule::Header,
    cache: CacheRule::None,
    replica: ReplicaRule::Reopen,
    removal: Removal::Never,
    files: FilesRule::None,
};

pub(super) const WAREHOUSE_NAMES: Rules = Rules {
    name: "warehouse names",
    key: "name",
    value: "id and location of the warehouse, and its settings without secrets if it was created at run time",
    check: Check::Warehouses,
    restore: RestoreRule::Warehouses,
    clone: CloneRule::Share,
    export: ExportRule::Lines(LineKind::Warehouse),
    cache: CacheRule::None,
    replica: ReplicaRule::Reopen,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const NAMESPACE_NAMES: Rules = Rules {
    name: "namespace names",
    key: "parent id, name",
    value: "namespace id",
    check: Check::Namespaces,
    restore: RestoreRule::Replace,
    clone: CloneRule::Share,
    export: ExportRule::Derive,
    cache: CacheRule::RecordsAndPages,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const NAMESPACES: Rules = Rules {
    name: "namespaces",
    key: "id",
    value: "parent, name, properties, version",
    check: Check::Namespaces,
    restore: RestoreRule::Namespaces,
    clone: CloneRule::Share,
    export: ExportRule::Lines(LineKind::Namespace),
    cache: CacheRule::Records,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const TABLE_NAMES: Rules = Rules {
    name: "table names",
    key: "namespace id, name",
    value: "table id",
    check: Check::TabularNames,
    restore: RestoreRule::Replace,
    clone: CloneRule::Share,
    export: ExportRule::Derive,
    cache: CacheRule::RecordsAndPages,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const VIEW_NAMES: Rules = Rules {
    name: "view names",
    key: "namespace id, name",
    value: "view id",
    check: Check::TabularNames,
    restore: RestoreRule::Replace,
    clone: CloneRule::Share,
    export: ExportRule::Derive,
    cache: CacheRule::RecordsAndPages,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const TABULARS: Rules = Rules {
    name: "tables and views",
    key: "id",
    value: "namespace, name, uuid, location, metadata location, version",
    check: Check::Tabulars,
    restore: RestoreRule::Tabulars,
    clone: CloneRule::Share,
    export: ExportRule::Lines(LineKind::Tabular),
    cache: CacheRule::Records,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::Keep(FileOwner::Existing),
};

pub(super) const METADATA: Rules = Rules {
    name: "metadata",
    key: "id",
    value: "version, the list of segments, and the inline segments, compressed with zstd",
    check: Check::Metadata,
    restore: RestoreRule::Heads,
    clone: CloneRule::Share,
    export: ExportRule::WithTabular,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const METADATA_CHUNKS: Rules = Rules {
    name: "chunks of metadata",
    key: "id, hash",
    value: "a chunk of the metadata JSON, compressed with zstd",
    check: Check::Metadata,
    restore: RestoreRule::Chunks,
    clone: CloneRule::Share,
    export: ExportRule::WithTabular,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const LOCATIONS: Rules = Rules {
    name: "locations",
    key: "parts of a location, table or view id",
    value: "table or view id, whether it is dropped",
    check: Check::Locations,
    restore: RestoreRule::Replace,
    clone: CloneRule::Share,
    export: ExportRule::Derive,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::Index,
};

pub(super) const UUIDS: Rules = Rules {
    name: "UUIDs",
    key: "`table-uuid` or `view-uuid`, table or view id",
    value: "table or view id, whether it is dropped",
    check: Check::Uuids,
    restore: RestoreRule::Replace,
    clone: CloneRule::Share,
    export: ExportRule::Derive,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::Index,
};

pub(super) const DROPPED: Rules = Rules {
    name: "dropped tables and views",
    key: "id",
    value: "last record, namespace, time and author of the drop, whether to delete the files, id of the drop of a namespace",
    check: Check::Dropped,
    restore: RestoreRule::Dropped,
    clone: CloneRule::Share,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::Expiry(Expiry::Dropped),
    files: FilesRule::Keep(FileOwner::Dropped),
};

pub(super) const PROTECTIONS: Rules = Rules {
    name: "protections",
    key: "id of a warehouse, namespace, table, view or function",
    value: "name of the resource, time and author of the protection, comment",
    check: Check::Protections,
    restore: RestoreRule::Replace,
    clone: CloneRule::Share,
    export: ExportRule::Lines(LineKind::Protection),
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::Never,
    files: FilesRule::None,
};

pub(super) const FUNCTIONS: Rules = Rules {
    name: "functions",
    key: "namespace id, name",
    value: "id, metadata, version",
    check: Check::Functions,
    restore: RestoreRule::Functions,
    clone: CloneRule::Share,
    export: ExportRule::Lines(LineKind::Function),
    cache: CacheRule::RecordsAndPages,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const DROPPED_NAMESPACES: Rules = Rules {
    name: "dropped namespaces",
    key: "id",
    value: "last record, full name, time and author of the drop, id of the drop",
    check: Check::DroppedNamespaces,
    restore: RestoreRule::Replace,
    clone: CloneRule::Share,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::Expiry(Expiry::Dropped),
    files: FilesRule::None,
};

pub(super) const DROPPED_FUNCTIONS: Rules = Rules {
    name: "dropped functions",
    key: "namespace id, name",
    value: "last record of a function that was dropped with its namespace",
    check: Check::DroppedFunctions,
    restore: RestoreRule::Replace,
    clone: CloneRule::Share,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const PUBLICATIONS: Rules = Rules {
    name: "publications",
    key: "id, version",
    value: "locations of a metadata file and of manifest lists that may be missing; for a local file, the head of the metadata",
    check: Check::Publications,
    restore: RestoreRule::Markers,
    clone: CloneRule::Share,
    export: ExportRule::Derive,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::Published,
    files: FilesRule::Publish,
};

pub(super) const JOBS: Rules = Rules {
    name: "jobs",
    key: "id (time-ordered)",
    value: "files to delete in the background, progress, last error",
    check: Check::Jobs,
    restore: RestoreRule::Cancel,
    clone: CloneRule::Cancel,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::JobEnd,
    files: FilesRule::Delete,
};

pub(super) const ENDED_JOBS: Rules = Rules {
    name: "jobs that have ended",
    key: "id (time-ordered)",
    value: "the record of the job, and how the job ended",
    check: Check::EndedJobs,
    restore: RestoreRule::Keep,
    clone: CloneRule::Share,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::Expiry(Expiry::EndedJobs),
    files: FilesRule::None,
};

pub(super) const ABANDONED: Rules = Rules {
    name: "files left behind by rebases",
    key: "id (time-ordered)",
    value: "manifest lists and manifests that a later job deletes, and their table",
    check: Check::Decoding,
    restore: RestoreRule::Keep,
    clone: CloneRule::LeaveOut,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::Collection,
    files: FilesRule::Delete,
};

pub(super) const USAGE: Rules = Rules {
    name: "use of tables and views",
    key: "table or view id",
    value: "number of loads, planned scans and commits, and the time and principal of the last ones",
    check: Check::Decoding,
    restore: RestoreRule::Replace,
    clone: CloneRule::LeaveOut,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const ORPHAN_SEARCHES: Rules = Rules {
    name: "scheduled searches for orphans",
    key: "table id",
    value: "time of the last search, and whether a dry run has reported the orphans",
    check: Check::Decoding,
    restore: RestoreRule::Remove,
    clone: CloneRule::LeaveOut,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const LABELS: Rules = Rules {
    name: "labels",
    key: "table or view id",
    value: "labels of the table or view and of its columns, and a random id of this state",
    check: Check::Decoding,
    restore: RestoreRule::Replace,
    clone: CloneRule::Share,
    export: ExportRule::WithTabular,
    cache: CacheRule::Records,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const METRICS_REPORTS: Rules = Rules {
    name: "metrics reports",
    key: "table id",
    value: "the newest metrics reports of clients, with their times and principals",
    check: Check::Decoding,
    restore: RestoreRule::Replace,
    clone: CloneRule::LeaveOut,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::WithObject,
    files: FilesRule::None,
};

pub(super) const IDEMPOTENCY: Rules = Rules {
    name: "idempotency",
    key: "`Idempotency-Key`, principal",
    value: "fingerprint, outcome, expiry, and for a transaction the versions whose metadata files must exist before the response",
    check: Check::Decoding,
    restore: RestoreRule::Replace,
    clone: CloneRule::LeaveOut,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::Expiry(Expiry::Idempotency),
    files: FilesRule::None,
};

pub(super) const CHANGES: Rules = Rules {
    name: "change log",
    key: "sequence number",
    value: "who changed what and when, and the versions before and after the change",
    check: Check::Decoding,
    restore: RestoreRule::Append,
    clone: CloneRule::Append,
    export: ExportRule::LeaveOut,
    cache: CacheRule::None,
    replica: ReplicaRule::Read,
    removal: Removal::Expiry(Expiry::Changes),
    files: FilesRule::None,
};
