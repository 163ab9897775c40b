//! The counters of a member of a cluster.

use slateberg_telemetry::collection::{Collection, attributes};
use slateberg_telemetry::counters::Counter;

/// Counters of a member.
#[derive(Default)]
pub(super) struct ClusterCounters {
    /// Number of times that this process became the writer.
    pub(super) elections: Counter,
    /// Forwarded requests that got a response from the writer.
    pub(super) responded: Counter,
    /// Replicas that this process opened.
    pub(super) replica_openings: Counter,
    /// Reads that this process executed on its replica.
    pub(super) replica_reads: Counter,
    /// Reads of the log in the bucket.
    pub(super) log_reads: Counter,
    /// Requests that were sent to the writer again, because the first response was lost.
    pub(super) resent: Counter,
    /// Requests that got 503, because there was no writer in time.
    pub(super) without_writer: Counter,
    /// Requests whose outcome is unknown, because the writer failed.
    pub(super) unknown: Counter,
    /// Connections to the port for members that were rejected.
    pub(super) rejected_connections: Counter,
}

impl ClusterCounters {
    /// Adds the counters to the collection.
    pub(super) fn collect(&self, into: &mut Collection) {
        let help = "Number of times that this process became the writer of its cluster.";
        let elections = self.elections.get();
        into.counter("slateberg.cluster.elections", "{election}", help, Vec::new(), elections);
        let help = "Requests that this member forwarded to the writer, by outcome.";
        for (outcome, counter) in [
            ("responded", &self.responded),
            ("no_writer", &self.without_writer),
            ("unknown", &self.unknown),
        ] {
            let series = attributes([("outcome", outcome)]);
            into.counter("slateberg.cluster.forwards", "{request}", help, series, counter.get());
        }
        let help = "Replicas that this member opened.";
        let openings = self.replica_openings.get();
        let name = "slateberg.cluster.replica_openings";
        into.counter(name, "{replica}", help, Vec::new(), openings);
        let help = "Reads that this member executed on its replica.";
        let reads = self.replica_reads.get();
        into.counter("slateberg.cluster.replica_reads", "{request}", help, Vec::new(), reads);
        let help = "Times that this member read the log in the bucket for its replica.";
        let reads = self.log_reads.get();
        into.counter("slateberg.cluster.log_reads", "{read}", help, Vec::new(), reads);
        let help =
            "Requests that this member sent to the writer again, because a response was lost.";
        let resent = self.resent.get();
        into.counter("slateberg.cluster.resends", "{request}", help, Vec::new(), resent);
        let help = "Connections to the port for members of the cluster that were rejected.";
        let rejected = self.rejected_connections.get();
        let name = "slateberg.cluster.rejected_connections";
        into.counter(name, "{connection}", help, Vec::new(), rejected);
    }
}
