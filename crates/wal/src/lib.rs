//! Rank 3: the journal, the write-ahead log of a store that lies in a local directory.
//!
//! On object storage every flush of the log is an object. On a disk that is dear: a file made, synced,
//! linked and unlinked, and its directory synced, for each commit. The journal appends to one file
//! instead, and syncs nothing but its data: one `fdatasync` makes a commit durable.
//!
//! - A **frame** ([`frame`]) is what one flush appends: SlateDB calls it a WAL file, and numbers them
//!   without a gap. It is checked by its CRC and takes effect as a whole or not at all. That of an encrypted
//!   store is sealed, all of them or none.
//! - A **segment** ([`segment`]) is a file of frames, named after the first of them. Only the last one
//!   grows, and only its end can be **torn**: begun by a write that a crash cut off, and answered to
//!   nobody. Anything else that cannot be read is **damage**, and the store does not open over it.
//!   No frame is written before the one in front of it is synced, so that damage is told from a torn end by
//!   whether a whole frame stands behind it.
//! - The [`mark`] beside the directory names the last acknowledged frame. A journal that ends before it has
//!   lost acknowledged changes, and is refused as well.
//! - The [`writer`] owns the directory as long as it lives. The lock says so to other processes; there is
//!   no fencing as between writers of a bucket, since nothing lets a local process survive its lock.
//!
//! A write that fails for a while leaves no trace: the part of the frame that was written is cut off, and the
//! writer tries again until the disk has space (or descriptors are free). The store rejects new writes
//! meanwhile ([`JournalState::check_writable`]).
//!
//! After a failed sync it is not known what is on the disk, and a second sync would not report it: the system
//! may have dropped what it could not write. The journal closes then, and with it the store: the next start
//! reads what is really there. The same holds for errors that no retry changes.

mod damage;
mod error;
mod frame;
mod frames;
mod gc;
mod mark;
mod reader;
mod segment;
mod state;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use slatedb::wal::{WalError, WalGc, WalReader, WriterInit};

pub use damage::{DamagedFile, RESTORE};
pub use error::Error;
pub use state::JournalState;

use frames::{read_behind, read_left};
use gc::JournalGc;
use mark::{Acknowledged, Mark};
use reader::JournalReader;
use segment::Segment;
use slateberg_kms::keys::Keys;

/// Below the store's directory.
pub const DIRECTORY: &str = "journal";
/// Held by whoever writes.
const LOCK: &str = "lock";

/// A directory of segments that this process may write.
pub struct Journal {
    directory: PathBuf,
    lock: File,
}

/// Keeps the journal ours beyond the life of its writer.
pub struct Hold {
    directory: PathBuf,
    _lock: File,
}

/// The result of reading a journal.
#[derive(Debug)]
pub struct CheckedJournal {
    /// The number of segments.
    pub segments: usize,
    /// The file that is missing or damaged. The records behind it cannot be read.
    pub damaged: Option<DamagedFile>,
}

/// What SlateDB asks for the writer with. It has one to give.
struct Init {
    directory: PathBuf,
    keys: Option<Arc<Keys>>,
    state: JournalState,
    lock: Mutex<Option<File>>,
}

