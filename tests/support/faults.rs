//! [`FaultStore`]: an object store that injects faults.
//!
//! It is between the catalog and a healthy bucket. A **rule** has a verb, a part of a path, and the
//! fault of matching requests; rules may change while requests are in progress. Every request is
//! counted on arrival.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use rand::RngExt;
use tokio::sync::watch;

/// Path of the store's write-ahead log.
pub const LOG: &str = "state/wal/";
/// Path of the store's manifests.
pub const MANIFESTS: &str = "state/manifest/";
/// Suffix of all metadata files.
pub const METADATA_FILES: &str = ".metadata.json";
/// Every path.
pub const EVERYTHING: &str = "";

/// Time limit of [`FaultStore::wait_for_requests`].
const ARRIVAL_MAX: Duration = Duration::from_secs(10);

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Writes an object.
    Put,
    /// Reads an object or its head.
    Get,
    /// Deletes an object.
    Delete,
    /// Lists objects.
    List,
    /// Any of these verbs. Only rules have this value.
    Any,
}

/// Fault of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The request fails without effect.
    Fail,
    /// The request takes effect, and its response is lost: the caller gets a failure.
    LoseResponse,
    /// The request takes effect, and its response arrives when the rule is removed.
    HoldResponse,
    /// The request has no effect, and the response is that the object exists already, although it
    /// does not exist. This is the result of S3's `409 ConditionalRequestConflict` in
    /// `object_store`.
    FalseConflict,
    /// The object is put without the request's condition, as in stores that ignore conditions.
    IgnoreCondition,
    /// The request takes effect after a random delay in this range of milliseconds.
    Delay(Range<u64>),
    /// The request waits until the rule is removed.
    Hang,
}

#[derive(Debug, Clone)]
struct Rule {
    verb: Verb,
    part: String,
    fault: Fault,
    /// Number of matching requests that still pass before the rule takes effect.
    passing: usize,
    times_left: usize,
}

/// An object store that injects faults.
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    gate: Arc<Gate>,
}

/// Rules and counts for all requests.
struct Gate {
    rules: watch::Sender<Vec<Rule>>,
    requests: Mutex<Vec<(Verb, String)>>,
}

