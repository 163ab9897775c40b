//! Runs background jobs, some of them in parallel. A shutdown interrupts them.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use slateberg_base::error_chain::chain;
use slateberg_catalog::Catalog;

/// Delay before the next attempt if the store cannot list due jobs.
const TRY_AGAIN_IN: Duration = Duration::from_secs(5);

/// Runs jobs until the server stops.
pub(super) async fn run_jobs(catalog: Catalog, mut stopping: watch::Receiver<bool>) {
    let mut running = JoinSet::new();
    loop {
        let room = catalog.settings().jobs_parallel_max.max(1).saturating_sub(running.len());
        let again_in = match catalog.jobs().claim_due_jobs(room).await {
            Ok(look) => {
                for due in look.due {
                    let catalog = catalog.clone();
                    running.spawn(async move { catalog.jobs().run_due(due).await });
                }
                look.again_in
            }
            Err(error) => {
                tracing::warn!(task = "run_jobs", error = chain(&error), "background task failed");
                TRY_AGAIN_IN
            }
        };
        let ended = tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => break,
            Some(ended) = running.join_next() => Some(ended),
            () = catalog.jobs().wait_until_due(again_in) => None,
        };
        if let Some(Err(panic)) = ended {
            tracing::error!(%panic, "a background job has failed");
            // Wait, because the job is due again at once and would probably panic again.
            tokio::time::sleep(TRY_AGAIN_IN).await;
        }
    }
    catalog.jobs().stop_jobs();
    while let Some(ended) = running.join_next().await {
        if let Err(panic) = ended {
            tracing::error!(%panic, "a background job has failed");
        }
    }
}
