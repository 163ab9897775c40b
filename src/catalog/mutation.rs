//! How every mutation runs: apart from the request that asked for it, and once for each
//! `Idempotency-Key`.

use std::future::Future;

use tracing::Instrument;

use super::tabulars::TabularState;
use super::{Catalog, Error, Operation, Result};

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
        let catalog = self.clone();
        let operation = operation.clone();
        let run = async move {
            let Some(idempotency) = operation.idempotency.clone() else {
                return catalog.judged(work(catalog.clone(), operation)).await;
            };
            // Two requests in flight with one key become one: the second waits, and finds the answer
            // of the first.
            let _inside = catalog.inner.keys.enter(vec![idempotency.key]).await?;
            if let Some(answer) = catalog.replay(&operation, &idempotency).await? {
                return answer;
            }
            let outcome = catalog.judged(work(catalog.clone(), operation.clone())).await;
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

    /// Counts how a commit ended.
    pub(super) fn counted<T>(&self, action: &'static str, ended: Result<T>) -> Result<T> {
        let outcome = match &ended {
            Ok(_) => "done",
            Err(Error::CommitFailed(_)) => "conflict",
            Err(Error::CommitStateUnknown { .. }) => "unknown",
            Err(Error::Unavailable { .. }) => "unavailable",
            Err(Error::Internal { .. }) => "failed",
            Err(_) => "refused",
        };
        self.inner.commits.ended(action, outcome);
        ended
    }

    /// A refusal waits until the state that it was judged by is durable, so that no crash makes it a lie.
    async fn judged(&self, work: impl Future<Output = Result<Answer>>) -> Result<Answer> {
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
