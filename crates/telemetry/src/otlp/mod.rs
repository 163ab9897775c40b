//! OTLP: traces and metrics go to a collector, as Protobuf in requests of HTTP.
//!
//! - [`environment`]: what `OTEL_*` variables say of the settings;
//! - [`encode`]: from our own values to OpenTelemetry's messages, which only it and `send` know;
//! - `send`: one request, tried again where that may help;
//! - [`Exporter`]: the tasks that send while the server runs, and what is left when it ends.
//!
//! A collector that does not answer costs memory for `queue_traces_max` traces, and nobody's time.

pub mod encode;
pub mod environment;
mod send;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use super::collection::Collection;
use super::registry::Registry;
use super::settings::OtlpSettings;
use super::traces::{Ended, Tracer};
use encode::Resource;
use send::{Sender, Url};
use slateberg_base::clock::Clock;

/// Spans of one request to the collector.
const BATCH_SPANS_MAX: usize = 2048;
/// How long spans wait for others to go with.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// How often it is told that something was lost, at most.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
#[error("telemetry.otlp: {0}")]
pub struct InvalidOtlp(String);

/// What was sent, and what was not.
#[derive(Debug, Default)]
struct Tally {
    spans: AtomicU64,
    lost_spans: Arc<AtomicU64>,
    metric_requests: AtomicU64,
    lost_metric_requests: AtomicU64,
}

/// Sends traces and metrics while the server runs.
pub struct Exporter {
    tracer: Option<Arc<Tracer>>,
    tally: Arc<Tally>,
    flush_max: Duration,
    tasks: Vec<Pending>,
}

/// A task that has not begun.
enum Pending {
    Traces(TracesTask),
    Metrics(MetricsTask),
}

struct TracesTask {
    sender: Sender,
    queue: mpsc::Receiver<Vec<Ended>>,
    tally: Arc<Tally>,
}

struct MetricsTask {
    sender: Sender,
    every: Duration,
    clock: Arc<dyn Clock>,
    began_ns: u64,
    tally: Arc<Tally>,
}

/// Tasks that send, until they are told to end.
pub struct Running {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    flush_max: Duration,
}

impl Exporter {
    /// An exporter as the settings want it. It sends nothing yet.
    pub fn new(settings: &OtlpSettings, clock: &Arc<dyn Clock>) -> Result<Self, InvalidOtlp> {
        let (traces, metrics) = (settings.traces_url(), settings.metrics_url());
        let tally = Arc::new(Tally::default());
        let flush_max = Duration::from_millis(settings.flush_ms_max);
        let (mut tracer, mut tasks) = (None, Vec::new());
        if traces.is_some() || metrics.is_some() {
            let client = send::client(settings)?;
            let resource = Arc::new(Resource::of(settings));
            let sender = |setting, url: &str| {
                let url = Url::parse(setting, url)?;
                Ok::<_, InvalidOtlp>(Sender::new(client.clone(), url, Arc::clone(&resource)))
            };
            if let Some(url) = traces {
                let sender = sender("traces_endpoint", &url)?;
                let (enqueue, queue) = mpsc::channel(settings.queue_traces_max.max(1));
                let (clock, lost) = (Arc::clone(clock), Arc::clone(&tally.lost_spans));
                tracer = Some(Tracer::new(clock, settings.sample_ratio, enqueue, lost));
                let tally = Arc::clone(&tally);
                tasks.push(Pending::Traces(TracesTask { sender, queue, tally }));
            }
            if let Some(url) = metrics {
                let sender = sender("metrics_endpoint", &url)?;
                let every = Duration::from_millis(settings.metrics_interval_ms.max(1));
                let (clock, began_ns) = (Arc::clone(clock), clock.now_ns());
                let tally = Arc::clone(&tally);
                tasks.push(Pending::Metrics(MetricsTask { sender, every, clock, began_ns, tally }));
            }
        }
        Ok(Self { tracer, tally, flush_max, tasks })
    }

    /// Who begins traces; none if they go nowhere.
    pub fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// Tells of itself what there is to tell, if it does anything.
    pub fn register(&self, registry: &Registry) {
        if self.tasks.is_empty() {
            return;
        }
        let tally = Arc::clone(&self.tally);
        registry.register("otlp", move |into| tally.collect(into));
    }

    /// Begins to send, metrics from this registry.
    pub fn start(self, registry: &Arc<Registry>) -> Running {
        let (stop, stopping) = watch::channel(false);
        let spawn = |task| match task {
            Pending::Traces(task) => tokio::spawn(task.run(stopping.clone())),
            Pending::Metrics(task) => {
                tokio::spawn(task.run(Arc::clone(registry), stopping.clone()))
            }
        };
        let tasks = self.tasks.into_iter().map(spawn).collect();
        Running { stop, tasks, flush_max: self.flush_max }
    }
}

