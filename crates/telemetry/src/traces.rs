//! Traces: what a request did, and how long each part of it took.
//!
//! A [`Tracer`] begins a [`Span`] for a request that is kept, and that span's [`Trace`] goes along with
//! whatever is done for it; parts of the work are spans of their own. The spans of a request are gathered,
//! and handed to the exporter together: when the request is answered, and those that end later when the last
//! of them has.
//!
//! Nothing here waits. Where there is no tracer, or a request is not kept, a [`Trace`] is nothing, and so
//! are all its spans.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;

use super::settings::Ratio;
use super::trace_context::{Remote, SpanId, TraceId};
use slateberg_base::clock::Clock;
use slateberg_base::secret::random_bytes;

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// What a span is for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The answer to a request from outside.
    Server,
    /// A part of the work.
    Internal,
    /// A request to somebody else.
    Client,
}

/// A span that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The trace that it belongs to.
    pub trace_id: TraceId,
    /// Its own name.
    pub span_id: SpanId,
    /// The span that it is a part of; none for the first of a trace.
    pub parent: Option<SpanId>,
    /// Whether that is in another process.
    pub remote: bool,
    /// What vendors add.
    pub state: Option<Box<str>>,
    /// What it was.
    pub name: Cow<'static, str>,
    /// What it is for others.
    pub kind: Kind,
    /// When it began, in nanoseconds since 1970 (UTC).
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// What is told of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// Spans of other traces that it was for, or that were for it.
    pub links: Vec<(TraceId, SpanId)>,
    /// What went wrong, if it did.
    pub error: Option<Cow<'static, str>>,
}

/// Begins traces, and hands them on.
pub struct Tracer {
    clock: Arc<dyn Clock>,
    ratio: Ratio,
    queue: mpsc::Sender<Vec<Ended>>,
    lost: Arc<AtomicU64>,
}

/// Where in a trace something is done: what is a part of it begins as its [`Trace::span`].
#[derive(Clone, Default)]
pub struct Trace(Option<Arc<Place>>);

struct Place {
    gathering: Arc<Gathering>,
    span_id: SpanId,
}

/// The spans of one request.
struct Gathering {
    tracer: Arc<Tracer>,
    trace_id: TraceId,
    state: Option<Box<str>>,
    /// The same moment twice, so that a span asks for the time once.
    began: Instant,
    began_ns: u64,
    ended: Mutex<Vec<Ended>>,
}

/// Something that is being done. It ends when this is dropped.
#[must_use = "a span ends when it is dropped"]
pub struct Span(Option<Box<Live>>);

struct Live {
    place: Arc<Place>,
    parent: Option<SpanId>,
    remote: bool,
    name: Cow<'static, str>,
    kind: Kind,
    began: Instant,
    attributes: Vec<(&'static str, Value)>,
    links: Vec<(TraceId, SpanId)>,
    error: Option<Cow<'static, str>>,
}

impl Tracer {
    /// Keeps this part of the traces that begin here, and hands them to `queue`. What there is no room for
    /// is counted in `lost`, by span.
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        ratio: Ratio,
        queue: mpsc::Sender<Vec<Ended>>,
        lost: Arc<AtomicU64>,
    ) -> Arc<Self> {
        Arc::new(Self { clock, ratio, queue, lost })
    }

    /// The span of a request. Who asks decides whether it is kept, if the request says so.
    pub fn begin(self: &Arc<Self>, from: Option<Remote>, name: impl FnOnce() -> String) -> Span {
        let kept = match &from {
            Some(remote) => remote.sampled,
            None => self.ratio.chooses(random_bytes()),
        };
        if !kept {
            return Span(None);
        }
        let began = Instant::now();
        let (parent, trace_id, state) = match from {
            Some(remote) => (Some(remote.span_id), remote.trace_id, remote.state),
            None => (None, TraceId::random(), None),
        };
        let gathering = Gathering {
            tracer: Arc::clone(self),
            trace_id,
            state,
            began,
            began_ns: self.clock.now_ns(),
            ended: Mutex::default(),
        };
        let place = Place { gathering: Arc::new(gathering), span_id: SpanId::random() };
        Span(Some(Box::new(Live {
            place: Arc::new(place),
            parent,
            remote: parent.is_some(),
            name: Cow::Owned(name()),
            kind: Kind::Server,
            began,
            attributes: Vec::with_capacity(12),
            links: Vec::new(),
            error: None,
        })))
    }

    fn hand_on(&self, ended: Vec<Ended>) {
        if ended.is_empty() {
            return;
        }
        if let Err(full) = self.queue.try_send(ended) {
            let ended = full.into_inner().len();
            self.lost.fetch_add(ended as u64, Ordering::Relaxed);
        }
    }
}

impl Gathering {
    fn at_ns(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.began).as_nanos();
        self.began_ns.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn take(&self) -> Vec<Ended> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        let left = self.take();
        self.tracer.hand_on(left);
    }
}

impl Trace {
    /// Begins a part of what is done here.
    pub fn span(&self, name: &'static str) -> Span {
        match &self.0 {
            None => Span(None),
            Some(parent) => parent.part(name, Kind::Internal, Instant::now()),
        }
    }

    /// The same for what began earlier.
    pub fn span_since(&self, name: &'static str, began: Instant) -> Span {
        match &self.0 {
            None => Span(None),
            Some(parent) => parent.part(name, Kind::Internal, began),
        }
    }

