//! Transactions: serializable, named, retried a bounded number of times, and never open during
//! requests to the warehouse.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use slatedb::config::{DurabilityLevel, PutOptions};
use slatedb::{DbIterator, DbTransaction, ErrorKind, IsolationLevel};

use super::audit::{Outcome, Unaudited};
use super::codec::Value;
use super::error::Error;
use super::flusher::Membership;
use super::handle::Store;
use super::keys::{ChangeKey, IdempotencyKey, Key, PublicationKey};
use super::read::{Range, Read, read_options, scan_options};
use super::recent::is_cached;
use super::records::{Change, IdempotencyRecord};
use super::write_marks::Mark;
use slateberg_authz::action::{Action, Maintain};
use slateberg_authz::permit::Permit;

/// Records that a transaction writes for the requests that it serves. The transaction of a request
/// cannot commit without them.
#[derive(Debug, Default)]
#[must_use = "a change without its entry in the change log cannot be audited"]
pub struct RequestRecords {
    /// Entries of the change log, one for each changed object.
    pub changes: Vec<Change>,
    /// Responses for later requests with the same `Idempotency-Key`.
    pub responses: Vec<(IdempotencyKey, IdempotencyRecord)>,
}

impl RequestRecords {
    /// Records of a change without an `Idempotency-Key`.
    pub fn change(change: Change) -> Self {
        Self { changes: vec![change], responses: Vec::new() }
    }

    /// Adds the records of another request, which the same transaction serves.
    pub fn extend(&mut self, other: Self) {
        self.changes.extend(other.changes);
        self.responses.extend(other.responses);
    }

    fn write(&self, t: &Transaction) -> Result<(), Error> {
        self.changes.iter().try_for_each(|change| t.log(change))?;
        self.responses.iter().try_for_each(|(key, record)| t.put(key, record))
    }
}

/// A transaction in progress. Everything that it reads must be unchanged when it commits.
pub struct Transaction {
    pub(super) inner: DbTransaction,
    store: Store,
    /// Marks of the cached records that it writes.
    written: Mutex<Vec<Mark>>,
    /// Entries of the change log for the audit log.
    changes: Mutex<Vec<Change>>,
}

impl Transaction {
    /// Writes a record.
    pub fn put<K: Key>(&self, key: &K, value: &K::Value) -> Result<(), Error> {
        let key = key.encode();
        self.mark(&key);
        Ok(self.inner.put_with_options(key, value.encode(), &PutOptions::default())?)
    }

    /// Removes a record.
    pub fn delete<K: Key>(&self, key: &K) -> Result<(), Error> {
        let key = key.encode();
        self.mark(&key);
        Ok(self.inner.delete(key)?)
    }

    /// Writes the bytes of a record.
    pub(super) fn put_at(&self, key: Vec<u8>, value: &[u8]) -> Result<(), Error> {
        self.mark(&key);
        Ok(self.inner.put_with_options(key, value, &PutOptions::default())?)
    }

    /// Removes the record at a key.
    pub(super) fn delete_at(&self, key: Vec<u8>) -> Result<(), Error> {
        self.mark(&key);
        Ok(self.inner.delete(key)?)
    }

    /// Marks a key before it is written, so that no write is without a mark.
    fn mark(&self, key: &[u8]) {
        if is_cached(key) {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.extend(self.store.shared.recent.written(key));
        }
    }

    /// Adds an entry to the change log.
    pub(super) fn log(&self, change: &Change) -> Result<(), Error> {
        if self.store.audit.is_on() {
            self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change.clone());
        }
        let sequence = self.store.shared.next_change.fetch_add(1, Ordering::Relaxed);
        self.put(&ChangeKey(sequence), change)
    }
}

impl Read for Transaction {
    async fn get_bytes(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        Ok(self.inner.get_with_options(key, &read_options(DurabilityLevel::Memory)).await?)
    }

    async fn iterate(&self, range: &Range) -> Result<DbIterator, Error> {
        let options = scan_options(DurabilityLevel::Memory);
        Ok(self.inner.scan_with_options(range.bounds(), &options).await?)
    }
}

/// A committed transaction: visible to later ones, but not durable yet.
#[must_use = "what was accepted may be told to nobody before it is durable"]
pub struct Accepted {
    membership: Membership,
    unaudited: Unaudited,
}

impl Accepted {
    /// Waits until the transaction and everything before it is in the bucket. If the store closes
    /// first, the outcome is unknown.
    pub async fn durable(&self) -> Result<(), Error> {
        let durable = self.membership.durable().await;
        self.unaudited.end(if durable.is_ok() { Outcome::Done } else { Outcome::Unknown });
        durable
    }
}