impl Running {
    /// Sends what there still is, for a bounded time.
    pub async fn finish(mut self) {
        let _ = self.stop.send(true);
        let deadline = Instant::now() + self.flush_max;
        for task in &mut self.tasks {
            if tokio::time::timeout_at(deadline, &mut *task).await.is_err() {
                task.abort();
                tracing::warn!("OTLP collector unreachable: the remaining exports are lost");
            }
        }
    }
}

impl Tally {
    fn collect(&self, into: &mut Collection) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let spans = [("sent", read(&self.spans)), ("lost", read(&self.lost_spans))];
        let requests =
            [("sent", read(&self.metric_requests)), ("lost", read(&self.lost_metric_requests))];
        let all = [
            ("slateberg.otlp.spans", "{span}", "Spans of kept traces.", spans),
            ("slateberg.otlp.metrics.exports", "{export}", "Looks at all metrics.", requests),
        ];
        for (name, unit, help, results) in all {
            for (result, count) in results {
                let series = super::collection::attributes([("result", result)]);
                into.counter(name, unit, help, series, count);
            }
        }
    }
}

impl TracesTask {
    async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut complaints = Complaints::default();
        loop {
            let first = tokio::select! {
                first = self.queue.recv() => first,
                () = stop(&mut stopping) => return self.flush().await,
            };
            let Some(mut batch) = first else { return };
            let deadline = Instant::now() + BATCH_WAIT;
            while batch.len() < BATCH_SPANS_MAX {
                tokio::select! {
                    more = self.queue.recv() => match more {
                        Some(more) => batch.extend(more),
                        None => break,
                    },
                    () = tokio::time::sleep_until(deadline) => break,
                    () = stop(&mut stopping) => break,
                }
            }
            // What comes meanwhile waits in the queue, and is dropped where that is full.
            self.send(batch).await;
            complaints.look(self.tally.lost_spans.load(Ordering::Relaxed), "spans");
        }
    }

    /// Sends what is in the queue, and waits for nothing more.
    async fn flush(mut self) {
        loop {
            let mut batch = Vec::new();
            while let Ok(ended) = self.queue.try_recv() {
                batch.extend(ended);
                if batch.len() >= BATCH_SPANS_MAX {
                    break;
                }
            }
            if batch.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    async fn send(&self, batch: Vec<Ended>) {
        let spans = batch.len() as u64;
        let body = encode::traces(&self.sender.resource, batch);
        let counter = match self.sender.send(body).await {
            Ok(()) => &self.tally.spans,
            Err(error) => {
                tracing::debug!(%error, "spans could not be sent");
                self.tally.lost_spans.as_ref()
            }
        };
        counter.fetch_add(spans, Ordering::Relaxed);
    }
}

/// Returns when the server ends.
async fn stop(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

impl MetricsTask {
    async fn run(self, registry: Arc<Registry>, mut stopping: watch::Receiver<bool>) {
        let mut complaints = Complaints::default();
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let stopped = tokio::select! {
                _ = ticks.tick() => false,
                () = stop(&mut stopping) => true,
            };
            tokio::select! {
                biased;
                () = self.send(&registry) => {}
                () = stop(&mut stopping), if !stopped => {}
            }
            if stopped {
                return;
            }
            let lost = self.tally.lost_metric_requests.load(Ordering::Relaxed);
            complaints.look(lost, "looks at metrics");
        }
    }

    async fn send(&self, registry: &Registry) {
        let now_ns = self.clock.now_ns();
        let body =
            encode::metrics(&self.sender.resource, &registry.collect(), self.began_ns, now_ns);
        let counter = match self.sender.send(body).await {
            Ok(()) => &self.tally.metric_requests,
            Err(error) => {
                tracing::debug!(%error, "metrics could not be sent");
                &self.tally.lost_metric_requests
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tells now and then of what was lost.
#[derive(Default)]
struct Complaints {
    told: u64,
    last: Option<Instant>,
}

impl Complaints {
    fn look(&mut self, lost: u64, what: &'static str) {
        let recent = self.last.is_some_and(|last| last.elapsed() < COMPLAIN_EVERY);
        if lost > self.told && !recent {
            let more = lost - self.told;
            tracing::warn!(lost = more, what, "OTLP collector rejected the export");
            (self.told, self.last) = (lost, Some(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests;
