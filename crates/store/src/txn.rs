//! Transactions of the store. They are serializable, have names, and are retried a limited number
//! of times. No transaction is open during a request to the warehouse, except that one which removes
//! chunks waits until metadata files are synced ([`unsynced`](super::unsynced)).

use std::borrow::Cow;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::future::BoxFuture;
use slatedb::config::{DurabilityLevel, PutOptions};
use slatedb::{DbIterator, DbTransaction, ErrorKind, IsolationLevel};

use super::audit::{ChangeOutcome, UnauditedChanges};
use super::change_feed::ChangeGroup;
use super::codec::Value;
use super::error::Error;
use super::filters;
use super::flusher::Membership;
use super::handle::{Shared, Store};
use super::keys::{ChangeKey, IdempotencyKey, Key, PublicationKey};
use super::read::{KeyRange, StoreRead, decode, read_and_cache, read_options, scan_options};
use super::record_cache::{CacheLookup, WrittenRecords, is_cached};
use super::records::{Change, IdempotencyRecord};
use super::replication::Row;
use slateberg_authz::action::{Action, Maintain};
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;

/// The idempotency record of a request, with the response that later requests with the same
/// `Idempotency-Key` get. `None` if the request has no such key.
pub type ResponseRecord = Option<(IdempotencyKey, IdempotencyRecord)>;

/// Records that the transaction of a request writes in addition to its changes. The transaction
/// cannot commit without these records. Every constructor requires a response, or an explicit
/// `None`.
#[derive(Debug)]
#[must_use = "a change without its entry in the change log cannot be audited"]
pub struct RequestRecords {
    /// Entries of the change log, one for each changed object.
    changes: Vec<Change>,
    /// Responses for later requests with the same `Idempotency-Key`, at most one for each request.
    responses: Vec<(IdempotencyKey, IdempotencyRecord)>,
}

impl RequestRecords {
    /// Returns the records of a request that changes one object.
    pub fn of_change(change: Change, response: ResponseRecord) -> Self {
        Self::of_changes(change, [], response)
    }

    /// Returns the records of a request that changes several objects.
    pub fn of_changes(
        first: Change,
        others: impl IntoIterator<Item = Change>,
        response: ResponseRecord,
    ) -> Self {
        let changes = std::iter::once(first).chain(others).collect();
        Self { changes, responses: response.into_iter().collect() }
    }

    /// Returns the records of a request that makes no change for the change log.
    pub fn without_change(response: ResponseRecord) -> Self {
        Self { changes: Vec::new(), responses: response.into_iter().collect() }
    }

    /// Returns the records of several requests whose changes are in the same transaction.
    pub fn of_group(first: Self, others: impl IntoIterator<Item = Self>) -> Self {
        others.into_iter().fold(first, |mut group, other| {
            group.changes.extend(other.changes);
            group.responses.extend(other.responses);
            group
        })
    }

    fn write(self, t: &Transaction) -> Result<(), Error> {
        self.responses.iter().try_for_each(|(key, record)| t.put(key, record))?;
        t.changes().extend(self.changes);
        Ok(())
    }
}

/// A transaction in progress. It commits only if everything that it has read is still unchanged.
pub struct Transaction {
    pub(super) inner: DbTransaction,
    pub(super) store: Store,
    /// Entries of the change log, which get their numbers when the transaction commits.
    changes: Mutex<Vec<Change>>,
    /// The written records, for the record cache.
    written: Mutex<WrittenRecords>,
    /// The written rows. Empty if the store has no replicas.
    rows: Mutex<Vec<Row>>,
}

impl Transaction {
    /// Writes a record.
    pub fn put<K: Key>(&self, key: &K, value: &K::Value) -> Result<(), Error> {
        let (key, bytes) = (key.encode(), value.encode());
        self.written().put(&key, value, bytes.len());
        self.write(key, Some(bytes.into()))
    }

    /// Removes a record.
    pub fn delete<K: Key>(&self, key: &K) -> Result<(), Error> {
        let key = key.encode();
        self.written().delete(&key);
        self.write(key, None)
    }

    /// Writes the bytes of a record.
    pub(super) fn put_at(&self, key: Vec<u8>, value: &[u8]) -> Result<(), Error> {
        self.written().put_bytes(&key);
        self.write(key, Some(value.into()))
    }

    /// Removes the record at a key.
    pub(super) fn delete_at(&self, key: Vec<u8>) -> Result<(), Error> {
        self.written().delete(&key);
        self.write(key, None)
    }

