//! Counters, readable in Prometheus' text format.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// How many were counted.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Counters {
    /// Scan reports that clients sent.
    pub scan_reports: Counter,
    /// Commit reports that clients sent.
    pub commit_reports: Counter,
    /// Requests with a credential that was not good.
    pub authentication_failures: Counter,
    /// Changes of policy files that came into force.
    pub policy_reloads: Counter,
    /// Changes of policy files that did not, because something was wrong with them.
    pub policy_reload_failures: Counter,
}

impl Counters {
    /// The text that a Prometheus server scrapes.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "# HELP slateberg_metrics_reports_total Metrics reports that clients sent.\n\
             # TYPE slateberg_metrics_reports_total counter\n",
        );
        let reports =
            [("scan-report", &self.scan_reports), ("commit-report", &self.commit_reports)];
        for (kind, counter) in reports {
            let _ = writeln!(
                text,
                "slateberg_metrics_reports_total{{report_type=\"{kind}\"}} {}",
                counter.get()
            );
        }
        let _ = write!(
            text,
            "# HELP slateberg_authentication_failures_total Requests with a credential that was not good.\n\
             # TYPE slateberg_authentication_failures_total counter\n\
             slateberg_authentication_failures_total {}\n",
            self.authentication_failures.get()
        );
        let _ = write!(
            text,
            "# HELP slateberg_policy_reloads_total Changes of policy files, by what came of them.\n\
             # TYPE slateberg_policy_reloads_total counter\n\
             slateberg_policy_reloads_total{{result=\"in_force\"}} {}\n\
             slateberg_policy_reloads_total{{result=\"refused\"}} {}\n",
            self.policy_reloads.get(),
            self.policy_reload_failures.get()
        );
        text
    }
}
