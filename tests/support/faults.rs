//! [`FaultStore`]: an object store that misbehaves when it is told to.
//!
//! It stands between the catalog and a healthy bucket. A **rule** names a verb and a part of a path, and
//! says what becomes of the requests that fit; rules come and go while requests are under way. Every
//! request is counted when it arrives, whatever becomes of it.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use rand::RngExt;
use tokio::sync::watch;

/// The log of the catalog's store.
pub const LOG: &str = "state/wal/";
/// The versions of its manifest.
pub const MANIFESTS: &str = "state/manifest/";
/// Every metadata file of every table and view.
pub const METADATA_FILES: &str = ".metadata.json";
/// Every path.
pub const EVERYTHING: &str = "";

/// How long [`FaultStore::arrived`] waits before it gives up.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Writing an object.
    Put,
    /// Reading one, or its head.
    Get,
    /// Removing one.
    Delete,
    /// Listing.
    List,
    /// Any of these; only rules have it.
    Any,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// It fails, and has no effect.
    Fail,
    /// It takes effect, and then its answer is lost: the caller sees a failure.
    LoseAnswer,
    /// It is told that the object is there already, though it is not, and has no effect: what becomes of
    /// S3's `409 ConditionalRequestConflict` on its way through `object_store`.
    FalseConflict,
    /// It is put whatever is there: what stores do that know no conditions.
    IgnoreCondition,
    /// It takes effect some time later, drawn from this range of milliseconds.
    Delay(Range<u64>),
    /// It waits until the rule is lifted.
    Hang,
}

#[derive(Debug, Clone)]
struct Rule {
    verb: Verb,
    part: String,
    fault: Fault,
    /// Requests that pass before the first that meets it.
    passing: usize,
    times_left: usize,
}

/// An object store that injects faults.
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    gate: Arc<Gate>,
}

/// What every request passes.
struct Gate {
    rules: watch::Sender<Vec<Rule>>,
    requests: Mutex<Vec<(Verb, String)>>,
}

impl FaultStore {
    /// A store on this bucket that behaves well for now.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        let gate = Gate { rules: watch::Sender::new(Vec::new()), requests: Mutex::default() };
        Arc::new(Self { inner, gate: Arc::new(gate) })
    }

    /// From now on, requests of this verb whose path holds `part` meet this fault.
    pub fn inject(&self, verb: Verb, part: &str, fault: Fault) {
        self.inject_times(verb, part, fault, usize::MAX);
    }

    /// The next so many requests of this verb whose path holds `part` meet this fault.
    pub fn inject_times(&self, verb: Verb, part: &str, fault: Fault, times: usize) {
        let part = part.to_owned();
        let rule = Rule { verb, part, fault, passing: 0, times_left: times };
        if times > 0 {
            self.gate.rules.send_modify(|rules| rules.push(rule));
        }
    }

    /// The next so many requests of this verb are all that still pass: those behind them hang.
    pub fn hang_after(&self, verb: Verb, passing: usize) {
        let (part, times_left) = (EVERYTHING.to_owned(), usize::MAX);
        let rule = Rule { verb, part, fault: Fault::Hang, passing, times_left };
        self.gate.rules.send_modify(|rules| rules.push(rule));
    }

    /// Takes back every rule; what hangs goes on.
    pub fn lift(&self) {
        self.gate.rules.send_modify(Vec::clear);
    }

    /// How many rules have not met all their requests yet.
    pub fn left(&self) -> usize {
        self.gate.rules.borrow().len()
    }

    /// Takes back the rules of this part of a path alone.
    pub fn lift_from(&self, part: &str) {
        self.gate.rules.send_modify(|rules| rules.retain(|rule| rule.part != part));
    }

    /// No request has an effect or an answer any more: as seen from the bucket, the process is dead.
    pub fn kill(&self) {
        let part = EVERYTHING.to_owned();
        let (verb, fault) = (Verb::Any, Fault::Hang);
        let rule = Rule { verb, part, fault, passing: 0, times_left: usize::MAX };
        self.gate.rules.send_modify(|rules| rules.insert(0, rule));
    }

    /// How many requests of this verb for paths that hold `part` have arrived.
    pub fn count(&self, verb: Verb, part: &str) -> usize {
        let requests = self.gate.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            |it: &&(Verb, String)| (verb == Verb::Any || it.0 == verb) && it.1.contains(part);
        requests.iter().filter(fits).count()
    }

    /// Every request that has arrived, with its path, in that order.
    pub fn requests(&self) -> Vec<(Verb, String)> {
        self.gate.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until at least so many requests of this verb for paths that hold `part` have arrived.
    pub async fn arrived(&self, verb: Verb, part: &str, at_least: usize) {
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

    /// Counts a request, and holds it up or turns it away as the rules want. What is returned has to
    /// happen after it took effect.
    async fn admit(&self, verb: Verb, path: &Path) -> Result<After> {
        let path = path.to_string();
        let mut rules = self.rules.subscribe();
        self.count(verb, path.clone());
        loop {
            rules.mark_unchanged();
            match self.fault_for(verb, &path) {
                None => return Ok(After::Answer),
                Some(Fault::LoseAnswer) => return Ok(After::LoseAnswer(path)),
                Some(Fault::IgnoreCondition) => return Ok(After::Unconditional),
                Some(Fault::Fail) => return Err(failure(&path, "injected failure")),
                Some(Fault::FalseConflict) => {
                    let source = "injected conflict".into();
                    return Err(Error::AlreadyExists { path, source });
                }
                Some(Fault::Delay(range)) => {
                    let delay_ms = rand::rng().random_range(range);
                    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
                    return Ok(After::Answer);
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
            // Nobody who hangs has to look again because a rule was used up by another.
            false
        });
        found
    }
}

/// What happens after a request took effect.
enum After {
    Answer,
    LoseAnswer(String),
    Unconditional,
}

impl After {
    fn answer<T>(self, result: Result<T>) -> Result<T> {
        match self {
            Self::Answer | Self::Unconditional => result,
            Self::LoseAnswer(path) => Err(failure(&path, "injected loss of the answer")),
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
        after.answer(self.inner.put_opts(location, payload, options).await)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let after = self.gate.admit(Verb::Put, location).await?;
        after.answer(self.inner.put_multipart_opts(location, options).await)
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let after = self.gate.admit(Verb::Get, location).await?;
        after.answer(self.inner.get_opts(location, options).await)
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
                after.answer(inner.delete(&location).await.map(|()| location))
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        // No rule holds it up: it is counted alone.
        self.gate.count(Verb::List, prefix.map(Path::to_string).unwrap_or_default());
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let after = self.gate.admit(Verb::List, prefix.unwrap_or(&Path::default())).await?;
        after.answer(self.inner.list_with_delimiter(prefix).await)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let after = self.gate.admit(Verb::Put, to).await?;
        after.answer(self.inner.copy_opts(from, to, options).await)
    }
}
