//! What can go wrong in the store, by what the caller does next.

use std::error::Error as StdError;
use std::sync::Arc;

use slatedb::wal::WalError;
use slatedb::{CloseReason, ErrorKind};

use super::storage::StorageError;
use slateberg_kms as kms;
use slateberg_wal::{self as wal, DamagedFile};

/// A failure of the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A record cannot be read as what its key says it is: repair the store.
    #[error("corrupt record at key {key}: {reason}")]
    Corrupt {
        /// The key, in hexadecimal.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of the store is missing or damaged.
    #[error(transparent)]
    DamagedFile(#[from] DamagedFile),
    /// The same, and SlateDB does not report which one.
    #[error("a file of the store is damaged: {0}. Run `slateberg fsck`, which names it")]
    Damaged(String),
    /// A newer writer has taken the store: this process must stop answering.
    #[error("another slateberg has opened this store and fenced this one")]
    Fenced,
    /// Another process writes to the same directory.
    #[error("{0} is in use by another slateberg")]
    InUse(String),
    /// The newest records are in a local journal that cannot be read from here.
    #[error(
        "the store has a journal, from when it was a local directory: start it there once more and \
         stop it in order, so that nothing is left in the journal"
    )]
    JournalLeft,
    /// The newest records are in a log that is in another object store.
    #[error("its log is in another object store, {0}: set state.wal_url to that")]
    LogElsewhere(String),
    /// The newest records are in a log beside the rest, and not where the settings look for it.
    #[error(
        "its log is beside it, and not at {0}: leave state.wal_url out; where the log is, is decided when a \
         store is made"
    )]
    LogInStore(String),
    /// The log that the settings name is not the one with the newest records.
    #[error(
        "write-ahead log mismatch: the log of this store is at {own}, but state.wal_url points to {given}: set state.wal_url"
    )]
    OtherLog {
        /// Where its log was when it was made.
        own: String,
        /// What the settings name.
        given: String,
    },
    /// A new store is to have a log where that of another store is.
    #[error("at {given} is the log of another store, {state}: give this one a place of its own")]
    LogOfAnother {
        /// What the settings name.
        given: String,
        /// The other store.
        state: String,
    },
    /// Encryption, or a key, or what was encrypted, is not what it should be: nothing was written.
    #[error(transparent)]
    Encryption(#[from] kms::Error),
    /// What is there is encrypted, and nobody says with what.
    #[error("the store is encrypted: set [encryption] as it was when the store was made")]
    Encrypted,
    /// What is there is not encrypted, and should be.
    #[error(
        "the store is not encrypted, and [encryption] is set: an existing store cannot be turned into an \
         encrypted one in its place, see docs/encryption.md"
    )]
    NotEncrypted,
    /// The keys of an encrypted store are gone.
    #[error(
        "the store is encrypted, and its key ring encryption/ring.json is missing: put it back from a copy \
         of the bucket or directory; without it, nothing can be read"
    )]
    RingMissing,
    /// The store is shut: nothing was written.
    #[error("the store is closed")]
    Closed,
    /// The store had failed before it was closed: what its log holds was left there.
    #[error(
        "the store failed before it was closed: what is in its log alone stays there, and the next start reads it"
    )]
    Failed,
    /// A file or object of the store can be used by no retry: repair it, or the disk that it is on.
    #[error(transparent)]
    Storage(StorageError),
    /// The journal cannot be written at this moment: try again later, nothing was written.
    #[error("{reason}")]
    Stalled {
        /// Which journal, and why.
        reason: String,
        /// Whether the disk is full, or a quota is used up.
        is_full: bool,
    },
    /// The object store does not answer: try again later, nothing was written.
    #[error("the object store is unavailable: {0}")]
    Unavailable(String),
    /// Others changed the same records on every try: nothing was written.
    #[error("transaction {name} met conflicting ones on {attempts} attempts")]
    Contended {
        /// The transaction's name.
        name: &'static str,
        /// How often it was tried.
        attempts: u32,
    },
    /// The write was handed to the log and its end is not known.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(String),
    /// The state has no journal: it is not in a local directory.
    #[error("the state is not in a local directory, and has no journal")]
    NoJournal,
    /// A clone is to be where something is.
    #[error("there is something else there: a clone needs a place of its own")]
    NotEmpty,
    /// A clone was begun here, and whatever made it has ended before it was done.
    #[error(
        "the store is a clone that was not finished: run the same `slateberg clone` once more, or delete it"
    )]
    UnfinishedClone,
    /// The store is written in a format that this binary does not know.
    #[error("the store has format version {found}, this slateberg knows up to {known}")]
    NewerFormat {
        /// The version that was found.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// Anything else: a defect.
    #[error("unexpected failure of the store: {0}")]
    Internal(String),
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
            ErrorKind::Unavailable => Self::Unavailable(one_line(&error)),
            ErrorKind::Data => Self::Damaged(one_line(&error)),
            _ => Self::Internal(one_line(&error)),
        }
    }
}

impl From<WalError> for Error {
    fn from(error: WalError) -> Self {
        match &error {
            WalError::DataError(cause) => find_cause::<DamagedFile>(cause.as_ref())
                .map_or_else(|| Self::Damaged(one_line(&error)), Self::DamagedFile),
            _ => Self::Unavailable(one_line(&error)),
        }
    }
}

impl From<wal::Error> for Error {
    fn from(error: wal::Error) -> Self {
        match error {
            wal::Error::InUse(directory) => Self::InUse(directory),
            wal::Error::Stalled { reason, is_full } => Self::Stalled { reason, is_full },
            wal::Error::Unavailable(reason) => Self::Unavailable(reason),
            wal::Error::DamagedFile(file) => Self::DamagedFile(file),
            wal::Error::Log(error) => error.into(),
        }
    }
}

/// The failure of encryption at the bottom of an error, if there is one.
pub(super) fn encryption_failure(error: &(dyn StdError + 'static)) -> Option<kms::Error> {
    find_cause(error)
}

/// The cause of this type in a chain of errors. SlateDB shares the errors of a log behind an [`Arc`], through
/// which a chain cannot be followed by itself.
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

/// An error in one line: some of SlateDB's hold the debug output of a whole structure.
pub(super) fn one_line(error: &dyn StdError) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
