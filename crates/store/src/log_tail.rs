//! [`LogTail`]: the end of the writer's log in the bucket, for a replica that the writer sends
//! nothing.
//!
//! Each acknowledged transaction is in a file of the log, and no file before it is missing. So a
//! replica that has read all files before the first missing one has all acknowledged transactions.
//!
//! The last files may be in the bucket although the writer does not know it yet. If a replica showed
//! them, a client could see a change at this replica, and then not see it at the writer. So the
//! transactions of a file are **settled** only if the writer has reported their sequence numbers, or
//! if a later file shows that the writer knew the file to be durable
//! ([`LogFile::last_durable`]).

use std::collections::VecDeque;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use slatedb::{RowEntry, ValueDeletable};

use super::encryption::UnlockedKeys;
use super::error::{Error, encryption_failure};
use super::overlay::Moment;
use super::replication::{Row, RowGroup};
use slateberg_base::uptime::uptime;
use slateberg_kms as kms;
use slateberg_wal::bucket::{BucketLog, Fences, LogFile, READS_MAX, ReadError, last_consecutive};

/// Time after which the next file may have been deleted, if the clock of the writer is wrong.
/// Otherwise, SlateDB keeps each file for five minutes.
const KEPT_MIN: Duration = Duration::from_secs(10);

/// Maximum number of checks whether the writer is still putting a file, and their interval.
const PUT_CHECKS_MAX: usize = 20;
const PUT_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Reads the files of the log that are written after a replica was opened.
pub struct LogTail {
    files: LogFiles,
    fences: Fences,
    /// The number of the next file.
    next: u64,
    /// When this file was looked for, as a time since the start of the machine.
    read_at: Duration,
    kept_min: Duration,
    /// The sequence number of the last transaction in the files that were read.
    last: u64,
    /// All transactions up to this sequence number are settled.
    settled: u64,
    /// Files whose transactions may not be settled: the number of the file, and the sequence number
    /// of its last transaction.
    unsettled: VecDeque<(u64, u64)>,
    /// Transactions that are not settled.
    waiting: Vec<RowGroup>,
}

/// The files of the log.
struct LogFiles {
    log: BucketLog,
    /// The keys of an encrypted store.
    unlocked: Option<UnlockedKeys>,
}

impl LogTail {
    /// Begins after the log file at this moment, which replays the files after `replay_after`. Up to
    /// it, `last` is the newest sequence number. Transactions up to `settled` are in sorted runs.
    pub(super) async fn new(
        log: BucketLog,
        unlocked: Option<UnlockedKeys>,
        (moment, replay_after): (&Moment, u64),
        (settled, last): (u64, u64),
    ) -> Result<Self, Error> {
        let (end, read_at) = (moment.end_of_log(), uptime());
        let fences = log.fences_before(end + 1, replay_after).await.map_err(Error::unavailable)?;
        Ok(Self {
            files: LogFiles { log, unlocked },
            fences,
            next: end + 1,
            read_at,
            kept_min: KEPT_MIN,
            last,
            settled,
            unsettled: VecDeque::from([(end, last)]),
            waiting: Vec::new(),
        })
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
        let files = stream::iter(numbers).map(|number| self.files.read(number));
        let mut files = files.buffered(READS_MAX);
        while let Some(file) = files.try_next().await? {
            self.next += 1;
            let (number, durable) = (file.number, file.last_durable());
            let groups = groups(self.fences.live_rows(file))?;
            let Some(newest) = groups.last() else { continue };
            while let Some((_, sequence)) =
                self.unsettled.pop_front_if(|(number, _)| *number <= durable)
            {
                self.settled = self.settled.max(sequence);
            }
            self.last = newest.sequence;
            self.unsettled.push_back((number, newest.sequence));
            self.waiting.extend(groups);
        }
        self.read_at = began;
        let settled = self.settled;
        Ok(self.waiting.extract_if(.., |group| group.sequence <= settled).collect())
    }

    /// Whether all transactions that were read are settled.
    pub fn is_settled(&self) -> bool {
        self.last <= self.settled
    }

