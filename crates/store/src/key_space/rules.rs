//! The kinds of rules that a key space has.

/// Contents of a key space, and rules for its records in operations on whole stores.
#[derive(Debug)]
pub struct Rules {
    /// Name in messages and documentation.
    pub name: &'static str,
    /// Parts of the key after the leading byte.
    pub key: &'static str,
    /// Contents of the record.
    pub value: &'static str,
    /// Check of `fsck`.
    pub check: Check,
    /// Effect of a restore.
    pub restore: RestoreRule,
    /// Effect of a clone.
    pub clone: CloneRule,
    /// Effect of an export and of the import after it.
    pub export: ExportRule,
    /// Caching by the process that writes the store.
    pub cache: CacheRule,
    /// Effect of a changed record on a replica.
    pub replica: ReplicaRule,
    /// Removal of records that are no longer needed.
    pub removal: Removal,
    /// The treatment, by jobs that delete files, of the warehouse files that the record names.
    pub files: FilesRule,
}

/// Checks of `fsck`, in the order in which they run. The order matters, because later checks use
/// the records that earlier checks have read. Every check decodes all keys and records of its
/// space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// This binary supports the format.
    Store,
    /// Each warehouse has its own id.
    Warehouses,
    /// Each name belongs to a namespace with that name. Each namespace has a name, and its parent
    /// exists.
    Namespaces,
    /// The namespace of each table or view exists.
    Tabulars,
    /// Each dropped table or view has its own id, and its warehouse exists.
    Dropped,
    /// Each dropped namespace has its own id, and its warehouse exists.
    DroppedNamespaces,
    /// Each name belongs to a table or view with that name, and no table and view share a name.
    TabularNames,
    /// The namespace of each function exists. Each function has its own id.
    Functions,
    /// The namespace of each dropped function is dropped. Each dropped function has its own id.
    DroppedFunctions,
    /// Each entry belongs to a table or view, which may be dropped. The number of entries matches
    /// the number of locations in the record.
    Locations,
    /// Each table or view, dropped or not, has an entry with the UUID in its record. There are no
    /// other entries.
    Uuids,
    /// No publication marker has a newer version than the record of its table or view. A marker of
    /// the same version names the metadata file of the record.
    Publications,
    /// Jobs can be decoded. Later checks accept metadata without a record if a job purges the
    /// table.
    Jobs,
    /// Each protected warehouse, namespace, table, view or function exists.
    Protections,
    /// Metadata is complete and matches the record of its table or view.
    Metadata,
    /// If all revisions of the policy log are applied in order, they result in the current policies
    /// and grants.
    Policies,
    /// Each job has ended.
    EndedJobs,
    /// The id in each record is the id in its key.
    ApiKeys,
    /// Keys and records can be decoded. Nothing else is checked.
    Decoding,
}

/// Effects of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreRule {
    /// The records stay as they are.
    Keep,
    /// The records of the earlier state replace the current records, byte for byte.
    Replace,
    /// The record of the earlier state replaces the current record, but gets a new timeline.
    NewTimeline,
    /// Warehouses get their earlier contents, at a newer version.
    Warehouses,
    /// Namespaces get their earlier contents, at a newer version.
    Namespaces,
    /// Functions get their earlier contents, at a newer version.
    Functions,
    /// Tables and views get their earlier contents, at a newer version if their metadata changes.
    Tabulars,
    /// Dropped tables and views get their earlier contents. The next start writes the metadata file
    /// of each dropped table or view that the restore writes.
    Dropped,
    /// Heads get their earlier contents, at the version of their table or view.
    Heads,
    /// Chunks are restored or removed with their table or view.
    Chunks,
    /// Each table or view with changed metadata gets a publication marker, which replaces its older
    /// markers.
    Markers,
    /// Jobs are removed, because they could delete files that are needed again.
    Cancel,
    /// The records are removed, because they permit jobs to delete files that the restored state may
    /// need.
    Remove,
    /// A new revision changes the records back to those of the earlier state.
    Revise,
    /// The change log keeps its entries, and gets an entry for the restore.
    Append,
}

/// Effects of a clone on the records with which the clone begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneRule {
    /// The clone begins with the parent's records.
    Share,
    /// The clone gets a record of its own.
    NewIdentity,
    /// The clone begins with the parent's entries, and gets an entry for its creation.
    Append,
    /// The records are removed, because only the parent may have them.
    LeaveOut,
    /// Jobs are removed, because they delete files that the parent may need. Metadata that exists
    /// only for these jobs is removed as well.
    Cancel,
}

/// Effects of an export, and of the import of its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportRule {
    /// The first line contains the catalog's id.
    Header,
    /// Each record is a line.
    Lines(LineKind),
    /// The record is part of the line of its table or view.
    WithTabular,
    /// The import creates the records from the lines of other records.
    Derive,
    /// The records belong to the history or the secrets of one catalog, and are not exported.
    LeaveOut,
}

/// Records that become lines of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names describe the variants")]
pub enum LineKind {
    Warehouse,
    Namespace,
    Tabular,
    Function,
    Protection,
    Policy,
    Grant,
    ApiKey,
}

/// Caches of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheRule {
    /// Each read goes to SlateDB.
    None,
    /// Records are cached.
    Records,
    /// Records are cached, and so are pages of the names below one parent.
    RecordsAndPages,
}

/// Effects of a changed record on a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaRule {
    /// The catalog reads the record when it needs it.
    Read,
    /// The catalog has loaded the record, so it has to be opened again.
    Reopen,
}

/// Rules for the removal of records that are no longer needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The records stay.
    Never,
    /// The transaction that removes a table or another object also removes the object's records.
    WithObject,
    /// A later transaction removes the marker after the metadata file is in the warehouse.
    Published,
    /// The transaction that ends the job moves its record to the ended jobs.
    JobEnd,
    /// The transaction that creates a job for the files of the record.
    Collection,
    /// A background task removes old records.
    Expiry(Expiry),
    /// The authenticator removes the oldest records beyond a limit.
    Limit,
    /// The authenticator removes keys whose tokens have expired.
    Rotation,
}

/// Rules for the deletion of files in warehouses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesRule {
    /// The record names no files, or only files that other records name as well.
    None,
    /// The record is that of a table or view. While the record exists, jobs for other tables and
    /// views do not delete the files of this table or view.
    Keep(FileOwner),
    /// The record is an index entry. With it, a job finds the tables and views whose files it must
    /// not delete.
    Index,
    /// The record is a publication marker. Its files may be missing, and belong to a table or view.
    Publish,
    /// A job deletes the files, except those of other tables and views.
    Delete,
}

/// Kinds of tables and views whose files jobs for other tables and views do not delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOwner {
    /// An existing table or view.
    Existing,
    /// A dropped table or view, which can be restored.
    Dropped,
}

/// Records that a background task removes when they are old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiry {
    /// Outcomes of requests, after `catalog.idempotency_lifetime_seconds`.
    Idempotency,
    /// The oldest entries of the change log, if there are more than
    /// `catalog.change_log_entries_max`.
    Changes,
    /// Dropped namespaces, tables and views, after `catalog.dropped_kept_seconds`.
    Dropped,
    /// Jobs that ended, after `catalog.jobs_kept_seconds`, or if there are more than
    /// `catalog.jobs_kept_max`.
    EndedJobs,
}