    fn written(&self) -> MutexGuard<'_, WrittenRecords> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: Vec<u8>, value: Option<Cow<'_, [u8]>>) -> Result<(), Error> {
        // A transaction would take a sequence number of the writer.
        if self.store.shared.is_replica {
            return Err(Error::Replica);
        }
        match &value {
            Some(value) => self.inner.put_with_options(&key, value, &PutOptions::default())?,
            None => self.inner.delete(&key)?,
        }
        if self.store.shared.replication.is_on() {
            let value = value.map(|value| value.into_owned().into());
            let row = Row { key: key.into(), value };
            self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        }
        Ok(())
    }

    /// Adds an entry to the change log.
    pub(super) fn log(&self, change: &Change) {
        self.changes().push(change.clone());
    }

    fn changes(&self) -> MutexGuard<'_, Vec<Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns numbers to the changes and writes their entries, as the last writes before the
    /// commit. Returns `None` if there are no changes.
    fn number_changes(&self) -> Result<Option<ChangeGroup>, Error> {
        let changes = std::mem::take(&mut *self.changes());
        if changes.is_empty() {
            return Ok(None);
        }
        let feed = &self.store.shared.changes;
        let group = feed.assign_numbers(changes);
        let written = group
            .changes
            .iter()
            .zip(group.first..)
            .try_for_each(|(change, number)| self.put(&ChangeKey(number), change));
        if let Err(error) = written {
            feed.discard(group.first);
            return Err(error);
        }
        Ok(Some(group))
    }
}

impl StoreRead for Transaction {
    fn get_bytes<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        Box::pin(async move {
            Ok(self.inner.get_with_options(key, &read_options(DurabilityLevel::Memory)).await?)
        })
    }

    fn iterate<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, Result<DbIterator, Error>> {
        Box::pin(async move {
            let options = scan_options(DurabilityLevel::Memory);
            filters::scan(&self.inner, range, &options).await
        })
    }

    async fn get<K: Key>(&self, key: &K) -> Result<Option<K::Value>, Error> {
        Ok(self.get_shared(key).await?.map(Arc::unwrap_or_clone))
    }

    async fn get_shared<K: Key>(&self, key: &K) -> Result<Option<Arc<K::Value>>, Error> {
        let key = key.encode();
        // The cache does not have the transaction's own writes.
        if !is_cached(&key) || self.written().contains(&key) {
            return Ok(decode::<K>(&key, self.get_bytes(&key).await?.as_deref())?.map(Arc::new));
        }
        let (record_cache, sequence) = (&self.store.shared.record_cache, self.inner.seqnum());
        let found = match record_cache.record(&key, sequence) {
            CacheLookup::Miss => {
                return read_and_cache::<K>(self, record_cache, key, sequence).await;
            }
            CacheLookup::Absent => None,
            CacheLookup::Present(record) => Some(record),
        };
        // The transaction conflicts with later writes of the key.
        self.inner.mark_read([&key])?;
        Ok(found)
    }
}

/// A committed transaction. Later transactions see its writes, which may not be durable yet.
#[must_use = "do not reveal the result before the transaction is durable"]
pub struct AcceptedTransaction {
    membership: Membership,
    unaudited_changes: UnauditedChanges,
    shared: Arc<Shared>,
    /// The sequence number. `None` if the transaction has written nothing.
    sequence: Option<u64>,
    written: Mutex<WrittenRecords>,
}

impl AcceptedTransaction {
    /// Waits until the transaction and everything before it is durable. If the store closes first,
    /// the outcome is unknown.
    #[boxed]
    pub async fn durable(&self) -> Result<(), Error> {
        let durable = self.membership.durable().await;
        if let (Ok(()), Some(sequence)) = (&durable, self.sequence) {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.record_cache.replace_records(std::mem::take(&mut written), sequence);
        }
        self.unaudited_changes.record(if durable.is_ok() {
            ChangeOutcome::Done
        } else {
            ChangeOutcome::Unknown
        });
        durable
    }
}

impl Store {
    /// Runs `work` in a serializable transaction for one or more requests. The transaction also
    /// writes the entries of the change log and the responses for repeated requests with the same
    /// `Idempotency-Key`.
    ///
    /// Retries like [`transact`](Self::transact). If `work` returns an error, nothing is written.
    pub async fn transact_for_request<A, T, E, F, W>(
        &self,
        name: &'static str,
        _permit: &Permit<A>,
        work: W,
    ) -> Result<(T, AcceptedTransaction), E>
    where
        A: Action,
        E: From<Error>,
        F: Future<Output = Result<(T, RequestRecords), E>> + Send,
        W: Fn(Arc<Transaction>) -> F + Send,
    {
        let with_records = move |t: Arc<Transaction>| {
            let future = work(Arc::clone(&t));
            async move {
                let (value, records) = future.await?;
                records.write(&t)?;
                Ok(value)
            }
        };
        self.retry(name, with_records).await
    }

    /// Runs `work` of a background task in a serializable transaction and commits it. If `work` has
    /// read records that another transaction has changed since, runs `work` again on a new
    /// snapshot. `name` identifies the transaction in logs and metrics.
    ///
    /// If `work` returns an error, nothing is written.
    pub async fn transact<T, E, F, W>(
        &self,
        name: &'static str,
        _permit: &Permit<Maintain>,
        work: W,
    ) -> Result<(T, AcceptedTransaction), E>
    where
        E: From<Error>,
        F: Future<Output = Result<T, E>> + Send,
        W: Fn(Arc<Transaction>) -> F + Send,
    {
        self.retry(name, work).await
    }

