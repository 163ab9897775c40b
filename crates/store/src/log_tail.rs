//! [`LogTail`]: the end of the writer's log in the bucket, for a replica that the writer sends
//! nothing.
//!
//! The writer puts the files of its log one after the other, and each acknowledged transaction is
//! in one of them. So a replica that has read all files has all acknowledged transactions.
//!
//! The last file may be in the bucket although the writer does not know it yet. If a replica showed
//! it, a client could see a change at this replica, and then not see it at the writer. So the
//! transactions of the last file are **settled** only if the writer has reported their sequence
//! numbers, or if there is another file with transactions after it: the writer puts a file only after
//! it knows that the previous one is durable. The file with which a new writer fences its predecessor
//! has no transactions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{Error as ObjectError, ObjectStore, ObjectStoreExt};
use slatedb::{BlockTransformer, RowEntry, SstReader, ValueDeletable};

use super::builder::sealed_blocks;
use super::encryption::UnlockedKeys;
use super::error::{Error, encryption_failure};
use super::overlay::{Moment, end_of_log, log_file, log_files_after};
use super::replication::{Row, RowGroup};
use slateberg_base::uptime::uptime;
use slateberg_kms as kms;

/// Time after which the next file may have been deleted, if the clock of the writer is wrong.
/// Otherwise, SlateDB keeps each file for five minutes.
const KEPT_MIN: Duration = Duration::from_secs(10);

/// Number of files that are read concurrently.
const FILES_PARALLEL: usize = 16;

/// The path of SlateDB's sorted run with the id 0.
const SORTED_RUN: &str = "compacted/00000000000000000000000000.sst";

/// Reads the files of the log that are written after a replica was opened.
pub struct LogTail {
    files: LogFiles,
    /// The number of the next file.
    next: u64,
    /// When this file was looked for, as a time since the start of the machine.
    read_at: Duration,
    kept_min: Duration,
    /// The sequence number of the last transaction in the files that were read.
    last: u64,
    /// All transactions up to this sequence number are settled.
    settled: u64,
    /// Transactions of the last file that are not settled.
    waiting: Vec<RowGroup>,
}

/// The files of the log.
struct LogFiles {
    bucket: Arc<dyn ObjectStore>,
    store: Path,
    /// The keys of an encrypted store.
    unlocked: Option<UnlockedKeys>,
}

impl LogTail {
    /// Begins after the log file at this moment. Up to it, `last` is the newest sequence number.
    /// Transactions up to `settled` are in sorted runs. `bucket` decrypts the files of an encrypted
    /// store.
    pub(super) fn new(
        (bucket, store): (Arc<dyn ObjectStore>, Path),
        unlocked: Option<UnlockedKeys>,
        moment: &Moment,
        (settled, last): (u64, u64),
    ) -> Self {
        let files = LogFiles { bucket, store, unlocked };
        let (next, read_at) = (moment.end_of_log() + 1, uptime());
        let (kept_min, waiting) = (KEPT_MIN, Vec::new());
        Self { files, next, read_at, kept_min, last, settled, waiting }
    }

    /// Reads all files that exist now, and returns the transactions that became settled. The writer
    /// has reported all transactions up to the sequence number `reported`. Costs one request if
    /// there is no new file.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the writer has deleted the next file, because the last call was long
    /// ago.
    pub async fn read(&mut self, reported: u64) -> Result<Vec<RowGroup>, Error> {
        self.settled = self.settled.max(reported);
        let began = uptime();
        let numbers = self.next..=self.end().await?;
        let files = stream::iter(numbers).map(|number| self.files.groups(number));
        let mut files = files.buffered(FILES_PARALLEL);
        while let Some(groups) = files.try_next().await? {
            self.next += 1;
            if let Some(newest) = groups.last() {
                self.settled = self.settled.max(self.last);
                self.last = newest.sequence;
                self.waiting.extend(groups);
            }
        }
        self.read_at = began;
        let settled = self.settled;
        Ok(self.waiting.extract_if(.., |group| group.sequence <= settled).collect())
    }

    /// Whether all transactions that were read are settled.
    pub fn is_settled(&self) -> bool {
        self.last <= self.settled
    }

    /// Returns the number of the last file that exists now. The next file may have been written and
    /// deleted since the last call. SlateDB keeps the last file before those that a start reads, so a
    /// listing then shows a gap.
    async fn end(&self) -> Result<u64, Error> {
        let read = self.next - 1;
        let may_be_deleted = uptime().saturating_sub(self.read_at) > self.kept_min;
        if !may_be_deleted && !self.files.has(self.next).await? {
            return Ok(read);
        }
        let files = log_files_after(&*self.files.bucket, &self.files.store, read).await;
        let files = files.map_err(Error::unavailable)?;
        if files.first().is_some_and(|first| *first > self.next) {
            return Err(Error::unavailable("the log was not read for too long"));
        }
        Ok(end_of_log(&files, read))
    }
}

