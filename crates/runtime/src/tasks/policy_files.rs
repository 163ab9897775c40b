//! Policy files that change while the server runs come into force, all of them or none.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::hangups::Hangups;
use crate::build::Runtime;
use crate::policies;
use slateberg_catalog::Catalog;
use slateberg_telemetry::counters::Counters;

/// The policy files of a server, looked at again and again.
///
/// Each look reads all of them: they are small, and neither a file's time nor its length tells for certain
/// that nothing was written.
pub struct PolicyFiles {
    catalog: Catalog,
    counters: Arc<Counters>,
    paths: Vec<PathBuf>,
    /// What was wrong at the last look: told once, and not at every look.
    wrong: Option<String>,
}

/// Why the files of a look are not in force.
struct Wrong {
    why: String,
    /// Whether something is wrong with the files. Otherwise the look came at a bad time, and says nothing of
    /// them.
    is_refusal: bool,
}

impl PolicyFiles {
    /// The files of this server; none if it has those alone that come with the program.
    pub fn of(runtime: &Runtime) -> Option<Self> {
        let paths = runtime.settings.authz.policy_paths.clone();
        let (catalog, counters) = (runtime.catalog.clone(), Arc::clone(&runtime.measures.counters));
        (!paths.is_empty()).then_some(Self { catalog, counters, paths, wrong: None })
    }

    /// Puts the files in force if they are others than before. If they do not fit, everything stays as it
    /// is, and the log says why.
    pub async fn look(&mut self) {
        match self.read().await {
            Ok(changed) => {
                if let Some(policies) = changed {
                    self.counters.policy_reloads.add(1);
                    tracing::info!(policies, "policy files have changed, and are in force");
                }
                self.counters.policy_files_refused.set(false);
                self.wrong = None;
            }
            Err(Wrong { why, is_refusal }) => {
                if is_refusal {
                    self.counters.policy_files_refused.set(true);
                }
                if self.wrong.as_ref() != Some(&why) {
                    self.counters.policy_reload_failures.add(1);
                    tracing::error!("policy files have changed, the earlier stay in force: {why}");
                    self.wrong = Some(why);
                }
            }
        }
    }

    async fn read(&self) -> Result<Option<usize>, Wrong> {
        let paths = self.paths.clone();
        let read = tokio::task::spawn_blocking(move || policies::read(&paths)).await;
        let read = read.map_err(|panic| Wrong { why: panic.to_string(), is_refusal: false })?;
        let files = read.map_err(|error| Wrong { why: error.to_string(), is_refusal: true })?;
        let replaced = self.catalog.policies().replace_policy_files(files).await;
        replaced.map_err(|error| Wrong { why: error.to_string(), is_refusal: error.is_final() })
    }
}

/// Looks every so often, and at `SIGHUP`.
pub(super) async fn watch_policy_files(
    mut files: PolicyFiles,
    period: Option<Duration>,
    mut hangups: Hangups,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            () = passed(period) => {}
            () = hangups.next() => tracing::info!("SIGHUP: checking the policy files"),
        }
        files.look().await;
    }
}

async fn passed(period: Option<Duration>) {
    match period {
        Some(period) => tokio::time::sleep(period).await,
        None => std::future::pending().await,
    }
}
