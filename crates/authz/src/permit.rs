//! A permission, as a value.

use std::marker::PhantomData;
use std::sync::Arc;

use super::action::{Action, Commit, Create, Maintain, ManageJobs, Purge};
use super::decide::Decision;

/// Proof that `A` was allowed. It has two births only: the [`Authority`](super::authority::Authority), and
/// [`Permit::for_task`] for slateberg's own named background tasks.
#[derive(Debug)]
pub struct Permit<A: Action> {
    decision: Option<Arc<Decision>>,
    _action: PhantomData<A>,
}

impl<A: Action> Permit<A> {
    /// Without a decision, because policies say nothing of whoever asks.
    pub(super) fn granted() -> Self {
        Self { decision: None, _action: PhantomData }
    }

    /// By a decision.
    pub(super) fn by(decision: Arc<Decision>) -> Self {
        Self { decision: Some(decision), _action: PhantomData }
    }

    /// The decision that it stands on; none where policies were not asked.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_deref()
    }

    /// The name of what is permitted.
    pub fn action(&self) -> &'static str {
        A::NAME
    }
}

impl From<Permit<Create>> for Permit<Commit> {
    /// A commit that makes its table needs no other permit.
    fn from(create: Permit<Create>) -> Self {
        Self { decision: create.decision, _action: PhantomData }
    }
}

impl From<Permit<Purge>> for Permit<ManageJobs> {
    /// Whoever may delete the files of a table manages the jobs that do it.
    fn from(purge: Permit<Purge>) -> Self {
        Self { decision: purge.decision, _action: PhantomData }
    }
}

impl Permit<Maintain> {
    /// The permit of a background task, which acts for nobody's request.
    pub fn for_task(_task: Task) -> Self {
        Self::granted()
    }
}

/// The background tasks that may change records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Brings the configured warehouses and the format version into the store on open.
    Open,
    /// Finishes publications that a crash left, and forgets those that have landed.
    Publication,
    /// Runs the jobs that delete files.
    Jobs,
    /// Forgets idempotency records whose time is over, and the oldest of the change log.
    Expiry,
    /// Makes and deletes checkpoints, and goes back to them, while no server runs.
    Restore,
    /// Makes a catalog of its own of the clone of another one.
    Clone,
    /// Brings an export into an empty catalog, while no server runs.
    Import,
    /// Remembers the refusal that an idempotency key was answered with.
    Idempotency,
}
