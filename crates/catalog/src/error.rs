//! Errors of the catalog's operations. If the REST specification names an error, its name is used
//! here.

mod kind;
mod reasons;

pub use kind::Kind;
pub use reasons::{
    CommitConflict, LostPosition, MissingResource, NameConflict, RuleViolation, StateConflict,
    UnreadableManifests,
};

use slateberg_authz::notation::NotAName;
use slateberg_base::error_chain::Cause;
use slateberg_kms as kms;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::refusal::Refusal;
use slateberg_model::scan::ScanError;
use slateberg_objects as objects;
use slateberg_objects::location::InvalidLocation;
use slateberg_objects::stores::BadStorage;
use slateberg_store as store;

/// Message of rejected writes while the disk of the state is full.
const STATE_FULL: &str = "The disk of the catalog's state is full (no space left on device): nothing was written. Reads are \
                          served, and writes are accepted when there is space again";
/// Message of rejected writes while the WAL fails for another reason.
const STATE_STALLED: &str =
    "The catalog's journal cannot be written at the moment: nothing was written. Reads are served";
/// Message of rejected writes while the disk of the warehouse is full.
pub(super) const WAREHOUSE_FULL: &str = "The disk of the warehouse is full (no space left on device): nothing was written. \
                                         Reads are served, and writes are accepted when there is space again";

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of an operation. Its message is for the client. The causes of failures are for the log.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server has no warehouse with this name.
    #[error("Warehouse does not exist: {0}")]
    NoSuchWarehouse(String),
    /// The namespace does not exist.
    #[error("Namespace does not exist: {}", brief(.0))]
    NoSuchNamespace(NamespaceIdent),
    /// The table does not exist.
    #[error("Table does not exist: {}", brief(.0))]
    NoSuchTable(TabularIdent),
    /// The view does not exist.
    #[error("View does not exist: {}", brief(.0))]
    NoSuchView(TabularIdent),
    /// The function does not exist.
    #[error("Function does not exist: {}", brief(.0))]
    NoSuchFunction(TabularIdent),
    /// Another kind of resource in the request does not exist.
    #[error(transparent)]
    NotFound(MissingResource),
    /// The name is in use.
    #[error(transparent)]
    AlreadyExists(NameConflict),
    /// A namespace with contents cannot be dropped.
    #[error("Namespace {namespace} is not empty: it contains {contents}")]
    NamespaceNotEmpty {
        /// Name of the namespace.
        namespace: NamespaceIdent,
        /// Kind of its contents.
        contents: &'static str,
    },
    /// A warehouse with contents cannot be deleted.
    #[error("Warehouse {warehouse} is not empty: it contains {contents}")]
    WarehouseNotEmpty {
        /// Name of the warehouse.
        warehouse: String,
        /// Kind of its contents.
        contents: &'static str,
    },
    /// The current state does not allow the change.
    #[error(transparent)]
    Conflict(StateConflict),
    /// The change was based on an older state. Clients load the current state and retry.
    #[error(transparent)]
    CommitFailed(CommitConflict),
    /// The outcome of a commit is unknown. Clients load the table before a retry.
    #[error("The outcome of the commit is unknown: it may have been applied")]
    CommitStateUnknown {
        /// The cause, for the log.
        source: Cause,
    },
    /// A watch cannot resume at its position.
    #[error(
        "Cannot resume the watch: {0}. List the resources again, and watch from the position in that response"
    )]
    PositionGone(LostPosition),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The request has an invalid name of a resource or grantee.
    #[error(transparent)]
    InvalidName(#[from] NotAName),
    /// The request has an invalid location.
    #[error(transparent)]
    InvalidLocation(#[from] InvalidLocation),
    /// A file of the request does not have the expected format.
    #[error("Cannot read file: {0}")]
    UnreadableFile(#[source] objects::Error),
    /// A metadata file of the request is invalid.
    #[error("Invalid metadata file {location}: {source}")]
    InvalidMetadataFile {
        /// Location of the file.
        location: String,
        /// Violated rule.
        source: Refusal,
    },
    /// The storage of a warehouse cannot be used. A retry may succeed.
    #[error(transparent)]
    Unusable(#[from] BadStorage),
    /// The request is contradictory, or its result would violate a rule.
    #[error(transparent)]
    Unprocessable(RuleViolation),
    /// The scan cannot be planned as requested.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The server cannot read the manifests of the table. Clients plan the scans of the table
    /// themselves.
    #[error("The server cannot read the manifests of the table: {0}. Plan scans on the client")]
    NotPlannable(UnreadableManifests),
    /// The principal does not have the privileges.
    #[error("{0}")]
    Forbidden(String),
    /// Nothing was written, and a later retry may succeed.
    #[error("{message}")]
    Unavailable {
        /// Message for the client.
        message: String,
        /// The cause, for the log.
        source: Cause,
    },
    /// A defect, or a damaged record.
    #[error("Internal error")]
    Internal {
        /// The cause, for the log.
        source: Cause,
    },
    /// An earlier rejection, which is replayed for its `Idempotency-Key`.
    #[error("{message}")]
    Recorded {
        /// Kind of the rejection.
        kind: Kind,
        /// Message of the rejection.
        message: String,
    },
}

/// Two errors are equal if clients get the same response for both errors.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.to_string() == other.to_string()
    }
}

impl Error {
    /// Returns the kind of the error.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoSuchWarehouse(_) => Kind::NoSuchWarehouse,
            Self::NoSuchNamespace(_) => Kind::NoSuchNamespace,
            Self::NoSuchTable(_) => Kind::NoSuchTable,
            Self::NoSuchView(_) => Kind::NoSuchView,
            Self::NoSuchFunction(_) => Kind::NoSuchFunction,
            Self::NotFound(missing) => match missing {
                MissingResource::File(_) => Kind::NoSuchFile,
                MissingResource::Job(_) => Kind::NoSuchJob,
                MissingResource::Policy(_)
                | MissingResource::PolicyRevision(_)
                | MissingResource::Grant(_) => Kind::NoSuchPolicy,
                MissingResource::Checkpoint(_) => Kind::NoSuchCheckpoint,
                MissingResource::Protection(_) => Kind::NoSuchProtection,
                MissingResource::Webhook(_) => Kind::NoSuchWebhook,
                MissingResource::Cursor(_) => Kind::NoSuchCursor,
                MissingResource::Dropped(_) => Kind::NoSuchDropped,
                MissingResource::Plan(_) => Kind::NoSuchPlan,
                MissingResource::PlanTask(_) => Kind::NoSuchPlanTask,
            },
            Self::AlreadyExists(_) => Kind::AlreadyExists,
            Self::NamespaceNotEmpty { .. } => Kind::NamespaceNotEmpty,
            Self::WarehouseNotEmpty { .. } => Kind::WarehouseNotEmpty,
            Self::Conflict(_) => Kind::Conflict,
            Self::CommitFailed(_) => Kind::CommitFailed,
            Self::CommitStateUnknown { .. } => Kind::CommitStateUnknown,
            Self::Invalid(_)
            | Self::InvalidName(_)
            | Self::InvalidLocation(_)
            | Self::UnreadableFile(_)
            | Self::InvalidMetadataFile { .. } => Kind::Invalid,
            Self::PositionGone(_) => Kind::PositionGone,
            Self::Unusable(_) => Kind::Unusable,
            Self::Unprocessable(_) => Kind::Unprocessable,
            Self::Scan(ScanError::IllegalArgument(_)) => Kind::Invalid,
            Self::Scan(ScanError::Validation(_)) => Kind::Validation,
            Self::NotPlannable(_) => Kind::NotPlannable,
            Self::Forbidden(_) => Kind::Forbidden,
            Self::Unavailable { .. } => Kind::Unavailable,
            Self::Internal { .. } => Kind::Internal,
            Self::Recorded { kind, .. } => *kind,
        }
    }

    /// Returns the name of the exception that clients get.
    pub fn exception(&self) -> &'static str {
        self.kind().exception()
    }

    /// Whether the catalog failed to process the request. If not, the error is a rejection.
    pub fn is_failure(&self) -> bool {
        self.cause().is_some()
    }

    /// Whether the rejection can be recorded for its `Idempotency-Key` and replayed to every retry.
    pub fn is_final(&self) -> bool {
        !self.is_failure() && self.kind() != Kind::Unusable
    }

    /// Error for a missing table or view.
    pub(crate) fn no_such(kind: TabularKind, ident: &TabularIdent) -> Self {
        match kind {
            TabularKind::Table => Self::NoSuchTable(ident.clone()),
            TabularKind::View => Self::NoSuchView(ident.clone()),
        }
    }

    /// Error for a missing function.
    pub(crate) fn no_such_function(ident: &TabularIdent) -> Self {
        Self::NoSuchFunction(ident.clone())
    }

    /// Error for a missing warehouse. `warehouse` is the name in the request.
    pub(crate) fn no_such_warehouse(warehouse: &str) -> Self {
        Self::NoSuchWarehouse(brief(warehouse))
    }

    /// Error for a missing namespace.
    pub(crate) fn no_such_namespace(ident: &NamespaceIdent) -> Self {
        Self::NoSuchNamespace(ident.clone())
    }

    /// Error for a new object of kind `wanted` whose name belongs to an existing object of kind
    /// `taken_by`.
    pub fn taken(wanted: TabularKind, taken_by: TabularKind, ident: &TabularIdent) -> Self {
        Self::AlreadyExists(NameConflict::Tabular { wanted, taken_by, ident: ident.clone() })
    }

    /// Error for an overload, or for a store that does not respond.
    pub fn unavailable(
        message: &str,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable { message: message.to_owned(), source: Cause::new(cause) }
    }

    /// Error for a defect.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal { source: Cause::new(cause) }
    }

    /// Error for a commit with an unknown outcome.
    pub fn unknown(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::CommitStateUnknown { source: Cause::new(cause) }
    }

    /// Returns the cause of a failure. The message of the error does not contain it. `None` for a
    /// rejection.
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Self::CommitStateUnknown { source }
            | Self::Unavailable { source, .. }
            | Self::Internal { source } => Some(source),
            _ => None,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(message) => Self::Invalid(message),
            Refusal::Conflict(message) => Self::CommitFailed(CommitConflict::Requirement(message)),
        }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        use store::Error as E;
        match &error {
            E::Fenced | E::Closed => Self::unavailable("This server is shutting down", error),
            E::Unavailable(_) => Self::unavailable("The catalog's store does not answer", error),
            E::Stalled { is_full: true, .. } => Self::unavailable(STATE_FULL, error),
            E::Stalled { .. } => Self::unavailable(STATE_STALLED, error),
            E::Contended { .. } => Self::unavailable("Too many changes at the same time", error),
            E::Unknown(_) => Self::unknown(error),
            E::Encryption(kms::Error::Unavailable(_)) => {
                Self::unavailable("The KMS does not answer", error)
            }
            // Only changes of the key ring return these errors.
            E::Encryption(
                kms::Error::Setting(_) | kms::Error::Refused(_) | kms::Error::WrongKey { .. },
            ) => Self::Unprocessable(RuleViolation::KeyRing(error)),
            E::Corrupt { .. }
            | E::Storage(_)
            | E::DamagedFile(_)
            | E::Damaged(_)
            | E::Encryption(_)
            | E::Encrypted
            | E::NotEncrypted
            | E::RingMissing
            | E::NewerFormat { .. }
            | E::NotEmpty
            | E::UnfinishedClone
            | E::InUse(_)
            | E::JournalLeft
            | E::NoJournal
            | E::Replica
            | E::Failed
            | E::LogElsewhere(_)
            | E::LogInStore(_)
            | E::OtherLog { .. }
            | E::LogOfAnother { .. }
            | E::Internal(_) => Self::internal(error),
        }
    }
}

impl From<objects::Error> for Error {
    fn from(error: objects::Error) -> Self {
        use objects::Error as E;
        match error {
            E::NotAllowed(message) => Self::Invalid(message),
            E::NotFound(location) => Self::NotFound(MissingResource::File(location)),
            E::Unreadable { .. } => Self::UnreadableFile(error),
            E::Taken(_) => Self::internal(error),
            E::Full { .. } => Self::unavailable(WAREHOUSE_FULL, error),
            E::Unavailable { .. } => {
                Self::unavailable("The warehouse's object store does not answer", error)
            }
        }
    }
}
