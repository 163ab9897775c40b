//! Counters of rare events, without stripes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::collection::{Collection, attributes};

/// A number that only increases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A boolean, initially `false`.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// Sets the value.
    pub fn set(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the value.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counters of rare events.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests rejected for an invalid credential.
    pub authentication_failures: Counter,
    /// Changes of policy files that took effect.
    pub policy_reloads: Counter,
    /// Changes of policy files that failed to take effect.
    pub policy_reload_failures: Counter,
    /// Whether the last check rejected the policy files. In that case, the earlier policies stay in
    /// force.
    pub policy_files_rejected: Flag,
}

impl Counters {
    /// Adds the counters to the collection.
    pub fn collect(&self, into: &mut Collection) {
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
        let is_current = f64::from(u8::from(!self.policy_files_rejected.get()));
        into.gauge("slateberg.policy.last_reload_successful", "1", help, Vec::new(), is_current);
    }
}
