//! Rules of key spaces.

/// Contents of a key space, and their treatment in operations on whole stores.
#[derive(Debug)]
pub struct Rules {
    /// Name in messages and documentation.
    pub name: &'static str,
    /// Parts of the key behind the leading byte.
    pub key: &'static str,
    /// Contents of the record.
    pub value: &'static str,
    /// Check by `fsck`.
    pub check: Check,
    /// Effect of a restore.
    pub restore: RestoreRule,
    /// Effect of a clone.
    pub clone: CloneRule,
    /// Effect of an export and of the import after it.
    pub export: ExportRule,
    /// Cache of the writer.
    pub cache: CacheRule,
    /// Removal of records that are not needed any longer.
    pub removal: Removal,
}

/// Checks of `fsck`, in their order: later ones use what earlier ones have read. Every check
/// decodes all keys and records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The format is one that this binary knows.
    Store,
    /// Ids differ.
    Warehouses,
    /// Names and records match, and parents exist.
    Namespaces,
    /// Namespaces exist.
    Tabulars,
    /// Names and records match, and no table and view share one.
    TabularNames,
    /// Records have these locations.
    Places,
    /// Records have these UUIDs.
    Uuids,
    /// Markers match records.
    Publications,
    /// Tables and views that are purged may lack a record.
    Jobs,
    /// Metadata is complete and matches its record.
    Metadata,
    /// The policy log from its beginning results in the policies and grants.
    Policies,
    /// Jobs have ended.
    EndedJobs,
    /// Ids match.
    ApiKeys,
    /// Keys and records can be decoded.
    Decoding,
}

/// Effects of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreRule {
    /// The records stay as they are.
    Keep,
    /// The records become what they were, byte for byte.
    Replace,
    /// The record becomes what it was, in the timeline that the restore begins.
    NewTimeline,
    /// Warehouses become what they were, at a newer version.
    Warehouses,
    /// Namespaces become what they were, at a newer version.
    Namespaces,
    /// Tables and views become what they were, at a newer version if their metadata changes.
    Tabulars,
    /// Heads become what they were, at the version of their table or view.
    Heads,
    /// Pieces follow their table or view.
    Pieces,
    /// Each table or view with changed metadata gets a marker, and loses older ones.
    Markers,
    /// Jobs are removed: they may be about to delete files that are needed again.
    Cancel,
    /// The records become what they were, by a new revision.
    Revise,
    /// The log gets an entry.
    Append,
}

/// Effects of a clone on the records that it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneRule {
    /// The clone begins with the records of its parent.
    Share,
    /// The clone gets a record of its own.
    NewIdentity,
    /// The clone begins with the entries of its parent and an entry for the clone.
    Append,
    /// The records are removed: only one of two catalogs may have them.
    LeaveOut,
    /// Jobs are removed, together with metadata that exists only for them, because they delete
    /// files that the parent may need.
    Cancel,
}

/// Effects of an export, and of the import of its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportRule {
    /// The first line has the catalog's id.
    Header,
    /// Each record is a line.
    Lines(LineKind),
    /// The line of a table or view has its metadata.
    WithTabular,
    /// The import creates the records from the lines of others.
    Derive,
    /// The records belong to the history or the secrets of one catalog, and are not exported.
    LeaveOut,
}

/// Records that are lines of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum LineKind {
    Warehouse,
    Namespace,
    Tabular,
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
    /// Records are cached, and pages of the names below one parent.
    RecordsAndPages,
}

/// Removals of records that are not needed any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The records stay.
    Never,
    /// The transaction that removes the object removes its records.
    WithObject,
    /// A later transaction removes the marker of a metadata file that is in the warehouse.
    Published,
    /// The transaction that ends the job moves its record.
    JobEnd,
    /// A background task removes old records.
    Expiry(Expiry),
    /// The authenticator removes the oldest records beyond a limit.
    Limit,
    /// The authenticator removes keys whose tokens have expired.
    Rotation,
}

/// Records that a background task removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Outcomes, after `catalog.idempotency_lifetime_seconds`.
    Idempotency,
    /// Changes, the oldest beyond `catalog.change_log_entries_max`.
    Changes,
    /// Jobs, after `catalog.jobs_kept_seconds` and beyond `catalog.jobs_kept_max`.
    EndedJobs,
}
