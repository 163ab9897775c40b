//! Errors of the store. The variants differ in how the calling code has to react.

use std::error::Error as StdError;
use std::sync::Arc;

use slatedb::wal::WalError;
use slatedb::{CloseReason, ErrorKind};

use super::storage::StorageError;
use slateberg_base::error_chain::Cause;
use slateberg_kms as kms;
use slateberg_wal::{self as wal, DamagedFile};

/// Error of the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A record cannot be decoded. The store needs a repair.
    #[error("corrupt record at key {key}: {source}")]
    Corrupt {
        /// The key, in hexadecimal.
        key: String,
        /// Reason why the record cannot be decoded.
        source: Cause,
    },
    /// A file of the store is missing or damaged.
    #[error(transparent)]
    DamagedFile(#[from] DamagedFile),
    /// A file of the store is damaged, and SlateDB does not report which one.
    #[error("a file of the store is damaged: {0}. Run `slateberg fsck` to find the file")]
    Damaged(#[source] Cause),
    /// A newer writer has fenced this process, which must no longer respond to requests.
    #[error("another slateberg process has opened this store and fenced this process")]
    Fenced,
    /// Another process writes to the same directory.
    #[error("{0} is in use by another slateberg")]
    InUse(String),
    /// The newest records are in a local journal that this process cannot read.
    #[error(
        "the newest records are in a journal in a local directory: start the server in that directory \
         once, and stop it with SIGTERM, which empties the journal"
    )]
    JournalLeft,
    /// The log with the newest records is in another object store.
    #[error(
        "the log of this store is in another object store, {0}: set state.wal_url to that location"
    )]
    LogElsewhere(String),
    /// The log with the newest records is in the store, not at the location in the settings.
    #[error(
        "the log of this store is in the store itself, not at {0}: remove state.wal_url. The location of \
         the log is fixed when a store is created"
    )]
    LogInStore(String),
    /// The log at the location in the settings is not the log of this store.
    #[error(
        "write-ahead log mismatch: the log of this store is at {own}, but state.wal_url points to {given}: set state.wal_url to {own}"
    )]
    OtherLog {
        /// Location of the store's log at its creation.
        own: String,
        /// Location in the settings.
        given: String,
    },
    /// The location for the log of a new store contains the log of another store.
    #[error(
        "{given} contains the log of another store, {state}: set state.wal_url to another location"
    )]
    LogOfAnother {
        /// Location in the settings.
        given: String,
        /// The other store.
        state: String,
    },
    /// A key or an encrypted object is invalid. Nothing was written.
    #[error(transparent)]
    Encryption(#[from] kms::Error),
    /// The store is encrypted, but the settings do not enable encryption.
    #[error(
        "the store is encrypted: set [encryption] to the values with which the store was created"
    )]
    Encrypted,
    /// The store is not encrypted, but the settings require it.
    #[error(
        "the store is not encrypted, but [encryption] is set: an existing store cannot be encrypted in \
         place, see docs/encryption.md"
    )]
    NotEncrypted,
    /// The key ring of an encrypted store is missing.
    #[error(
        "the store is encrypted, and its key ring encryption/ring.json is missing: restore it from a \
         copy of the bucket or directory; without it, nothing can be decrypted"
    )]
    RingMissing,
    /// The store is closed. Nothing was written.
    #[error("the store is closed")]
    Closed,
    /// The store failed before it was closed. Its newest records are only in its log.
    #[error(
        "the store failed before it was closed: its newest records are only in the log, which the next start replays"
    )]
    Failed,
    /// A file or object of the store is unusable, and no retry can succeed.
    #[error(transparent)]
    Storage(StorageError),
    /// The journal cannot be written at the moment. Nothing was written, and a retry may succeed.
    #[error("{source}")]
    Stalled {
        /// The journal and the reason.
        source: Cause,
        /// Whether the disk is full or a quota is used up.
        is_full: bool,
    },
    /// The object store does not respond. Nothing was written, and a retry may succeed.
    #[error("the object store is unavailable: {0}")]
    Unavailable(#[source] Cause),
    /// Every attempt conflicted with a concurrent transaction that changed the same records.
    /// Nothing was written.
    #[error(
        "transaction {name} conflicted with concurrent transactions in all {attempts} attempts"
    )]
    Contended {
        /// Name of the transaction.
        name: &'static str,
        /// Number of attempts.
        attempts: u32,
    },
    /// The write was sent to the log, but the log did not confirm it.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(#[source] Cause),
    /// The store is a replica, which only applies the changes of the writer. Nothing was written.
    #[error("the store is a replica, which accepts no changes")]
    Replica,
    /// The state has no journal, because it is not in a local directory.
    #[error("the state has no journal, because it is not in a local directory")]
    NoJournal,
    /// The location for a clone is not empty.
    #[error("the location is not empty: a clone needs an empty location")]
    NotEmpty,
    /// The store is a clone that was not completed.
    #[error(
        "the store is an unfinished clone: run the same `slateberg clone` command again, or delete the store"
    )]
    UnfinishedClone,
    /// The store has a newer format than this binary supports.
    #[error(
        "the store has format version {found}, but this slateberg supports versions up to {supported}"
    )]
    NewerFormat {
        /// Version of the store.
        found: u32,
        /// Newest supported version.
        supported: u32,
    },
    /// Any other failure. It indicates a bug.
    #[error("unexpected failure of the store: {0}")]
    Internal(#[source] Cause),
}

