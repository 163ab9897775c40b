//! What a use case answers when it does not succeed: the specification's own vocabulary.

use slateberg_kms as kms;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::refusal::Refusal;
use slateberg_objects as objects;
use slateberg_store as store;

/// The message of a write while the disk of the state is full.
const STATE_FULL: &str = "The disk of the catalog's state is full (no space left on device): nothing was written. Reads are \
                          served, and writes are accepted when there is space again";
/// The same for another reason that may pass.
const STATE_STALLED: &str =
    "The catalog's journal cannot be written at this moment: nothing was written. Reads are served";
/// The message of a write while the disk of its warehouse is full.
pub(super) const WAREHOUSE_FULL: &str = "The disk of the warehouse is full (no space left on device): nothing was written. \
                                         Reads are served, and writes are accepted when there is space again";

/// Why a use case did not succeed. The text of each is the client's to read; what only the operator
/// should see is in the `operator` fields and goes to the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The warehouse is not served here.
    #[error("Warehouse does not exist: {0}")]
    NoSuchWarehouse(String),
    /// The namespace is not there.
    #[error("Namespace does not exist: {0}")]
    NoSuchNamespace(String),
    /// The table is not there.
    #[error("Table does not exist: {0}")]
    NoSuchTable(String),
    /// The view is not there.
    #[error("View does not exist: {0}")]
    NoSuchView(String),
    /// A file that the request names is not there.
    #[error("{0}")]
    NoSuchFile(String),
    /// A background job is not there.
    #[error("Job does not exist: {0}")]
    NoSuchJob(String),
    /// A policy, a revision or a grant is not there.
    #[error("{0}")]
    NoSuchPolicy(String),
    /// A checkpoint is not there.
    #[error("Checkpoint does not exist: {0}")]
    NoSuchCheckpoint(String),
    /// The name is taken.
    #[error("{0}")]
    AlreadyExists(String),
    /// Something is still in the namespace.
    #[error("{0}")]
    NamespaceNotEmpty(String),
    /// Something is still in the warehouse.
    #[error("{0}")]
    WarehouseNotEmpty(String),
    /// What is to change belongs to the configuration.
    #[error("{0}")]
    Conflict(String),
    /// A commit was right for another state: refresh and retry.
    #[error("{0}")]
    CommitFailed(String),
    /// A commit may or may not have happened: look before doing anything else.
    #[error("{message}")]
    CommitStateUnknown {
        /// For the client.
        message: String,
        /// For the log.
        operator: String,
    },
    /// The request is wrong in itself.
    #[error("{0}")]
    Invalid(String),
    /// The place that a warehouse was to have cannot be used, which may be otherwise next time.
    #[error("{0}")]
    Unusable(String),
    /// The request says two things that exclude each other, or asks for what may not come about.
    #[error("{0}")]
    Unprocessable(String),
    /// Not with these rights.
    #[error("{0}")]
    Forbidden(String),
    /// Not now, and nothing was written: try again later.
    #[error("{message}")]
    Unavailable {
        /// For the client.
        message: String,
        /// For the log.
        operator: String,
    },
    /// A defect, or a record that is broken.
    #[error("Internal error")]
    Internal {
        /// For the log.
        operator: String,
    },
}

impl Error {
    /// The table or view is not there.
    pub fn no_such(kind: TabularKind, ident: &TabularIdent) -> Self {
        match kind {
            TabularKind::Table => Self::NoSuchTable(brief(ident)),
            TabularKind::View => Self::NoSuchView(brief(ident)),
        }
    }

    /// The warehouse is not there, by what somebody has called it.
    pub fn no_such_warehouse(word: &str) -> Self {
        Self::NoSuchWarehouse(brief(word))
    }

    /// The namespace is not there.
    pub fn no_such_namespace(ident: &NamespaceIdent) -> Self {
        Self::NoSuchNamespace(brief(ident))
    }

    /// The name that something of kind `wanted` was to get belongs to something of kind `taken_by`.
    pub fn taken(wanted: TabularKind, taken_by: TabularKind, ident: &TabularIdent) -> Self {
        let title = taken_by.title();
        Self::AlreadyExists(if wanted == taken_by {
            format!("{title} already exists: {ident}")
        } else {
            format!("{title} with same name already exists: {ident}")
        })
    }

    /// Too much is going on, or the store does not answer.
    pub fn unavailable(message: &str, operator: impl ToString) -> Self {
        Self::Unavailable { message: message.to_owned(), operator: operator.to_string() }
    }

    /// A defect.
    pub fn internal(operator: impl ToString) -> Self {
        Self::Internal { operator: operator.to_string() }
    }

    /// A commit whose end is not known.
    pub fn unknown(operator: impl ToString) -> Self {
        Self::CommitStateUnknown {
            message: "The outcome of the commit is unknown: it may have been applied".to_owned(),
            operator: operator.to_string(),
        }
    }

    /// Whether the same request would always be refused with this, so that it may be remembered for
    /// its `Idempotency-Key`.
    pub fn is_final(&self) -> bool {
        !matches!(
            self,
            Self::CommitStateUnknown { .. }
                | Self::Unavailable { .. }
                | Self::Unusable(_)
                | Self::Internal { .. }
        )
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(message) => Self::Invalid(message),
            Refusal::Conflict(message) => Self::CommitFailed(message),
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
            // Only changes of the key ring end so.
            E::Encryption(
                kms::Error::Setting(_) | kms::Error::Refused(_) | kms::Error::WrongKey { .. },
            ) => Self::Unprocessable(error.to_string()),
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
        match &error {
            E::NotAllowed(message) => Self::Invalid(message.clone()),
            E::NotFound(_) => Self::NoSuchFile(error.to_string()),
            E::Unreadable { .. } => Self::Invalid(format!("Cannot read file: {error}")),
            E::Taken(_) => Self::internal(error),
            E::Full { .. } => Self::unavailable(WAREHOUSE_FULL, error),
            E::Unavailable { .. } => {
                Self::unavailable("The warehouse's object store does not answer", error)
            }
        }
    }
}