impl Store {
    /// Runs `work` in a serializable transaction for a request: writes its changes together with
    /// its entries of the change log and the responses that its `Idempotency-Key`s replay.
    ///
    /// Retries like [`transact`](Self::transact). An error of `work` ends the transaction without a
    /// write.
    pub async fn transact_for_request<A, T, E, F, W>(
        &self,
        name: &'static str,
        _permit: &Permit<A>,
        work: W,
    ) -> Result<(T, Accepted), E>
    where
        A: Action,
        E: From<Error>,
        F: Future<Output = Result<(T, RequestRecords), E>> + Send,
        W: Fn(Arc<Transaction>) -> F + Send,
    {
        let run = move |t: Arc<Transaction>| {
            let working = work(Arc::clone(&t));
            async move {
                let (value, records) = working.await?;
                records.write(&t)?;
                Ok(value)
            }
        };
        self.retry(name, run).await
    }

    /// Runs `work` of a background task in a serializable transaction and commits it. Runs it
    /// again, on a new snapshot, if another transaction changed what it read. `name` identifies the
    /// transaction in logs and metrics.
    ///
    /// An error of `work` ends the transaction without a write.
    pub async fn transact<T, E, F, W>(
        &self,
        name: &'static str,
        _permit: &Permit<Maintain>,
        work: W,
    ) -> Result<(T, Accepted), E>
    where
        E: From<Error>,
        F: Future<Output = Result<T, E>> + Send,
        W: Fn(Arc<Transaction>) -> F + Send,
    {
        self.retry(name, work).await
    }

    async fn retry<T, E, F, W>(&self, name: &'static str, work: W) -> Result<(T, Accepted), E>
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
                Error::internal(format!("transaction {name} is still held by its work"))
            })?;
            match self.commit(transaction).await? {
                Some(accepted) => return Ok((value, accepted)),
                None => {
                    self.shared.metrics.conflict(name);
                    tracing::debug!(transaction = name, attempt, "transaction conflict");
                }
            }
        }
        Err(Error::Contended { name, attempts: attempts_max }.into())
    }

    fn begin(&self) -> Result<Transaction, Error> {
        let inner = self.db.begin(IsolationLevel::SerializableSnapshot).map_err(Error::from)?;
        let (written, changes) = (Mutex::default(), Mutex::default());
        Ok(Transaction { inner, store: self.clone(), written, changes })
    }

    /// Commits, and removes the markers of completed publications. `None` is a conflict.
    async fn commit(&self, transaction: Transaction) -> Result<Option<Accepted>, Error> {
        let landed = self.shared.landed.take();
        let outcome = self.commit_with(transaction, &landed).await;
        if !matches!(outcome, Ok(Some(_))) {
            self.shared.landed.give_back(landed);
        }
        outcome
    }

    async fn commit_with(
        &self,
        transaction: Transaction,
        landed: &[PublicationKey],
    ) -> Result<Option<Accepted>, Error> {
        for key in landed {
            transaction.delete(key)?;
        }
        let written = transaction.written.into_inner().unwrap_or_else(PoisonError::into_inner);
        let changes = transaction.changes.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Until the commit is known to have failed, its changes may have happened.
        let unaudited = Unaudited::new(Arc::clone(&self.audit), changes);
        let writing = self.shared.recent.begin(written);
        let committed = transaction.inner.commit().await;
        // After an unknown outcome, the marks stay blocked.
        match &committed {
            Ok(Some(accepted)) => writing.accepted(accepted.seqnum()),
            Ok(None) => writing.refused(),
            Err(error) if error.kind() == ErrorKind::Transaction => writing.refused(),
            Err(_) => drop(writing),
        }
        match committed {
            // A transaction without writes waits as well, because its reads may not be durable yet.
            Ok(_) => Ok(Some(Accepted { membership: self.shared.flusher.join(), unaudited })),
            Err(error) if error.kind() == ErrorKind::Transaction => {
                unaudited.forget();
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until everything that has been accepted is durable. A rejection based on state that is
    /// not durable yet waits for this, because a crash must not make it wrong.
    pub async fn settled(&self) -> Result<(), Error> {
        // A snapshot contains everything that an evaluation can have seen so far.
        let accepted = self.db.snapshot()?.seq();
        if self.db.status().durable_seq >= accepted {
            return Ok(());
        }
        self.shared.flusher.join().durable().await
    }

    /// Reports a completed publication: the next transaction that commits removes its marker.
    pub fn landed(&self, key: PublicationKey) {
        self.shared.landed.add(key);
    }
}
