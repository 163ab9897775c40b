//! [`CommitGroups`]: for each table and view, the group of commits that is still open to new
//! members.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;
use uuid::Uuid;

use super::append::prepared::PreparedRebase;
use super::change::{Change, CommitRequest};
use super::metadata::TabularMetadata;
use super::state::TabularState;
use crate::{Error, RequestContext, Result};
use slateberg_base::batch_window::BatchWindow;
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_telemetry::collection::Collection;

/// Once this many tables are tracked, stale batching statistics are removed.
const SWEEP_AT: usize = 1024;

/// The outcome of a member's commit: the state after the commit. `None` if the table or view was
/// renamed or dropped after the member looked it up. The member must then look up the name again.
pub(super) type Outcome = Result<Option<TabularState>>;

/// A commit that waits for its turn in the lane (commit queue) of its table or view.
pub(super) struct Member<M: TabularMetadata> {
    pub(super) cx: RequestContext,
    pub(super) change: Change<M>,
    /// The rebase of the commit, if the server may rebase it.
    pub(super) rebase: Option<Arc<PreparedRebase>>,
    pub(super) request: CommitRequest,
    pub(super) outcome: oneshot::Sender<Outcome>,
    /// The span of this commit, which the span of the leader links to.
    pub(super) span: Span,
}

/// The groups that still accept members, by the id of the table or view.
pub(crate) struct Groups<M: TabularMetadata> {
    forming: Mutex<HashMap<Uuid, FormingGroup<M>>>,
    members_max: usize,
}

/// The groups of all tables and views.
pub(crate) struct CommitGroups {
    tables: Groups<TableMetadata>,
    views: Groups<ViewMetadata>,
}

/// Implemented for tables and for views, whose commits form groups.
pub(crate) trait Grouped: TabularMetadata {
    /// Returns the groups of all tables, or of all views.
    fn groups(all: &CommitGroups) -> &Groups<Self>;
}

impl Grouped for TableMetadata {
    fn groups(all: &CommitGroups) -> &Groups<Self> {
        &all.tables
    }
}

impl Grouped for ViewMetadata {
    fn groups(all: &CommitGroups) -> &Groups<Self> {
        &all.views
    }
}

impl CommitGroups {
    /// Creates groups of at most `members_max` members.
    pub(crate) fn new(members_max: usize) -> Self {
        Self { tables: Groups::new(members_max), views: Groups::new(members_max) }
    }

    /// Collects the metrics of waiting commits.
    pub(crate) fn collect(&self, into: &mut Collection) {
        let (tables, views) = (self.tables.depth(), self.views.depth());
        let help = "Commits that wait for the commits before them.";
        let all = (tables.0 + views.0) as f64;
        into.gauge("slateberg.commit.waiting", "{commit}", help, Vec::new(), all);
        let help = "Maximum number of commits that wait for the same table.";
        let most = tables.1.max(views.1) as f64;
        into.gauge("slateberg.commit.lane.depth", "{commit}", help, Vec::new(), most);
    }
}

/// A group that still accepts members, and its batching window, which depends on earlier groups.
struct FormingGroup<M: TabularMetadata> {
    members: Vec<Member<M>>,
    pace: BatchWindow,
}

/// The leadership of a forming group. If the guard is dropped before [`close`](Self::close), the
/// commits of all members fail.
pub(super) struct LeaderGuard<'a, M: TabularMetadata> {
    groups: &'a Groups<M>,
    id: Uuid,
    closed: bool,
}

impl<M: TabularMetadata> Default for FormingGroup<M> {
    fn default() -> Self {
        Self { members: Vec::new(), pace: BatchWindow::default() }
    }
}

impl<M: TabularMetadata> Groups<M> {
    fn new(members_max: usize) -> Self {
        Self { forming: Mutex::default(), members_max }
    }

    /// Joins the forming group of a table or view. The first member becomes the leader and gets the
    /// guard. All other members get `None`.
    pub(super) fn join(&self, id: Uuid, member: Member<M>) -> Result<Option<LeaderGuard<'_, M>>> {
        let mut forming = self.forming();
        if forming.len() >= SWEEP_AT {
            forming.retain(|_, group| !group.members.is_empty() || group.pace.is_fresh());
        }
        let members = &mut forming.entry(id).or_default().members;
        if members.len() >= self.members_max {
            return Err(Error::unavailable("Too many changes wait already", "lane is full"));
        }
        members.push(member);
        let leads = members.len() == 1;
        Ok(leads.then(|| LeaderGuard { groups: self, id, closed: false }))
    }

    /// Records how long the commit of a group took. This determines how long the next group waits
    /// for members.
    pub(super) fn ended(&self, id: Uuid, members: usize, began: Instant) {
        if let Some(group) = self.forming().get_mut(&id) {
            group.pace.ended(members, group.members.len(), began.elapsed());
        }
    }

    fn take(&self, id: Uuid) -> Vec<Member<M>> {
        let mut forming = self.forming();
        forming.get_mut(&id).map(|group| std::mem::take(&mut group.members)).unwrap_or_default()
    }

    fn waiting(&self, id: Uuid) -> usize {
        self.forming().get(&id).map_or(0, |group| group.members.len())
    }

    /// Returns the total number of waiting commits, and the maximum number for one table or view.
    fn depth(&self) -> (usize, usize) {
        let forming = self.forming();
        let depths = forming.values().map(|group| group.members.len());
        (depths.clone().sum(), depths.max().unwrap_or(0))
    }

    fn forming(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, FormingGroup<M>>> {
        self.forming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: TabularMetadata> LeaderGuard<'_, M> {
    /// Waits for further members during the [`BatchWindow`].
    pub(super) async fn wait_for_members(&self) {
        let pace = self.groups.forming().get(&self.id).map(|group| group.pace).unwrap_or_default();
        pace.wait_for_members_to_join(|| self.groups.waiting(self.id)).await;
    }

    /// Closes the group and returns its members. Later commits form the next group.
    pub(super) fn close(mut self) -> Vec<Member<M>> {
        self.closed = true;
        self.groups.take(self.id)
    }
}

impl<M: TabularMetadata> Drop for LeaderGuard<'_, M> {
    fn drop(&mut self) {
        // The leader failed before it closed the group. Dropping the senders makes the commits of
        // the members fail.
        if !self.closed {
            drop(self.groups.take(self.id));
        }
    }
}

impl<M: TabularMetadata> Member<M> {
    pub(super) fn respond(self, outcome: Outcome) {
        // The receiver may have been dropped. The commit is valid nevertheless.
        let _gone = self.outcome.send(outcome);
    }
}
