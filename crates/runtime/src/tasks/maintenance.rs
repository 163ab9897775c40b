//! Maintains tables on a schedule.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use slateberg_base::error_chain::chain;
use slateberg_catalog::Catalog;
use slateberg_telemetry::requests::TaskRuns;

/// Name of the task in metrics and logs.
const TASK: &str = "maintain_tables";
/// Delay before the next attempt if the store cannot list tables.
const TRY_AGAIN_IN: Duration = Duration::from_secs(5);

/// Maintains tables until the server stops. A shutdown does not wait for a maintenance in progress:
/// it stores nothing outside of commits.
pub(super) async fn maintain_tables(
    catalog: Catalog,
    runs: Arc<TaskRuns>,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let maintenance = catalog.table_maintenance();
        let done = tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            done = maintenance.run_due() => done,
        };
        runs.ended(TASK, done.is_ok());
        let pause = match done {
            Ok(0) => None,
            Ok(tables) => {
                tracing::debug!(task = TASK, tables, "background task");
                None
            }
            Err(error) => {
                tracing::warn!(task = TASK, error = chain(&error), "background task failed");
                Some(TRY_AGAIN_IN)
            }
        };
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            () = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => catalog.table_maintenance().wait_until_due().await,
                }
            } => {}
        }
    }
}