impl FaultStore {
    /// Returns a store on this bucket without faults.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        let gate = Gate { rules: watch::Sender::new(Vec::new()), requests: Mutex::default() };
        Arc::new(Self { inner, gate: Arc::new(gate) })
    }

    /// Injects this fault into all requests of this verb whose path contains `part`.
    pub fn inject(&self, verb: Verb, part: &str, fault: Fault) {
        self.inject_times(verb, part, fault, usize::MAX);
    }

    /// Injects this fault into the next `times` requests of this verb whose path contains `part`.
    pub fn inject_times(&self, verb: Verb, part: &str, fault: Fault, times: usize) {
        let part = part.to_owned();
        let rule = Rule { verb, part, fault, passing: 0, times_left: times };
        if times > 0 {
            self.gate.rules.send_modify(|rules| rules.push(rule));
        }
    }

    /// Lets `passing` requests of this verb pass. All later requests hang.
    pub fn hang_after(&self, verb: Verb, passing: usize) {
        let (part, times_left) = (EVERYTHING.to_owned(), usize::MAX);
        let rule = Rule { verb, part, fault: Fault::Hang, passing, times_left };
        self.gate.rules.send_modify(|rules| rules.push(rule));
    }

    /// Removes all rules. Hanging requests continue.
    pub fn lift(&self) {
        self.gate.rules.send_modify(Vec::clear);
    }

    /// Returns the number of rules that remain because they have not affected all their requests.
    pub fn remaining(&self) -> usize {
        self.gate.rules.borrow().len()
    }

    /// Removes the rules for this part of a path.
    pub fn lift_from(&self, part: &str) {
        self.gate.rules.send_modify(|rules| rules.retain(|rule| rule.part != part));
    }

    /// Makes all requests hang without effect: for the bucket, the process is dead.
    pub fn kill(&self) {
        let part = EVERYTHING.to_owned();
        let (verb, fault) = (Verb::Any, Fault::Hang);
        let rule = Rule { verb, part, fault, passing: 0, times_left: usize::MAX };
        self.gate.rules.send_modify(|rules| rules.insert(0, rule));
    }

    /// Returns the number of requests of this verb whose path contains `part`.
    pub fn count(&self, verb: Verb, part: &str) -> usize {
        let requests = self.gate.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            |it: &&(Verb, String)| (verb == Verb::Any || it.0 == verb) && it.1.contains(part);
        requests.iter().filter(fits).count()
    }

    /// Returns all requests with their paths, in the order of arrival.
    pub fn requests(&self) -> Vec<(Verb, String)> {
        self.gate.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for at least `at_least` requests of this verb whose path contains `part`.
    pub async fn wait_for_requests(&self, verb: Verb, part: &str, at_least: usize) {
        let waiting = async {
            while self.count(verb, part) < at_least {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let arrived = tokio::time::timeout(ARRIVAL_MAX, waiting).await;
        assert!(arrived.is_ok(), "no {at_least} requests {verb:?} for {part:?}");
    }
}

impl Gate {
    fn count(&self, verb: Verb, path: String) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push((verb, path));
    }

    /// Counts a request, and delays or fails it by the rules. The caller applies the returned value
    /// to the response of the request.
    async fn admit(&self, verb: Verb, path: &Path) -> Result<After> {
        let path = path.to_string();
        let mut rules = self.rules.subscribe();
        self.count(verb, path.clone());
        loop {
            rules.mark_unchanged();
            match self.fault_for(verb, &path) {
                None => return Ok(After::TestResponse),
                Some(Fault::LoseResponse) => return Ok(After::LoseResponse(path)),
                Some(Fault::HoldResponse) => return Ok(After::HoldResponse(rules)),
                Some(Fault::IgnoreCondition) => return Ok(After::Unconditional),
                Some(Fault::Fail) => return Err(failure(&path, "injected failure")),
                Some(Fault::FalseConflict) => {
                    let source = "injected conflict".into();
                    return Err(Error::AlreadyExists { path, source });
                }
                Some(Fault::Delay(range)) => {
                    let delay_ms = rand::rng().random_range(range);
                    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
                    return Ok(After::TestResponse);
                }
                Some(Fault::Hang) => {
                    rules.changed().await.map_err(|_| failure(&path, "the store is gone"))?;
                }
            }
        }
    }

    fn fault_for(&self, verb: Verb, path: &str) -> Option<Fault> {
        let mut found = None;
        self.rules.send_if_modified(|rules| {
            let fits = |rule: &&mut Rule| {
                (rule.verb == Verb::Any || rule.verb == verb) && path.contains(&rule.part)
            };
            match rules.iter_mut().find(fits) {
                Some(rule) if rule.passing > 0 => rule.passing -= 1,
                Some(rule) => {
                    rule.times_left = rule.times_left.saturating_sub(1);
                    found = Some(rule.fault.clone());
                }
                None => {}
            }
            rules.retain(|rule| rule.times_left > 0);
            // Returns `false`, so that the removal of a used-up rule does not wake hanging
            // requests.
            false
        });
        found
    }
}

/// Treatment of the response to an admitted request.
enum After {
    TestResponse,
    LoseResponse(String),
    /// Waits until the rules change.
    HoldResponse(watch::Receiver<Vec<Rule>>),
    Unconditional,
}

impl After {
    async fn answer<T>(self, result: Result<T>) -> Result<T> {
        match self {
            Self::TestResponse | Self::Unconditional => result,
            Self::HoldResponse(mut rules) => {
                let _ = rules.changed().await;
                result
            }
            Self::LoseResponse(path) => Err(failure(&path, "injected loss of the answer")),
        }
    }
}

fn failure(path: &str, why: &str) -> Error {
    Error::Generic { store: "FaultStore", source: format!("{path}: {why}").into() }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let after = self.gate.admit(Verb::Put, location).await?;
        let options = match after {
            After::Unconditional => PutOptions { mode: PutMode::Overwrite, ..options },
            _ => options,
        };
        after.answer(self.inner.put_opts(location, payload, options).await).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let after = self.gate.admit(Verb::Put, location).await?;
        after.answer(self.inner.put_multipart_opts(location, options).await).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let after = self.gate.admit(Verb::Get, location).await?;
        after.answer(self.inner.get_opts(location, options).await).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, gate) = (Arc::clone(&self.inner), Arc::clone(&self.gate));
        let delete = move |location: Result<Path>| {
            let (inner, gate) = (Arc::clone(&inner), Arc::clone(&gate));
            async move {
                let location = location?;
                let after = gate.admit(Verb::Delete, &location).await?;
                after.answer(inner.delete(&location).await.map(|()| location)).await
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (inner, gate) = (Arc::clone(&self.inner), Arc::clone(&self.gate));
        let prefix = prefix.cloned();
        let listing = async move {
            let path = prefix.clone().unwrap_or_default();
            let after = gate.admit(Verb::List, &path).await?;
            after.answer(Ok(inner.list(prefix.as_ref()))).await
        };
        stream::once(listing).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let after = self.gate.admit(Verb::List, prefix.unwrap_or(&Path::default())).await?;
        after.answer(self.inner.list_with_delimiter(prefix).await).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let after = self.gate.admit(Verb::Put, to).await?;
        after.answer(self.inner.copy_opts(from, to, options).await).await
    }
}
