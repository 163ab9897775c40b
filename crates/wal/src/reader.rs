//! Reads the frames of a local WAL, in order.

use std::io;
use std::ops::{Bound, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;
use std::vec;

use async_trait::async_trait;
use slatedb::wal::{WalError, WalFileRange, WalIterator, WalReader, WalRows};

use super::frame::Frame;
use super::frames::read_after;
use slateberg_kms::keys::Keys;

/// Reads a WAL that no process is writing.
pub(super) struct JournalReader {
    directory: PathBuf,
    keys: Option<Arc<Keys>>,
}

/// Iterates over frames that were read.
pub(super) struct JournalIterator {
    frames: vec::IntoIter<Frame>,
}

impl JournalReader {
    pub(super) fn new(directory: PathBuf, keys: Option<Arc<Keys>>) -> Self {
        Self { directory, keys }
    }
}

impl JournalIterator {
    pub(super) fn new(frames: Vec<Frame>) -> Self {
        Self { frames: frames.into_iter() }
    }
}

/// Returns the numbers of a range. `reason` explains why the range must have an end.
pub(super) fn bounded(
    range: &WalFileRange,
    reason: &'static str,
) -> Result<RangeInclusive<u64>, WalError> {
    let first = match range.0 {
        Bound::Included(first) => first,
        Bound::Excluded(last) => last.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let last = match range.1 {
        Bound::Included(last) => last,
        Bound::Excluded(end) => end.saturating_sub(1),
        Bound::Unbounded => {
            return Err(WalError::InternalError(Arc::new(io::Error::other(reason))));
        }
    };
    Ok(first..=last)
}

#[async_trait]
impl WalReader for JournalReader {
    async fn iterator(&self, range: WalFileRange) -> Result<Box<dyn WalIterator>, WalError> {
        let numbers = bounded(&range, "a journal cannot be read while it is written")?;
        let after = numbers.start().saturating_sub(1);
        let mut frames = read_after(&self.directory, after, self.keys.as_deref())?.frames;
        frames.retain(|frame| numbers.contains(&frame.number));
        Ok(Box::new(JournalIterator::new(frames)))
    }

    async fn last_wal_file_id(&self, replay_after_wal_id: u64) -> Result<u64, WalError> {
        let keys = self.keys.as_deref();
        let found = read_after(&self.directory, replay_after_wal_id, keys)?;
        Ok(found.last(replay_after_wal_id))
    }
}

#[async_trait]
impl WalIterator for JournalIterator {
    async fn next(&mut self) -> Result<Option<WalRows>, WalError> {
        let Some(frame) = self.frames.next() else { return Ok(None) };
        let rows = frame.rows().ok_or_else(|| {
            let reason = format!("the rows of frame {} of the journal are damaged", frame.number);
            WalError::DataError(Arc::new(io::Error::new(io::ErrorKind::InvalidData, reason)))
        })?;
        Ok(Some(WalRows { rows, last_consumed_wal_file_id: frame.number }))
    }
}
