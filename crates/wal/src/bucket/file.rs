//! The content of a file of the log, and which files count.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{self, ObjectStoreExt};
use slatedb::{BlockTransformer, RowEntry, SstReader};

use super::log::{BucketLog, PUTS_MAX, number};
use crate::damage::{DamagedFile, RESTORE};
use crate::frame;

/// The path of SlateDB's sorted run with the id 0.
const SORTED_RUN: &str = "compacted/00000000000000000000000000.sst";

/// A file of the log.
#[derive(Debug)]
pub struct LogFile {
    /// The number of the file.
    pub number: u64,
    /// The content of the file.
    pub content: FileContent,
}

/// The content of a file of the log.
#[derive(Debug)]
pub enum FileContent {
    /// An empty file, with which a writer fences its predecessor.
    Fence,
    /// A frame, by a writer that puts several files at the same time. Without rows if the file only
    /// fills the space after a fence.
    Frame(Vec<RowEntry>),
    /// The rows of a file that SlateDB wrote, after it knew that all earlier files are durable.
    Sequential(Vec<RowEntry>),
}

/// The reason why a file of the log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The object store returned an error.
    #[error(transparent)]
    ObjectStore(#[from] object_store::Error),
    /// The content is not that of a file of the log.
    #[error(transparent)]
    Damaged(DamagedFile),
    /// SlateDB cannot read the file.
    #[error(transparent)]
    Sequential(#[from] slatedb::Error),
}

impl LogFile {
    /// Returns the number of a file. When this file was put, its writer knew that the returned file and
    /// all earlier ones are durable.
    pub fn last_durable(&self) -> u64 {
        match self.content {
            // A new writer does not respond with the state of its predecessor before it has changed
            // something.
            FileContent::Fence => 0,
            FileContent::Frame(_) => self.number.saturating_sub(PUTS_MAX),
            FileContent::Sequential(_) => self.number - 1,
        }
    }
}

/// Recognizes dead files when the files are read in order.
#[derive(Debug, Default)]
pub struct Fences {
    /// The number of the last fence.
    last: Option<u64>,
}

impl Fences {
    /// Returns the rows of the next file, or none if the file is dead.
    pub fn live_rows(&mut self, file: LogFile) -> Vec<RowEntry> {
        match file.content {
            FileContent::Fence => {
                self.last = Some(file.number);
                Vec::new()
            }
            // A writer begins after the files that its predecessor may have put.
            FileContent::Frame(_)
                if self.last.is_some_and(|fence| file.number < fence + PUTS_MAX) =>
            {
                Vec::new()
            }
            FileContent::Frame(rows) | FileContent::Sequential(rows) => rows,
        }
    }
}

impl BucketLog {
    /// Returns what a reader has to know if it begins with the file `next`. The files up to `after`
    /// are obsolete.
    pub async fn fences_before(&self, next: u64, after: u64) -> object_store::Result<Fences> {
        let before = self.file(next.saturating_sub(PUTS_MAX).max(after));
        let mut listed = self.object_store.list_with_offset(Some(&self.directory), &before);
        let mut last = None;
        while let Some(meta) = listed.try_next().await? {
            let fence = number(&meta.location).filter(|number| *number < next && meta.size == 0);
            last = last.max(fence);
        }
        Ok(Fences { last })
    }

    /// Reads a file.
    pub async fn read(&self, number: u64) -> Result<LogFile, ReadError> {
        let path = self.file(number);
        let bytes = self.object_store.get(&path).await?.bytes().await?;
        let damaged = |reason: String| {
            let file = path.to_string();
            ReadError::Damaged(DamagedFile { file, reason, advice: RESTORE })
        };
        let content = if bytes.is_empty() {
            FileContent::Fence
        } else if bytes.starts_with(&frame::magic(None)) {
            let is_whole = |end| end == bytes.len();
            let frame = frame::read(&bytes, 0, None).ok().filter(|(_, end)| is_whole(*end));
            let Some((frame, _)) = frame else { return Err(damaged("is damaged".to_owned())) };
            if frame.number != number {
                return Err(damaged(format!("is damaged: it contains frame {}", frame.number)));
            }
            let rows = frame.rows().ok_or_else(|| damaged("contains damaged rows".to_owned()))?;
            FileContent::Frame(rows)
        } else {
            FileContent::Sequential(rows_of_run(bytes, self.blocks.clone()).await?)
        };
        Ok(LogFile { number, content })
    }
}

/// Returns the rows of a file that SlateDB wrote. SlateDB's reader of log files does not decrypt
/// blocks, in contrast to its reader of sorted runs. Both kinds of files have the same format, so
/// the file is read as the only sorted run of a store in memory.
async fn rows_of_run(
    content: Bytes,
    blocks: Option<Arc<dyn BlockTransformer>>,
) -> Result<Vec<RowEntry>, ReadError> {
    let memory = Arc::new(InMemory::new());
    memory.put(&Path::from(SORTED_RUN), content.into()).await?;
    let reader = SstReader::new(Path::default(), memory, None, blocks);
    let run = reader.open(Default::default()).await?;
    let mut rows = Vec::new();
    for block in 0..run.index().await?.len() {
        rows.extend(run.read_block(block).await?);
    }
    Ok(rows)
}
