//! [`IssuerFetches`]: results of fetching the keys of token issuers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::collection::{Attributes, Collection};

const FETCHES: &str = "slateberg.issuer.fetches";
const LAST: &str = "slateberg.issuer.last_successful_fetch.timestamp";

/// Fetches of keys, by issuer name.
#[derive(Debug, Default)]
pub struct IssuerFetches(Mutex<BTreeMap<String, Fetches>>);

#[derive(Debug, Default)]
struct Fetches {
    done: u64,
    failed: u64,
    last_done_ms: i64,
}

impl IssuerFetches {
    /// Counts a successful fetch at this time.
    pub fn done(&self, issuer: &str, now_ms: i64) {
        self.change(issuer, |fetches| {
            fetches.done += 1;
            fetches.last_done_ms = now_ms;
        });
    }

    /// Counts a failed fetch.
    pub fn failed(&self, issuer: &str) {
        self.change(issuer, |fetches| fetches.failed += 1);
    }

    fn change(&self, issuer: &str, change: impl FnOnce(&mut Fetches)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(issuer.to_owned()).or_default());
    }

    /// Adds the metrics to the collection. For an issuer that was never reached, the time of the
    /// last success is 0. An alert on the age of the last success then fires.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Fetches of the keys of an issuer.";
        into.declare_counter(FETCHES, "{fetch}", help);
        for (name, fetches) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let issuer: Attributes = vec![("issuer".into(), name.clone().into())];
            for (result, count) in [("done", fetches.done), ("failed", fetches.failed)] {
                let series = [issuer.clone(), vec![("result".into(), result.into())]].concat();
                into.counter(FETCHES, "{fetch}", help, series, count);
            }
            let help = "Time of the last successful fetch of an issuer's keys, in seconds since the Unix epoch.";
            into.gauge(LAST, "s", help, issuer, (fetches.last_done_ms / 1000) as f64);
        }
    }
}
