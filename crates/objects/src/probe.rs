//! Tests a location before its first use: writes a file in the same way as real files, reads it
//! back, finds it in a listing, and deletes it.
//!
//! A warehouse must keep written files ([`probe`]). The catalog's state requires more
//! ([`probe_state`]). SlateDB needs conditional writes, which ensure that only one process writes.
//! It also needs a mark in the metadata of each object, by which it recognizes its own writes.

use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, Attributes, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, PutPayload, PutResult, UpdateVersion,
};
use tokio::time::Instant;
use uuid::Uuid;

use super::credentials::NoCredentials;
use super::open::Opened;
use slateberg_base::clock::Clock;
use slateberg_base::ids::PROBE_PREFIX;

const FILE: &str = "probe";
const CONTENT: &[u8] = b"slateberg wrote this file to test its access; it may be deleted\n";
/// Name of the mark on an object. All stores support names that consist of letters.
const MARK: &str = "slatebergprobe";
/// Timeout for the clean-up after a failed probe.
const CLEANING_MAX: Duration = Duration::from_secs(3);

/// Reason why a location is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {step} a probe file: {reason}")]
pub struct ProbeError {
    /// The failed step.
    pub step: &'static str,
    /// Response of the object store.
    pub reason: String,
    /// Whether a retry may succeed, because the store did not respond.
    pub is_transient: bool,
}

/// Properties of the object store of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Findings {
    /// Duration of a small put on an open connection.
    pub put: Duration,
    /// Duration of a head request.
    pub head: Duration,
    /// Milliseconds by which the store's clock is ahead of this machine's. Stores report whole
    /// seconds, so a difference of less than a second is 0.
    pub clock_ahead_ms: i64,
}

/// Tests the location of a warehouse, for at most `at_most`. `id` distinguishes concurrent probes.
/// Tries to delete the file in every case.
pub async fn probe(opened: &Opened, id: Uuid, at_most: Duration) -> Result<(), ProbeError> {
    let mut trial = ProbeRun::new(opened, id);
    let outcome = tokio::time::timeout(at_most, async {
        trial.create().await?;
        trial.read().await?;
        trial.is_protected().await?;
        trial.is_listed().await?;
        trial.delete().await
    });
    let outcome = outcome.await;
    trial.end(outcome, at_most).await
}

/// Tests whether the location of a catalog's state is safe, for at most `at_most`, and measures its
/// response times and its clock. Tries to leave no object.
pub async fn probe_state(
    opened: &Opened,
    id: Uuid,
    clock: &dyn Clock,
    at_most: Duration,
) -> Result<Findings, ProbeError> {
    let mut trial = ProbeRun::new(opened, id);
    let outcome = tokio::time::timeout(at_most, async {
        let created = trial.create().await?;
        let clock_ahead_ms = trial.clock_ahead_ms(clock).await?;
        trial.read().await?;
        trial.is_protected().await?;
        let since = Instant::now();
        trial.is_marked().await?;
        let head = since.elapsed();
        let mut put = trial.put;
        if opened.conditional_update {
            put = trial.is_replaced_on_condition(created).await?;
        }
        trial.is_listed().await?;
        trial.delete().await?;
        Ok(Findings { put, head, clock_ahead_ms })
    });
    let outcome = outcome.await;
    trial.end(outcome, at_most).await
}

/// Tries to delete the objects of a probe with this id.
pub async fn remove(opened: &Opened, id: Uuid) {
    let trial = ProbeRun::new(opened, id);
    let _ = tokio::time::timeout(CLEANING_MAX, trial.store.delete(&trial.file)).await;
}

/// One probe of a location, step by step.
struct ProbeRun<'a> {
    opened: &'a Opened,
    store: &'a dyn ObjectStore,
    name: String,
    directory: Path,
    file: Path,
    mark: String,
    /// The current step, as a verb after "cannot".
    step: &'static str,
    put: Duration,
}

/// Failure of a step.
enum StepFailure {
    /// The store reports an error.
    Said(Error),
    /// The store violates its contract.
    Broken(String),
}

impl From<Error> for StepFailure {
    fn from(error: Error) -> Self {
        Self::Said(error)
    }
}

fn broken<T>(what: &str) -> Result<T, StepFailure> {
    Err(StepFailure::Broken(what.to_owned()))
}

impl<'a> ProbeRun<'a> {
    fn new(opened: &'a Opened, id: Uuid) -> Self {
        let name = format!("{PROBE_PREFIX}{}", id.simple());
        let directory = opened.path.clone().join(name.as_str());
        Self {
            opened,
            store: &*opened.object_store,
            name,
            file: directory.clone().join(FILE),
            directory,
            mark: id.simple().to_string(),
            step: "write",
            put: Duration::ZERO,
        }
    }

    async fn put(&mut self, mode: PutMode) -> Result<PutResult, Error> {
        let since = Instant::now();
        let payload = PutPayload::from(Bytes::from_static(CONTENT));
        let mark = (Attribute::Metadata(MARK.into()), AttributeValue::from(self.mark.clone()));
        let plain = PutOptions::from(mode);
        let marked = PutOptions { attributes: Attributes::from_iter([mark]), ..plain.clone() };
        let put = match self.store.put_opts(&self.file, payload.clone(), marked).await {
            // Local directories do not support marks.
            Err(Error::NotSupported { .. } | Error::NotImplemented { .. }) => {
                self.store.put_opts(&self.file, payload, plain).await
            }
            put => put,
        };
        self.put = since.elapsed();
        put
    }

