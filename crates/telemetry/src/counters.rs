//! What happens seldom enough to be counted in one place.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::collection::{Collection, attributes};

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

/// Something that is so or is not. At the beginning, it is not.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// Takes note of how it is now.
    pub fn set(&self, is_so: bool) {
        self.0.store(is_so, Ordering::Relaxed);
    }

    /// Whether it is so.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Everything that is counted so.
#[derive(Debug, Default)]
pub struct Counters {
    /// Scan reports that clients sent.
    pub scan_reports: Counter,
    /// Commit reports that clients sent.
    pub commit_reports: Counter,
    /// Requests rejected for an invalid credential.
    pub authentication_failures: Counter,
    /// Changes of policy files that came into force.
    pub policy_reloads: Counter,
    /// Changes of policy files that did not, because something was wrong with them.
    pub policy_reload_failures: Counter,
    /// Whether policy files were refused at the last look, so that earlier ones are in force.
    pub policy_files_refused: Flag,
}

impl Counters {
    /// Tells them all.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Metrics reports that clients sent.";
        let reports =
            [("scan-report", &self.scan_reports), ("commit-report", &self.commit_reports)];
        for (kind, counter) in reports {
            let series = attributes([("report.type", kind)]);
            into.counter("slateberg.metrics.reports", "{report}", help, series, counter.get());
        }
        let help = "Requests rejected for an invalid credential.";
        let failures = self.authentication_failures.get();
        into.counter("slateberg.authentication.failures", "{request}", help, Vec::new(), failures);
        let help = "Changes of policy files, by result.";
        let reloads =
            [("in_force", &self.policy_reloads), ("refused", &self.policy_reload_failures)];
        for (result, counter) in reloads {
            let series = attributes([("result", result)]);
            into.counter("slateberg.policy.reloads", "{change}", help, series, counter.get());
        }
        let help = "Whether the policy files are in force: 0 if the last change was rejected.";
        let is_current = f64::from(u8::from(!self.policy_files_refused.get()));
        into.gauge("slateberg.policy.last_reload_successful", "1", help, Vec::new(), is_current);
    }
}
