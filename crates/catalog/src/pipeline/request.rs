//! Executes mutations: detached from the request, and once for each `Idempotency-Key`.

use std::future::Future;
use std::sync::Arc;

use tracing::Instrument;

use super::response::Response;
use crate::core::Core;
use crate::error::Kind;
use crate::operation::Request;
use crate::{Error, Result};
use slateberg_base::uncancelled::Uncancelled;
use slateberg_store::records::ChangeAction;
use slateberg_telemetry::commits::CommitMetrics;

impl Core {
    /// Runs a mutation to completion even if the caller stops waiting, and at most once for each
    /// `Idempotency-Key`.
    pub(crate) async fn mutate<P, R, T, F, W>(
        self: &Arc<Self>,
        part: &P,
        request: &R,
        work: W,
    ) -> Result<T>
    where
        P: Clone + Send + 'static,
        R: Request,
        T: Response,
        F: Future<Output = Result<T>> + Send + 'static,
        W: FnOnce(P, R) -> F + Send + 'static,
    {
        self.run_to_end(None, part, request, work).await
    }

    /// Runs a commit like [`mutate`](Self::mutate), and counts its outcome under `action`. Replayed
    /// responses are not counted.
    pub(crate) async fn commit<P, R, T, F, W>(
        self: &Arc<Self>,
        action: ChangeAction,
        part: &P,
        request: &R,
        work: W,
    ) -> Result<T>
    where
        P: Clone + Send + 'static,
        R: Request,
        T: Response,
        F: Future<Output = Result<T>> + Send + 'static,
        W: FnOnce(P, R) -> F + Send + 'static,
    {
        self.run_to_end(Some(action), part, request, work).await
    }

    async fn run_to_end<P, R, T, F, W>(
        self: &Arc<Self>,
        action: Option<ChangeAction>,
        part: &P,
        request: &R,
        work: W,
    ) -> Result<T>
    where
        P: Clone + Send + 'static,
        R: Request,
        T: Response,
        F: Future<Output = Result<T>> + Send + 'static,
        W: FnOnce(P, R) -> F + Send + 'static,
    {
        let core = Arc::clone(self);
        let (part, request) = (part.clone(), request.clone());
        let run = async move {
            let operation = request.operation();
            let Some(idempotency) = operation.idempotency.clone() else {
                return core.counted(action, work(part, request)).await;
            };
            // Two requests with the same key run one after the other, and the second one replays
            // the response of the first. If the wait fails, the outcome is unknown, because the
            // first request may have written something.
            let lane = core.pipeline().request_lanes.enter(vec![idempotency.key]).await;
            let _lane = lane.map_err(Error::unknown)?;
            if let Some(response) = core.replay(operation, &idempotency).await? {
                return Ok(response);
            }
            let outcome = core.counted(action, work(part, request.clone())).await;
            if let Err(refusal) = &outcome
                && refusal.is_final()
            {
                core.pipeline().record_rejection(operation, refusal).await?;
            }
            outcome
        };
        match Uncancelled::new(run.in_current_span()).await {
            Ok(outcome) => outcome,
            // The panic may have occurred after the transaction was committed.
            Err(panic) => Err(Error::unknown(panic)),
        }
    }

    /// Runs `work`. If there is an `action`, counts the outcome of `work` under this action.
    async fn counted<T>(
        &self,
        action: Option<ChangeAction>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let metrics = &self.pipeline().metrics;
        let mut counting =
            action.map(|action| CommitCounter { metrics, action, outcome: "unknown" });
        let ended = self.settled(work).await;
        if let Some(counting) = &mut counting {
            counting.outcome = outcome_label(&ended);
        }
        ended
    }

    /// Runs `work`. If `work` returns a final rejection, waits until the state on which the
    /// rejection is based is durable. So the rejection is still correct after a crash.
    async fn settled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        // This check comes before the wait for other changes, because the other changes may be
        // waiting for disk space.
        self.store().check_writable()?;
        let outcome = work.await;
        if let Err(refusal) = &outcome
            && refusal.is_final()
        {
            let unavailable = "The catalog's store does not answer";
            let settled = self.store().wait_durable();
            match tokio::time::timeout(self.settings().commit_deadline(), settled).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(Error::unavailable(unavailable, error)),
                Err(_) => {
                    let reason = "the state that led to a rejection did not become durable in time";
                    return Err(Error::unavailable(unavailable, reason));
                }
            }
        }
        outcome
    }
}

/// A commit in progress, counted on drop. A panic counts as an unknown outcome.
struct CommitCounter<'a> {
    metrics: &'a CommitMetrics,
    action: ChangeAction,
    outcome: &'static str,
}

impl Drop for CommitCounter<'_> {
    fn drop(&mut self) {
        self.metrics.ended(self.action.as_str(), self.outcome);
    }
}

/// Returns the value of the metric's attribute `outcome`.
fn outcome_label<T>(ended: &Result<T>) -> &'static str {
    match ended {
        Ok(_) => "done",
        Err(error) => match error.kind() {
            Kind::CommitFailed => "conflict",
            Kind::CommitStateUnknown => "unknown",
            Kind::Unavailable => "unavailable",
            Kind::Internal => "failed",
            _ => "refused",
        },
    }
}
