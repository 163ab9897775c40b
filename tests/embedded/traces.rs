//! Calls to an embedded catalog in the traces of its host. Each call is a span inside the caller's
//! span, and has its outcome.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};

use slateberg_embedded::{Error, Identity};
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::page::{Listing, PageRequest};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Instrument, Level, Subscriber, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::support::bucket::bucket;
use crate::support::embedded::open_on;

const WHOLE_LISTING: PageRequest = PageRequest { listing: Listing(0), after: None, limit: None };

/// A span that has ended.
#[derive(Debug, Clone, Default)]
struct EndedSpan {
    name: &'static str,
    parent: Option<&'static str>,
    fields: BTreeMap<&'static str, String>,
}

impl EndedSpan {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

impl Visit for EndedSpan {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

/// The events of a host's subscriber: spans of the catalog as they end, and the spans of logged
/// errors.
#[derive(Debug, Clone, Default)]
struct Host(Arc<Mutex<(Vec<EndedSpan>, Vec<&'static str>)>>);

/// With a single subscriber, `tracing` caches a callsite as disabled if a thread without the
/// subscriber reaches it first. A second subscriber prevents this.
static SECOND_SUBSCRIBER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default()));

impl Host {
    /// Subscribes to everything up to this level on this thread.
    fn subscribe(level: LevelFilter) -> (Self, DefaultGuard) {
        LazyLock::force(&SECOND_SUBSCRIBER);
        let host = Self::default();
        let subscriber = Registry::default().with(host.clone().with_filter(level));
        (host, tracing::subscriber::set_default(subscriber))
    }

    /// Returns the ended spans of the catalog since the last call.
    fn take_spans(&self) -> Vec<EndedSpan> {
        std::mem::take(&mut self.0.lock().expect("no panic").0)
    }

    fn spans_with_errors(&self) -> Vec<&'static str> {
        self.0.lock().expect("no panic").1.clone()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Host {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).expect("it has begun");
        let parent = span.parent().map(|parent| parent.name());
        let mut ended_span = EndedSpan { name: span.name(), parent, ..EndedSpan::default() };
        attributes.record(&mut ended_span);
        span.extensions_mut().insert(ended_span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).expect("it has begun");
        if let Some(ended_span) = span.extensions_mut().get_mut::<EndedSpan>() {
            values.record(ended_span);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let inside = context.event_span(event).map_or("nothing", |span| span.name());
        if *event.metadata().level() == Level::ERROR {
            self.0.lock().expect("no panic").1.push(inside);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("it has begun");
        let ended_span = span.extensions_mut().remove::<EndedSpan>();
        if span.metadata().target().starts_with("slateberg::embedded") {
            self.0.lock().expect("no panic").0.extend(ended_span);
        }
    }
}

fn ns() -> NamespaceIdent {
    NamespaceIdent(vec!["ns".to_owned()])
}

fn t() -> TabularIdent {
    TabularIdent { namespace: ns(), name: "t".to_owned() }
}

#[tokio::test]
async fn span_of_a_call_is_a_child_of_the_callers_span() {
    let catalog = open_on(bucket()).await;
    let (host, _subscription) = Host::subscribe(LevelFilter::INFO);
    let job = info_span!("job");
    catalog.create_namespace(ns(), BTreeMap::new()).instrument(job).await.expect("it is made");
    catalog.list_tables(&ns(), &WHOLE_LISTING).await.expect("a list");
    let spans = host.take_spans();
    let [created, listed] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((created.name, created.parent), ("create_namespace", Some("job")));
    assert_eq!((listed.name, listed.parent), ("list_tables", None));
    for call in [created, listed] {
        assert_eq!(call.field("slateberg.warehouse"), Some("default"));
        assert_eq!((call.field("error.type"), call.field("otel.status_code")), (None, None));
    }
    let ids = [created, listed].map(|call| call.field("slateberg.request_id").expect("an id"));
    assert_ne!(ids[0], ids[1]);
    catalog.close().await.expect("it closes");
}

#[tokio::test]
async fn spans_of_concurrent_calls_have_their_own_parents() {
    let catalog = open_on(bucket()).await;
    let (host, _subscription) = Host::subscribe(LevelFilter::INFO);
    let [one, other] = ["one", "other"].map(|name| NamespaceIdent(vec![name.to_owned()]));
    let one = catalog.create_namespace(one, BTreeMap::new()).instrument(info_span!("one"));
    let other = catalog.create_namespace(other, BTreeMap::new()).instrument(info_span!("other"));
    let (one, other) = tokio::join!(one, other);
    one.and(other).expect("both are made");
    let mut parents: Vec<_> = host.take_spans().iter().map(|call| call.parent).collect();
    parents.sort();
    assert_eq!(parents, [Some("one"), Some("other")]);
    catalog.close().await.expect("it closes");
}

#[tokio::test]
async fn span_of_a_rejection_has_its_exception_and_only_internal_errors_fail_it() {
    let catalog = open_on(bucket()).await;
    let (host, _subscription) = Host::subscribe(LevelFilter::INFO);
    let absent = catalog.load_table(&t()).await.expect_err("it is not there");
    assert!(matches!(absent, Error::NoSuchTable(_)), "{absent}");
    assert_eq!(catalog.table_exists(&t()).await, Ok(false));
    let nobody = catalog.acting_as(Identity::embedded("nobody"));
    nobody.load_table(&t()).await.expect_err("it has no permissions");
    catalog.close().await.expect("it closes");
    assert_eq!(host.spans_with_errors(), Vec::<&str>::new());
    catalog.load_table(&t()).await.expect_err("it is closed");

    let spans = host.take_spans();
    let ended_span: Vec<_> = spans
        .iter()
        .map(|call| (call.name, call.field("error.type"), call.field("otel.status_code")))
        .collect();
    assert_eq!(
        ended_span,
        [
            ("load_table", Some("NoSuchTableException"), None),
            ("table_exists", None, None),
            ("load_table", Some("ForbiddenException"), None),
            ("load_table", Some("SlowDownException"), Some("ERROR")),
        ]
    );
    assert_eq!(
        host.spans_with_errors(),
        ["load_table"],
        "the logged error is inside the span of the call"
    );
}

#[tokio::test]
async fn host_without_interest_in_spans_gets_none() {
    let catalog = open_on(bucket()).await;
    let (host, _subscription) = Host::subscribe(LevelFilter::ERROR);
    catalog.create_namespace(ns(), BTreeMap::new()).await.expect("it is made");
    assert!(host.take_spans().is_empty());
    catalog.close().await.expect("it closes");
}