    async fn create(&mut self) -> Result<PutResult, StepFailure> {
        self.step = "write";
        Ok(self.put(PutMode::Create).await?)
    }

    async fn read(&mut self) -> Result<(), StepFailure> {
        self.step = "read";
        if self.store.get(&self.file).await?.bytes().await? != CONTENT {
            return broken("its content differs from what was written");
        }
        Ok(())
    }

    /// Errors if the store does not reject a second creation of the same object.
    async fn is_protected(&mut self) -> Result<(), StepFailure> {
        self.step = "protect";
        match self.put(PutMode::Create).await {
            Err(Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(StepFailure::Said(error)),
            Ok(_) => broken(
                "the store overwrites an existing object despite If-None-Match (put-if-absent)",
            ),
        }
    }

    /// Errors if the store does not return the mark of an object. A local directory has no marks
    /// and needs none, because it loses no responses.
    async fn is_marked(&mut self) -> Result<(), StepFailure> {
        self.step = "read the metadata of";
        let options = GetOptions { head: true, ..GetOptions::default() };
        let written_attributes = self.store.get_opts(&self.file, options).await?.attributes;
        match written_attributes.get(&Attribute::Metadata(MARK.into())) {
            Some(mark) if mark.as_ref() == self.mark => Ok(()),
            None if self.opened.directory.is_some() => Ok(()),
            _ => broken("the store does not keep an object's metadata"),
        }
    }

    /// Errors if the store replaces an object that has changed since the version in the condition.
    /// Returns the duration of a put.
    async fn is_replaced_on_condition(&mut self, seen: PutResult) -> Result<Duration, StepFailure> {
        self.step = "replace";
        let unless_changed = PutMode::Update(UpdateVersion::from(seen));
        self.replace(unless_changed.clone(), b"first\n").await?;
        let put = self.put;
        match self.replace(unless_changed, b"second\n").await {
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(put),
            Err(error) => Err(StepFailure::Said(error)),
            Ok(_) => broken("the store replaces an object that has changed despite If-Match"),
        }
    }

    async fn replace(&mut self, mode: PutMode, content: &'static [u8]) -> Result<PutResult, Error> {
        let since = Instant::now();
        let payload = PutPayload::from(Bytes::from_static(content));
        let put = self.store.put_opts(&self.file, payload, PutOptions::from(mode)).await;
        self.put = since.elapsed();
        put
    }

    async fn is_listed(&mut self) -> Result<(), StepFailure> {
        self.step = "list";
        match self.store.list(Some(&self.directory)).try_next().await? {
            Some(found) if found.location == self.file => Ok(()),
            Some(found) => broken(&format!("the listing contains {} instead", found.location)),
            None => broken("the listing does not contain it"),
        }
    }

    async fn delete(&mut self) -> Result<(), StepFailure> {
        self.step = "delete";
        Ok(self.store.delete(&self.file).await?)
    }

    /// Returns the milliseconds by which the store's clock is ahead. The write time of the file,
    /// which was just written, shows the store's clock.
    async fn clock_ahead_ms(&mut self, clock: &dyn Clock) -> Result<i64, StepFailure> {
        self.step = "read the write time of";
        let now_ms = clock.now_ms();
        let dated_ms = self.store.head(&self.file).await?.last_modified.timestamp_millis();
        let put_ms = i64::try_from(self.put.as_millis()).unwrap_or(i64::MAX);
        // The store determined the write time during the put, and may have rounded it to a whole
        // second.
        let (earliest, latest) = (now_ms.saturating_sub(put_ms).saturating_sub(1000), now_ms);
        Ok(match dated_ms {
            _ if dated_ms > latest + 1000 => dated_ms - latest,
            _ if dated_ms < earliest => dated_ms - earliest,
            _ => 0,
        })
    }

    /// Cleans up after a failed probe, and returns the reason of the failure.
    async fn end<T>(
        self,
        outcome: Result<Result<T, StepFailure>, tokio::time::error::Elapsed>,
        at_most: Duration,
    ) -> Result<T, ProbeError> {
        let (reason, is_transient) = match outcome {
            Ok(Ok(found)) => {
                self.remove_directory();
                return Ok(found);
            }
            Ok(Err(StepFailure::Said(error))) => match NoCredentials::find(&error) {
                Some(none) => (none.to_string(), false),
                None => (error.to_string(), is_transient(&error)),
            },
            Ok(Err(StepFailure::Broken(what))) => (what, false),
            Err(_) => (format!("no response within {:.1} s", at_most.as_secs_f64()), true),
        };
        let deletion = tokio::time::timeout(CLEANING_MAX, self.store.delete(&self.file)).await;
        // If the write failed, a failed deletion gives no further information.
        let is_news = self.step != "write";
        if is_news && !matches!(deletion, Ok(Ok(()) | Err(Error::NotFound { .. }))) {
            tracing::warn!(file = %self.file, "failed to delete a probe file");
        }
        self.remove_directory();
        Err(ProbeError { step: self.step, reason, is_transient })
    }

    /// Removes the directory, because file systems keep empty directories. The directory may not
    /// exist.
    fn remove_directory(&self) {
        if let Some(local) = &self.opened.directory {
            let _ = std::fs::remove_dir(local.join(&self.name));
        }
    }
}

/// Whether an error may come from an unavailable store, not from the request.
fn is_transient(error: &Error) -> bool {
    matches!(error, Error::Generic { .. } | Error::JoinError { .. })
}
