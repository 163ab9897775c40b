//! Reads the files of a log in a bucket, in order.

use std::io;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use slatedb::wal::{WalError, WalFileRange, WalIterator, WalReader, WalRows};

use super::file::{Fences, LogFile};
use super::log::{BucketLog, READS_MAX};
use super::requests::retried;

/// Iterates over the files that exist.
pub(super) struct LogIterator {
    files: BoxStream<'static, Result<LogFile, WalError>>,
    fences: Fences,
}

impl BucketLog {
    /// Iterates over these files, which must exist. The range must not begin directly after a fence.
    pub(super) fn iterate(&self, numbers: RangeInclusive<u64>) -> LogIterator {
        let log = self.clone();
        let read = move |number| {
            let log = log.clone();
            async move { retried(|| log.read(number)).await }
        };
        let files = stream::iter(numbers).map(read).buffered(READS_MAX);
        LogIterator { files: files.map_err(WalError::from).boxed(), fences: Fences::default() }
    }
}

#[async_trait]
impl WalIterator for LogIterator {
    async fn next(&mut self) -> Result<Option<WalRows>, WalError> {
        while let Some(file) = self.files.try_next().await? {
            let last_consumed_wal_file_id = file.number;
            let rows = self.fences.live_rows(file);
            // The next start must not begin between a fence and the files that may be dead.
            if !rows.is_empty() {
                return Ok(Some(WalRows { rows, last_consumed_wal_file_id }));
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl WalReader for BucketLog {
    async fn iterator(&self, range: WalFileRange) -> Result<Box<dyn WalIterator>, WalError> {
        let first = match range.0 {
            Bound::Included(first) => first,
            Bound::Excluded(last) => last.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let last = match range.1 {
            Bound::Included(last) => last,
            Bound::Excluded(end) => end.saturating_sub(1),
            Bound::Unbounded => {
                let reason = "the end of the log must be known";
                return Err(WalError::InternalError(Arc::new(io::Error::other(reason))));
            }
        };
        Ok(Box::new(self.iterate(first..=last)))
    }

    async fn last_wal_file_id(&self, replay_after_wal_id: u64) -> Result<u64, WalError> {
        Ok(retried(|| self.last_after(replay_after_wal_id)).await?)
    }
}
