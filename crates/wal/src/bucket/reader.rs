//! Reads the files of a log in a bucket, in order.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use slatedb::wal::{WalError, WalFileRange, WalIterator, WalReader, WalRows};

use super::file::{Fences, LogFile};
use super::log::{BucketLog, READS_MAX};
use super::requests::retried;
use crate::reader::bounded;

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
        let numbers = bounded(&range, "the end of the log must be known")?;
        Ok(Box::new(self.iterate(numbers)))
    }

    async fn last_wal_file_id(&self, replay_after_wal_id: u64) -> Result<u64, WalError> {
        Ok(retried(|| self.last_after(replay_after_wal_id)).await?)
    }
}
