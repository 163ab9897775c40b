//! OTLP export of traces and metrics to a collector, over HTTP or gRPC.
//!
//! - [`environment`]: settings from `OTEL_*` variables;
//! - [`Traces`]: spans, exported by OpenTelemetry's SDK;
//! - [`encode`]: encoding of metrics as OpenTelemetry messages;
//! - `send` and `grpc`: requests to the collector;
//! - [`Exporter`]: the export tasks of a running server, and the last export at shutdown.
//!
//! While a collector does not respond, up to `queue_spans_max` spans stay in memory. Requests are
//! never delayed.

mod encode;
pub mod environment;
#[cfg(feature = "otlp-grpc")]
mod grpc;
mod headers;
mod invalid;
mod loss_log;
mod send;
mod traces;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::collection::Collection;
use super::registry::Registry;
use super::settings::OtlpSettings;
pub use invalid::InvalidOtlp;
use loss_log::LossLog;
use send::Sender;
pub use send::check;
use slateberg_base::clock::Clock;
pub use traces::Traces;

/// Counts of exported and lost metrics.
#[derive(Debug, Default)]
struct ExportCounts {
    sent: AtomicU64,
    lost: AtomicU64,
}

/// Exports metrics, and traces if any, while the server runs.
pub struct Exporter {
    metrics: Option<MetricsTask>,
    traces: Option<Traces>,
    flush_max: Duration,
}

struct MetricsTask {
    settings: OtlpSettings,
    url: String,
    interval: Duration,
    clock: Arc<dyn Clock>,
    began_ns: u64,
    counts: Arc<ExportCounts>,
}

/// Running export tasks.
pub struct RunningExporter {
    stop: watch::Sender<bool>,
    metrics: Option<JoinHandle<()>>,
    traces: Option<Traces>,
    flush_max: Duration,
}

impl Exporter {
    /// Creates the exporter. It does not send yet.
    pub fn new(settings: &OtlpSettings, clock: &Arc<dyn Clock>) -> Result<Self, InvalidOtlp> {
        check(settings)?;
        let metrics = settings.metrics_url().map(|url| MetricsTask {
            settings: settings.clone(),
            url,
            interval: Duration::from_millis(settings.metrics_interval_ms.max(1)),
            clock: Arc::clone(clock),
            began_ns: clock.now_ns(),
            counts: Arc::default(),
        });
        let flush_max = Duration::from_millis(settings.flush_ms_max);
        Ok(Self { metrics, traces: None, flush_max })
    }

    /// Registers the metrics of these traces, and flushes the traces at shutdown.
    pub fn take_traces(&mut self, traces: Traces, registry: &Registry) {
        traces.register(registry);
        self.traces = Some(traces);
    }

    /// Registers the exporter's counters.
    pub fn register(&self, registry: &Registry) {
        if let Some(metrics) = &self.metrics {
            let counts = Arc::clone(&metrics.counts);
            registry.register("otlp", move |into| counts.collect(into));
        }
    }

    /// Starts to export the metrics of this registry.
    pub fn start(self, registry: &Arc<Registry>) -> RunningExporter {
        let (stop, stopping) = watch::channel(false);
        let spawn = |task: MetricsTask| tokio::spawn(task.run(Arc::clone(registry), stopping));
        let Self { metrics, traces, flush_max } = self;
        RunningExporter { stop, metrics: metrics.map(spawn), traces, flush_max }
    }
}

impl RunningExporter {
    /// Flushes metrics and traces, for at most `flush_max`.
    pub async fn finish(self) {
        let Self { stop, metrics, traces, flush_max } = self;
        let _ = stop.send(true);
        let metrics = async {
            let Some(mut task) = metrics else { return };
            if tokio::time::timeout(flush_max, &mut task).await.is_err() {
                task.abort();
                tracing::warn!("OTLP collector unreachable: the last export of metrics is lost");
            }
        };
        let traces = async {
            if let Some(traces) = traces {
                traces.finish().await;
            }
        };
        tokio::join!(metrics, traces);
    }
}

impl ExportCounts {
    fn collect(&self, into: &mut Collection) {
        for (result, count) in [("sent", &self.sent), ("lost", &self.lost)] {
            let series = super::collection::attributes([("result", result)]);
            let count = count.load(Ordering::Relaxed);
            let help = "Exports of metrics, by result.";
            into.counter("slateberg.otlp.metrics.exports", "{export}", help, series, count);
        }
    }
}

/// Waits for the shutdown signal.
async fn stop(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

impl MetricsTask {
    async fn run(self, registry: Arc<Registry>, mut stopping: watch::Receiver<bool>) {
        let resource = encode::resource(&self.settings);
        let sender = match Sender::new(&self.settings, &self.url, resource) {
            Ok(sender) => sender,
            Err(error) => return tracing::error!(%error, "metrics are not exported"),
        };
        let mut loss_log = LossLog::default();
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let stopped = tokio::select! {
                _ = ticks.tick() => false,
                () = stop(&mut stopping) => true,
            };
            tokio::select! {
                biased;
                () = self.send(&sender, &registry) => {}
                () = stop(&mut stopping), if !stopped => {}
            }
            if stopped {
                return;
            }
            let lost = self.counts.lost.load(Ordering::Relaxed);
            loss_log.log_losses(lost, "exports of metrics");
        }
    }

    async fn send(&self, sender: &Sender, registry: &Registry) {
        let now_ns = self.clock.now_ns();
        let message = encode::metrics(&sender.resource, &registry.collect(), self.began_ns, now_ns);
        let counter = match sender.send(message).await {
            Ok(()) => &self.counts.sent,
            Err(error) => {
                tracing::debug!(%error, "export of metrics failed");
                &self.counts.lost
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
