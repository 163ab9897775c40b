//! Calls in the host's own traces: each is a span inside of its caller's, with its outcome.

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

const EVERYTHING: PageRequest = PageRequest { listing: Listing(0), after: None, limit: None };

/// A span that has ended.
#[derive(Debug, Clone, Default)]
struct Told {
    name: &'static str,
    parent: Option<&'static str>,
    fields: BTreeMap<&'static str, String>,
}

impl Told {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

impl Visit for Told {
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
struct Host(Arc<Mutex<(Vec<Told>, Vec<&'static str>)>>);

/// With a single subscriber, `tracing` caches a callsite as disabled if a thread without the
/// subscriber reaches it first. A second subscriber prevents this.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default()));

impl Host {
    /// Subscribes to everything up to this level on this thread.
    fn listening(level: LevelFilter) -> (Self, DefaultGuard) {
        LazyLock::force(&ANOTHER);
        let host = Self::default();
        let subscriber = Registry::default().with(host.clone().with_filter(level));
        (host, tracing::subscriber::set_default(subscriber))
    }

    /// Returns the ended spans of the catalog since the last call.
    fn ended(&self) -> Vec<Told> {
        std::mem::take(&mut self.0.lock().expect("nobody panics").0)
    }

    fn logged_in(&self) -> Vec<&'static str> {
        self.0.lock().expect("nobody panics").1.clone()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Host {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).expect("it has begun");
        let parent = span.parent().map(|parent| parent.name());
        let mut told = Told { name: span.name(), parent, ..Told::default() };
        attributes.record(&mut told);
        span.extensions_mut().insert(told);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).expect("it has begun");
        if let Some(told) = span.extensions_mut().get_mut::<Told>() {
            values.record(told);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let inside = context.event_span(event).map_or("nothing", |span| span.name());
        if *event.metadata().level() == Level::ERROR {
            self.0.lock().expect("nobody panics").1.push(inside);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("it has begun");
        let told = span.extensions_mut().remove::<Told>();
        if span.metadata().target().starts_with("slateberg::embedded") {
            self.0.lock().expect("nobody panics").0.extend(told);
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
async fn a_call_is_a_span_where_its_caller_is() {
    let catalog = open_on(bucket()).await;
    let (host, _listening) = Host::listening(LevelFilter::INFO);
    let job = info_span!("job");
    catalog.create_namespace(ns(), BTreeMap::new()).instrument(job).await.expect("it is made");
    catalog.list_tables(&ns(), &EVERYTHING).await.expect("a list");
    let ended = host.ended();
    let [made, listed] = &ended[..] else { panic!("{ended:#?}") };
    assert_eq!((made.name, made.parent), ("create_namespace", Some("job")));
    assert_eq!((listed.name, listed.parent), ("list_tables", None));
    for call in [made, listed] {
        assert_eq!(call.field("slateberg.warehouse"), Some("default"));
        assert_eq!((call.field("error.type"), call.field("otel.status_code")), (None, None));
    }
    let ids = [made, listed].map(|call| call.field("slateberg.request_id").expect("an id"));
    assert_ne!(ids[0], ids[1]);
    catalog.close().await.expect("it closes");
}

#[tokio::test]
async fn calls_at_the_same_time_are_each_where_their_own_caller_is() {
    let catalog = open_on(bucket()).await;
    let (host, _listening) = Host::listening(LevelFilter::INFO);
    let [one, other] = ["one", "other"].map(|name| NamespaceIdent(vec![name.to_owned()]));
    let one = catalog.create_namespace(one, BTreeMap::new()).instrument(info_span!("one"));
    let other = catalog.create_namespace(other, BTreeMap::new()).instrument(info_span!("other"));
    let (one, other) = tokio::join!(one, other);
    one.and(other).expect("both are made");
    let mut parents: Vec<_> = host.ended().iter().map(|call| call.parent).collect();
    parents.sort();
    assert_eq!(parents, [Some("one"), Some("other")]);
    catalog.close().await.expect("it closes");
}

#[tokio::test]
async fn a_refusal_is_told_by_its_exception_and_only_the_catalogs_fault_is_an_error() {
    let catalog = open_on(bucket()).await;
    let (host, _listening) = Host::listening(LevelFilter::INFO);
    let absent = catalog.load_table(&t()).await.expect_err("it is not there");
    assert!(matches!(absent, Error::NoSuchTable(_)), "{absent}");
    assert_eq!(catalog.table_exists(&t()).await, Ok(false));
    let nobody = catalog.acting_as(Identity::embedded("nobody"));
    nobody.load_table(&t()).await.expect_err("nobody reads nothing");
    catalog.close().await.expect("it closes");
    assert_eq!(host.logged_in(), Vec::<&str>::new());
    catalog.load_table(&t()).await.expect_err("it is closed");

    let ended = host.ended();
    let told: Vec<_> = ended
        .iter()
        .map(|call| (call.name, call.field("error.type"), call.field("otel.status_code")))
        .collect();
    assert_eq!(
        told,
        [
            ("load_table", Some("NoSuchTableException"), None),
            ("table_exists", None, None),
            ("load_table", Some("ForbiddenException"), None),
            ("load_table", Some("SlowDownException"), Some("ERROR")),
        ]
    );
    assert_eq!(host.logged_in(), ["load_table"], "what the operator is told is inside of it");
}

#[tokio::test]
async fn a_host_that_wants_no_spans_has_none() {
    let catalog = open_on(bucket()).await;
    let (host, _listening) = Host::listening(LevelFilter::ERROR);
    catalog.create_namespace(ns(), BTreeMap::new()).await.expect("it is made");
    assert!(host.ended().is_empty());
    catalog.close().await.expect("it closes");
}
