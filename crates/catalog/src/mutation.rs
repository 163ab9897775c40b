//! How every mutation runs: apart from the request that asked for it, and once for each
//! `Idempotency-Key`.

use std::future::Future;

use tracing::Instrument;

use super::tabulars::TabularState;
use super::{Catalog, Error, Operation, Result};
use slateberg_telemetry::commits::CommitMetrics;

/// What a mutation answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Nothing but that it is done.
    Done,
    /// A small body.
    Body(serde_json::Value),
    /// The state of a table or view.
    Tabular(TabularState),
}

impl Answer {
    /// The state that a mutation of a table or view answers.
    pub(super) fn into_tabular(self) -> Result<TabularState> {
        match self {
            Self::Tabular(state) => Ok(state),
            other => Err(Error::internal(format!("expected a table or view, got {other:?}"))),
        }
    }

    /// The body that a mutation of a namespace answers.
    pub(super) fn into_body(self) -> Result<serde_json::Value> {
        match self {
            Self::Body(body) => Ok(body),
            other => Err(Error::internal(format!("expected a body, got {other:?}"))),
        }
    }
}

impl Catalog {
    /// Runs a mutation to its end, whatever becomes of the caller, and at most once for each
    /// `Idempotency-Key`.
    pub(super) async fn mutate<F, W>(&self, operation: &Operation, work: W) -> Result<Answer>
    where
        F: Future<Output = Result<Answer>> + Send + 'static,
        W: FnOnce(Self, Operation) -> F + Send + 'static,
    {
        self.run_to_end(None, operation, work).await
    }

    /// The same for a commit: how it ends is counted under this name, once, also where nobody waits for that
    /// any more. An answer that is told again is no commit.
    pub(super) async fn commit<F, W>(
        &self,
        action: &'static str,
        operation: &Operation,
        work: W,
    ) -> Result<Answer>
    where
        F: Future<Output = Result<Answer>> + Send + 'static,
        W: FnOnce(Self, Operation) -> F + Send + 'static,
    {
        self.run_to_end(Some(action), operation, work).await
    }

    async fn run_to_end<F, W>(
        &self,
        action: Option<&'static str>,
        operation: &Operation,
        work: W,
    ) -> Result<Answer>
    where
        F: Future<Output = Result<Answer>> + Send + 'static,
        W: FnOnce(Self, Operation) -> F + Send + 'static,
    {
        let catalog = self.clone();
        let operation = operation.clone();
        let run = async move {
            let Some(idempotency) = operation.idempotency.clone() else {
                return catalog.counted(action, work(catalog.clone(), operation)).await;
            };
            // Two requests in flight with one key become one: the second waits, and finds the answer
            // of the first. Whoever cannot wait is not told that nothing was written: perhaps the first has.
            let inside = catalog.inner.keys.enter(vec![idempotency.key]).await;
            let _inside = inside.map_err(|full| Error::unknown(full.to_string()))?;
            if let Some(answer) = catalog.replay(&operation, &idempotency).await? {
                return answer;
            }
            let outcome = catalog.counted(action, work(catalog.clone(), operation.clone())).await;
            if let Err(refusal) = &outcome
                && refusal.is_final()
            {
                catalog.remember_refusal(&operation, refusal).await?;
            }
            outcome
        };
        match tokio::spawn(run.in_current_span()).await {
            Ok(outcome) => outcome,
            // A panic may have struck after the batch was handed to the log.
            Err(stopped) => Err(Error::unknown(stopped)),
        }
    }

    /// Does the work, and counts how it ended if it has a name.
    async fn counted(
        &self,
        action: Option<&'static str>,
        work: impl Future<Output = Result<Answer>>,
    ) -> Result<Answer> {
        let metrics = &self.inner.commits;
        let mut counting = action.map(|action| Counting { metrics, action, outcome: "unknown" });
        let ended = self.judged(work).await;
        if let Some(counting) = &mut counting {
            counting.outcome = outcome_of(&ended);
        }
        ended
    }

    /// A refusal waits until the state that it was judged by is durable, so that no crash makes it a lie.
    async fn judged(&self, work: impl Future<Output = Result<Answer>>) -> Result<Answer> {
        // Before the change waits for anything, such as changes that wait for space.
        self.store().check_writable()?;
        let outcome = work.await;
        if let Err(refusal) = &outcome
            && refusal.is_final()
        {
            let settled = self.store().settled();
            match tokio::time::timeout(self.settings().commit_deadline(), settled).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    return Err(Error::unavailable("The catalog's store does not answer", error));
                }
                Err(_) => {
                    return Err(Error::unavailable(
                        "The catalog's store does not answer",
                        "the state that a refusal was judged by is not durable yet",
                    ));
                }
            }
        }
        outcome
    }
}

/// A commit under way, which is counted when this is dropped. What a panic has stopped stays unknown.
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

/// What the end of a commit is counted as.
fn outcome_of(ended: &Result<Answer>) -> &'static str {
    match ended {
        Ok(_) => "done",
        Err(Error::CommitFailed(_)) => "conflict",
        Err(Error::CommitStateUnknown { .. }) => "unknown",
        Err(Error::Unavailable { .. }) => "unavailable",
        Err(Error::Internal { .. }) => "failed",
        Err(_) => "refused",
    }
}
