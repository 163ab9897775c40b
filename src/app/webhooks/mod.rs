//! Sends the events of webhooks. Only the writer of a catalog does so.
//!
//! One task starts a [`delivery`] for each active webhook, and starts it again when the record of
//! the webhook changes. Without webhooks, this task waits, and there is no HTTP client.

mod batch;
mod deliveries;
mod delivery;
mod sender;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

use self::deliveries::{Deliveries, Metrics};
pub use self::sender::Sender;
use super::App;
use crate::app::cloud_events::event_source;
use slateberg_base::error_chain::chain;
use slateberg_catalog::webhooks::WebhookRecord;

/// Wait after an error of the store.
const STORE_RETRY: Duration = Duration::from_secs(5);

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
        source: event_source(runtime.catalog_id),
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
                start_and_stop(&all, &mut running, records).await;
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

/// Stops the deliveries of deleted, suspended and changed webhooks, and starts the deliveries of
/// active webhooks.
async fn start_and_stop(
    all: &Arc<Deliveries>,
    running: &mut HashMap<Uuid, Running>,
    records: Vec<WebhookRecord>,
) {
    let versions: HashMap<_, _> = records.iter().map(|it| (it.id, it.version)).collect();
    let is_stale = |id: &Uuid, it: &mut Running| versions.get(id) != Some(&it.version);
    let stale: Vec<_> = running.extract_if(is_stale).collect();
    stale.iter().for_each(|(_, it)| _ = it.stop.send_replace(true));
    for (id, it) in stale {
        it.ended().await;
        let webhooks = all.catalog.webhooks();
        if versions.contains_key(&id) {
            webhooks.report(id, |state| state.position = None);
        } else {
            webhooks.forget(id);
        }
    }
    let (suspended, active): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|record| record.suspended.is_some());
    all.metrics.active.store(active.len() as u64, Ordering::Relaxed);
    all.metrics.suspended.store(suspended.len() as u64, Ordering::Relaxed);
    for record in active {
        running.entry(record.id).or_insert_with(|| {
            let (version, (stop, stopping)) = (record.version, watch::channel(false));
            let task = tokio::spawn(delivery::run(Arc::clone(all), record, stopping));
            Running { version, stop, task }
        });
    }
}

impl Running {
    async fn ended(self) {
        if let Err(panic) = self.task.await {
            tracing::error!(%panic, "the delivery of a webhook has failed");
        }
    }
}
