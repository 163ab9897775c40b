//! Trying a place out before anything is kept in it: a file of its own is written, as the real ones are, read
//! back, found in a listing, and deleted.
//!
//! A warehouse has to keep what was written once ([`probe`]). The catalog's state asks for more
//! ([`probe_state`]): SlateDB tells by conditions of the store who the writer is, and by a mark on an object
//! whether it was itself who has written it.

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
use slateberg_base::ids::PROBES;

const FILE: &str = "probe";
const CONTENT: &[u8] = b"slateberg has tried whether it can write here; this file may be deleted\n";
/// What a mark on an object is called. No store but takes letters alone.
const MARK: &str = "slatebergprobe";
/// How long it may take to delete what a probe has left that did not succeed.
const CLEANING_MAX: Duration = Duration::from_secs(3);

/// Why a place is no good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {step} a probe file: {reason}")]
pub struct ProbeError {
    /// What did not succeed.
    pub step: &'static str,
    /// What the object store said.
    pub reason: String,
    /// Whether a later try could succeed: the store was not there, and nothing is known of it.
    pub may_pass: bool,
}

/// What there is to know of a state's object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Findings {
    /// How long a small put took, over a connection that was there.
    pub put: Duration,
    /// How long it took to ask what an object is.
    pub head: Duration,
    /// Milliseconds by which the store's clock is ahead of ours. Stores tell whole seconds: what is less than
    /// that counts as nothing.
    pub clock_ahead_ms: i64,
}

