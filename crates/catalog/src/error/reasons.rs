//! Reasons for rejections. Idempotency records contain the messages of these reasons.

use slateberg_authz::lockout::LockedOut;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::rebase::NotRebased;
use slateberg_store as store;
use uuid::Uuid;

/// Returns the keys in quotes, separated by commas.
fn quoted(keys: &[String]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| format!("\"{}\"", brief(key))).collect();
    keys.join(", ")
}

/// Returns the first names, and the number of the others.
fn few(names: &[String]) -> String {
    let first: Vec<_> = names.iter().take(NAMES_SHOWN).map(brief).collect();
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => first.join(", "),
        others => format!("{} and {others} more", first.join(", ")),
    }
}

/// Maximum number of names in a message.
const NAMES_SHOWN: usize = 10;

/// A resource that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingResource {
    /// A file at this location.
    #[error("Failed to open input stream for file: {0}")]
    File(String),
    /// A background job with this id.
    #[error("Job does not exist: {}", brief(.0))]
    Job(String),
    /// A policy with this id.
    #[error("Policy does not exist: {}", brief(.0))]
    Policy(String),
    /// A revision of the policies with this number.
    #[error("Policy revision does not exist: {0}")]
    PolicyRevision(u64),
    /// A grant with this id.
    #[error("Grant does not exist: {}", brief(.0))]
    Grant(String),
    /// A checkpoint with this id or name.
    #[error("Checkpoint does not exist: {}", brief(.0))]
    Checkpoint(String),
    /// A protection with this id.
    #[error("Protection does not exist: {}", brief(.0))]
    Protection(String),
    /// A webhook with this id or name.
    #[error("Webhook does not exist: {}", brief(.0))]
    Webhook(String),
    /// A cursor of the change feed with this name.
    #[error("Cursor does not exist: {}", brief(.0))]
    Cursor(String),
    /// A dropped namespace, table or view with this name or id.
    #[error("Dropped namespace, table or view does not exist: {}", brief(.0))]
    Dropped(String),
    /// A plan of a scan with this id.
    #[error("Plan does not exist: {}. Plan the scan again", brief(.0))]
    Plan(String),
    /// A task of a plan.
    #[error("Plan task does not exist: {}. Plan the scan again", brief(.0))]
    PlanTask(String),
}

/// A name that is in use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameConflict {
    /// Name of a namespace.
    #[error("Namespace already exists: {0}")]
    Namespace(NamespaceIdent),
    /// Name of a table or view.
    #[error(
        "{} {}: {ident}",
        taken_by.title(),
        if wanted == taken_by { "already exists" } else { "with same name already exists" }
    )]
    Tabular {
        /// Kind of the new object.
        wanted: TabularKind,
        /// Kind of the existing object.
        taken_by: TabularKind,
        /// Name of both objects.
        ident: TabularIdent,
    },
    /// Name of a function.
    #[error("Function already exists: {0}")]
    Function(TabularIdent),
    /// The new name of a table or view.
    #[error("Cannot rename {from} to {to}. {} already exists", taken_by.title())]
    Rename {
        /// Current name.
        from: Box<TabularIdent>,
        /// New name.
        to: Box<TabularIdent>,
        /// Kind of the object with the new name.
        taken_by: TabularKind,
    },
    /// Name of a checkpoint.
    #[error("Checkpoint already exists: {0}")]
    Checkpoint(String),
    /// Name of a webhook.
    #[error("Webhook already exists: {0}")]
    Webhook(String),
    /// Id of a policy.
    #[error("Policy already exists: {0}")]
    Policy(String),
    /// Name of a warehouse.
    #[error("Warehouse already exists: {0}")]
    Warehouse(String),
    /// Name of a warehouse that an earlier configuration defined with a different location.
    #[error(
        "Warehouse already exists: {0}, from an earlier configuration and with a different location"
    )]
    FormerWarehouse(String),
}

/// The reason why a watch cannot resume at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LostPosition {
    /// The position belongs to another timeline.
    #[error("the catalog was restored, imported or cloned since then")]
    Timeline,
    /// The change log begins after the position.
    #[error("later changes are no longer in the change log")]
    Trimmed,
    /// Changes after the position do not have the format of the feed.
    #[error("an older version of slateberg has made changes since then")]
    OlderVersion,
}

/// The reason why the server cannot read the manifests of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableManifests {
    /// The snapshot with this id is encrypted.
    #[error("Snapshot {0} is encrypted")]
    EncryptedSnapshot(i64),
    /// The snapshot with this id has manifests of format version 4.
    #[error(
        "Snapshot {0} is in a table of format version 4, whose manifests the server cannot read"
    )]
    NewerFormat(i64),
    /// The snapshot with this id lists its manifests in its metadata, as format version 1 permits.
    #[error("Snapshot {0} has no manifest list")]
    NoManifestList(i64),
    /// The manifest at this location is encrypted.
    #[error("The manifest {} is encrypted", brief(.0))]
    EncryptedManifest(String),
    /// The manifest at this location could belong to another table.
    #[error("The manifest {} is outside of the table's own locations", brief(.0))]
    ForeignManifest(String),
    /// The server must not read the file. Contains the message of the object store.
    #[error("{0}")]
    NotAllowed(String),
}