    /// The same for a request to somebody else.
    pub fn request(&self, name: &'static str) -> Span {
        match &self.0 {
            None => Span(None),
            Some(parent) => parent.part(name, Kind::Client, Instant::now()),
        }
    }

    /// Whether anything is kept.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The trace and the span of this place.
    pub fn ids(&self) -> Option<(TraceId, SpanId)> {
        self.0.as_ref().map(|place| (place.gathering.trace_id, place.span_id))
    }
}

/// Two requests are the same whether they are traced or not.
impl PartialEq for Trace {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Trace {}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trace").field(&self.ids()).finish()
    }
}

impl Place {
    fn part(self: &Arc<Self>, name: &'static str, kind: Kind, began: Instant) -> Span {
        let gathering = Arc::clone(&self.gathering);
        Span(Some(Box::new(Live {
            place: Arc::new(Self { gathering, span_id: SpanId::random() }),
            parent: Some(self.span_id),
            remote: false,
            name: Cow::Borrowed(name),
            kind,
            began,
            attributes: Vec::new(),
            links: Vec::new(),
            error: None,
        })))
    }
}

impl Span {
    /// One that is not kept.
    pub fn none() -> Self {
        Self(None)
    }

    /// Where it is, for what is a part of it.
    pub fn trace(&self) -> Trace {
        Trace(self.0.as_ref().map(|live| Arc::clone(&live.place)))
    }

    /// Tells something of it. What is not kept is not made, either.
    pub fn set<V: Into<Value>>(&mut self, name: &'static str, value: impl FnOnce() -> V) {
        if let Some(live) = &mut self.0 {
            live.attributes.push((name, value().into()));
        }
    }

    /// Says that it was for that, too, or the other way round.
    pub fn link(&mut self, other: &Trace) {
        if let (Some(live), Some(ids)) = (&mut self.0, other.ids()) {
            live.links.push(ids);
        }
    }

    /// Says that it did not succeed.
    pub fn fail(&mut self, why: impl Into<Cow<'static, str>>) {
        if let Some(live) = &mut self.0 {
            live.error = Some(why.into());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(live) = self.0.take() else { return };
        let Live { place, parent, remote, name, kind, began, attributes, links, error } = *live;
        let gathering = &place.gathering;
        let ended = Ended {
            trace_id: gathering.trace_id,
            span_id: place.span_id,
            parent,
            remote,
            state: gathering.state.clone(),
            name,
            kind,
            began_ns: gathering.at_ns(began),
            ended_ns: gathering.at_ns(Instant::now()),
            attributes,
            links,
            error,
        };
        gathering.ended.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        // The request is answered: what is still under way comes later.
        if kind == Kind::Server {
            let all = gathering.take();
            gathering.tracer.hand_on(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slateberg_base::clock::SystemClock;

    fn tracer(
        ratio: f64,
        room: usize,
    ) -> (Arc<Tracer>, mpsc::Receiver<Vec<Ended>>, Arc<AtomicU64>) {
        let (queue, traces) = mpsc::channel(room);
        let lost = Arc::new(AtomicU64::new(0));
        let ratio = Ratio::new(ratio).expect("it is a ratio");
        (Tracer::new(Arc::new(SystemClock), ratio, queue, Arc::clone(&lost)), traces, lost)
    }

    fn name() -> String {
        "GET /".to_owned()
    }

    fn remote(sampled: bool) -> Remote {
        let (trace_id, span_id) = (TraceId([7; 16]), SpanId([9; 8]));
        Remote { trace_id, span_id, sampled, state: None }
    }

    #[test]
    fn parts_belong_to_the_request_and_the_request_to_who_asks() {
        let (tracer, mut traces, _) = tracer(0.0, 8);
        let request = tracer.begin(Some(remote(true)), name);
        let part = request.trace().span("authenticate");
        let late = part.trace().span("late");
        drop(part);
        drop(request);
        let ended = traces.try_recv().expect("the request has ended");
        let [part, request] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!((request.trace_id, request.parent), (TraceId([7; 16]), Some(SpanId([9; 8]))));
        assert!(request.remote && !part.remote);
        assert_eq!(part.parent, Some(request.span_id));
        assert!(request.began_ns <= part.began_ns && part.ended_ns <= request.ended_ns);
        assert!(traces.try_recv().is_err(), "something has not ended yet");
        drop(late);
        assert_eq!(traces.try_recv().expect("it has ended")[0].name, "late");
    }

    #[test]
    fn who_asks_decides_and_otherwise_the_ratio() {
        for ratio in [0.0, 1.0] {
            let (tracer, ..) = tracer(ratio, 8);
            for sampled in [true, false] {
                let span = tracer.begin(Some(remote(sampled)), name);
                assert_eq!(span.trace().is_on(), sampled);
            }
            assert_eq!(tracer.begin(None, name).trace().is_on(), ratio > 0.5);
        }
        assert!(!Trace::default().span("part of nothing").trace().is_on());
    }

    #[test]
    fn what_there_is_no_room_for_is_counted_and_waits_for_nobody() {
        let (tracer, _traces, lost) = tracer(1.0, 1);
        for _ in 0..3 {
            let request = tracer.begin(None, name);
            drop(request.trace().span("part"));
        }
        assert_eq!(lost.load(Ordering::Relaxed), 4);
    }
}
