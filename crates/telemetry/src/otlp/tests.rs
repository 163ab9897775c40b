//! What a collector gets, and what becomes of it where there is none.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use tokio::net::TcpListener;

use super::*;
use crate::prometheus::render;
use crate::trace_context::{Remote, SpanId, TraceId};
use slateberg_base::clock::SystemClock;
use slateberg_base::secret::Secret;

/// A request that came: its path, its headers and its body.
type Came = (String, HeaderMap, Bytes);

/// Takes what comes, and answers with these statuses, one after the other, and the last for ever.
#[derive(Clone)]
struct Receiver {
    came: Arc<Mutex<Vec<Came>>>,
    answers: Arc<Mutex<Vec<StatusCode>>>,
}

impl Receiver {
    async fn listen(answers: &[StatusCode]) -> (Self, SocketAddr) {
        let mut answers = answers.to_vec();
        answers.reverse();
        let receiver = Self { came: Arc::default(), answers: Arc::new(Mutex::new(answers)) };
        let routes = Router::new().fallback(receive).with_state(receiver.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (receiver, address)
    }

    /// The bodies of requests to a path.
    fn bodies(&self, path: &str) -> Vec<Bytes> {
        let came = self.came.lock().expect("no panic");
        came.iter().filter(|(to, ..)| to == path).map(|(.., body)| body.clone()).collect()
    }
}

async fn receive(
    State(receiver): State<Receiver>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    receiver.came.lock().expect("no panic").push((uri.path().to_owned(), headers, body));
    let mut answers = receiver.answers.lock().expect("no panic");
    if answers.len() > 1 { answers.pop().expect("there are two") } else { answers[0] }
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

/// Answers a request whose trace is kept.
fn request(exporter: &Exporter) -> TraceId {
    let remote = Remote {
        trace_id: TraceId::random(),
        span_id: SpanId::random(),
        sampled: true,
        state: None,
    };
    let trace_id = remote.trace_id;
    let tracer = exporter.tracer().expect("traces go somewhere");
    let request = tracer.begin(Some(remote), || "GET /".to_owned());
    drop(request.trace().span("authorize"));
    trace_id
}

/// What the exporter tells of itself.
fn told(registry: &Registry) -> String {
    render(&registry.collect())
}

fn counts(registry: &Registry, sent: u64, lost: u64) -> bool {
    let text = told(registry);
    [("sent", sent), ("lost", lost)].iter().all(|(result, count)| {
        text.contains(&format!("slateberg_otlp_spans_total{{result=\"{result}\"}} {count}\n"))
    })
}

#[tokio::test]
async fn what_is_left_is_sent_at_the_end_with_the_headers() {
    let (receiver, address) = Receiver::listen(&[StatusCode::OK]).await;
    let (exporter, registry) = (exporter(&settings(address)), Arc::new(Registry::default()));
    exporter.register(&registry);
    let trace_id = request(&exporter);
    exporter.start(&registry).finish().await;
    let bodies = receiver.bodies("/v1/traces");
    let [body] = &bodies[..] else { panic!("{}", bodies.len()) };
    let message = ExportTraceServiceRequest::decode(body.clone()).expect("it is a message");
    let spans = &message.resource_spans[0].scope_spans[0].spans;
    assert_eq!(spans.len(), 2);
    assert!(spans.iter().all(|span| span.trace_id == trace_id.0));
    let headers = receiver.came.lock().expect("no panic")[0].1.clone();
    assert_eq!(headers["x-key"], "hunter2");
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert!(counts(&registry, 2, 0), "{}", told(&registry));
}

#[tokio::test]
async fn a_collector_that_is_busy_is_asked_again() {
    let answers = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK];
    let (receiver, address) = Receiver::listen(&answers).await;
    let (exporter, registry) = (exporter(&settings(address)), Arc::new(Registry::default()));
    exporter.register(&registry);
    request(&exporter);
    exporter.start(&registry).finish().await;
    let bodies = receiver.bodies("/v1/traces");
    assert!(bodies.len() == 2 && bodies[0] == bodies[1], "{}", bodies.len());
    assert!(counts(&registry, 2, 0), "{}", told(&registry));
}

#[tokio::test]
async fn what_a_collector_refuses_is_lost_and_counted() {
    let (receiver, address) = Receiver::listen(&[StatusCode::BAD_REQUEST]).await;
    let (exporter, registry) = (exporter(&settings(address)), Arc::new(Registry::default()));
    exporter.register(&registry);
    request(&exporter);
    exporter.start(&registry).finish().await;
    assert_eq!(receiver.bodies("/v1/traces").len(), 1);
    assert!(counts(&registry, 0, 2), "{}", told(&registry));
}

#[tokio::test]
async fn the_end_does_not_wait_for_a_collector_that_never_answers() {
    // It takes connections, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let settings = OtlpSettings { flush_ms_max: 20, ..settings(address) };
    let (exporter, registry) = (exporter(&settings), Arc::new(Registry::default()));
    request(&exporter);
    exporter.start(&registry).finish().await;
}

#[tokio::test]
async fn metrics_are_sent_at_the_end_as_well() {
    let (receiver, address) = Receiver::listen(&[StatusCode::OK]).await;
    let settings = OtlpSettings { traces: false, metrics: true, ..settings(address) };
    let (exporter, registry) = (exporter(&settings), Arc::new(Registry::default()));
    assert!(exporter.tracer().is_none());
    registry.register("test", |into| into.counter("c", "1", "Counts.", Vec::new(), 3));
    exporter.start(&registry).finish().await;
    let last = receiver.bodies("/v1/metrics").pop().expect("something came");
    let message = ExportMetricsServiceRequest::decode(last).expect("it is a message");
    let metrics = &message.resource_metrics[0].scope_metrics[0].metrics;
    assert_eq!(metrics[0].name, "c");
}

#[tokio::test]
async fn nothing_is_done_where_nothing_says_where_to() {
    let exporter = exporter(&OtlpSettings::default());
    assert!(exporter.tracer().is_none());
    let registry = Arc::new(Registry::default());
    exporter.register(&registry);
    assert_eq!(told(&registry), "");
    exporter.start(&registry).finish().await;
}

#[test]
fn what_cannot_be_is_refused_without_telling_secrets() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let refused = |change: fn(&mut OtlpSettings)| {
        let mut settings = settings(SocketAddr::from(([127, 0, 0, 1], 1)));
        change(&mut settings);
        Exporter::new(&settings, &clock).err().expect("it is refused").to_string()
    };
    assert!(refused(|it| it.endpoint = "grpc://x:4317".to_owned()).contains("traces_endpoint"));
    assert!(refused(|it| it.endpoint = "collector:4318".to_owned()).contains("traces_endpoint"));
    let wrong = refused(|it| {
        it.headers.insert("x-key".to_owned(), Secret::new("hunter\n2"));
    });
    assert!(wrong.contains("headers.x-key") && !wrong.contains("hunter"), "{wrong}");
}
