//! Traces of a server, as received by a collector.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::support::program::Server;

const CLIENT_SPAN: &str = "00f067aa0ba902b7";
const TABLE_ROUTE: &str = "/v1/namespaces/{namespace}/tables/{table}";

/// A collector that stores the received spans. Tests that use it need a second thread, so that it
/// responds while the test waits for a server to stop.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

impl Collector {
    async fn listen() -> (Self, SocketAddr) {
        let collector = Self::default();
        let routes = Router::new().fallback(receive).with_state(collector.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (collector, address)
    }

    /// Returns the spans of a trace.
    fn spans(&self, trace: &str) -> Vec<Span> {
        let spans = self.0.lock().expect("no panic");
        spans.iter().filter(|span| hex(&span.trace_id) == trace).cloned().collect()
    }

    fn traces(&self) -> BTreeSet<String> {
        self.0.lock().expect("no panic").iter().map(|span| hex(&span.trace_id)).collect()
    }
}

async fn receive(State(collector): State<Collector>, body: Bytes) {
    let message = ExportTraceServiceRequest::decode(body).expect("it is a message");
    let scopes = message.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    collector.0.lock().expect("no panic").extend(scopes.flat_map(|scope| scope.spans));
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn trace(number: u8) -> String {
    hex(&[number; 16])
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &any_value::Value| match value {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let value = |it: &opentelemetry_proto::tonic::common::v1::KeyValue| {
        it.value.as_ref().and_then(|value| value.value.as_ref().map(text)).expect("a value")
    };
    span.attributes.iter().map(|it| (it.key.as_str(), value(it))).collect()
}

/// Returns the names of all descendants of a span.
fn inside<'a>(spans: &'a [Span], of: &Span) -> BTreeSet<&'a str> {
    let parts = spans.iter().filter(|span| span.parent_span_id == of.span_id);
    parts.flat_map(|span| inside(spans, span).into_iter().chain([span.name.as_str()])).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let names = || spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>();
    let found = spans.iter().find(|span| span.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", names()))
}

/// A server that sends its spans to a collector, with a client of this server.
struct Client {
    server: Server,
    http: reqwest::Client,
    key: String,
}

impl Client {
    /// Starts the server. It samples only requests that the client samples.
    fn start(directory: &Path, collector: SocketAddr, key: Option<String>) -> Self {
        let settings = format!(
            "[log]\nlevel = \"warn,slateberg=debug\"\n[telemetry.otlp]\nendpoint = \"http://{collector}\"\n\
             metrics = false\nsample_ratio = 0.0\n"
        );
        let file = directory.join("slateberg.toml");
        fs::write(&file, settings).expect("there is room");
        let server = Server::start(directory, &["--config", file.to_str().expect("UTF-8")]);
        let key =
            key.or_else(|| server.keys().first().cloned()).expect("a first start shows a key");
        Self { server, http: reqwest::Client::new(), key }
    }

    async fn send(&self, request: reqwest::RequestBuilder, traceparent: Option<&str>) -> Value {
        let request = match traceparent {
            Some(traceparent) => request.header("traceparent", traceparent),
            None => request,
        };
        let response = request.bearer_auth(&self.key).header("x-request-id", "r1").send().await;
        let response = response.expect("an answer");
        assert!(response.status().is_success(), "{}", response.status());
        response.json().await.expect("JSON")
    }

    async fn post(&self, path: &str, body: &Value, traceparent: Option<&str>) -> Value {
        let url = format!("{}{path}", self.server.uri);
        self.send(self.http.post(url).json(body), traceparent).await
    }

    async fn load(&self, traceparent: Option<&str>) -> Value {
        let url = format!("{}/v1/namespaces/ns/tables/t", self.server.uri);
        self.send(self.http.get(url), traceparent).await
    }

    async fn commit(&self, number: u8, traceparent: Option<&str>) {
        let updates =
            json!([{ "action": "set-properties", "updates": { "n": number.to_string() } }]);
        let body = json!({ "requirements": [], "updates": updates });
        self.post("/v1/namespaces/ns/tables/t", &body, traceparent).await;
    }

    async fn create_table(&self) {
        self.post("/v1/namespaces", &json!({ "namespace": ["ns"] }), None).await;
        let schema = json!({ "type": "struct", "fields": [
            { "id": 1, "name": "n", "type": "long", "required": false },
        ] });
        let table = json!({ "name": "t", "schema": schema });
        self.post("/v1/namespaces/ns/tables", &table, None).await;
    }
}

fn traceparent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{CLIENT_SPAN}-{flags}")
}

#[tokio::test(flavor = "multi_thread")]
async fn sampled_commit_is_one_tree_of_spans_below_its_client() {
    let (collector, address) = Collector::listen().await;
    let directory = TempDir::new().expect("there is room");
    let client = Client::start(directory.path(), address, None);
    client.create_table().await;
    client.commit(1, Some(&traceparent(&trace(1), "01"))).await;
    client.commit(2, Some(&traceparent(&trace(2), "00"))).await;
    let wrong = client.http.get(format!("{}/v1/config", client.server.uri)).bearer_auth("wrong");
    let wrong = wrong.header("traceparent", traceparent(&trace(3), "03")).send().await;
    assert_eq!(wrong.expect("an answer").status().as_u16(), 401);
    client.server.stop();

    assert_eq!(collector.traces(), BTreeSet::from([trace(1), trace(3)]), "only sampled traces");
    let spans = collector.spans(&trace(1));
    let request = named(&spans, &format!("POST {TABLE_ROUTE}"));
    assert_eq!(hex(&request.parent_span_id), CLIENT_SPAN);
    assert_eq!(request.kind, SpanKind::Server as i32);
    let found = attributes(request);
    let mut keys: Vec<_> = found.keys().copied().collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "client.address",
            "http.request.method",
            "http.response.status_code",
            "http.route",
            "slateberg.request_id",
            "url.path",
            "url.scheme",
        ]
    );
    assert_eq!(
        (found["http.response.status_code"].as_str(), found["http.route"].as_str()),
        ("200", TABLE_ROUTE)
    );
    assert_eq!(
        (found["slateberg.request_id"].as_str(), found["url.scheme"].as_str()),
        ("r1", "http")
    );
    // All other spans are inside the span of the request, and the spans of the commit's phases are
    // inside the span of the commit.
    assert_eq!(
        inside(&spans, request).len(),
        spans.iter().map(|span| &span.name).collect::<BTreeSet<_>>().len() - 1
    );
    for part in ["authenticate", "authorize", "commit"] {
        assert!(inside(&spans, request).contains(part), "{part}: {spans:#?}");
    }
    let commit = named(&spans, "commit");
    for part in ["commit.wait", "commit.evaluate", "commit.apply", "wal.put", "metadata.put"] {
        assert!(inside(&spans, commit).contains(part), "{part}: {spans:#?}");
    }
    assert_eq!(attributes(commit)["slateberg.commit.group.size"], "1");
    let written = named(&spans, "object_store.put");
    assert_eq!(written.parent_span_id, named(&spans, "metadata.put").span_id);
    assert_eq!(written.kind, SpanKind::Client as i32);

    let rejected = collector.spans(&trace(3));
    let authenticate = named(&rejected, "authenticate");
    assert_eq!(authenticate.status.as_ref().map(|status| status.message.as_str()), Some("refused"));
    let log = fs::read_to_string(directory.path().join("log")).expect("there is a log");
    let line = log.lines().find(|line| line.contains("credential rejected")).expect("it is logged");
    let request = named(&rejected, "GET /v1/config");
    for id in [trace(3), hex(&request.span_id)] {
        assert!(line.contains(&id), "{id}: {line}");
    }
    assert!(!log.contains(&trace(2)), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sampled_load_has_the_reads_of_the_store_after_a_restart() {
    let (collector, address) = Collector::listen().await;
    let directory = TempDir::new().expect("there is room");
    let client = Client::start(directory.path(), address, None);
    client.create_table().await;
    let Client { server, key, .. } = client;
    server.stop();
    let client = Client::start(directory.path(), address, Some(key));
    client.load(Some(&traceparent(&trace(1), "01"))).await;
    client.server.stop();
    let spans = collector.spans(&trace(1));
    let lookup = named(&spans, "lookup");
    assert_eq!(attributes(lookup)["slateberg.cache"], "none");
    let request = named(&spans, &format!("GET {TABLE_ROUTE}"));
    assert!(inside(&spans, request).contains("slatedb.read"), "{spans:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_of_a_group_commit_is_linked_to_its_members() {
    let (collector, address) = Collector::listen().await;
    let directory = TempDir::new().expect("there is room");
    let client = Client::start(directory.path(), address, None);
    client.create_table().await;
    // Commits that arrive while another one is in progress form a group.
    for round in 0..16_u8 {
        let traces: Vec<_> =
            (1..=8).map(|number| traceparent(&trace(round * 8 + number), "01")).collect();
        let commits = traces.iter().map(|trace| client.commit(round, Some(trace)));
        futures::future::join_all(commits).await;
    }
    client.server.stop();
    let spans: Vec<Span> = collector.0.lock().expect("no panic").clone();
    let commits: Vec<_> = spans.iter().filter(|span| span.name == "commit").collect();
    let linked: Vec<_> = commits.iter().filter(|span| !span.links.is_empty()).collect();
    assert!(!linked.is_empty(), "no group had two members");
    for leader in linked {
        let size = attributes(leader)["slateberg.commit.group.size"].clone();
        assert_eq!((leader.links.len() + 1).to_string(), size);
        for link in &leader.links {
            assert_ne!(link.trace_id, leader.trace_id);
            assert!(commits.iter().any(|member| member.span_id == link.span_id));
        }
    }
}