/// Tries a warehouse's place out, for at most so long. `id` keeps two tries apart. Whatever goes wrong, the
/// file that was written is deleted again as far as that can be done.
pub async fn probe(opened: &Opened, id: Uuid, at_most: Duration) -> Result<(), ProbeError> {
    let mut trial = Trial::new(opened, id);
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

/// Tries out, for at most so long, whether the place of a catalog's state is safe, and measures it. Leaves
/// nothing behind, as far as that can be done.
pub async fn probe_state(
    opened: &Opened,
    id: Uuid,
    clock: &dyn Clock,
    at_most: Duration,
) -> Result<Findings, ProbeError> {
    let mut trial = Trial::new(opened, id);
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

/// Deletes what a try with this id may have left, as far as that can be done.
pub async fn remove(opened: &Opened, id: Uuid) {
    let trial = Trial::new(opened, id);
    let _ = tokio::time::timeout(CLEANING_MAX, trial.store.delete(&trial.file)).await;
}

/// One try at a place, step by step.
struct Trial<'a> {
    opened: &'a Opened,
    store: &'a dyn ObjectStore,
    name: String,
    directory: Path,
    file: Path,
    mark: String,
    /// What is being tried, as a word behind "cannot".
    step: &'static str,
    put: Duration,
}

/// What a step finds wrong.
enum Wrong {
    /// The store says so.
    Said(Error),
    /// The store does what it must not.
    Broken(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Said(error)
    }
}

fn broken<T>(what: &str) -> Result<T, Wrong> {
    Err(Wrong::Broken(what.to_owned()))
}

impl<'a> Trial<'a> {
    fn new(opened: &'a Opened, id: Uuid) -> Self {
        let name = format!("{PROBES}{}", id.simple());
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
            // Directories know no marks.
            Err(Error::NotSupported { .. } | Error::NotImplemented { .. }) => {
                self.store.put_opts(&self.file, payload, plain).await
            }
            put => put,
        };
        self.put = since.elapsed();
        put
    }

    async fn create(&mut self) -> Result<PutResult, Wrong> {
        self.step = "write";
        Ok(self.put(PutMode::Create).await?)
    }

    async fn read(&mut self) -> Result<(), Wrong> {
        self.step = "read";
        if self.store.get(&self.file).await?.bytes().await? != CONTENT {
            return broken("it holds something else than was written");
        }
        Ok(())
    }

    /// Whether it cannot be written a second time.
    async fn is_protected(&mut self) -> Result<(), Wrong> {
        self.step = "protect";
        match self.put(PutMode::Create).await {
            Err(Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(Wrong::Said(error)),
            Ok(_) => {
                broken("the store overwrites a file that is to be written once (put-if-absent)")
            }
        }
    }

    /// Whether what was written with it is told of it. Directories have no marks, and their answers are not
    /// lost.
    async fn is_marked(&mut self) -> Result<(), Wrong> {
        self.step = "tell of";
        let options = GetOptions { head: true, ..GetOptions::default() };
        let told = self.store.get_opts(&self.file, options).await?.attributes;
        match told.get(&Attribute::Metadata(MARK.into())) {
            Some(mark) if mark.as_ref() == self.mark => Ok(()),
            None if self.opened.directory.is_some() => Ok(()),
            _ => broken("the store does not keep an object's metadata"),
        }
    }

    /// Whether it is replaced if it is unchanged, and only then. Returns how long a put took.
    async fn is_replaced_on_condition(&mut self, seen: PutResult) -> Result<Duration, Wrong> {
        self.step = "replace";
        let unless_changed = PutMode::Update(UpdateVersion::from(seen));
        self.replace(unless_changed.clone(), b"first\n").await?;
        let put = self.put;
        match self.replace(unless_changed, b"second\n").await {
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(put),
            Err(error) => Err(Wrong::Said(error)),
            Ok(_) => broken("the store replaces a file that has changed in between (If-Match)"),
        }
    }

    async fn replace(&mut self, mode: PutMode, content: &'static [u8]) -> Result<PutResult, Error> {
        let since = Instant::now();
        let payload = PutPayload::from(Bytes::from_static(content));
        let put = self.store.put_opts(&self.file, payload, PutOptions::from(mode)).await;
        self.put = since.elapsed();
        put
    }

    async fn is_listed(&mut self) -> Result<(), Wrong> {
        self.step = "list";
        match self.store.list(Some(&self.directory)).try_next().await? {
            Some(found) if found.location == self.file => Ok(()),
            Some(found) => broken(&format!("the listing shows {} instead", found.location)),
            None => broken("the listing does not show it"),
        }
    }

    async fn delete(&mut self) -> Result<(), Wrong> {
        self.step = "delete";
        Ok(self.store.delete(&self.file).await?)
    }

    /// By how much the store's clock, which has just dated the file, is ahead of ours.
    async fn clock_ahead_ms(&mut self, clock: &dyn Clock) -> Result<i64, Wrong> {
        self.step = "ask for the date of";
        let now_ms = clock.now_ms();
        let dated_ms = self.store.head(&self.file).await?.last_modified.timestamp_millis();
        let put_ms = i64::try_from(self.put.as_millis()).unwrap_or(i64::MAX);
        // The put was dated at some time while it was under way, and rounded to a whole second.
        let (earliest, latest) = (now_ms.saturating_sub(put_ms).saturating_sub(1000), now_ms);
        Ok(match dated_ms {
            _ if dated_ms > latest + 1000 => dated_ms - latest,
            _ if dated_ms < earliest => dated_ms - earliest,
            _ => 0,
        })
    }

    /// Deletes what a trial has left that did not succeed, and says why it did not.
    async fn end<T>(
        self,
        outcome: Result<Result<T, Wrong>, tokio::time::error::Elapsed>,
        at_most: Duration,
    ) -> Result<T, ProbeError> {
        let (reason, may_pass) = match outcome {
            Ok(Ok(found)) => {
                self.remove_directory();
                return Ok(found);
            }
            Ok(Err(Wrong::Said(error))) => match NoCredentials::find(&error) {
                Some(none) => (none.to_string(), false),
                None => (error.to_string(), may_pass(&error)),
            },
            Ok(Err(Wrong::Broken(what))) => (what, false),
            Err(_) => (format!("no answer within {:.1} s", at_most.as_secs_f64()), true),
        };
        let gone = tokio::time::timeout(CLEANING_MAX, self.store.delete(&self.file)).await;
        // Of a store that could not be written, it is no news that nothing can be deleted there.
        let is_news = self.step != "write";
        if is_news && !matches!(gone, Ok(Ok(()) | Err(Error::NotFound { .. }))) {
            tracing::warn!(file = %self.file, "a probe file is left");
        }
        self.remove_directory();
        Err(ProbeError { step: self.step, reason, may_pass })
    }

    /// Directories of a file system stay when they are empty. There may be none.
    fn remove_directory(&self) {
        if let Some(local) = &self.opened.directory {
            let _ = std::fs::remove_dir(local.join(&self.name));
        }
    }
}

/// Whether an error could be of a store that is not there yet, and not of what was asked of it.
fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Generic { .. } | Error::JoinError { .. })
}
