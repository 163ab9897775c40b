//! The mark: a small file beside the local WAL that records the last acknowledged frame.
//!
//! A torn end of the last segment is normal after a crash. So the content of the WAL alone does not
//! show whether a write was interrupted or acknowledged frames were lost. The mark records the last
//! acknowledged frame and its end. The mark is written after the frame is synced, so it never
//! claims more than the disk contains. It is written before any client receives a response. The
//! mark itself is synced only with each new segment and at a clean shutdown. So a commit costs one
//! more short write to the system's cache, but no additional sync. If the process is killed, the
//! mark is still exact. After a power failure, the mark may name an earlier frame. It then misses
//! some losses, but never reports a loss that did not happen.
//!
//! The mark is beside the WAL's directory, not in it. So if a copy of the store lacks the directory
//! but contains the mark, the next start detects the loss. The mark has 32 bytes with little-endian
//! numbers: `sbm1`, the CRC-32 of the rest, the number of the last acknowledged frame, the number
//! of the first frame in its segment, and the end of the frame in the segment.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut};

use super::damage::{ACCEPT_LOSS, DamagedFile};
use super::segment::Segment;

const MAGIC: [u8; 4] = *b"sbm1";
const BYTES: usize = 32;

/// The position up to which a WAL is acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AckPosition {
    /// The number of the last acknowledged frame.
    pub(super) frame: u64,
    /// The number of the first frame in its segment.
    pub(super) segment: u64,
    /// The offset in that segment at which the last acknowledged frame ends.
    pub(super) end: u64,
}

/// The mark of a WAL, open for writing.
pub(super) struct Mark {
    file: File,
    /// Whether the last write failed. Only the first of consecutive failures is logged.
    has_failed: bool,
}

/// The reason why a mark cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The file is not a valid mark.
    Damaged(DamagedFile),
    /// The operating system reports an error.
    Io(io::Error),
}

/// Returns the path of a WAL's mark.
pub(super) fn path(journal: &Path) -> PathBuf {
    journal.with_extension("mark")
}

/// Reads the mark of a WAL. Returns `None` if there is no mark: either an older version of
/// slateberg wrote the WAL, or the power failed before the first sync.
pub(super) fn read(journal: &Path) -> Result<Option<AckPosition>, Unreadable> {
    let path = path(journal);
    let mut bytes = Vec::new();
    match File::open(&path) {
        Ok(file) => file.take(BYTES as u64).read_to_end(&mut bytes).map_err(Unreadable::Io)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Unreadable::Io(error)),
    };
    // After a power failure, a file may have its name and length, but zeros instead of its content.
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    decode(&bytes).map(Some).ok_or_else(|| {
        Unreadable::Damaged(DamagedFile {
            file: path.display().to_string(),
            reason: "is damaged: the last acknowledged change of the journal is unknown".to_owned(),
            advice: ACCEPT_LOSS,
        })
    })
}

/// Returns the damage of a WAL whose last frame is `last`. Returns `None` if no later frame was
/// acknowledged.
pub(super) fn lost_frames(
    journal: &Path,
    acknowledged: AckPosition,
    last: u64,
) -> Option<DamagedFile> {
    let AckPosition { frame, segment, end } = acknowledged;
    if frame <= last {
        return None;
    }
    if segment == 0 {
        // A clean shutdown writes a mark without a segment, because all records are in sorted runs
        // and the WAL is empty. So the missing records were in sorted runs.
        return Some(DamagedFile {
            file: "manifest".to_owned(),
            reason: format!(
                "lacks its newest files: at the last clean shutdown, sorted runs contained the changes up to frame \
                 {frame}, but the newest existing manifest contains only those up to frame {last}"
            ),
            advice: ACCEPT_LOSS,
        });
    }
    let file = Segment::new(journal, segment).path;
    let what = match file.metadata().map(|metadata| metadata.len()) {
        Err(_) => "is missing".to_owned(),
        Ok(0) => "is empty".to_owned(),
        Ok(length) if length < end => format!("ends at byte {length} instead of byte {end}"),
        Ok(_) => "has an incomplete end".to_owned(),
    };
    let reason = format!(
        "{what}: changes up to frame {frame} of the journal were acknowledged, but only those up to frame \
         {last} are left"
    );
    Some(DamagedFile { file: file.display().to_string(), reason, advice: ACCEPT_LOSS })
}

fn decode(bytes: &[u8]) -> Option<AckPosition> {
    let (mut head, mut rest) = bytes.split_at_checked(8)?;
    let is_mark = head.copy_to_bytes(4) == MAGIC[..] && head.get_u32_le() == crc32fast::hash(rest);
    let mut next = || rest.try_get_u64_le().ok();
    let acknowledged = AckPosition { frame: next()?, segment: next()?, end: next()? };
    is_mark.then_some(acknowledged)
}

fn encode(acknowledged: AckPosition) -> Vec<u8> {
    let mut rest = Vec::with_capacity(BYTES - 8);
    rest.put_u64_le(acknowledged.frame);
    rest.put_u64_le(acknowledged.segment);
    rest.put_u64_le(acknowledged.end);
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.put_slice(&MAGIC);
    bytes.put_u32_le(crc32fast::hash(&rest));
    bytes.put_slice(&rest);
    bytes
}

impl Mark {
    /// Opens the mark of a WAL. Creates a missing mark durably.
    pub(super) fn open(journal: &Path) -> io::Result<Self> {
        let path = path(journal);
        let is_new = !path.try_exists()?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        if is_new && let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
        Ok(Self { file, has_failed: false })
    }

    /// Records the acknowledged position without a sync. The record fits into one disk sector.
    pub(super) fn write(&mut self, acknowledged: AckPosition) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&encode(acknowledged))
    }

    /// Records the acknowledged position durably.
    pub(super) fn write_durably(&mut self, acknowledged: AckPosition) -> io::Result<()> {
        self.write(acknowledged)?;
        self.file.sync_data()
    }

    /// Logs the failure if the mark could not be written. The frames themselves are durable, but
    /// the mark is outdated.
    pub(super) fn report(&mut self, written: io::Result<()>) {
        if let Err(error) = &written
            && !self.has_failed
        {
            tracing::warn!(
                %error,
                "cannot record the last acknowledged frame of the journal: a later loss of this frame would not be detected"
            );
        }
        self.has_failed = written.is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_round_trips_and_flipped_bits_are_detected() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let journal = directory.path().join("journal");
        assert!(matches!(read(&journal), Ok(None)), "no file");
        let mut mark = Mark::open(&journal).expect("it can be created");
        assert!(matches!(read(&journal), Ok(None)), "an empty file");
        let first = AckPosition { frame: 7, segment: 5, end: 1234 };
        mark.write_durably(AckPosition { frame: u64::MAX, ..first }).expect("it can be written");
        mark.write(first).expect("it can be written");
        assert!(matches!(read(&journal), Ok(Some(found)) if found == first));
        let bytes = std::fs::read(path(&journal)).expect("it can be read");
        assert_eq!(bytes.len(), BYTES);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            std::fs::write(path(&journal), &flipped).expect("it can be written");
            assert!(matches!(read(&journal), Err(Unreadable::Damaged(_))), "byte {at}");
        }
        std::fs::write(path(&journal), [0; BYTES]).expect("it can be written");
        assert!(matches!(read(&journal), Ok(None)), "zeros");
    }
}
