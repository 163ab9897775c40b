//! [`Change`]: a request's commit to one table or view.

use super::metadata::TabularMetadata;
use super::target::Intent;
use slateberg_model::ident::TabularIdent;
use slateberg_store::records::ChangeAction;

/// The name of transactions over several tables, in the change log, logs and metrics.
pub(super) const TRANSACTION: ChangeAction = ChangeAction::CommitTransaction;

/// A commit to one table or view.
#[derive(Debug, Clone)]
pub struct Change<M: TabularMetadata> {
    /// The name of the table or view.
    pub ident: TabularIdent,
    /// Conditions on the current state of the table or view.
    pub requirements: Vec<M::Requirement>,
    /// Changes to the table or view, in order.
    pub updates: Vec<M::Update>,
    /// Whether the client declared that its appends do not depend on the state of their tables
    /// (`Slateberg-Blind-Append`).
    pub blind_append: bool,
}

impl<M: TabularMetadata> Change<M> {
    pub(super) fn creates(&self) -> bool {
        M::creates(&self.requirements)
    }

    /// Returns the intent of the commit for a table or view in the state `current`.
    pub(super) fn intent(&self, current: &M) -> Intent {
        if self.creates() {
            Intent::Create
        } else {
            Intent::Change(M::commit_kinds(&self.updates, Some(current)))
        }
    }
}

/// The request that a commit belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitRequest {
    /// A commit to one table or view. The response contains its state.
    Single,
    /// A transaction that contains a commit to only one table. The response has no content.
    Transaction,
}

impl CommitRequest {
    /// Returns the name of the transaction in the change log, logs and metrics.
    pub(super) fn action<M: TabularMetadata>(self) -> ChangeAction {
        match self {
            Self::Single => M::ACTIONS.commit,
            Self::Transaction => TRANSACTION,
        }
    }
}
