//! [`BucketLog`]: the files of a log in a bucket.

use std::sync::Arc;

use futures::TryStreamExt;
use slatedb::BlockTransformer;
use slatedb::object_store::path::Path;
use slatedb::object_store::{Error, ObjectStore, ObjectStoreExt, Result};
use slatedb::wal::WalReader;

use crate::damage::{DamagedFile, RESTORE};

/// Name of the log's directory.
const DIRECTORY: &str = "wal";
/// Maximum number of files that a writer puts at the same time. A reader must know it, so another
/// value would be another format of the log.
pub const PUTS_MAX: u64 = 8;
/// Number of files that are read concurrently.
pub const READS_MAX: usize = 16;

/// The log of a store in a bucket.
#[derive(Clone)]
pub struct BucketLog {
    pub(super) object_store: Arc<dyn ObjectStore>,
    pub(super) directory: Path,
    /// Decrypts the blocks of files that SlateDB wrote.
    pub(super) blocks: Option<Arc<dyn BlockTransformer>>,
}

impl BucketLog {
    /// Returns the log of the store at a path. The object store decrypts the files of an encrypted
    /// store.
    pub fn new(
        object_store: Arc<dyn ObjectStore>,
        store: &Path,
        blocks: Option<Arc<dyn BlockTransformer>>,
    ) -> Self {
        Self { object_store, directory: directory(store), blocks }
    }

    /// Returns the path of a file.
    pub fn file(&self, number: u64) -> Path {
        self.directory.clone().join(format!("{number:020}.sst"))
    }

    /// Returns the numbers of the files after `file`, in order.
    pub async fn numbers_after(&self, file: u64) -> Result<Vec<u64>> {
        let listed = self.object_store.list_with_offset(Some(&self.directory), &self.file(file));
        let numbers = listed.try_filter_map(async |meta| Ok(number(&meta.location)));
        let mut numbers: Vec<u64> = numbers.try_collect().await?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the damage if this file is missing.
    pub fn damage(&self, missing: u64) -> DamagedFile {
        let reason = "is missing, but later files exist".to_owned();
        DamagedFile { file: self.file(missing).to_string(), reason, advice: RESTORE }
    }

    /// Returns the number of the last file before the first missing one. Returns `after` if the file
    /// after it is missing.
    pub async fn last_after(&self, after: u64) -> Result<u64> {
        Ok(last_consecutive(&self.numbers_after(after).await?, after))
    }

    /// Whether a file exists.
    pub async fn has(&self, number: u64) -> Result<bool> {
        match self.object_store.head(&self.file(number)).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns a reader that writes nothing.
    pub fn into_reader(self) -> Arc<dyn WalReader> {
        Arc::new(self)
    }
}

/// Returns the directory of the log of a store.
pub fn directory(store: &Path) -> Path {
    store.clone().join(DIRECTORY)
}

/// Returns the number of a file such as `00000000000000000012.sst`.
pub fn number(location: &Path) -> Option<u64> {
    location.filename()?.split('.').next()?.parse().ok()
}

/// Returns the last of the consecutive numbers after `after`. A listing of many objects consists of
/// several responses, so it can contain a file but lack the one before it.
pub fn last_consecutive(numbers: &[u64], after: u64) -> u64 {
    let run = (after + 1..).zip(numbers).take_while(|(next, number)| next == *number);
    run.last().map_or(after, |(next, _)| next)
}

/// Returns the first missing number if it must have existed: a writer puts at most the next
/// `PUTS_MAX - 1` files before a file exists.
pub fn missing_file(numbers: &[u64], after: u64) -> Option<u64> {
    let missing = last_consecutive(numbers, after) + 1;
    numbers.last().is_some_and(|newest| *newest >= missing + PUTS_MAX).then_some(missing)
}
