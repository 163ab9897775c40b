//! A permission, as a value.

use std::marker::PhantomData;

use super::action::{Action, Maintain};

/// Proof that `A` was allowed. It has two births only: [`decide`](super::decide::decide), and
/// [`Permit::for_task`] for slateberg's own named background tasks.
#[derive(Debug)]
pub struct Permit<A: Action> {
    _action: PhantomData<A>,
}

impl<A: Action> Permit<A> {
    /// Only `decide` grants.
    pub(super) fn granted() -> Self {
        Self { _action: PhantomData }
    }

    /// The name of what is permitted.
    pub fn action(&self) -> &'static str {
        A::NAME
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
    /// Deletes the files of purged tables and metadata files that are no longer kept.
    FileDeletion,
    /// Forgets idempotency records whose time is over, and the oldest of the change log.
    Expiry,
    /// Remembers the refusal that an idempotency key was answered with.
    Idempotency,
}
