//! [`Requests`]: what the server asks of others, how long that took, and what went wrong; and
//! [`TaskRuns`]: what it does by itself.

use std::time::Instant;

use super::collection::{Collection, attributes};
use super::instruments::{Counters, Histograms, SECONDS};

const RUNS: &str = "slateberg.background.runs";

/// Requests to others.
#[derive(Debug)]
pub struct Requests {
    name: &'static str,
    help: &'static str,
    /// What the attribute is called that says who was asked.
    whom: &'static str,
    durations: Histograms<Asked>,
}

/// What requests are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Asked {
    whom: &'static str,
    operation: &'static str,
    error: Option<&'static str>,
}

impl Requests {
    /// Those to object stores.
    pub fn to_object_stores() -> Self {
        Self {
            name: "slateberg.object_store.request.duration",
            help: "Time of requests to object stores.",
            whom: "store",
            durations: Histograms::new(SECONDS),
        }
    }

    /// Those to a KMS.
    pub fn to_kms() -> Self {
        Self {
            name: "slateberg.kms.request.duration",
            help: "Time of requests to the KMS.",
            whom: "kms",
            durations: Histograms::new(SECONDS),
        }
    }

    /// Takes note of a request that began then and has ended, and what was wrong with it.
    pub fn ended(
        &self,
        whom: &'static str,
        operation: &'static str,
        error: Option<&'static str>,
        began: Instant,
    ) {
        self.durations.record_since(Asked { whom, operation, error }, began);
    }

    /// Tells it.
    pub fn collect(&self, into: &mut Collection) {
        into.declare_histogram(self.name, "s", self.help);
        for (Asked { whom, operation, error }, distribution) in self.durations.read() {
            let mut series = attributes([(self.whom, whom), ("operation", operation)]);
            series.extend(error.map(|error| ("error.type".into(), error.into())));
            into.histogram(self.name, "s", self.help, series, distribution);
        }
    }
}

/// Runs of background tasks.
#[derive(Debug, Default)]
pub struct TaskRuns(Counters<(&'static str, &'static str)>);

impl TaskRuns {
    /// Takes note of a run.
    pub fn ended(&self, task: &'static str, succeeded: bool) {
        self.0.add((task, if succeeded { "done" } else { "failed" }), 1);
    }

    /// Tells it.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Runs of background tasks.";
        into.declare_counter(RUNS, "{run}", help);
        for ((task, result), count) in self.0.read() {
            let series = attributes([("task", task), ("result", result)]);
            into.counter(RUNS, "{run}", help, series, count);
        }
    }
}
