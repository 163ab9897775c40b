//! Periodic background tasks. Each runs until the server stops.

mod audit_file;
mod jobs;
mod maintenance;
pub mod policy_files;
mod sighup;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::build::Runtime;
use super::issuers::keep_fresh;
use policy_files::{PolicyFiles, watch_policy_files};
use sighup::Sighup;
use slateberg_authn::issuers::Issuer;
use slateberg_base::error_chain::chain;
use slateberg_telemetry::requests::TaskRuns;
use slateberg_telemetry::settings::AuditTo;

/// Interval at which markers of completed publications are removed, unless commits remove them
/// earlier.
const REMOVE_COMPLETED_EVERY: Duration = Duration::from_secs(10);
/// Interval at which expired records are removed.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);
/// Interval at which the counted uses of tables and views, and the metrics reports of clients, are
/// stored.
const STORE_USAGE_EVERY: Duration = Duration::from_secs(60);
/// Interval at which the memtable is flushed to a file of level 0, so that a start has little to
/// replay.
const FLUSH_EVERY: Duration = Duration::from_secs(30);

/// Interval at which the server checks whether a signing key has expired.
const ROTATE_EVERY: Duration = Duration::from_secs(60 * 60);

/// Starts all tasks. Each ends soon after `stopping` becomes `true`.
pub fn spawn(runtime: &Runtime, stopping: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    let runs = || Arc::clone(&runtime.measures.task_runs);
    let forget = runtime.catalog.clone();
    let expire = runtime.catalog.clone();
    let usage = runtime.catalog.clone();
    let flush = runtime.catalog.clone();
    let authn = runtime.authn.clone();
    let mut tasks = vec![
        tokio::spawn(repeat(
            ("remove_completed_markers", runs()),
            REMOVE_COMPLETED_EVERY,
            stopping.clone(),
            move || {
                let catalog = forget.clone();
                async move { catalog.maintenance().remove_completed_markers().await.map(|()| 0) }
            },
        )),
        tokio::spawn(repeat(("expire", runs()), EXPIRE_EVERY, stopping.clone(), move || {
            let catalog = expire.clone();
            async move { catalog.maintenance().expire().await }
        })),
        tokio::spawn(repeat(
            ("store_usage", runs()),
            STORE_USAGE_EVERY,
            stopping.clone(),
            move || {
                let catalog = usage.clone();
                async move { catalog.store_usage().await }
            },
        )),
        tokio::spawn(repeat(("flush", runs()), FLUSH_EVERY, stopping.clone(), move || {
            let catalog = flush.clone();
            async move { catalog.flush().await.map(|()| 0) }
        })),
        tokio::spawn(repeat(
            ("rotate_signing_keys", runs()),
            ROTATE_EVERY,
            stopping.clone(),
            move || {
                let authn = authn.clone();
                async move { authn.own_tokens().rotate().await }
            },
        )),
        tokio::spawn(jobs::run_jobs(runtime.catalog.clone(), stopping.clone())),
    ];
    if runtime.catalog.table_maintenance().is_enabled() {
        let (catalog, runs) = (runtime.catalog.clone(), runs());
        tasks.push(tokio::spawn(maintenance::maintain_tables(catalog, runs, stopping.clone())));
    }
    tasks.extend(warm_up(runtime, stopping));
    if runtime.settings.audit.to == AuditTo::File {
        let (catalog, sighup) = (runtime.catalog.clone(), Sighup::listen());
        let reopen = audit_file::reopen_on_sighup(catalog, sighup, stopping.clone());
        tasks.push(tokio::spawn(reopen));
    }
    tasks.extend(watch_inputs(runtime, stopping));
    tasks
}

/// Starts the tasks that read the keys of issuers and the policy files. These are all tasks of a
/// replica, because they change nothing in the catalog.
pub fn watch_inputs(runtime: &Runtime, stopping: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    let mut tasks = watch_issuers(runtime, stopping);
    tasks.extend(PolicyFiles::of(runtime).map(|files| {
        let period = runtime.settings.authz.policy_reload();
        tokio::spawn(watch_policy_files(files, period, Sighup::listen(), stopping.clone()))
    }));
    tasks
}

/// Loads data into the caches after a start if the state is in a bucket.
fn warm_up(runtime: &Runtime, stopping: &watch::Receiver<bool>) -> Option<JoinHandle<()>> {
    let at_most = Duration::from_secs(runtime.settings.store.warm_up_seconds_max);
    if at_most.is_zero() || runtime.state_url.starts_with("file:") {
        return None;
    }
    let (catalog, mut stopping) = (runtime.catalog.clone(), stopping.clone());
    Some(tokio::spawn(async move {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => {}
            _ = catalog.warm_up(at_most) => {}
        }
    }))
}

/// Starts one task per issuer whose keys are fetched.
fn watch_issuers(runtime: &Runtime, stopping: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    let Some(client) = &runtime.issuer_client else { return Vec::new() };
    let refresh = runtime.authn.settings().issuer_refresh();
    let fetched = runtime.authn.issuers().all().filter(|issuer| issuer.is_fetched());
    let start = |issuer: &Arc<Issuer>| {
        let fetches = Arc::clone(&runtime.measures.issuers);
        let (issuer, catalog) = (Arc::clone(issuer), runtime.catalog.clone());
        let clock = move || catalog.now_ms();
        let (client, stopping) = (client.clone(), stopping.clone());
        tokio::spawn(keep_fresh(issuer, client, refresh, fetches, clock, stopping))
    };
    fetched.map(start).collect()
}

/// Runs `work` repeatedly, with a pause of `period` before each run.
async fn repeat<F, W, E>(
    (name, runs): (&'static str, Arc<TaskRuns>),
    period: Duration,
    mut stopping: watch::Receiver<bool>,
    work: W,
) where
    F: Future<Output = Result<usize, E>> + Send,
    W: Fn() -> F + Send,
    E: std::error::Error + 'static,
{
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(period) => {}
        }
        let done = work().await;
        runs.ended(name, done.is_ok());
        match done {
            Ok(0) => {}
            Ok(records) => tracing::debug!(task = name, records, "background task"),
            Err(error) => {
                tracing::warn!(task = name, error = chain(&error), "background task failed")
            }
        }
    }
}
