//! [`CommitMetrics`]: the outcomes of commits, and the durations of their phases.

use std::time::Instant;

use tracing::{Span, debug_span};

use super::collection::{Collection, attributes};
use super::instruments::{Counters, Histograms, SECONDS, SIZES};
use super::traces::TARGET;

const PHASES: &str = "slateberg.commit.phase.duration";
const GROUPS: &str = "slateberg.commit.group.size";
const OUTCOMES: &str = "slateberg.commit.outcomes";
const REBASES: &str = "slateberg.commit.rebases";

/// Names of the actions of commits, as in metrics.
const ACTIONS: [&str; 3] = ["commit_table", "commit_transaction", "commit_view"];
const OUTCOME_VALUES: [&str; 6] =
    ["done", "conflict", "unknown", "unavailable", "refused", "failed"];

/// The result of a rebase that succeeded.
pub const REBASED: &str = "rebased";

/// A phase of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommitPhase {
    /// Waiting for earlier commits, and for further commits to join the group.
    Wait,
    /// Validation against the state of the table.
    Evaluate,
    /// The transaction in memory.
    Apply,
    /// Waiting until the write-ahead log is durable.
    Wal,
    /// Waiting until the metadata file is written.
    Metadata,
}

impl CommitPhase {
    /// Creates the span of the phase.
    pub fn span(self) -> Span {
        match self {
            Self::Wait => debug_span!(target: TARGET, "commit.wait"),
            Self::Evaluate => debug_span!(target: TARGET, "commit.evaluate"),
            Self::Apply => debug_span!(target: TARGET, "commit.apply"),
            Self::Wal => debug_span!(target: TARGET, "wal.put"),
            Self::Metadata => debug_span!(target: TARGET, "metadata.put"),
        }
    }

    /// Returns the value of the metric's attribute.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Evaluate => "evaluate",
            Self::Apply => "apply",
            Self::Wal => "wal",
            Self::Metadata => "metadata",
        }
    }
}

/// Metrics of commits.
#[derive(Debug)]
pub struct CommitMetrics {
    phases: Histograms<CommitPhase>,
    groups: Histograms<()>,
    outcomes: Counters<(&'static str, &'static str)>,
    rebases: Counters<&'static str>,
}

impl Default for CommitMetrics {
    fn default() -> Self {
        let (phases, groups) = (Histograms::new(SECONDS), Histograms::new(SIZES));
        Self { phases, groups, outcomes: Counters::default(), rebases: Counters::default() }
    }
}

impl CommitMetrics {
    /// Records a phase that began at `began` and ends now.
    pub fn phase(&self, phase: CommitPhase, began: Instant) {
        self.phases.record_since(phase, began);
    }

    /// Records the size of a group of commits to one table.
    pub fn group(&self, members: usize) {
        self.groups.record((), members as f64);
    }

    /// Records the outcome of an action.
    pub fn ended(&self, action: &'static str, outcome: &'static str) {
        self.outcomes.add((action, outcome), 1);
    }

    /// Records the result of a rebase: `rebased`, or the reason why it was refused.
    pub fn rebase(&self, result: &'static str) {
        self.rebases.add(result, 1);
    }

    /// Adds the metrics to the collection.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Time of each phase of a commit.";
        into.declare_histogram(PHASES, "s", help);
        for (phase, distribution) in self.phases.read() {
            let series = attributes([("phase", phase.name())]);
            into.histogram(PHASES, "s", help, series, distribution);
        }
        let help = "Commits to one table that were grouped into one version.";
        into.declare_histogram(GROUPS, "{commit}", help);
        for ((), distribution) in self.groups.read() {
            into.histogram(GROUPS, "{commit}", help, Vec::new(), distribution);
        }
        let help = "Commits, by outcome.";
        // All series are reported from the start. Otherwise, a rate over time would miss the first
        // event.
        for (action, outcome) in
            ACTIONS.into_iter().flat_map(|it| OUTCOME_VALUES.map(|end| (it, end)))
        {
            let series = attributes([("action", action), ("outcome", outcome)]);
            into.counter(OUTCOMES, "{commit}", help, series, 0);
        }
        for ((action, outcome), count) in self.outcomes.read() {
            let series = attributes([("action", action), ("outcome", outcome)]);
            into.counter(OUTCOMES, "{commit}", help, series, count);
        }
        let help = "Conflicting commits to tables whose appends are rebased, by result.";
        into.counter(REBASES, "{commit}", help, attributes([("result", REBASED)]), 0);
        for (result, count) in self.rebases.read() {
            into.counter(REBASES, "{commit}", help, attributes([("result", result)]), count);
        }
    }
}
