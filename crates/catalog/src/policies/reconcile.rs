//! Writes changes of stored policies and grants. After a failure, reconciles the policies in force
//! with the policy log.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::Sources;
use super::allowed::Allowed;
use super::change::{Changed, EvaluatedChange};
use crate::detached::detached;
use crate::operation::Operation;
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::pipeline::response::Body;
use crate::policies::Policies;
use crate::serial_lock::SerialGuard;
use crate::{Error, Result};
use slateberg_authz::action::Action;
use slateberg_authz::permit::Permit;
use slateberg_base::retry::Backoff;
use slateberg_store::keys::PolicyHeadKey;
use slateberg_store::policy_snapshot::PolicySnapshot;
use slateberg_store::read::StoreRead;

const RETRY_DELAY_MIN: Duration = Duration::from_millis(10);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

impl Policies {
    /// Writes a change in a background task. If this takes longer than the deadline, the caller
    /// gets an unknown outcome. The task then holds the lock until the outcome is known.
    pub(super) async fn execute(
        &self,
        turn: SerialGuard,
        operation: Operation,
        evaluated: EvaluatedChange,
    ) -> Result<Changed> {
        let policies = self.clone();
        let change = async move {
            let _turn = turn;
            match policies.write_revision(&operation, &evaluated).await {
                Ok(()) => Ok(policies.put_change_in_force(evaluated)),
                Err(error) => policies.settle(evaluated, error).await,
            }
        };
        detached(self.core.settings().commit_deadline(), "deadline has elapsed", change).await
    }

    fn put_change_in_force(&self, evaluated: EvaluatedChange) -> Changed {
        let EvaluatedChange { after, set, summary, action, .. } = evaluated;
        self.state.put_in_force(&self.core.access, after, set);
        let Changed { revision, in_force, .. } = &summary;
        tracing::info!(revision, in_force, action = action.as_str(), "policies changed");
        summary
    }

    async fn write_revision(
        &self,
        operation: &Operation,
        evaluated: &EvaluatedChange,
    ) -> Result<()> {
        match &evaluated.allowed {
            Allowed::Policies(permit) => self.write_by(permit, operation, evaluated).await,
            Allowed::Grants(permit) => self.write_by(permit, operation, evaluated).await,
        }
    }

    async fn write_by<A: Action>(
        &self,
        permit: &Permit<A>,
        operation: &Operation,
        evaluated: &EvaluatedChange,
    ) -> Result<()> {
        let EvaluatedChange { subject, revision, summary, .. } = evaluated;
        let action = evaluated.action;
        let write = Write::of_records(action, permit);
        let written = self.core.pipeline().commit(write, |t| async move {
            t.revise_policies(revision).await?;
            let entry = Entry {
                action,
                // Policies belong to no warehouse.
                warehouse: Uuid::nil(),
                subject: subject.0,
                name: &subject.1,
                versions: (Some(revision.number - 1), Some(revision.number)),
                decision: permit.decision(),
                resource: None,
            };
            Ok(((), self.core.pipeline().records(operation, Some(entry), &Body(summary.clone()))?))
        });
        written.await
    }

    /// After a failed write of a change, determines whether the policy log contains the change, and
    /// puts the content of the log in force. Retries until this succeeds or the store is closed. If
    /// the store is closed, the server stops, and reads the log at its next start.
    async fn settle(&self, evaluated: EvaluatedChange, error: Error) -> Result<Changed> {
        let (before, after) = (evaluated.before.book.number, evaluated.after.book.number);
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        loop {
            if self.core.store().check_open().is_err() {
                return Err(error);
            }
            match self.logged().await {
                Ok(number) if number == before => return Err(error),
                Ok(number) if number == after => return Ok(self.put_change_in_force(evaluated)),
                Ok(number) => {
                    tracing::error!(
                        number,
                        before,
                        "the policy log is ahead of the policies in force"
                    );
                    if self.reconcile_log().await.is_ok() {
                        return Err(error);
                    }
                }
                Err(unread) => tracing::warn!(?unread, "cannot read the policy log: retrying"),
            }
            backoff.wait().await;
        }
    }

    /// Waits until all accepted changes are durable, and returns the number of the newest revision.
    async fn logged(&self) -> Result<u64> {
        self.core.store().wait_durable().await?;
        let head = self.core.store().durable().get(&PolicyHeadKey).await?;
        Ok(head.map_or(0, |head| head.number))
    }

    /// Puts the content of the policy log in force.
    async fn reconcile_log(&self) -> Result<()> {
        let book = Arc::new(PolicySnapshot::read(&self.core.store().durable()).await?);
        let sources = Sources { book, ..self.state.sources() };
        let set = self.build_policy_set(sources.clone()).await?;
        self.state.put_in_force(&self.core.access, sources, set);
        Ok(())
    }
}
