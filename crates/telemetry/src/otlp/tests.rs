//! Tests of exports to a collector, and of the behavior without a reachable collector.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use tokio::net::TcpListener;
use tracing::{debug_span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use super::*;
use crate::prometheus::render;
#[cfg(feature = "otlp-grpc")]
use crate::settings::Protocol;
use crate::settings::Ratio;
use crate::traces::{RequestSpan, TARGET, TraceHeaders};
use slateberg_base::clock::SystemClock;
use slateberg_base::secret::Secret;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A received request: path, headers and body.
type ReceivedRequest = (String, HeaderMap, Bytes);

/// Receives requests and responds with these statuses in order; the last one repeats.
#[derive(Clone)]
struct Receiver {
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    responses: Arc<Mutex<Vec<StatusCode>>>,
}

impl Receiver {
    async fn listen(responses: &[StatusCode]) -> (Self, SocketAddr) {
        let mut responses = responses.to_vec();
        responses.reverse();
        let receiver =
            Self { received: Arc::default(), responses: Arc::new(Mutex::new(responses)) };
        let routes = Router::new().fallback(receive).with_state(receiver.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (receiver, address)
    }

    /// Returns the bodies of requests to a path.
    fn bodies(&self, path: &str) -> Vec<Bytes> {
        let received = self.received.lock().expect("no panic");
        received.iter().filter(|(to, ..)| to == path).map(|(.., body)| body.clone()).collect()
    }
}

async fn receive(
    State(receiver): State<Receiver>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    receiver.received.lock().expect("no panic").push((uri.path().to_owned(), headers, body));
    let mut responses = receiver.responses.lock().expect("no panic");
    if responses.len() > 1 { responses.pop().expect("there are two") } else { responses[0] }
}

fn settings(address: SocketAddr) -> OtlpSettings {
    OtlpSettings {
        endpoint: format!("http://{address}/"),
        headers: BTreeMap::from([("x-key".to_owned(), Secret::new("hunter2"))]),
        metrics: false,
        ..OtlpSettings::default()
    }
}

fn exporter(settings: &OtlpSettings) -> Exporter {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    Exporter::new(settings, &clock).expect("they are valid")
}

/// Returns a `traceparent` header of [`TRACE`]. `sampled` is the client's decision.
fn traceparent(sampled: bool) -> String {
    format!("00-{TRACE}-00f067aa0ba902b7-0{}", u8::from(sampled))
}

/// Simulates a sampled request.
fn request(traces: &Traces) {
    let parent = traceparent(true);
    tracing::subscriber::with_default(registry().with(traces.layers()), || {
        let headers = TraceHeaders { parent: Some(&parent), state: Some("congo=t61") };
        let request = RequestSpan::begin(Ratio::NONE, headers, &"r1", || "GET /".to_owned());
        let request = request.expect("it is sampled");
        request.span().in_scope(|| drop(debug_span!(target: TARGET, "authorize")));
    });
}

/// Exports the two spans of one request, and returns the registry that counts them.
async fn export_request(settings: &OtlpSettings) -> Arc<Registry> {
    export_requests(settings, 1).await
}

async fn export_requests(settings: &OtlpSettings, requests: usize) -> Arc<Registry> {
    let registry = Arc::new(Registry::default());
    let traces = Traces::new(settings).expect("they are valid").expect("traces go somewhere");
    for _ in 0..requests {
        request(&traces);
    }
    let mut exporter = exporter(settings);
    exporter.take_traces(traces, &registry);
    exporter.start(&registry).finish().await;
    registry
}

/// Renders the exporter's metrics.
fn render_metrics(registry: &Registry) -> String {
    render(&registry.collect())
}

fn count(registry: &Registry, result: &str) -> u64 {
    let (text, name) = (render_metrics(registry), "slateberg_otlp_spans_total");
    let line =
        text.lines().find_map(|line| line.strip_prefix(&format!("{name}{{result=\"{result}\"}} ")));
    line.and_then(|count| count.parse().ok()).expect("the metric exists")
}

fn counts(registry: &Registry, sent: u64, lost: u64) -> bool {
    count(registry, "sent") == sent && count(registry, "lost") == lost
}

#[tokio::test]
async fn waiting_spans_are_sent_at_the_end_with_headers_and_parents() {
    let (receiver, address) = Receiver::listen(&[StatusCode::OK]).await;
    let registry = export_request(&settings(address)).await;
    let bodies = receiver.bodies("/v1/traces");
    let [body] = &bodies[..] else { panic!("{}", bodies.len()) };
    let message = ExportTraceServiceRequest::decode(body.clone()).expect("it is a message");
    let spans = &message.resource_spans[0].scope_spans[0].spans;
    let [part, request] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((request.name.as_str(), request.kind), ("GET /", SpanKind::Server as i32));
    assert_eq!((part.name.as_str(), part.kind), ("authorize", SpanKind::Internal as i32));
    assert_eq!((&part.parent_span_id, &part.trace_id), (&request.span_id, &request.trace_id));
    let parent = [&request.trace_id, &request.parent_span_id];
    let parent = parent.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    assert_eq!(parent, [TRACE, "00f067aa0ba902b7"]);
    assert_eq!(request.trace_state, "congo=t61");
    assert!(spans.iter().all(|span| span.attributes.is_empty()), "{spans:?}");
    let headers = receiver.received.lock().expect("no panic")[0].1.clone();
    assert_eq!(headers["x-key"], "hunter2");
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert!(counts(&registry, 2, 0), "{}", render_metrics(&registry));
}

#[tokio::test]
async fn export_is_repeated_while_the_collector_is_busy() {
    let responses = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK];
    let (receiver, address) = Receiver::listen(&responses).await;
    let registry = export_request(&settings(address)).await;
    let bodies = receiver.bodies("/v1/traces");
    assert!(bodies.len() == 2 && bodies[0] == bodies[1], "{}", bodies.len());
    assert!(counts(&registry, 2, 0), "{}", render_metrics(&registry));
}

#[tokio::test]
async fn spans_that_a_collector_rejects_are_counted_as_lost() {
    let (receiver, address) = Receiver::listen(&[StatusCode::BAD_REQUEST]).await;
    let registry = export_request(&settings(address)).await;
    assert_eq!(receiver.bodies("/v1/traces").len(), 1);
    assert!(counts(&registry, 0, 2), "{}", render_metrics(&registry));
}

#[tokio::test]
async fn spans_beyond_the_queue_limit_are_counted_as_lost() {
    let (_receiver, address) = Receiver::listen(&[StatusCode::OK]).await;
    let settings = OtlpSettings { queue_spans_max: 1, ..settings(address) };
    // The exporter may send some spans while requests add others.
    let registry = export_requests(&settings, 100).await;
    let (sent, lost) = (count(&registry, "sent"), count(&registry, "lost"));
    assert!(sent > 0 && lost > 0 && sent + lost == 200, "{}", render_metrics(&registry));
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_collector_that_never_responds() {
    // The collector accepts connections and never responds.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    export_request(&OtlpSettings { flush_ms_max: 20, ..settings(address) }).await;
}

#[tokio::test]
async fn sampling_is_by_the_client_and_else_by_the_ratio() {
    let settings = settings(SocketAddr::from(([127, 0, 0, 1], 1)));
    let settings = OtlpSettings { flush_ms_max: 1, ..settings };
    let traces = Traces::new(&settings).expect("they are valid").expect("traces go somewhere");
    let sampled = |ratio, parent: Option<&str>| {
        let headers = TraceHeaders { parent, state: None };
        RequestSpan::begin(ratio, headers, &"r1", String::new).is_some()
    };
    tracing::subscriber::with_default(registry().with(traces.layers()), || {
        for ratio in [Ratio::NONE, Ratio::ONE] {
            assert!(sampled(ratio, Some(&traceparent(true))));
            assert!(!sampled(ratio, Some(&traceparent(false))));
            for none in [None, Some("00-x-01"), Some("ff-1-2-01")] {
                assert_eq!(sampled(ratio, none), ratio == Ratio::ONE);
            }
        }
        assert!(debug_span!(target: TARGET, "part of nothing").is_disabled());
        let alone = info_span!(target: "slatedb", "read of a background task").context();
        assert!(!alone.span().span_context().is_valid());
    });
    traces.finish().await;
}

#[cfg(feature = "otlp-grpc")]
#[tokio::test]
async fn spans_are_sent_over_grpc_to_their_service_with_the_headers() {
    let (receiver, address) = Receiver::listen(&[StatusCode::OK]).await;
    let settings = OtlpSettings { protocol: Protocol::Grpc, ..settings(address) };
    // The receiver does not support gRPC and sends no gRPC status. The test checks only the
    // received body.
    let registry = export_request(&settings).await;
    assert!(counts(&registry, 0, 2), "{}", render_metrics(&registry));
    let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let body = receiver.bodies(path).pop().expect("something came");
    // Each message is preceded by one byte for compression and four for its length.
    let message = ExportTraceServiceRequest::decode(body.slice(5..)).expect("it is a message");
    assert_eq!(message.resource_spans[0].scope_spans[0].spans.len(), 2);
    let headers = receiver.received.lock().expect("no panic")[0].1.clone();
    assert_eq!(headers["x-key"], "hunter2");
    assert_eq!(headers["content-type"], "application/grpc");
}

#[tokio::test]
async fn metrics_are_sent_at_the_end_as_well() {
    let (receiver, address) = Receiver::listen(&[StatusCode::OK]).await;
    let settings = OtlpSettings { traces: false, metrics: true, ..settings(address) };
    let (exporter, registry) = (exporter(&settings), Arc::new(Registry::default()));
    registry.register("test", |into| into.counter("c", "1", "Counts.", Vec::new(), 3));
    exporter.start(&registry).finish().await;
    let last = receiver.bodies("/v1/metrics").pop().expect("something came");
    let message = ExportMetricsServiceRequest::decode(last).expect("it is a message");
    let metrics = &message.resource_metrics[0].scope_metrics[0].metrics;
    assert_eq!(metrics[0].name, "c");
}

#[tokio::test]
async fn nothing_is_exported_without_an_endpoint() {
    let exporter = exporter(&OtlpSettings::default());
    assert!(Traces::new(&OtlpSettings::default()).expect("they are valid").is_none());
    let registry = Arc::new(Registry::default());
    exporter.register(&registry);
    assert_eq!(render_metrics(&registry), "");
    exporter.start(&registry).finish().await;
}

#[test]
fn invalid_settings_are_rejected_without_their_secrets() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let rejection = |change: fn(&mut OtlpSettings)| {
        let mut settings = settings(SocketAddr::from(([127, 0, 0, 1], 1)));
        change(&mut settings);
        Exporter::new(&settings, &clock).err().expect("it is refused").to_string()
    };
    assert!(rejection(|it| it.endpoint = "grpc://x:4317".to_owned()).contains("traces_endpoint"));
    assert!(rejection(|it| it.endpoint = "collector:4318".to_owned()).contains("traces_endpoint"));
    let wrong = rejection(|it| {
        it.headers.insert("x-key".to_owned(), Secret::new("hunter\n2"));
    });
    assert!(wrong.contains("headers.x-key") && !wrong.contains("hunter"), "{wrong}");
}