    /// Returns the number of the last file before the first missing one. If the last call was long ago,
    /// files may have been written and deleted since. SlateDB keeps the last file before those that a
    /// start reads, so a listing then shows a gap that stays.
    async fn end(&self) -> Result<u64, Error> {
        let (log, read) = (&self.files.log, self.next - 1);
        let may_be_deleted = uptime().saturating_sub(self.read_at) > self.kept_min;
        if !may_be_deleted && !log.has(self.next).await.map_err(Error::unavailable)? {
            return Ok(read);
        }
        let files = log.numbers_after(read).await.map_err(Error::unavailable)?;
        let end = last_consecutive(&files, read);
        if may_be_deleted && files.last().is_some_and(|newest| *newest > end) {
            self.wait_for_put(end + 1).await?;
        }
        Ok(end)
    }

    /// Waits for a file that the writer may be putting at the same time as later files.
    async fn wait_for_put(&self, number: u64) -> Result<(), Error> {
        for _ in 0..PUT_CHECKS_MAX {
            if self.files.log.has(number).await.map_err(Error::unavailable)? {
                return Ok(());
            }
            tokio::time::sleep(PUT_CHECK_INTERVAL).await;
        }
        Err(Error::unavailable("the log was not read for too long"))
    }
}

impl LogFiles {
    /// Reads a file.
    async fn read(&self, number: u64) -> Result<LogFile, Error> {
        match (self.log.read(number).await.map_err(Error::from), &self.unlocked) {
            // The writer has a new data key, which is in the key ring.
            (Err(Error::Encryption(kms::Error::UnknownDataKey(_))), Some(unlocked)) => {
                unlocked.refresh().await?;
                Ok(self.log.read(number).await?)
            }
            (read, _) => read,
        }
    }
}

/// Returns the transactions with these rows.
fn groups(rows: Vec<RowEntry>) -> Result<Vec<RowGroup>, Error> {
    let mut groups: Vec<RowGroup> = Vec::new();
    for RowEntry { key, value, seq, .. } in rows {
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

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::ObjectStore(error) => encryption_failure(&error)
                .map_or_else(|| Self::unavailable(error), Self::Encryption),
            ReadError::Damaged(file) => Self::DamagedFile(file),
            ReadError::Sequential(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use slatedb::object_store::ObjectStoreExt;
    use slatedb::object_store::memory::InMemory;

    use slateberg_wal::bucket::PUTS_MAX;

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
    async fn transaction_is_settled_by_a_later_file_or_by_a_report() {
        let location = location(&Arc::new(InMemory::new()), "state");
        let writer = writer(&location).await;
        write(&writer, "a").await;
        let mut replica = replica(&location).await;
        assert!(!replica.1.is_settled());
        let reported = writer.sequence().expect("open");
        follow(&mut replica, reported).await;
        assert!(replica.1.is_settled());
        let names: Vec<_> = (0..=PUTS_MAX).map(|number| format!("n{number}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let (first, last) = (names[0], names[names.len() - 1]);
        for name in &names[..names.len() - 1] {
            write(&writer, name).await;
            follow(&mut replica, reported).await;
            assert!(!replica.1.is_settled() && !has(&replica.0.durable(), first).await);
        }
        write(&writer, last).await;
        follow(&mut replica, reported).await;
        assert!(!replica.1.is_settled() && !has(&replica.0.durable(), names[1]).await);
        assert_holds(&replica.0.durable(), &["a", first]).await;
        follow(&mut replica, writer.sequence().expect("open")).await;
        assert!(replica.1.is_settled());
        assert_holds(&replica.0.durable(), &names).await;
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
        let deleted = replica.1.files.log.file(replica.1.next);
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
        let file = replica.1.files.log.file(replica.1.next);
        let content =
            bucket.get(&file).await.expect("it exists").bytes().await.expect("it is read");
        let mut changed = content.to_vec();
        *changed.last_mut().expect("it is not empty") ^= 1;
        bucket.put(&file, changed.into()).await.expect("it is replaced");
        let read = replica.1.read(writer.sequence().expect("open")).await;
        assert!(matches!(read, Err(Error::Encryption(_))), "{read:?}");
    }
}
