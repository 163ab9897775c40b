//! Group commit: the commits that wait for the lane of one table or view become one version. This
//! version has one record, one metadata file and one write to the write-ahead log.
//!
//! While a group is written, the next one forms. Its members are evaluated in the order of their
//! arrival. Each member is evaluated on the state after the previous member, and has its own
//! outcome. All members that commit get the final state of the group as the response, because only
//! this state has a metadata file. To a client, this response looks like the response to a load
//! after the commit.
//!
//! The first member leads the group: it waits for the lane and does the work for all.

use std::collections::HashMap;
use std::pin::pin;
use std::task::Poll;

use futures::poll;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Span, instrument};
use uuid::Uuid;

use super::append::Rebase;
use super::apply::apply;
use super::builder::CommitBuilder;
use super::change::{Change, CommitRequest};
use super::groups::{Member, Outcome};
use super::head::Head;
use super::metadata::TabularMetadata;
use super::state::{NewVersion, TabularState};
use crate::attributes::Enclosing;
use crate::maintenance_settings::MaintainedTables;
use crate::pipeline::Write;
use crate::pipeline::lanes::LaneGuard;
use crate::pipeline::response::{Body, TransactionResponse};
use crate::tabular::Tabulars;
use crate::{Error, RequestContext, Result, lookup};
use slateberg_authz::action::Commit;
use slateberg_authz::permit::Permit;
use slateberg_model::ident::TabularKind;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::txn::RequestRecords;
use slateberg_telemetry::commits::CommitPhase;
use slateberg_telemetry::traces::{self, TARGET};

/// The outcome of a member's commit, if the version of the group is written.
enum MemberOutcome {
    /// The commit changes the table or view.
    Changed(Permit<Commit>),
    /// The commit has no effect.
    Unchanged(Permit<Commit>),
    /// The name in the commit no longer refers to this table or view.
    Moved,
    /// The commit must be prepared again, because its rebase needs a file that does not exist yet.
    Postponed,
    /// The commit is rejected. `by_predecessor` is `true` if a change of an earlier member may be
    /// the reason.
    Refused { refusal: Error, by_predecessor: bool },
}

/// A group after the evaluation of its members.
struct EvaluatedGroup<M: TabularMetadata> {
    members: Vec<(Member<M>, MemberOutcome)>,
    /// The final state.
    state: TabularState,
    /// The version to write. `None` if no member has an effect.
    new: Option<NewVersion>,
}

impl MemberOutcome {
    /// Evaluates a commit. Permissions are checked first, so that a rejection discloses nothing to
    /// a principal that may not commit.
    async fn evaluate<M: Rebase>(
        builder: &mut CommitBuilder<'_, M>,
        member: &Member<M>,
        enclosing: &Enclosing,
    ) -> Self {
        let Member { cx, change, rebase, .. } = member;
        let by_predecessor = builder.has_changed();
        let refused = |refusal| Self::Refused { refusal, by_predecessor };
        match builder.permit(&cx.operation, change, enclosing) {
            Ok(permit) => match apply(builder, &cx.operation, change, rebase.as_deref()).await {
                Ok(Some(true)) => Self::Changed(permit),
                Ok(Some(false)) => Self::Unchanged(permit),
                Ok(None) => Self::Postponed,
                Err(refusal) => refused(refusal),
            },
            Err(refusal) => refused(refusal),
        }
    }

    /// Returns the permit of this member for the write of the group.
    fn permit(&self) -> Option<&Permit<Commit>> {
        match self {
            Self::Changed(permit) | Self::Unchanged(permit) => Some(permit),
            Self::Moved | Self::Postponed | Self::Refused { .. } => None,
        }
    }
}

