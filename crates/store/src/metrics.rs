//! Metrics of the store: the metrics of SlateDB, and the store's own metrics.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use slatedb_common::metrics::{CounterFn, GaugeFn, HistogramFn, MetricsRecorder, UpDownCounterFn};

use super::slatedb_help;
use slateberg_telemetry::collection::{Attributes, Collection, Distribution};
use slateberg_telemetry::instruments::{Counters, Histograms, SIZES};
use slateberg_telemetry::stripes::Stripes;

const CONFLICTS: &str = "slateberg.store.transaction.conflicts";
/// Default description, for metrics that neither SlateDB nor [`slatedb_help`] describes.
const UNDESCRIBED: &str = "A metric of SlateDB without a description.";
const FLUSHES: &str = "slateberg.store.flush.group.size";

/// Metrics of the store. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Metrics(Arc<Inner>);

struct Inner {
    /// SlateDB's metrics, by name and labels.
    slatedb: Mutex<HashMap<(String, Labels), RegisteredMetric>>,
    conflicts: Counters<&'static str>,
    flushes: Histograms<()>,
}

type Labels = Vec<(String, String)>;

struct RegisteredMetric {
    help: String,
    handle: Handle,
}

/// A metric of SlateDB. Reads on all cores update metrics all the time, so counters and histograms
/// are striped.
#[derive(Clone)]
enum Handle {
    Counter(Arc<StripedCounter<AtomicU64>>),
    Gauge(Arc<GaugeValue>),
    Histogram(Arc<StripedHistogram>),
}

#[derive(Default)]
struct StripedCounter<T>(Stripes<T>);

#[derive(Default)]
struct GaugeValue(AtomicI64);

struct StripedHistogram {
    bounds: Vec<f64>,
    stripes: Stripes<Mutex<Option<Distribution>>>,
}

impl Default for Inner {
    fn default() -> Self {
        let flushes = Histograms::new(SIZES);
        Self { slatedb: Mutex::default(), conflicts: Counters::default(), flushes }
    }
}

impl Metrics {
    /// Returns the recorder with which SlateDB registers its metrics.
    pub(super) fn recorder(&self) -> Arc<dyn MetricsRecorder> {
        Arc::new(self.clone())
    }

    /// Counts a transaction conflict.
    pub(super) fn record_conflict(&self, transaction: &'static str) {
        self.0.conflicts.add(transaction, 1);
    }

    /// Counts a flush of the log for this many transactions.
    pub(super) fn record_flush(&self, transactions: usize) {
        self.0.flushes.record((), transactions as f64);
    }

    /// Reports the metrics.
    pub(super) fn collect(&self, into: &mut Collection) {
        let help = "Transactions that were retried after a conflict.";
        into.declare_counter(CONFLICTS, "{conflict}", help);
        for (transaction, count) in self.0.conflicts.read() {
            let series = vec![("transaction".into(), transaction.into())];
            into.counter(CONFLICTS, "{conflict}", help, series, count);
        }
        let help = "Transactions that one flush of the write-ahead log made durable.";
        into.declare_histogram(FLUSHES, "{transaction}", help);
        for ((), distribution) in self.0.flushes.read() {
            into.histogram(FLUSHES, "{transaction}", help, Vec::new(), distribution);
        }
        let registered = self.0.slatedb.lock().unwrap_or_else(PoisonError::into_inner);
        for ((name, labels), RegisteredMetric { help, handle }) in registered.iter() {
            let series = labels.iter().cloned();
            let series: Attributes =
                series.map(|(key, value)| (key.into(), value.into())).collect();
            match handle {
                Handle::Counter(counter) => {
                    let stripes = counter.0.all().map(|stripe| stripe.load(Ordering::Relaxed));
                    into.counter(name, "1", help, series, stripes.sum());
                }
                Handle::Gauge(level) => {
                    let value = level.0.load(Ordering::Relaxed);
                    into.gauge(name, "1", help, series, value as f64);
                }
                Handle::Histogram(sizes) => into.histogram(name, "1", help, series, sizes.read()),
            }
        }
    }

