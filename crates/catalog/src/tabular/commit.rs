//! Commits to one table or view.
//!
//! A commit is evaluated against the accepted state. It is then written in a serializable
//! transaction that verifies that this state is unchanged. For existing tables and views, the lane
//! already guarantees that the state is unchanged. For new tables and views, the transaction
//! decides which of two requests for the same name succeeds.

use uuid::Uuid;

use super::append::Rebase;
use super::change::{Change, CommitRequest};
use super::metadata::TabularMetadata;
use super::state::TabularState;
use super::target::{Creation, Target};
use crate::tabular::Tabulars;
use crate::usage::counters::Use;
use crate::{Error, RequestContext, Result, lookup};
use slateberg_authz::action::{Commit, Create};
use slateberg_authz::authority::Decider;
use slateberg_authz::permit::Permit;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::warehouse::Warehouse;

/// Maximum number of evaluations of a commit whose base state keeps changing.
pub(super) const COMMIT_ATTEMPTS_MAX: usize = 16;

impl Tabulars {
    /// Changes a table or view, or creates it if the commit requires that it does not exist.
    pub(crate) async fn commit_tabular<M: Rebase>(
        &self,
        cx: &RequestContext,
        change: Change<M>,
    ) -> Result<TabularState> {
        let commit = |tabulars: Self, cx: RequestContext| async move {
            tabulars.commit_one(&cx, &change, CommitRequest::Single).await
        };
        let state = self.core.commit(M::ACTIONS.commit, self, cx, commit).await?;
        self.core.count_use(state.id, Use::Commit, &cx.operation);
        Ok(state)
    }

    /// Commits a change of one table or view. Evaluates it again on conflicts with other changes.
    pub(super) async fn commit_one<M: Rebase>(
        &self,
        cx: &RequestContext,
        change: &Change<M>,
        request: CommitRequest,
    ) -> Result<TabularState> {
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let permit = self.permit_change(cx, change).await?;
            let Some(id) = self.id_of(&cx.warehouse, change).await? else {
                let new = self.plan_new(cx, change.clone()).await?;
                let named = (M::ACTIONS.commit, &change.ident);
                return self.commit_new(&cx.operation, &permit, named, &new).await;
            };
            let change = change.clone();
            let committed = self.commit_in_group(cx, id, change, request.clone());
            if let Some(state) = committed.await? {
                return Ok(state);
            }
        }
        Err(too_many_conflicts(M::KIND, &change.ident))
    }

    /// Returns the permit to commit to a table or view in its current state, or to create it.
    pub(super) async fn permit_change<M: TabularMetadata>(
        &self,
        cx: &RequestContext,
        change: &Change<M>,
    ) -> Result<Permit<Commit>> {
        let (kind, ident) = (M::KIND, &change.ident);
        if change.creates() {
            self.core.environment.check_name(ident)?;
        } else {
            self.core.environment.check_findable(kind, ident)?;
        }
        if let Decider::Unrestricted(unrestricted) = self.core.access.ask(&cx.operation)? {
            return Ok(unrestricted.permit());
        }
        if change.creates() {
            let (properties, location) = M::attributes_of_new(&change.updates);
            let creation = Creation { kind, ident, properties: &properties, location };
            let create: Permit<Create> = self.core.access.permit_creation(cx, creation).await?;
            return Ok(create.into());
        }
        let store = self.core.store().latest();
        let head = match lookup::tabular_id(&store, cx.warehouse.id, kind, ident).await? {
            Some(id) => self.core.environment.head::<M>(&store, id).await?,
            None => None,
        };
        let kinds = M::commit_kinds(&change.updates, head.as_ref().map(|head| &*head.metadata));
        let target = Target { warehouse: &cx.warehouse, kind, ident };
        self.core.access.permit_commit(&store, &cx.operation, target, &kinds).await
    }

    /// Returns the id of the table or view of a commit. `None` if the commit creates it.
    pub(super) async fn id_of<M: TabularMetadata>(
        &self,
        warehouse: &Warehouse,
        change: &Change<M>,
    ) -> Result<Option<Uuid>> {
        let ident = &change.ident;
        let store = self.core.store().latest();
        let id = lookup::tabular_id(&store, warehouse.id, M::KIND, ident).await?;
        if id.is_none() && !change.creates() {
            return Err(Error::no_such(M::KIND, ident));
        }
        Ok(id)
    }
}

/// Returns the error for a change that was evaluated [`COMMIT_ATTEMPTS_MAX`] times in vain.
pub(super) fn too_many_conflicts(kind: TabularKind, ident: &TabularIdent) -> Error {
    let kind = kind.name();
    Error::unavailable(
        &format!(
            "Gave up after repeated conflicts: the {kind} is changed concurrently. Retry later"
        ),
        brief(ident),
    )
}
