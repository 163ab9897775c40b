//! Rank 3 (`docs/architecture.md`): the write-ahead log (WAL) of a store. A **frame** ([`frame`]) is
//! the unit that one flush writes. SlateDB calls it a WAL file and numbers frames without gaps. A CRC
//! protects it, and it takes effect completely or not at all.
//!
//! In a bucket ([`bucket`]), every flush writes an object. On a disk, this would be expensive: each
//! commit would create, sync, link and delete a file, and sync its directory. So a store in a local
//! directory has a local WAL, also called the journal. It appends to one file and syncs only its data,
//! so one `fdatasync` makes a commit durable. The rest of this page describes the local WAL.
//!
//! - In an encrypted store, all frames are sealed.
//! - A **segment** ([`segment`]) is a file of frames, named after its first frame. Only the last
//!   segment grows, and only its end can be **torn**. A torn end means that a crash interrupted the
//!   last write, so no client received a response for this write. Any other unreadable part is
//!   **damage**, and the store does not open. A frame is written only after the previous one is
//!   synced. So if a complete frame comes after an unreadable frame, the unreadable frame is
//!   damaged, not torn.
//! - The writer writes **zeros** behind the last frame in advance, and writes the next frames over
//!   them. If the size of a file does not change, `fdatasync` has less to write. Zeros up to the
//!   end of a segment are the end of its frames. A gap between segments is detected by the numbers
//!   of the frames.
//! - The [`mark`] beside the directory records the last acknowledged frame. A WAL that ends before
//!   that frame has lost acknowledged changes, and is rejected, too.
//! - The [`writer`] owns the directory for its lifetime, and its lock excludes other processes.
//!   Writers of a bucket need fencing. The writer of a local WAL needs no fencing, because the
//!   operating system releases the lock only when the writer closes or its process ends.
//!
//! A write that fails temporarily leaves no trace: the writer cuts off the partial frame and
//! retries until the disk has space (or file descriptors are free). Until then, the store rejects
//! new writes ([`JournalState::check_writable`]).
//!
//! After a failed sync, the content of the disk is unknown. The system may have dropped the data
//! that it could not write, and a second sync would then succeed. So the WAL and the store close.
//! The next start reads the actual content. The WAL and the store also close after errors that no
//! retry can resolve.

pub mod bucket;
mod damage;
mod error;
mod frame;
mod frame_writer;
mod frames;
mod gc;
mod mark;
mod open_segment;
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

use slatedb::wal::{WalGc, WalReader, WriterInit};

pub use damage::{DamagedFile, RESTORE};
pub use error::Error;
pub use frame_writer::LogFlusher;
pub use state::JournalState;

use frames::{read_after, read_remaining};
use gc::JournalGc;
use mark::{AckPosition, Mark};
use reader::JournalReader;
use segment::Segment;
use slateberg_base::error_chain::Cause;
use slateberg_kms::keys::Keys;

/// Directory of the WAL, relative to the store's directory.
pub const DIRECTORY: &str = "journal";
/// Lock file of the writer.
const LOCK: &str = "lock";

/// The local WAL of a store. The directory is locked for this process.
pub struct Journal {
    directory: PathBuf,
    lock: File,
}

/// The lock on a local WAL. It can outlive the writer.
pub struct JournalLock {
    directory: PathBuf,
    _lock: File,
}

/// The result of checking a local WAL.
#[derive(Debug)]
pub struct CheckedJournal {
    /// The number of segments.
    pub segments: usize,
    /// The missing or damaged file, if any. The records after it cannot be read.
    pub damaged: Option<DamagedFile>,
}

/// Creates the writer when SlateDB requests it, which happens only once.
struct JournalWriterInit {
    directory: PathBuf,
    keys: Option<Arc<Keys>>,
    state: JournalState,
    lock: Mutex<Option<File>>,
    flusher: LogFlusher,
}

