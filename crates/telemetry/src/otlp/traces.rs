//! Export of traces by OpenTelemetry's SDK. This crate limits the queue and counts the spans.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::trace::{SpanId, SpanKind, TracerProvider};
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, Span, SpanData,
    SpanExporter, SpanProcessor,
};
use tracing_subscriber::{Layer, Registry as Subscriber};

use super::encode::{SCOPE, resource};
use super::invalid::InvalidOtlp;
use super::loss_log::LossLog;
use super::send::{SdkHttpClient, check, client};
use crate::collection::{Collection, attributes};
use crate::registry::Registry;
use crate::settings::{OtlpSettings, Protocol};
use crate::traces::{LOG_FIELDS, RequestSpanFilter, SampledOnlyLayer, is_exported};
use slateberg_base::version::VERSION;

/// Maximum number of spans per request to the collector.
const BATCH_SPANS_MAX: usize = 2048;
/// Maximum time that a span waits for others before it is sent.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of links of a span. The span of a group commit links to the span of each request
/// in the group.
const LINKS_MAX: u32 = 4096;

/// The export of traces. The process's subscriber contains [`Traces::layers`].
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    counts: Arc<ExportCounts>,
    flush_max: Duration,
}

/// Counts of waiting, exported and lost spans.
#[derive(Debug, Default)]
struct ExportCounts {
    waiting: AtomicUsize,
    sent: AtomicU64,
    lost: AtomicU64,
}

impl Traces {
    /// Starts the export. Returns `None` if traces are not exported. Must be called on a Tokio
    /// runtime, on which requests to the collector run.
    pub fn new(settings: &OtlpSettings) -> Result<Option<Self>, InvalidOtlp> {
        check(settings)?;
        let Some(url) = settings.traces_url() else { return Ok(None) };
        let counts = Arc::new(ExportCounts::default());
        let exporter = CountedExporter {
            inner: exporter(settings, &url)?,
            counts: Arc::clone(&counts),
            loss_log: Mutex::default(),
        };
        let spans_max = settings.queue_spans_max.max(1);
        let batch = BatchConfigBuilder::default()
            .with_max_queue_size(spans_max)
            .with_max_export_batch_size(BATCH_SPANS_MAX.min(spans_max))
            .with_scheduled_delay(BATCH_WAIT);
        let processor = BoundedSpanProcessor {
            inner: BatchSpanProcessor::new(exporter, batch.build()),
            counts: Arc::clone(&counts),
            spans_max,
        };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource(settings))
            // Selects every span, because spans are created only in sampled requests.
            .with_sampler(Sampler::AlwaysOn)
            .with_max_links_per_span(LINKS_MAX)
            .build();
        let flush_max = Duration::from_millis(settings.flush_ms_max);
        Ok(Some(Self { provider, counts, flush_max }))
    }

    /// Returns the subscriber layers that create and export spans, but only in sampled requests.
    pub(crate) fn layers(&self) -> Vec<Box<dyn Layer<Subscriber> + Send + Sync>> {
        let scope = InstrumentationScope::builder(SCOPE).with_version(VERSION).build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer_with_scope(scope))
            .with_context_activation(false)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        vec![
            SampledOnlyLayer.boxed(),
            layer.with_filter(RequestSpanFilter { selects: is_exported }).boxed(),
        ]
    }

    /// Registers the counters.
    pub fn register(&self, registry: &Registry) {
        let counts = Arc::clone(&self.counts);
        registry.register("otlp.spans", move |into| counts.collect(into));
    }

    /// Flushes the waiting spans, for at most `flush_max`.
    pub async fn finish(self) {
        let Self { provider, flush_max, .. } = self;
        // The SDK blocks the calling thread.
        let shutdown = move || provider.shutdown_with_timeout(flush_max);
        if !matches!(tokio::task::spawn_blocking(shutdown).await, Ok(Ok(()))) {
            tracing::warn!("OTLP collector unreachable: the remaining traces are lost");
        }
    }
}

impl ExportCounts {
    fn collect(&self, into: &mut Collection) {
        for (result, count) in [("sent", &self.sent), ("lost", &self.lost)] {
            let (help, series) =
                ("Spans of sampled traces, by result.", attributes([("result", result)]));
            let count = count.load(Ordering::Relaxed);
            into.counter("slateberg.otlp.spans", "{span}", help, series, count);
        }
    }
}

fn exporter(settings: &OtlpSettings, url: &str) -> Result<OtlpExporter, InvalidOtlp> {
    let timeout = Duration::from_millis(settings.timeout_ms);
    let built = match settings.protocol {
        Protocol::HttpProtobuf => OtlpExporter::builder()
            .with_http()
            .with_http_client(SdkHttpClient::new(client(settings)?))
            .with_endpoint(url)
            .with_timeout(timeout)
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .build(),
        #[cfg(feature = "otlp-grpc")]
        Protocol::Grpc => {
            use opentelemetry_otlp::WithTonicConfig;

            OtlpExporter::builder()
                .with_tonic()
                .with_channel(super::grpc::channel(settings, url)?)
                .with_metadata(super::grpc::metadata(settings)?)
                .with_timeout(timeout)
                .build()
        }
        #[cfg(not(feature = "otlp-grpc"))]
        Protocol::Grpc => return Err(InvalidOtlp::no_grpc()),
    };
    built.map_err(|error| InvalidOtlp(error.to_string()))
}

/// Limits the number of waiting spans. Drops and counts further spans.
#[derive(Debug)]
struct BoundedSpanProcessor {
    inner: BatchSpanProcessor,
    counts: Arc<ExportCounts>,
    spans_max: usize,
}

impl SpanProcessor for BoundedSpanProcessor {
    fn on_start(&self, span: &mut Span, context: &opentelemetry::Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        // The SDK also limits its queue, but reports the number of dropped spans only at shutdown.
        if self.counts.waiting.fetch_add(1, Ordering::Relaxed) >= self.spans_max {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            self.inner.on_end(exported(span));
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Prepares a span for export: removes the fields for log lines, and sets the kind of a request's
/// span.
fn exported(mut span: SpanData) -> SpanData {
    if span.parent_span_is_remote || span.parent_span_id == SpanId::INVALID {
        span.span_kind = SpanKind::Server;
        span.attributes.retain(|it| !LOG_FIELDS.contains(&it.key.as_str()));
    }
    span
}

/// Counts exported and lost spans, and logs failures at a limited rate.
#[derive(Debug)]
struct CountedExporter {
    inner: OtlpExporter,
    counts: Arc<ExportCounts>,
    loss_log: Mutex<LossLog>,
}

impl SpanExporter for CountedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.counts.waiting.fetch_sub(spans, Ordering::Relaxed);
        let result = self.inner.export(batch).await;
        let counter = match &result {
            Ok(()) => &self.counts.sent,
            Err(error) => {
                tracing::debug!(%error, "export of spans failed");
                &self.counts.lost
            }
        };
        counter.fetch_add(spans as u64, Ordering::Relaxed);
        let lost = self.counts.lost.load(Ordering::Relaxed);
        self.loss_log.lock().unwrap_or_else(PoisonError::into_inner).log_losses(lost, "spans");
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
