//! [`Deliveries`]: the parts that the deliveries of all webhooks share, and their metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sender::Sender;
use slateberg_authn::Authenticator;
use slateberg_catalog::Catalog;
use slateberg_telemetry::collection::{Collection, attributes};
use slateberg_telemetry::counters::Counter;

/// The parts that all deliveries share.
pub(super) struct Deliveries {
    pub(super) catalog: Catalog,
    pub(super) authn: Authenticator,
    pub(super) sender: Arc<Sender>,
    /// The source of the events.
    pub(super) source: String,
    /// Whether the server requires authentication.
    pub(super) is_authenticated: bool,
    pub(super) metrics: Metrics,
}

#[derive(Default)]
pub(super) struct Metrics {
    /// Requests that receivers accepted.
    pub(super) accepted: Counter,
    /// Failed requests.
    pub(super) failed: Counter,
    /// Events that receivers accepted.
    pub(super) events: Counter,
    pub(super) active: AtomicU64,
    pub(super) suspended: AtomicU64,
}

impl Deliveries {
    /// Adds the metrics to the collection.
    pub(super) fn collect(&self, into: &mut Collection) {
        let Metrics { accepted, failed, events, active, suspended } = &self.metrics;
        let (name, help) = ("slateberg.webhooks", "Webhooks, by state.");
        for (state, count) in [("active", active), ("suspended", suspended)] {
            let count = count.load(Ordering::Relaxed) as f64;
            into.gauge(name, "{webhook}", help, attributes([("state", state)]), count);
        }
        let (name, help) =
            ("slateberg.webhook.deliveries", "Requests to the receivers of webhooks.");
        for (result, count) in [("accepted", accepted), ("failed", failed)] {
            let series = attributes([("result", result)]);
            into.counter(name, "{request}", help, series, count.get());
        }
        let help = "Events that the receivers of webhooks have accepted.";
        into.counter("slateberg.webhook.events", "{event}", help, Vec::new(), events.get());
        let help = "Greatest number of changes that an active webhook has not processed.";
        let lag = self.catalog.webhooks().lag_max() as f64;
        into.gauge("slateberg.webhook.lag", "{change}", help, Vec::new(), lag);
    }
}
