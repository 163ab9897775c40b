//! Sends the events of webhooks. Only the writer of a catalog does so.
//!
//! One task starts a [`delivery`] for each active webhook, and starts it again when the record of
//! the webhook changes. Without webhooks, this task waits, and there is no HTTP client.

mod batch;
mod delivery;
mod event_name;
mod sender;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

pub use self::sender::Sender;
use super::App;
use slateberg_authn::Authenticator;
use slateberg_base::error_chain::chain;
use slateberg_catalog::Catalog;
use slateberg_catalog::webhooks::WebhookRecord;
use slateberg_telemetry::collection::{Collection, attributes};
use slateberg_telemetry::counters::Counter;

/// Wait after an error of the store.
const STORE_RETRY: Duration = Duration::from_secs(5);

/// The parts that all deliveries share.
struct Deliveries {
    catalog: Catalog,
    authn: Authenticator,
    sender: Arc<Sender>,
    /// The source of the events.
    source: String,
    /// Whether the server requires authentication.
    is_authenticated: bool,
    metrics: Metrics,
}

#[derive(Default)]
struct Metrics {
    /// Requests that receivers accepted.
    accepted: Counter,
    /// Failed requests.
    failed: Counter,
    /// Events that receivers accepted.
    events: Counter,
    active: AtomicU64,
    suspended: AtomicU64,
}

/// A webhook whose events are being sent.
struct Running {
    version: u64,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Starts to send the events of webhooks, until `stopping` becomes `true`.
pub fn spawn(app: &App, stopping: watch::Receiver<bool>) -> JoinHandle<()> {
    let runtime = &app.runtime;
    let all = Arc::new(Deliveries {
        catalog: runtime.catalog.clone(),
        authn: runtime.authn.clone(),
        sender: Arc::clone(&app.webhook_sender),
        source: format!("urn:uuid:{}", runtime.catalog_id),
        is_authenticated: !runtime.settings.authn.insecure_no_auth,
        metrics: Metrics::default(),
    });
    let source = Arc::clone(&all);
    runtime.measures.registry.register("webhooks", move |into| source.collect(into));
    tokio::spawn(supervise(all, stopping))
}

async fn supervise(all: Arc<Deliveries>, mut stopping: watch::Receiver<bool>) {
    let mut changes = all.catalog.webhooks().changes();
    let mut running = HashMap::new();
    loop {
        changes.borrow_and_update();
        let is_read = match all.catalog.webhooks().all().await {
            Ok(records) => {
                all.start_and_stop(&mut running, records).await;
                true
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "cannot read the webhooks");
                false
            }
        };
        let changed = async {
            if is_read {
                // The catalog outlives this task, so the channel does not close.
                let _ = changes.changed().await;
            } else {
                sleep(STORE_RETRY).await;
            }
        };
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => break,
            () = changed => {}
        }
    }
    running.values().for_each(|it: &Running| _ = it.stop.send_replace(true));
    for (_, it) in running {
        it.ended().await;
    }
}

impl Deliveries {
    /// Stops the deliveries of deleted, suspended and changed webhooks, and starts the deliveries of
    /// active webhooks.
    async fn start_and_stop(
        self: &Arc<Self>,
        running: &mut HashMap<Uuid, Running>,
        records: Vec<WebhookRecord>,
    ) {
        let versions: HashMap<_, _> = records.iter().map(|it| (it.id, it.version)).collect();
        let is_stale = |id: &Uuid, it: &mut Running| versions.get(id) != Some(&it.version);
        let stale: Vec<_> = running.extract_if(is_stale).collect();
        stale.iter().for_each(|(_, it)| _ = it.stop.send_replace(true));
        for (id, it) in stale {
            it.ended().await;
            let webhooks = self.catalog.webhooks();
            if versions.contains_key(&id) {
                webhooks.report(id, |state| state.position = None);
            } else {
                webhooks.forget(id);
            }
        }
        let (suspended, active): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.suspended.is_some());
        self.metrics.active.store(active.len() as u64, Ordering::Relaxed);
        self.metrics.suspended.store(suspended.len() as u64, Ordering::Relaxed);
        for record in active {
            running.entry(record.id).or_insert_with(|| {
                let (version, (stop, stopping)) = (record.version, watch::channel(false));
                let task = tokio::spawn(delivery::run(Arc::clone(self), record, stopping));
                Running { version, stop, task }
            });
        }
    }

    fn collect(&self, into: &mut Collection) {
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

impl Running {
    async fn ended(self) {
        if let Err(panic) = self.task.await {
            tracing::error!(%panic, "the delivery of a webhook has failed");
        }
    }
}
