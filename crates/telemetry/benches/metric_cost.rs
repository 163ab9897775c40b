//! Measures the cost of recording a metric, on one thread and on two threads. Compares the registry
//! of this crate, `prometheus-client` and OpenTelemetry's SDK. Also measures the cost of a span in
//! a request that is not sampled.
//!
//! `cargo bench -p slateberg-telemetry --bench metric_cost`

#![expect(clippy::print_stdout, reason = "the figures are for the engineer who runs it")]

use std::hint::black_box;
use std::time::Instant;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{ManualReader, SdkMeterProvider};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use slateberg_telemetry::instruments::{Counters, Histograms, SECONDS};
use slateberg_telemetry::logs;
use slateberg_telemetry::otlp::Traces;
use slateberg_telemetry::settings::{OtlpSettings, Ratio, Settings};
use slateberg_telemetry::traces::{RequestSpan, TARGET, TraceHeaders};
use tracing::debug_span;

/// Records per thread and round.
const RECORDS: u32 = 1_000_000;
/// Number of rounds. The fastest round counts.
const ROUNDS: usize = 5;
/// Values of the `route` label.
const ROUTES: [&str; 4] = ["/v1/config", "/v1/namespaces", "/v1/tables", "/v1/views"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

/// Prints the nanoseconds per record, on one thread and on two threads.
fn measure(name: &str, record: impl Fn(u32) + Sync) {
    let round = |threads: u32| {
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..RECORDS).for_each(|number| record(black_box(number))));
            }
        });
        began.elapsed().as_nanos() as f64 / f64::from(RECORDS)
    };
    let best = |threads| (0..ROUNDS).map(|_| round(threads)).fold(f64::INFINITY, f64::min);
    println!("{name:<40} {:>8.1} ns {:>8.1} ns", best(1), best(2));
}

fn labels(number: u32) -> Labels {
    Labels { method: "GET", route: ROUTES[number as usize % ROUTES.len()], status: 200 }
}

fn attributes(number: u32) -> [KeyValue; 3] {
    let Labels { method, route, status } = labels(number);
    [
        KeyValue::new("http.request.method", method),
        KeyValue::new("http.route", route),
        KeyValue::new("http.response.status_code", i64::from(status)),
    ]
}

fn seconds(number: u32) -> f64 {
    f64::from(number % 1000) / 10_000.0
}

fn main() {
    println!("{:<40} {:>11} {:>11}", "record", "1 thread", "2 threads");
    let counters = Counters::default();
    measure("counter, slateberg", |number| counters.add(labels(number), 1));
    let family = Family::<Labels, Counter>::default();
    measure("counter, prometheus-client", |number| {
        family.get_or_create(&labels(number)).inc();
    });
    let provider = SdkMeterProvider::builder().with_reader(ManualReader::builder().build()).build();
    let meter = provider.meter("bench");
    let counter = meter.u64_counter("counter").build();
    measure("counter, opentelemetry_sdk", |number| counter.add(1, &attributes(number)));

    let histograms = Histograms::new(SECONDS);
    measure("histogram, slateberg", |number| histograms.record(labels(number), seconds(number)));
    let family = Family::<Labels, Histogram, fn() -> Histogram>::new_with_constructor(|| {
        Histogram::new(SECONDS.iter().copied())
    });
    measure("histogram, prometheus-client", |number| {
        family.get_or_create(&labels(number)).observe(seconds(number));
    });
    let histogram = meter.f64_histogram("histogram").with_boundaries(SECONDS.to_vec()).build();
    measure("histogram, opentelemetry_sdk", |number| {
        histogram.record(seconds(number), &attributes(number));
    });

    let part = || drop(debug_span!(target: TARGET, "part"));
    measure("span, without export of traces", |_| part());
    let settings =
        OtlpSettings { endpoint: "http://127.0.0.1:1".to_owned(), ..OtlpSettings::default() };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let traces = Traces::new(&settings).expect("they are valid");
    logs::init(&Settings::default(), traces.as_ref()).expect("they are valid");
    measure("span, request is not sampled", |_| part());
    let request =
        RequestSpan::begin(Ratio::ONE, TraceHeaders::default(), &"r", || "GET /".to_owned());
    let request = request.expect("it is sampled");
    measure("span, request is sampled", |_| request.span().in_scope(part));
}