impl LogFiles {
    async fn has(&self, number: u64) -> Result<bool, Error> {
        match self.bucket.head(&log_file(&self.store, number)).await {
            Ok(_) => Ok(true),
            Err(ObjectError::NotFound { .. }) => Ok(false),
            Err(error) => Err(Error::unavailable(error)),
        }
    }

    /// Returns the transactions of a file.
    async fn groups(&self, number: u64) -> Result<Vec<RowGroup>, Error> {
        let file = log_file(&self.store, number);
        let read = match (self.read(&file).await, &self.unlocked) {
            // The writer has a new data key, which is in the key ring.
            (Err(Error::Encryption(kms::Error::UnknownDataKey(_))), Some(unlocked)) => {
                unlocked.refresh().await?;
                self.read(&file).await
            }
            (read, _) => read,
        };
        let mut groups: Vec<RowGroup> = Vec::new();
        for RowEntry { key, value, seq, .. } in read? {
            let value = match value {
                ValueDeletable::Value(value) => Some(value),
                ValueDeletable::Tombstone => None,
                ValueDeletable::Merge(_) => {
                    return Err(Error::unavailable("the log contains a merge operand"));
                }
            };
            let row = Row { key, value };
            match groups.last_mut() {
                Some(group) if group.sequence == seq => group.rows.push(row),
                _ => groups.push(RowGroup { sequence: seq, rows: vec![row] }),
            }
        }
        Ok(groups)
    }

    /// Reads the rows of a file. A file with which a writer fences its predecessor is empty.
    async fn read(&self, file: &Path) -> Result<Vec<RowEntry>, Error> {
        let read = async { self.bucket.get(file).await?.bytes().await };
        let content = read.await.map_err(object_error)?;
        if content.is_empty() {
            return Ok(Vec::new());
        }
        let blocks = self.unlocked.as_ref().map(sealed_blocks);
        rows(content, blocks).await
    }
}

/// Returns the rows of a log file with this content. SlateDB's reader of log files does not decrypt
/// blocks, in contrast to its reader of sorted runs. Both kinds of files have the same format, so
/// the file is read as the only sorted run of a store in memory.
async fn rows(
    content: Bytes,
    blocks: Option<Arc<dyn BlockTransformer>>,
) -> Result<Vec<RowEntry>, Error> {
    let memory = Arc::new(InMemory::new());
    let put = memory.put(&Path::from(SORTED_RUN), content.into()).await;
    put.map_err(Error::internal)?;
    let reader = SstReader::new(Path::default(), memory, None, blocks);
    let run = reader.open(Default::default()).await?;
    let mut rows = Vec::new();
    for block in 0..run.index().await?.len() {
        rows.extend(run.read_block(block).await?);
    }
    Ok(rows)
}