impl Tabulars {
    /// Commits to the table or view `id` together with the other waiting commits.
    #[instrument(
        target = TARGET, name = "commit", level = "debug", skip_all,
        fields(slateberg.commit.group.size = Empty)
    )]
    pub(super) async fn commit_in_group<M: Rebase>(
        &self,
        cx: &RequestContext,
        id: Uuid,
        change: Change<M>,
        request: CommitRequest,
    ) -> Outcome {
        let arrived = Instant::now();
        let rebase = M::prepare_rebase(self, cx, id, &change, &request).await?;
        // `None` if the table does not rebase appends.
        let is_append = rebase.as_ref().map(|rebase| rebase.is_append());
        if is_append == Some(true) {
            self.turns.wait(id).await;
        }
        let read_ahead = async {
            if let Some(rebase) = &rebase {
                M::read_ahead(self, id, rebase).await;
            }
        };
        let (sender, receiver) = oneshot::channel();
        let member = Member {
            cx: cx.clone(),
            change,
            rebase: rebase.clone(),
            request,
            outcome: sender,
            span: Span::current(),
        };
        let outcome = if let Some(leader) = M::groups(&self.groups).join(id, member)? {
            let waiting = self.core.pipeline().phase(CommitPhase::Wait);
            let mut entering = pin!(self.core.pipeline().lanes.enter(vec![id]));
            let entered = match poll!(entering.as_mut()) {
                Poll::Ready(entered) => entered,
                // An earlier commit is still in the lane.
                Poll::Pending => tokio::join!(entering, read_ahead).0,
            };
            leader.wait_for_members().await;
            let members = leader.close();
            drop(waiting);
            self.core.pipeline().metrics.group(members.len());
            link(&members);
            match entered {
                Ok(lanes) => self.commit_group(&cx.warehouse, id, members, lanes).await,
                Err(error) => members.into_iter().for_each(|it| it.respond(Err(error.clone()))),
            }
            receiver.await
        } else {
            // The leader's commit changes the table first.
            let mut receiver = receiver;
            tokio::select! {
                biased;
                outcome = &mut receiver => outcome,
                () = read_ahead => receiver.await,
            }
        };
        if is_append == Some(false) {
            self.turns.end(id, cx.operation.principal.id(), arrived);
        }
        outcome.unwrap_or_else(|_| Err(Error::unknown("the leader of the group has failed")))
    }

    /// Evaluates and commits a group, and sends each member its outcome.
    async fn commit_group<M: Rebase>(
        &self,
        warehouse: &Warehouse,
        id: Uuid,
        members: Vec<Member<M>>,
        lanes: LaneGuard,
    ) {
        let evaluating = self.core.pipeline().phase(CommitPhase::Evaluate);
        let evaluated = self.evaluate(warehouse, id, members).await;
        drop(evaluating);
        let group = match evaluated {
            Ok(Some(group)) => group,
            Ok(None) => return,
            Err((members, error)) => {
                return members.into_iter().for_each(|it| it.respond(Err(error.clone())));
            }
        };
        let began = Instant::now();
        let committed = self.write_group(&group, lanes).await;
        M::groups(&self.groups).ended(id, group.members.len(), began);
        // Dropping the lanes lets the next group begin. The lanes are dropped after `ended`,
        // because the batching window of the next group depends on this group.
        let committed = committed.map(|lanes| lanes.is_some());
        if matches!(committed, Ok(true)) && M::KIND == TabularKind::Table && group.new.is_some() {
            self.count_commits(id, &group.members);
        }
        let outdates_files = group.new.as_ref().is_some_and(|new| !new.outdated.is_empty());
        if committed.is_ok() && outdates_files {
            self.jobs.announce_jobs();
        }
        for (member, outcome) in group.members {
            member.respond(match outcome {
                MemberOutcome::Changed(_) | MemberOutcome::Unchanged(_) => match &committed {
                    Ok(true) => Ok(Some(group.state.clone())),
                    Ok(false) => Ok(None),
                    Err(error) => Err(error.clone()),
                },
                MemberOutcome::Moved | MemberOutcome::Postponed => Ok(None),
                MemberOutcome::Refused { refusal, by_predecessor: false } => Err(refusal),
                MemberOutcome::Refused { refusal, by_predecessor: true } => match &committed {
                    Ok(true) => Err(refusal),
                    Ok(false) => Ok(None),
                    // The commit of the earlier members failed, or its outcome is unknown. So the
                    // rejection of this member may be wrong. In any case, nothing was written for
                    // this member.
                    Err(error) => Err(Error::unavailable(
                        "An earlier commit is still in progress",
                        error.clone(),
                    )),
                },
            });
        }
    }

    /// Counts the commits of a group for the maintenance of the table.
    fn count_commits<M: Rebase>(&self, id: Uuid, members: &[(Member<M>, MemberOutcome)]) {
        if self.core.settings().maintenance == MaintainedTables::Off {
            return;
        }
        let counts = |(member, outcome): &&(Member<M>, MemberOutcome)| {
            matches!(outcome, MemberOutcome::Changed(_))
                && !matches!(member.request, CommitRequest::Rewrite(_))
        };
        self.commit_counts.add(id, members.iter().filter(counts).count());
    }

    /// Evaluates the members in order. If the table or view does not exist, responds to all members
    /// and returns `None`.
    async fn evaluate<M: Rebase>(
        &self,
        warehouse: &Warehouse,
        id: Uuid,
        members: Vec<Member<M>>,
    ) -> std::result::Result<Option<EvaluatedGroup<M>>, (Vec<Member<M>>, Error)> {
        let (head, still_named) = match self.named_head(warehouse, id, &members).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                members.into_iter().for_each(|member| member.respond(Ok(None)));
                return Ok(None);
            }
            Err(error) => return Err((members, error)),
        };
        let mut builder = CommitBuilder::new(self, warehouse, &head);
        let mut evaluated = Vec::with_capacity(members.len());
        for (member, named) in members.into_iter().zip(still_named) {
            let outcome = match named {
                Some(enclosing) => MemberOutcome::evaluate(&mut builder, &member, &enclosing).await,
                None => MemberOutcome::Moved,
            };
            evaluated.push((member, outcome));
        }
        let (state, new) = builder.finish();
        Ok(Some(EvaluatedGroup { members: evaluated, state, new }))
    }

    /// Returns the state of the table or view. If the name of a member still refers to this table
    /// or view, also returns the attributes of the enclosing namespaces for this member.
    async fn named_head<M: Rebase>(
        &self,
        warehouse: &Warehouse,
        id: Uuid,
        members: &[Member<M>],
    ) -> Result<Option<(Head<M>, Vec<Option<Enclosing>>)>> {
        let store = self.core.store().latest();
        let Some(head) = self.core.environment.head(&store, id).await? else { return Ok(None) };
        let mut known = HashMap::new();
        let mut named = Vec::with_capacity(members.len());
        for member in members {
            let ident = &member.change.ident;
            let leads_here = match known.get(ident) {
                Some(leads_here) => *leads_here,
                None => {
                    let found = lookup::tabular_id(&store, warehouse.id, M::KIND, ident).await?;
                    known.insert(ident, found == Some(id));
                    found == Some(id)
                }
            };
            let (cx, namespace) = (&member.cx, &ident.namespace);
            named.push(if leads_here {
                Some(self.core.access.enclosing_of_commit(&store, cx, namespace).await?)
            } else {
                None
            });
        }
        Ok(Some((head, named)))
    }

    /// Commits the version of a group in one transaction and returns the lanes. Returns `None` if
    /// another request has changed the table or view since the evaluation.
    async fn write_group<M: Rebase>(
        &self,
        group: &EvaluatedGroup<M>,
        lanes: LaneGuard,
    ) -> Result<Option<LaneGuard>> {
        let permitted =
            group.members.iter().find_map(|(member, it)| it.permit().map(|it| (member, it)));
        let Some((first, permit)) = permitted else { return Ok(Some(lanes)) };
        let new = group.new.as_ref();
        let write = Write {
            action: M::ACTIONS.commit,
            permit,
            lanes,
            versions: new.iter().map(|new| new.file()).collect(),
        };
        let committed = self.core.pipeline().commit_if_current(write, |t| async move {
            if let Some(new) = new
                && !self.write_version(&t, &first.change.ident, new).await?
            {
                return Ok(None);
            }
            Ok(Some(((), self.records_of_group(group)?)))
        });
        Ok(committed.await?.map(|committed| committed.lanes))
    }

    fn records_of_group<M: Rebase>(&self, group: &EvaluatedGroup<M>) -> Result<RequestRecords> {
        let EvaluatedGroup { members, state, new } = group;
        let permitted = members.iter().filter(|(_, outcome)| outcome.permit().is_some());
        let mut records = permitted.map(|(member, outcome)| {
            let Member { cx, change, request, .. } = member;
            let entry = match (outcome, new) {
                (MemberOutcome::Changed(permit), Some(new)) => {
                    let updates = M::summarize(&change.updates);
                    Some(new.entry(request.action::<M>(), &change.ident, permit, updates))
                }
                _ => None,
            };
            let pipeline = self.core.pipeline();
            match request {
                CommitRequest::Single => pipeline.records(&cx.operation, entry, state),
                CommitRequest::Rewrite(rewrite) => {
                    pipeline.records(&cx.operation, entry, &Body(rewrite.response.clone()))
                }
                CommitRequest::Transaction => {
                    let publications = new.iter().map(NewVersion::key).collect();
                    pipeline.records(&cx.operation, entry, &TransactionResponse { publications })
                }
            }
        });
        let first =
            records.next().unwrap_or_else(|| Err(Error::internal("a group without members")));
        Ok(RequestRecords::of_group(first?, records.collect::<Result<Vec<_>>>()?))
    }
}

/// Links the current span (the leader's) to the sampled spans of the other members.
fn link<M: TabularMetadata>(members: &[Member<M>]) {
    let leader = Span::current();
    traces::link(&leader, members.iter().map(|member| &member.span));
    leader.record("slateberg.commit.group.size", i64::try_from(members.len()).unwrap_or(i64::MAX));
}