impl Journal {
    /// Opens the WAL of a store's directory, and creates it if necessary. Errors if another process
    /// has locked it. Leaves the rest of the store unchanged.
    pub fn open(store: &Path) -> Result<Self, Error> {
        let directory = store.join(DIRECTORY);
        let failed = |error: io::Error| {
            let journal = format_args!("the journal in {}", directory.display());
            Error::Unavailable(Cause::about(journal, error))
        };
        create_directory(&directory).map_err(failed)?;
        let path = directory.join(LOCK);
        let options = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let lock = options.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { directory, lock }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse(store.display().to_string())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Whether the WAL has no segments.
    pub fn is_empty(&self) -> Result<bool, Error> {
        is_empty(&self.directory)
    }

    /// Returns a handle that keeps the directory locked until the handle is dropped, even if the
    /// writer closes earlier.
    pub fn share_lock(&self) -> Result<JournalLock, Error> {
        let lock = self.lock.try_clone().map_err(|error| Error::Unavailable(Cause::new(error)))?;
        Ok(JournalLock { directory: self.directory.clone(), _lock: lock })
    }

    /// Accepts the loss of acknowledged frames at the end of the WAL. From then on, the remaining
    /// frames with greater numbers than `after` count as the complete WAL. Returns the number of
    /// the last acknowledged frame before this call (`None` if it is unknown) and after this call.
    pub fn accept_loss(
        &self,
        after: u64,
        keys: Option<&Keys>,
    ) -> Result<(Option<u64>, u64), Error> {
        let failed = |error: io::Error| Error::Unavailable(Cause::new(error));
        let left = read_remaining(&self.directory, after, keys)?.ack_position(after);
        let before = match mark::read(&self.directory) {
            Ok(acknowledged) => acknowledged.map(|it| it.frame),
            Err(mark::Unreadable::Io(error)) => return Err(failed(error)),
            Err(mark::Unreadable::Damaged(_)) => None,
        };
        Mark::open(&self.directory).map_err(failed)?.write_durably(left).map_err(failed)?;
        Ok((before, left.frame))
    }

    /// Returns the factory of the writer, which replays the existing frames and appends further
    /// frames, and the flusher of this writer. With keys, all frames are sealed.
    pub fn into_writer(
        self,
        keys: Option<Arc<Keys>>,
        state: JournalState,
    ) -> (Box<dyn WriterInit>, LogFlusher) {
        let (lock, flusher) = (Mutex::new(Some(self.lock)), LogFlusher::default());
        let handle = flusher.clone();
        let directory = self.directory;
        (Box::new(JournalWriterInit { directory, keys, state, lock, flusher }), handle)
    }
}

impl JournalLock {
    /// Deletes all segments of a cleanly closed store. The records up to the frame `replayed` must
    /// be in sorted runs. Errors if a later frame was acknowledged. Deletes the newest segment
    /// first, so that an interruption leaves no gap between segments.
    pub fn discard(self, replayed: u64) -> io::Result<()> {
        let acknowledged = match mark::read(&self.directory) {
            Ok(acknowledged) => acknowledged.unwrap_or_default(),
            Err(mark::Unreadable::Io(error)) => return Err(error),
            Err(mark::Unreadable::Damaged(file)) => return Err(io::Error::other(file)),
        };
        if acknowledged.frame > replayed {
            let (from, to) = (replayed + 1, acknowledged.frame);
            return Err(io::Error::other(format!("frames {from} to {to} are not in sorted runs")));
        }
        // This mark lets the next start detect that the newest manifest is missing: an older
        // manifest contains only the records up to a smaller frame number.
        let closed = AckPosition { frame: replayed, ..AckPosition::default() };
        Mark::open(&self.directory)?.write_durably(closed)?;
        for segment in Segment::list(&self.directory)?.into_iter().rev() {
            fs::remove_file(&segment.path)?;
        }
        Ok(())
    }
}

/// Returns the garbage collector of segments that no manifest refers to.
pub fn collector(store: &Path) -> Arc<dyn WalGc> {
    Arc::new(JournalGc::new(store.join(DIRECTORY)))
}

/// Returns a reader of the WAL in a store's directory. The reader writes nothing. `None` if the
/// store's WAL consists of objects. The next start migrates such a WAL.
pub fn reader(store: &Path, keys: Option<Arc<Keys>>) -> Result<Option<Arc<dyn WalReader>>, Error> {
    let directory = store.join(DIRECTORY);
    let has_journal = !is_empty(&directory)? || !has_object_log(store);
    Ok(has_journal.then(|| Arc::new(JournalReader::new(directory, keys)) as Arc<dyn WalReader>))
}

/// Whether a store's directory has a WAL that consists of objects.
pub fn has_object_log(store: &Path) -> bool {
    store.join("wal").is_dir()
}

/// Checks the WAL of a store's directory, and returns the damage. The frames up to `after` are
/// already in sorted runs.
pub fn check(store: &Path, after: u64, keys: Option<&Keys>) -> Result<CheckedJournal, Error> {
    let directory = store.join(DIRECTORY);
    let segments = Segment::list(&directory);
    let segments = segments.map_err(|error| Error::Unavailable(Cause::new(error)))?;
    let mut checked = CheckedJournal { segments: segments.len(), damaged: None };
    if segments.is_empty() && has_object_log(store) {
        return Ok(checked);
    }
    match read_after(&directory, after, keys).map_err(Error::from) {
        Ok(_) => {}
        Err(Error::DamagedFile(file)) => checked.damaged = Some(file),
        Err(error) => return Err(error),
    }
    Ok(checked)
}

fn is_empty(directory: &Path) -> Result<bool, Error> {
    let segments = Segment::list(directory);
    Ok(segments.map_err(|error| Error::Unavailable(Cause::new(error)))?.is_empty())
}

/// Whether an object has the name of a segment.
pub fn is_segment(name: &str) -> bool {
    Segment::has_extension(Path::new(name))
}

/// Creates a directory and its missing parents durably.
pub fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let Some(parent) = directory.parent() else { return Ok(()) };
    create_directory(parent)?;
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => File::open(parent)?.sync_all(),
    }
}
