//! [`RequestMetrics`]: durations and errors of requests to other systems. [`HedgedPuts`]: puts that
//! were sent twice. [`TaskRuns`]: outcomes of background tasks.

use std::time::Instant;

use super::collection::{Collection, attributes};
use super::instruments::{Counters, Histograms, SECONDS};

const RUNS: &str = "slateberg.background.runs";
const HEDGED_PUTS: &str = "slateberg.object_store.hedged_puts";

/// Requests to other systems.
#[derive(Debug)]
pub struct RequestMetrics {
    name: &'static str,
    help: &'static str,
    /// The name of the attribute that identifies the called system.
    system: &'static str,
    durations: Histograms<SeriesKey>,
}

/// Attributes of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SeriesKey {
    system: &'static str,
    operation: &'static str,
    error: Option<&'static str>,
}

impl RequestMetrics {
    /// Creates the metrics of requests to object stores.
    pub fn to_object_stores() -> Self {
        Self {
            name: "slateberg.object_store.request.duration",
            help: "Time of requests to object stores.",
            system: "store",
            durations: Histograms::new(SECONDS),
        }
    }

    /// Creates the metrics of requests to a KMS.
    pub fn to_kms() -> Self {
        Self {
            name: "slateberg.kms.request.duration",
            help: "Time of requests to the KMS.",
            system: "kms",
            durations: Histograms::new(SECONDS),
        }
    }

    /// Records a request that began at `began` and ends now, with its error if it failed.
    pub fn ended(
        &self,
        system: &'static str,
        operation: &'static str,
        error: Option<&'static str>,
        began: Instant,
    ) {
        self.durations.record_since(SeriesKey { system, operation, error }, began);
    }

    /// Adds the metrics to the collection.
    pub fn collect(&self, into: &mut Collection) {
        into.declare_histogram(self.name, "s", self.help);
        for (SeriesKey { system, operation, error }, distribution) in self.durations.read() {
            let mut series = attributes([(self.system, system), ("operation", operation)]);
            series.extend(error.map(|error| ("error.type".into(), error.into())));
            into.histogram(self.name, "s", self.help, series, distribution);
        }
    }
}

/// Puts that were sent to an object store a second time because the first response was late.
#[derive(Debug, Default)]
pub struct HedgedPuts(Counters<(&'static str, &'static str)>);

impl HedgedPuts {
    /// Records a put that was sent twice. `used` states whose response was used: that of the
    /// `first` or of the `second` put, or of `none` if both failed.
    pub fn ended(&self, store: &'static str, used: &'static str) {
        self.0.add((store, used), 1);
    }

    /// Adds the metrics to the collection.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Puts that were sent a second time because the first response was late.";
        into.declare_counter(HEDGED_PUTS, "{put}", help);
        for ((store, used), count) in self.0.read() {
            let series = attributes([("store", store), ("used", used)]);
            into.counter(HEDGED_PUTS, "{put}", help, series, count);
        }
    }
}

/// Runs of background tasks.
#[derive(Debug, Default)]
pub struct TaskRuns(Counters<(&'static str, &'static str)>);

impl TaskRuns {
    /// Records a run.
    pub fn ended(&self, task: &'static str, succeeded: bool) {
        self.0.add((task, if succeeded { "done" } else { "failed" }), 1);
    }

    /// Adds the metrics to the collection.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Runs of background tasks.";
        into.declare_counter(RUNS, "{run}", help);
        for ((task, result), count) in self.0.read() {
            let series = attributes([("task", task), ("result", result)]);
            into.counter(RUNS, "{run}", help, series, count);
        }
    }
}
