//! [`Permit`]: a permission as a value.

use std::marker::PhantomData;
use std::sync::Arc;

use super::action::{Action, Commit, Create, Maintain, ManageJobs, Purge};
use super::decide::Decision;

/// Proof that `A` was allowed. Only the [`Authority`](super::authority::Authority) and
/// [`Permit::for_task`] create permits.
#[derive(Debug)]
pub struct Permit<A: Action> {
    decision: Option<Arc<Decision>>,
    _action: PhantomData<A>,
}

impl<A: Action> Permit<A> {
    /// Creates a permit without a decision, because authentication is off.
    pub(super) fn granted() -> Self {
        Self { decision: None, _action: PhantomData }
    }

    /// Creates the permit of a decision that allows the action.
    pub(super) fn by(decision: Arc<Decision>) -> Self {
        Self { decision: Some(decision), _action: PhantomData }
    }

    /// The decision for this permit. `None` if no policy was evaluated.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_deref()
    }

    /// Name of the action.
    pub fn action(&self) -> &'static str {
        A::NAME
    }
}

impl From<Permit<Create>> for Permit<Commit> {
    /// A commit that creates a table requires only the permit for `Create`.
    fn from(create: Permit<Create>) -> Self {
        Self { decision: create.decision, _action: PhantomData }
    }
}

impl From<Permit<Purge>> for Permit<ManageJobs> {
    /// A principal that may delete the files of a table may also manage the jobs that delete them.
    fn from(purge: Permit<Purge>) -> Self {
        Self { decision: purge.decision, _action: PhantomData }
    }
}

impl Permit<Maintain> {
    /// Creates the permit of a background task.
    pub fn for_task(_task: Task) -> Self {
        Self::granted()
    }
}

/// Background tasks that may change records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Writes the configured warehouses and the format version to the store when it is opened.
    Open,
    /// Completes publications after a crash, and removes completed ones.
    Publication,
    /// Runs jobs that delete files.
    Jobs,
    /// Stores the positions of webhooks, and suspends webhooks that cannot continue.
    Webhooks,
    /// Removes expired idempotency records, and the oldest entries of the change log.
    Expiry,
    /// Creates, deletes and restores checkpoints while no server runs.
    Restore,
    /// Completes a clone of another catalog.
    Clone,
    /// Imports an export into an empty catalog while no server runs.
    Import,
    /// Writes the counts of the uses of tables and views.
    Usage,
    /// Writes the metrics reports of clients.
    MetricsReports,
    /// Records a rejection for its `Idempotency-Key`.
    Idempotency,
}