impl Journal {
    /// Takes the journal of a store's directory, making it if need be. Refuses while another process
    /// has it, before anything of the store is touched.
    pub fn open(store: &Path) -> Result<Self, Error> {
        let directory = store.join(DIRECTORY);
        let failed = |error: io::Error| {
            Error::Unavailable(format!("the journal in {}: {error}", directory.display()))
        };
        make_directory(&directory).map_err(failed)?;
        let path = directory.join(LOCK);
        let options = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let lock = options.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { directory, lock }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse(store.display().to_string())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Whether nothing was ever written to it, or nothing that is still needed.
    pub fn is_empty(&self) -> Result<bool, Error> {
        is_empty(&self.directory)
    }

    /// Keeps others out until it is dropped, even when the writer has gone.
    pub fn hold(&self) -> Result<Hold, Error> {
        let lock = self.lock.try_clone().map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(Hold { directory: self.directory.clone(), _lock: lock })
    }

    /// Gives up acknowledged frames that are missing at the end: the journal counts as whole with what is
    /// left behind the frame `after`. Returns how far it was acknowledged, and how far it is now.
    pub fn accept_loss(
        &self,
        after: u64,
        keys: Option<&Keys>,
    ) -> Result<(Option<u64>, u64), Error> {
        let failed = |error: io::Error| Error::Unavailable(error.to_string());
        let left = read_left(&self.directory, after, keys)?.acknowledged(after);
        let before = match mark::read(&self.directory) {
            Ok(acknowledged) => acknowledged.map(|it| it.frame),
            Err(mark::Unreadable::Io(error)) => return Err(failed(error)),
            Err(mark::Unreadable::Damaged(_)) => None,
        };
        Mark::open(&self.directory).map_err(failed)?.write_durably(left).map_err(failed)?;
        Ok((before, left.frame))
    }

    /// The writer's beginning: replays what is there, and appends behind it. With keys, all of it is
    /// sealed.
    pub fn into_writer(self, keys: Option<Arc<Keys>>, state: JournalState) -> Box<dyn WriterInit> {
        let lock = Mutex::new(Some(self.lock));
        Box::new(Init { directory: self.directory, keys, state, lock })
    }
}

impl Hold {
    /// Deletes all segments of a store that was closed in order, whose records up to the frame `replayed` are
    /// in sorted runs. Errors if a later frame was acknowledged. Should this be cut short, the segments that
    /// are left have no gap: the newest goes first.
    pub fn discard(self, replayed: u64) -> io::Result<()> {
        let acknowledged = match mark::read(&self.directory) {
            Ok(acknowledged) => acknowledged.unwrap_or_default(),
            Err(mark::Unreadable::Io(error)) => return Err(error),
            Err(mark::Unreadable::Damaged(file)) => return Err(io::Error::other(file)),
        };
        if acknowledged.frame > replayed {
            let (from, to) = (replayed + 1, acknowledged.frame);
            return Err(io::Error::other(format!("frames {from} to {to} are in no sorted run")));
        }
        // The sorted runs that are lost with an older manifest are recognised by this.
        let closed = Acknowledged { frame: replayed, ..Acknowledged::default() };
        Mark::open(&self.directory)?.write_durably(closed)?;
        for segment in Segment::list(&self.directory)?.into_iter().rev() {
            fs::remove_file(&segment.path)?;
        }
        Ok(())
    }
}

/// Deletes segments that nothing refers to any more.
pub fn collector(store: &Path) -> Arc<dyn WalGc> {
    Arc::new(JournalGc::new(store.join(DIRECTORY)))
}

/// Returns what reads the journal of a store's directory, without writing a byte. `None` if the log of the
/// store is one of objects, which the next start takes over.
pub fn reader(store: &Path, keys: Option<Arc<Keys>>) -> Result<Option<Arc<dyn WalReader>>, Error> {
    let directory = store.join(DIRECTORY);
    let has_journal = !is_empty(&directory)? || !has_object_log(store);
    Ok(has_journal.then(|| Arc::new(JournalReader::new(directory, keys)) as Arc<dyn WalReader>))
}

/// Whether a store's directory has a log of objects.
pub fn has_object_log(store: &Path) -> bool {
    store.join("wal").is_dir()
}

/// Reads the journal of a store's directory, whose frames up to `after` are in sorted runs, and returns what
/// is damaged.
pub fn check(store: &Path, after: u64, keys: Option<&Keys>) -> Result<CheckedJournal, Error> {
    let directory = store.join(DIRECTORY);
    let segments = Segment::list(&directory);
    let segments = segments.map_err(|error| Error::Unavailable(error.to_string()))?;
    let mut checked = CheckedJournal { segments: segments.len(), damaged: None };
    if segments.is_empty() && has_object_log(store) {
        return Ok(checked);
    }
    match read_behind(&directory, after, keys).map_err(Error::from) {
        Ok(_) => {}
        Err(Error::DamagedFile(file)) => checked.damaged = Some(file),
        Err(error) => return Err(error),
    }
    Ok(checked)
}

fn is_empty(directory: &Path) -> Result<bool, Error> {
    let segments = Segment::list(directory);
    Ok(segments.map_err(|error| Error::Unavailable(error.to_string()))?.is_empty())
}

/// Whether an object's name is that of a segment.
pub fn is_segment(name: &str) -> bool {
    Segment::has_extension(Path::new(name))
}

fn unavailable(error: io::Error) -> WalError {
    WalError::Unavailable(Arc::new(error))
}

/// Makes a directory, and those above it that are missing, durably.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let Some(parent) = directory.parent() else { return Ok(()) };
    make_directory(parent)?;
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => File::open(parent)?.sync_all(),
    }
}