/// A state that does not allow a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateConflict {
    /// The store has no data keys.
    #[error("The store is not encrypted, so there is no key to change")]
    NotEncrypted,
    /// The background job has ended.
    #[error("Job {0} has ended already")]
    JobEnded(Uuid),
    /// Another search for orphans of the table is running.
    #[error("A search for orphans of this table is still in progress: job {0}")]
    OrphanSearch(Uuid),
    /// The files may belong to a clone of the catalog. Contains the checkpoint of the clone.
    #[error(
        "Cannot remove orphans: a clone of this catalog may need them. Remove the clone, and then its checkpoint: \
          slateberg checkpoint delete {0}. A dry run is possible"
    )]
    Cloned(String),
    /// Files at the location of the table may belong to another table or view.
    #[error(
        "Cannot remove orphans: the location of the table equals the location of another table or view, or is inside it"
    )]
    SharedLocation,
    /// The dropped table or view cannot be restored, because its location overlaps with another
    /// location.
    #[error(
        "Cannot undrop: the location {0} overlaps with the location of another table, view or namespace. Drop or \
          move that one first, or set catalog.overlapping_locations = true to allow both"
    )]
    UndropLocation(String),
    /// The dropped resource cannot be restored, because its namespace does not exist.
    #[error(
        "Cannot undrop: the namespace {0} does not exist. Create it first, or restore the dropped one under a \
          name in another namespace"
    )]
    UndropNamespace(NamespaceIdent),
    /// The dropped resource cannot be restored, because its namespace is dropped, too.
    #[error(
        "Cannot undrop: {0} is dropped, too. Restore it first (slateberg undrop {0}), or restore the dropped one \
          under a name in another namespace"
    )]
    UndropNamespaceFirst(String),
    /// The dropped namespace cannot be restored, because locations of these tables and views in it
    /// overlap with other locations.
    #[error(
        "Cannot undrop: the locations of {} overlap with the locations of other tables, views or namespaces. Drop \
          or move those first, or set catalog.overlapping_locations = true to allow both",
        few(.0)
    )]
    UndropLocations(Vec<String>),
    /// The resource is protected against this change.
    #[error(
        "Cannot {change}: {resource} is protected. Lift the protection first: slateberg unprotect {resource}"
    )]
    Protected {
        /// Name of the resource, such as `table:prod/sales/orders`.
        resource: String,
        /// The rejected change, such as `drop`.
        change: &'static str,
    },
    /// The warehouse is defined in the configuration.
    #[error("Cannot change warehouse {0}: it belongs to the configuration")]
    ConfiguredWarehouse(String),
}

/// A change that was based on an older state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitConflict {
    /// A requirement of a commit does not hold, or an update conflicts with the current metadata.
    #[error("{0}")]
    Requirement(String),
    /// A requirement of an append does not hold, and the append could not be rebased.
    #[error("{refusal} (not rebased: {reason})")]
    NotRebased {
        /// The requirement that does not hold.
        refusal: String,
        /// Reason why the append was not rebased.
        reason: NotRebased,
    },
    /// The revision of the policies is not the expected one.
    #[error("Expected policy revision {expected}, but the newest is {newest}")]
    Policies {
        /// The revision in the request.
        expected: u64,
        /// The newest revision.
        newest: u64,
    },
    /// The version of the warehouse is not the expected one.
    #[error("Expected version {expected} of warehouse {name}, but it is at {current}")]
    Warehouse {
        /// Name of the warehouse.
        name: String,
        /// The version in the request.
        expected: u64,
        /// The current version.
        current: u64,
    },
    /// The version of the function is not the expected one.
    #[error("Expected version {expected} of function {ident}, but it is at {current}")]
    Function {
        /// Name of the function.
        ident: TabularIdent,
        /// The version in the request.
        expected: u64,
        /// The current version.
        current: u64,
    },
    /// The position of the cursor is not the expected one.
    #[error(
        "Cursor {0} is not at the expected position: another process advances it. Run one process for each cursor"
    )]
    Cursor(String),
    /// The warehouse was changed while the request was evaluated.
    #[error("Warehouse {0} was changed by another request at the same time")]
    ConcurrentWarehouse(String),
}

/// A contradictory request, or a violated rule.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuleViolation {
    /// The number of checkpoints is at its limit.
    #[error("There are {0} checkpoints already: delete some")]
    TooManyCheckpoints(usize),
    /// The number of objects of this kind is at its limit.
    #[error("There are {max} {what} already")]
    TooMany {
        /// Kind of the objects, in the plural.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The `Idempotency-Key` was used by another request.
    #[error("Idempotency-Key {0} was used for another request")]
    ReusedIdempotencyKey(Uuid),
    /// A namespace update sets and removes the same properties.
    #[error("Invalid namespace update, cannot simultaneously set and remove keys: [{}]", quoted(.0))]
    ContradictoryProperties(Vec<String>),
    /// The settings disable stored policies.
    #[error(
        "Refused: stored policies are not in force because authz.stored_policies is false. They can only be removed"
    )]
    StoredPoliciesOff,
    /// The policy comes from a file or is built in.
    #[error("Cannot remove policy {0}: it was not created through the API")]
    ForeignPolicy(String),
    /// The change would remove the last principal that may manage policies.
    #[error("Refused: {0}")]
    Lockout(#[from] LockedOut),
    /// The KMS rejects the change of the key ring.
    #[error(transparent)]
    KeyRing(store::Error),
}