    /// Returns the metric with this name and these labels, or registers it.
    fn register(
        &self,
        (name, help): (&str, &str),
        labels: &[(&str, &str)],
        new: impl FnOnce() -> Handle,
    ) -> Handle {
        let mut all: Labels =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        all.sort();
        let mut registered = self.0.slatedb.lock().unwrap_or_else(PoisonError::into_inner);
        let help =
            if help.is_empty() { slatedb_help::help(name).unwrap_or(UNDESCRIBED) } else { help };
        let new_metric = || RegisteredMetric { help: help.to_owned(), handle: new() };
        registered.entry((name.to_owned(), all)).or_insert_with(new_metric).handle.clone()
    }
}

impl MetricsRecorder for Metrics {
    fn register_counter(
        &self,
        name: &str,
        description: &str,
        labels: &[(&str, &str)],
    ) -> Arc<dyn CounterFn> {
        let new = || Handle::Counter(Arc::default());
        match self.register((name, description), labels, new) {
            Handle::Counter(counter) => counter,
            // If the name is registered for a metric of another kind, SlateDB gets a counter that
            // is not reported.
            _ => Arc::new(StripedCounter::<AtomicU64>::default()),
        }
    }

    fn register_gauge(
        &self,
        name: &str,
        description: &str,
        labels: &[(&str, &str)],
    ) -> Arc<dyn GaugeFn> {
        match self.register((name, description), labels, || Handle::Gauge(Arc::default())) {
            Handle::Gauge(level) => level,
            _ => Arc::new(GaugeValue::default()),
        }
    }

    fn register_up_down_counter(
        &self,
        name: &str,
        description: &str,
        labels: &[(&str, &str)],
    ) -> Arc<dyn UpDownCounterFn> {
        match self.register((name, description), labels, || Handle::Gauge(Arc::default())) {
            Handle::Gauge(level) => level,
            _ => Arc::new(GaugeValue::default()),
        }
    }

    fn register_histogram(
        &self,
        name: &str,
        description: &str,
        labels: &[(&str, &str)],
        boundaries: &[f64],
    ) -> Arc<dyn HistogramFn> {
        let sizes = || {
            Arc::new(StripedHistogram { bounds: boundaries.to_vec(), stripes: Stripes::default() })
        };
        match self.register((name, description), labels, || Handle::Histogram(sizes())) {
            Handle::Histogram(sizes) => sizes,
            _ => sizes(),
        }
    }
}

impl CounterFn for StripedCounter<AtomicU64> {
    fn increment(&self, value: u64) {
        self.0.own().fetch_add(value, Ordering::Relaxed);
    }
}

impl GaugeFn for GaugeValue {
    fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl UpDownCounterFn for GaugeValue {
    fn increment(&self, value: i64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }
}

impl HistogramFn for StripedHistogram {
    fn record(&self, value: f64) {
        let mut own = self.stripes.own().lock().unwrap_or_else(PoisonError::into_inner);
        own.get_or_insert_with(|| Distribution::new(self.bounds.clone())).add(value);
    }
}

impl StripedHistogram {
    fn read(&self) -> Distribution {
        let mut all = Distribution::new(self.bounds.clone());
        for stripe in self.stripes.all() {
            if let Some(own) = &*stripe.lock().unwrap_or_else(PoisonError::into_inner) {
                all.merge(own);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slateberg_telemetry::prometheus::render;

    #[test]
    fn slatedb_metrics_are_collected() {
        let metrics = Metrics::default();
        let recorder = metrics.recorder();
        for labels in [[("kind", "a"), ("op", "x")], [("op", "x"), ("kind", "a")]] {
            recorder.register_counter("slatedb.db.requests", "Requests.", &labels).increment(2);
        }
        recorder.register_gauge("slatedb.db.l0", "Files.", &[]).set(7);
        recorder.register_up_down_counter("slatedb.db.open", "Open.", &[]).increment(-1);
        recorder.register_histogram("slatedb.db.took", "Took.", &[], &[1.0]).record(0.5);
        // A metric with the same name and another kind is accepted, but not reported.
        recorder.register_gauge("slatedb.db.took", "Took.", &[]).set(3);
        let mut collection = Collection::default();
        metrics.collect(&mut collection);
        let text = render(&collection);
        for line in [
            "slatedb_db_requests_total{kind=\"a\",op=\"x\"} 4",
            "slatedb_db_l0 7",
            "slatedb_db_open -1",
            "slatedb_db_took_bucket{le=\"1\"} 1",
            "slatedb_db_took_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
