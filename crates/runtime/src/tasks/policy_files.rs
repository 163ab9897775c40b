//! Reloads policy files that change while the server runs. Either all files take effect, or none of
//! them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::sighup::Sighup;
use crate::build::Runtime;
use crate::policies;
use slateberg_catalog::Catalog;
use slateberg_telemetry::counters::Counters;

/// The policy files of a server, which are checked periodically.
///
/// Each check reads all files. They are small, and neither modification time nor length reliably
/// shows that a file is unchanged.
pub struct PolicyFiles {
    catalog: Catalog,
    counters: Arc<Counters>,
    paths: Vec<PathBuf>,
    /// The error of the last check. It is logged once, not at every check.
    wrong: Option<String>,
}

/// The reason why the files did not take effect.
struct LoadFailure {
    why: String,
    /// Whether the files are invalid or unreadable. Otherwise the check failed for another reason,
    /// and the files may be valid.
    is_refusal: bool,
}

impl PolicyFiles {
    /// Returns the configured policy files. `None` if the server uses only the built-in policies.
    pub fn of(runtime: &Runtime) -> Option<Self> {
        let paths = runtime.settings.authz.policy_paths.clone();
        let (catalog, counters) = (runtime.catalog.clone(), Arc::clone(&runtime.measures.counters));
        (!paths.is_empty()).then_some(Self { catalog, counters, paths, wrong: None })
    }

    /// Applies the files if they have changed. On an error, logs the reason and keeps the current
    /// policies in force.
    pub async fn look(&mut self) {
        match self.read().await {
            Ok(changed) => {
                if let Some(policies) = changed {
                    self.counters.policy_reloads.add(1);
                    tracing::info!(policies, "changed policy files are now in force");
                }
                self.counters.policy_files_rejected.set(false);
                self.wrong = None;
            }
            Err(LoadFailure { why, is_refusal }) => {
                if is_refusal {
                    self.counters.policy_files_rejected.set(true);
                }
                if self.wrong.as_ref() != Some(&why) {
                    self.counters.policy_reload_failures.add(1);
                    tracing::error!(
                        "cannot load the policy files, the previous ones stay in force: {why}"
                    );
                    self.wrong = Some(why);
                }
            }
        }
    }

    async fn read(&self) -> Result<Option<usize>, LoadFailure> {
        let paths = self.paths.clone();
        let read = tokio::task::spawn_blocking(move || policies::read(&paths)).await;
        let read =
            read.map_err(|panic| LoadFailure { why: panic.to_string(), is_refusal: false })?;
        let files =
            read.map_err(|error| LoadFailure { why: error.to_string(), is_refusal: true })?;
        let replaced = self.catalog.policies().replace_policy_files(files).await;
        replaced
            .map_err(|error| LoadFailure { why: error.to_string(), is_refusal: error.is_final() })
    }
}

/// Checks the files periodically and on `SIGHUP`.
pub(super) async fn watch_policy_files(
    mut files: PolicyFiles,
    period: Option<Duration>,
    mut hangups: Sighup,
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
