//! How every mutation runs: detached from its request, and once for each `Idempotency-Key`.

use std::future::Future;

use tracing::Instrument;

use super::response::Response;
use crate::{Catalog, Error, Operation, Result};
use slateberg_telemetry::commits::CommitMetrics;

impl Catalog {
    /// Runs a mutation to its end, even if the caller stops waiting, and at most once for each
    /// `Idempotency-Key`.
    pub(crate) async fn mutate<T, F, W>(&self, operation: &Operation, work: W) -> Result<T>
    where
        T: Response,
        F: Future<Output = Result<T>> + Send + 'static,
        W: FnOnce(Self, Operation) -> F + Send + 'static,
    {
        self.run_to_end(None, operation, work).await
    }

    /// Runs a commit like [`mutate`](Self::mutate), and counts its outcome under `action`. A replayed
    /// response is not counted.
    pub(crate) async fn commit<T, F, W>(
        &self,
        action: &'static str,
        operation: &Operation,
        work: W,
    ) -> Result<T>
    where
        T: Response,
        F: Future<Output = Result<T>> + Send + 'static,
        W: FnOnce(Self, Operation) -> F + Send + 'static,
    {
        self.run_to_end(Some(action), operation, work).await
    }

    async fn run_to_end<T, F, W>(
        &self,
        action: Option<&'static str>,
        operation: &Operation,
        work: W,
    ) -> Result<T>
    where
        T: Response,
        F: Future<Output = Result<T>> + Send + 'static,
        W: FnOnce(Self, Operation) -> F + Send + 'static,
    {
        let catalog = self.clone();
        let operation = operation.clone();
        let run = async move {
            let Some(idempotency) = operation.idempotency.clone() else {
                return catalog.counted(action, work(catalog.clone(), operation)).await;
            };
            // Two requests with one key run one after the other: the second finds the response of the first.
            // A request that cannot wait gets an unknown outcome, because the first may have written.
            let lane = catalog.pipeline().request_lanes.enter(vec![idempotency.key]).await;
            let _lane = lane.map_err(|full| Error::unknown(full.to_string()))?;
            if let Some(response) = catalog.replay(&operation, &idempotency).await? {
                return response;
            }
            let outcome = catalog.counted(action, work(catalog.clone(), operation.clone())).await;
            if let Err(refusal) = &outcome
                && refusal.is_final()
            {
                catalog.pipeline().remember_refusal(&operation, refusal).await?;
            }
            outcome
        };
        match tokio::spawn(run.in_current_span()).await {
            Ok(outcome) => outcome,
            // A panic may have struck after the batch was handed to the log.
            Err(stopped) => Err(Error::unknown(stopped)),
        }
    }

    /// Runs `work`, and counts its outcome if there is an action to count it under.
    async fn counted<T>(
        &self,
        action: Option<&'static str>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let metrics = &self.pipeline().metrics;
        let mut counting = action.map(|action| Counting { metrics, action, outcome: "unknown" });
        let ended = self.settled(work).await;
        if let Some(counting) = &mut counting {
            counting.outcome = outcome_label(&ended);
        }
        ended
    }

    /// Runs `work`. A final refusal waits until the state that it was decided on is durable, so that it is
    /// still true after a crash.
    async fn settled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        // Before the change waits for anything, such as changes that wait for space.
        self.store().check_writable()?;
        let outcome = work.await;
        if let Err(refusal) = &outcome
            && refusal.is_final()
        {
            let unavailable = "The catalog's store does not answer";
            let settled = self.store().settled();
            match tokio::time::timeout(self.settings().commit_deadline(), settled).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(Error::unavailable(unavailable, error)),
                Err(_) => {
                    let reason = "the state that a refusal was decided on is not durable yet";
                    return Err(Error::unavailable(unavailable, reason));
                }
            }
        }
        outcome
    }
}

/// A commit under way, which is counted when this is dropped. The outcome of a panic is unknown.
struct Counting<'a> {
    metrics: &'a CommitMetrics,
    action: &'static str,
    outcome: &'static str,
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.metrics.ended(self.action, self.outcome);
    }
}

/// Returns the value of the metric's attribute `outcome`.
fn outcome_label<T>(ended: &Result<T>) -> &'static str {
    match ended {
        Ok(_) => "done",
        Err(Error::CommitFailed(_)) => "conflict",
        Err(Error::CommitStateUnknown { .. }) => "unknown",
        Err(Error::Unavailable { .. }) => "unavailable",
        Err(Error::Internal { .. }) => "failed",
        Err(_) => "refused",
    }
}
