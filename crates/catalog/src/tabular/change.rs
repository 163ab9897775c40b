//! [`Change`]: a request's commit to one table or view.

use std::sync::Arc;

use super::metadata::TabularMetadata;
use super::rewrite::current::RewrittenManifests;
use super::target::Intent;
use slateberg_model::ident::TabularIdent;
use slateberg_store::keys::AbandonedKey;
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
#[derive(Debug, Clone)]
pub(crate) enum CommitRequest {
    /// A commit to one table or view. The response contains its state.
    Single,
    /// A transaction that contains a commit to only one table. The response has no content.
    Transaction,
    /// A rewrite of manifests, whose commit the server has created.
    Rewrite(Arc<CommittedRewrite>),
}

/// A rewrite of manifests that is ready to be committed.
#[derive(Debug)]
pub(crate) struct CommittedRewrite {
    /// The response to the request.
    pub(super) response: RewrittenManifests,
    /// The records of the new files. The commit uses these files, so it removes the records.
    pub(super) records: Vec<AbandonedKey>,
}

impl CommitRequest {
    /// Returns the name of the transaction in the change log, logs and metrics.
    pub(super) fn action<M: TabularMetadata>(&self) -> ChangeAction {
        match self {
            Self::Single => M::ACTIONS.commit,
            Self::Transaction => TRANSACTION,
            Self::Rewrite(_) => ChangeAction::RewriteManifests,
        }
    }
}