impl Error {
    /// Returns the error for a store that does not respond.
    pub(super) fn unavailable(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unavailable(Cause::new(cause))
    }

    /// Returns the error for a bug.
    pub(super) fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Internal(Cause::new(cause))
    }
}

impl From<slatedb::Error> for Error {
    fn from(error: slatedb::Error) -> Self {
        if let Some(error) = encryption_failure(&error) {
            return Self::Encryption(error);
        }
        if let Some(file) = find_cause::<DamagedFile>(&error) {
            return Self::DamagedFile(file);
        }
        let is_closed = matches!(error.kind(), ErrorKind::Closed(_));
        if let Some(error) = StorageError::find(&error).filter(|_| !is_closed) {
            return Self::Storage(error.clone());
        }
        match error.kind() {
            ErrorKind::Closed(CloseReason::Fenced) => Self::Fenced,
            ErrorKind::Closed(_) => Self::Closed,
            ErrorKind::Unavailable => Self::unavailable(error),
            ErrorKind::Data => Self::Damaged(Cause::new(error)),
            _ => Self::internal(error),
        }
    }
}

impl From<WalError> for Error {
    fn from(error: WalError) -> Self {
        match &error {
            WalError::DataError(cause) => match find_cause::<DamagedFile>(cause.as_ref()) {
                Some(file) => Self::DamagedFile(file),
                None => Self::Damaged(Cause::new(error)),
            },
            _ => Self::unavailable(error),
        }
    }
}

impl From<wal::Error> for Error {
    fn from(error: wal::Error) -> Self {
        match error {
            wal::Error::InUse(directory) => Self::InUse(directory),
            wal::Error::Stalled { source, is_full } => Self::Stalled { source, is_full },
            wal::Error::Unavailable(cause) => Self::Unavailable(cause),
            wal::Error::DamagedFile(file) => Self::DamagedFile(file),
            wal::Error::Log(error) => error.into(),
        }
    }
}

/// Returns the encryption error among the causes of an error.
pub(super) fn encryption_failure(error: &(dyn StdError + 'static)) -> Option<kms::Error> {
    find_cause(error)
}

/// Returns the first error of this type among the causes. SlateDB wraps the errors of a log in an
/// [`Arc`]. This function looks inside the [`Arc`], but [`StdError::source`] does not.
fn find_cause<E: StdError + Clone + 'static>(error: &(dyn StdError + 'static)) -> Option<E> {
    let mut next = Some(error);
    while let Some(mut at) = next {
        if let Some(shared) = at.downcast_ref::<Arc<dyn StdError + Sync + Send>>() {
            at = shared.as_ref();
        }
        if let Some(found) = at.downcast_ref::<E>() {
            return Some(found.clone());
        }
        next = at.source();
    }
    None
}