    async fn retry<T, E, F, W>(
        &self,
        name: &'static str,
        work: W,
    ) -> Result<(T, AcceptedTransaction), E>
    where
        E: From<Error>,
        F: Future<Output = Result<T, E>> + Send,
        W: Fn(Arc<Transaction>) -> F + Send,
    {
        self.check_writable()?;
        let attempts_max = self.shared.settings.transaction_attempts_max;
        for attempt in 1..=attempts_max {
            let transaction = Arc::new(self.begin()?);
            let value = work(Arc::clone(&transaction)).await?;
            let transaction = Arc::into_inner(transaction).ok_or_else(|| {
                Error::internal(format!("transaction {name} is still referenced after its work"))
            })?;
            match self.commit(transaction).await? {
                Some(accepted) => return Ok((value, accepted)),
                None => {
                    self.shared.metrics.record_conflict(name);
                    tracing::debug!(transaction = name, attempt, "transaction conflict");
                }
            }
        }
        Err(Error::Contended { name, attempts: attempts_max }.into())
    }

    fn begin(&self) -> Result<Transaction, Error> {
        let inner = self.db.begin(IsolationLevel::SerializableSnapshot).map_err(Error::from)?;
        Ok(Transaction {
            inner,
            store: self.clone(),
            changes: Mutex::default(),
            written: Mutex::default(),
            rows: Mutex::default(),
        })
    }

    /// Commits the transaction, which also removes the markers of completed publications. Returns
    /// `None` after a conflict.
    #[boxed]
    async fn commit(&self, transaction: Transaction) -> Result<Option<AcceptedTransaction>, Error> {
        let published_markers = self.shared.published_markers.take();
        let outcome = self.commit_with(transaction, &published_markers).await;
        if !matches!(outcome, Ok(Some(_))) {
            self.shared.published_markers.put_back(published_markers);
        }
        outcome
    }

    async fn commit_with(
        &self,
        transaction: Transaction,
        published_markers: &[PublicationKey],
    ) -> Result<Option<AcceptedTransaction>, Error> {
        for key in published_markers {
            transaction.delete(key)?;
        }
        let numbered = transaction.number_changes()?;
        let written = transaction.written.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rows = transaction.rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The audit log must report these changes unless the commit is known to have failed.
        let changes = numbered.as_ref().map(|group| Arc::clone(&group.changes));
        let unaudited_changes = UnauditedChanges::new(Arc::clone(&self.audit), changes);
        let pending = self.shared.record_cache.begin(written.keys());
        let ticket = self.shared.replication.take_ticket(&rows);
        let committed = transaction.inner.commit().await;
        let (feed, first) = (&self.shared.changes, numbered.map(|group| group.first));
        // If the outcome is unknown, the stripes stay blocked: their keys are never cached again.
        match &committed {
            Ok(Some(accepted)) => {
                if let Some(first) = first {
                    feed.accept(first, accepted.seqnum());
                }
                pending.accept(accepted.seqnum());
                ticket.accept(accepted.seqnum(), rows);
            }
            Ok(None) => {
                pending.reject();
                ticket.reject();
            }
            Err(error) if error.kind() == ErrorKind::Transaction => {
                if let Some(first) = first {
                    feed.discard(first);
                }
                pending.reject();
                ticket.reject();
            }
            Err(_) => drop((pending, ticket)),
        }
        match committed {
            // A transaction without writes waits as well, because the state that it read may not be
            // durable yet.
            Ok(accepted) => Ok(Some(AcceptedTransaction {
                membership: self.shared.flusher.join(),
                unaudited_changes,
                shared: Arc::clone(&self.shared),
                sequence: accepted.map(|accepted| accepted.seqnum()),
                written: Mutex::new(written),
            })),
            Err(error) if error.kind() == ErrorKind::Transaction => {
                unaudited_changes.discard();
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until everything that has been accepted is durable. A request must wait here before it
    /// is rejected because of a state that may not be durable yet. Otherwise, a crash could undo
    /// this state, and the rejection would have been wrong.
    #[boxed]
    pub async fn wait_durable(&self) -> Result<(), Error> {
        // A snapshot contains everything that any request can have read so far.
        let accepted = self.db.snapshot()?.seq();
        if self.shared.status.durable_sequence() >= accepted {
            return Ok(());
        }
        self.shared.flusher.join().durable().await
    }

    /// Reports that the files of a version exist, so replicas may respond with the version.
    pub fn mark_published(&self, key: PublicationKey) {
        self.shared.replication.mark_published(key);
    }

    /// Reports that a publication is complete: its files are durable. The next transaction that
    /// commits removes its marker.
    pub fn queue_marker_removal(&self, key: PublicationKey) {
        self.shared.published_markers.add(key);
    }
}