fn object_error(error: ObjectError) -> Error {
    encryption_failure(&error).map_or_else(|| Error::unavailable(error), Error::Encryption)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::IfMissing;
    use crate::settings::Settings;
    use crate::test_support::{assert_holds, encrypted, has, in_memory, location, write};
    use crate::{Store, open::StoreLocation};

    async fn writer(location: &StoreLocation) -> Store {
        let store = Store::take_over(location, Settings::default(), None).await;
        store.expect("the store opens")
    }

    async fn replica(location: &StoreLocation) -> (Store, LogTail) {
        Store::open_replica(location, Settings::default()).await.expect("the replica opens")
    }

    /// Applies the transactions that are settled.
    async fn follow((replica, tail): &mut (Store, LogTail), reported: u64) {
        let groups = tail.read(reported).await.expect("the log is read");
        replica.apply(&groups).await.expect("they are applied");
    }

    #[tokio::test]
    async fn transaction_is_settled_by_the_next_file_or_by_a_report() {
        let location = location(&Arc::new(InMemory::new()), "state");
        let writer = writer(&location).await;
        write(&writer, "a").await;
        let mut replica = replica(&location).await;
        assert!(!replica.1.is_settled());
        let reported = writer.sequence().expect("open");
        follow(&mut replica, reported).await;
        assert!(replica.1.is_settled());
        write(&writer, "b").await;
        follow(&mut replica, reported).await;
        assert!(!replica.1.is_settled() && !has(&replica.0.durable(), "b").await);
        write(&writer, "c").await;
        follow(&mut replica, reported).await;
        assert!(!replica.1.is_settled() && !has(&replica.0.durable(), "c").await);
        assert_holds(&replica.0.durable(), &["a", "b"]).await;
        follow(&mut replica, writer.sequence().expect("open")).await;
        assert!(replica.1.is_settled());
        assert_holds(&replica.0.durable(), &["a", "b", "c"]).await;
    }

    #[tokio::test]
    async fn many_files_are_read_at_once() {
        let location = location(&Arc::new(InMemory::new()), "state");
        let writer = writer(&location).await;
        let mut replica = replica(&location).await;
        let names: Vec<_> = (0..50).map(|number| format!("n{number}")).collect();
        for name in &names {
            write(&writer, name).await;
        }
        follow(&mut replica, writer.sequence().expect("open")).await;
        assert!(replica.1.is_settled());
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_holds(&replica.0.durable(), &names).await;
        assert_eq!(replica.0.sequence().expect("open"), writer.sequence().expect("open"));
    }

    #[tokio::test]
    async fn deleted_file_is_an_error() {
        let bucket = Arc::new(InMemory::new());
        let location = location(&bucket, "state");
        let writer = writer(&location).await;
        let mut replica = replica(&location).await;
        // As if the machine had been suspended after the last read.
        replica.1.kept_min = Duration::ZERO;
        write(&writer, "a").await;
        follow(&mut replica, writer.sequence().expect("open")).await;
        assert_holds(&replica.0.durable(), &["a"]).await;
        for name in ["b", "c"] {
            write(&writer, name).await;
        }
        let deleted = log_file(&replica.1.files.store, replica.1.next);
        bucket.delete(&deleted).await.expect("it exists");
        assert!(replica.1.read(0).await.is_err());
    }

    #[tokio::test]
    async fn fence_of_a_new_writer_settles_nothing() {
        let location = location(&Arc::new(InMemory::new()), "state");
        let first = writer(&location).await;
        let mut replica = replica(&location).await;
        write(&first, "a").await;
        let second = writer(&location).await;
        follow(&mut replica, 0).await;
        assert!(!replica.1.is_settled() && !has(&replica.0.durable(), "a").await);
        write(&second, "b").await;
        follow(&mut replica, 0).await;
        assert_holds(&replica.0.durable(), &["a"]).await;
        assert!(!replica.1.is_settled());
    }

    #[tokio::test]
    async fn flushed_transactions_are_settled() {
        let location = location(&Arc::new(InMemory::new()), "state");
        let writer = writer(&location).await;
        write(&writer, "a").await;
        writer.flush().await.expect("it is flushed");
        let mut replica = replica(&location).await;
        follow(&mut replica, 0).await;
        assert!(replica.1.is_settled());
    }

    #[tokio::test]
    async fn encrypted_log_is_read_after_the_rotation_of_the_data_key() {
        let (mut location, _file) = encrypted(in_memory());
        let shared = Store::unlock(&location, IfMissing::Create).await.expect("it is new");
        location.encryption.as_mut().expect("it is encrypted").shared = shared;
        let writer = writer(&location).await;
        write(&writer, "a").await;
        let mut replica = replica(&location).await;
        write(&writer, "b").await;
        follow(&mut replica, writer.sequence().expect("open")).await;
        assert_holds(&replica.0.durable(), &["a", "b"]).await;
        let keys = writer.shared.unlocked.as_ref().expect("it is encrypted");
        for name in ["c", "d"] {
            keys.rotate().await.expect("the ring is replaced");
            write(&writer, name).await;
        }
        follow(&mut replica, writer.sequence().expect("open")).await;
        assert_holds(&replica.0.durable(), &["a", "b", "c", "d"]).await;
        let (later, _) = self::replica(&location).await;
        assert_holds(&later.durable(), &["a", "b", "c", "d"]).await;
    }

    #[tokio::test]
    async fn changed_file_of_an_encrypted_log_is_an_error() {
        let bucket = Arc::new(InMemory::new());
        let (location, _file) = encrypted(location(&bucket, "state"));
        Store::unlock(&location, IfMissing::Create).await.expect("it is new");
        let writer = writer(&location).await;
        let mut replica = replica(&location).await;
        write(&writer, "a").await;
        let file = log_file(&replica.1.files.store, replica.1.next);
        let content =
            bucket.get(&file).await.expect("it exists").bytes().await.expect("it is read");
        let mut changed = content.to_vec();
        *changed.last_mut().expect("it is not empty") ^= 1;
        bucket.put(&file, changed.into()).await.expect("it is replaced");
        let read = replica.1.read(writer.sequence().expect("open")).await;
        assert!(matches!(read, Err(Error::Encryption(_))), "{read:?}");
    }
}
