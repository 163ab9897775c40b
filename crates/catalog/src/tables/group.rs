//! Group commit on one table: what waits for its lane becomes one version, with one record, one metadata
//! file and one entry of the log.
//!
//! While a group is on its way, the next one gathers. Its members are judged in the order in which they
//! came, each on the state that the one before it left, and each gets its own verdict. Those that commit
//! are all answered the state that the group ends with, the only one that has a metadata file: it is as
//! if each had loaded the table behind its commit.
//!
//! The first to come leads the group: it waits for the lane, and does the work for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::commit::TableChange;
use super::head::Head;
use super::judging::Judging;
use crate::attributes::Enclosing;
use crate::change_log::Entry;
use crate::lanes::Entered;
use crate::mutation::Answer;
use crate::publications::Landing;
use crate::tabulars::{NewVersion, TabularState, metadata_file, outcome_of};
use crate::version_cache::Cached;
use crate::{Catalog, Error, Operation, Result, lookup};
use slateberg_authz::action::Commit;
use slateberg_authz::permit::Permit;
use slateberg_base::pace::Pace;
use slateberg_model::ident::TabularKind;
use slateberg_model::table::TableMetadata;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::keys::PublicationKey;
use slateberg_store::records::{Outcome, TabularRecord};
use slateberg_telemetry::collection::Collection;
use slateberg_telemetry::commits::Phase;
use slateberg_telemetry::traces::{Span, Trace};

/// The transaction's name.
const ACTION: &str = "commit_table";
/// Past this many tables, the pace of those whose last group tells nothing any more is forgotten.
const SWEEP_AT: usize = 1024;

/// How a member's commit ended; none if the table has another name by now, and has to be looked up again.
type Verdict = Result<Option<Answer>>;

/// A commit that waits for its table's lane.
struct Member {
    operation: Operation,
    change: TableChange,
    verdict: oneshot::Sender<Verdict>,
}

/// The groups that gather, by table.
pub struct Groups {
    tables: Mutex<HashMap<Uuid, Gathering>>,
    members_max: usize,
}

/// What waits for one table, and how its last group went.
#[derive(Default)]
struct Gathering {
    members: Vec<Member>,
    pace: Pace,
}

/// Leadership of a group that gathers. Dropping it without taking the members turns them away.
struct Leadership<'a> {
    groups: &'a Groups,
    id: Uuid,
    began: bool,
}

/// What a member's commit comes to, if what the group writes lands.
enum Judgement {
    /// It changes the table.
    Changed(Permit<Commit>),
    /// The table is already as it wants it.
    Same(Permit<Commit>),
    /// The table has another name by now.
    Moved,
    /// It is refused; `by_predecessor` says whether a member of its group made it so.
    Refused { refusal: Error, by_predecessor: bool },
}

/// A group, judged.
struct Judged {
    /// Each member with what its commit comes to.
    members: Vec<(Member, Judgement)>,
    /// The table as it was.
    before: TabularRecord,
    /// The state that the group ends with.
    state: TabularState,
    /// What has to be written for it, if anything changed.
    new: Option<NewVersion>,
    metadata: Arc<TableMetadata>,
}

impl Judgement {
    /// Whether it is permitted comes first, so that a refusal tells nothing to whoever may not commit.
    async fn of(judging: &mut Judging<'_>, member: &Member, enclosing: &Enclosing) -> Self {
        let Member { operation, change, .. } = member;
        let permit = judging.permit(operation, change, enclosing);
        let judged = match permit {
            Ok(permit) => judging.apply(change).await.map(|changed| (permit, changed)),
            Err(refused) => Err(refused),
        };
        match judged {
            Ok((permit, true)) => Self::Changed(permit),
            Ok((permit, false)) => Self::Same(permit),
            Err(refusal) => Self::Refused { refusal, by_predecessor: judging.has_changed() },
        }
    }

    /// The permit of what the group writes for a member.
    fn settled(&self) -> Option<&Permit<Commit>> {
        match self {
            Self::Changed(permit) | Self::Same(permit) => Some(permit),
            Self::Moved | Self::Refused { .. } => None,
        }
    }
}

impl Groups {
    /// Groups of at most so many members.
    pub fn new(members_max: usize) -> Self {
        Self { tables: Mutex::default(), members_max }
    }

    /// Joins the group that gathers for a table. The first to come leads it.
    fn join(&self, id: Uuid, member: Member) -> Result<Option<Leadership<'_>>> {
        let mut tables = self.tables();
        if tables.len() >= SWEEP_AT {
            tables.retain(|_, table| !table.members.is_empty() || table.pace.is_fresh());
        }
        let members = &mut tables.entry(id).or_default().members;
        if members.len() >= self.members_max {
            return Err(Error::unavailable("Too many changes wait already", "lane is full"));
        }
        members.push(member);
        let leads = members.len() == 1;
        Ok(leads.then(|| Leadership { groups: self, id, began: false }))
    }

    /// Takes note of how long a group took that has just ended.
    fn ended(&self, id: Uuid, members: usize, began: Instant) {
        if let Some(table) = self.tables().get_mut(&id) {
            table.pace.ended(members, table.members.len(), began);
        }
    }

    fn take(&self, id: Uuid) -> Vec<Member> {
        let mut tables = self.tables();
        tables.get_mut(&id).map(|table| std::mem::take(&mut table.members)).unwrap_or_default()
    }

    fn waiting(&self, id: Uuid) -> usize {
        self.tables().get(&id).map_or(0, |table| table.members.len())
    }

    /// Tells how many commits wait.
    pub fn collect(&self, into: &mut Collection) {
        let (mut all, mut most) = (0, 0);
        for table in self.tables().values() {
            all += table.members.len();
            most = most.max(table.members.len());
        }
        let help = "Commits that wait for the commits before them.";
        into.gauge("slateberg.commit.waiting", "{commit}", help, Vec::new(), all as f64);
        let help = "The most commits that wait for one table.";
        into.gauge("slateberg.commit.lane.depth", "{commit}", help, Vec::new(), most as f64);
    }

    fn tables(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Gathering>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leadership<'_> {
    /// Waits for others, as long as it is worth while.
    async fn let_others_join(&self) {
        let pace = self.groups.tables().get(&self.id).map(|table| table.pace).unwrap_or_default();
        pace.let_others_join(|| self.groups.waiting(self.id)).await;
    }

    /// Ends the gathering. Who comes now begins the next group.
    fn begin(mut self) -> Vec<Member> {
        self.began = true;
        self.groups.take(self.id)
    }
}

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        // A leader that failed before it began tells its members by the loss of their senders.
        if !self.began {
            drop(self.groups.take(self.id));
        }
    }
}

impl Member {
    fn tell(self, verdict: Verdict) {
        // Whoever asked may have gone away: the commit stands all the same.
        let _gone = self.verdict.send(verdict);
    }
}

impl Catalog {
    /// Commits to the table `id` together with whatever else waits for it.
    pub(super) async fn commit_in_group(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        id: Uuid,
        change: TableChange,
    ) -> Verdict {
        let (verdict, told) = oneshot::channel();
        let mut span = operation.trace.span("commit");
        let operation = Operation { trace: span.trace(), ..operation.clone() };
        let trace = operation.trace.clone();
        let member = Member { operation, change, verdict };
        if let Some(leadership) = self.inner.groups.join(id, member)? {
            let waiting = self.phase(&trace, Phase::Wait);
            let entered = self.inner.lanes.enter(vec![id]).await;
            leadership.let_others_join().await;
            let members = leadership.begin();
            drop(waiting);
            self.inner.commits.group(members.len());
            link(&mut span, &members);
            match entered {
                Ok(lanes) => self.commit_group(warehouse, id, members, lanes, &trace).await,
                Err(error) => members.into_iter().for_each(|it| it.tell(Err(error.clone()))),
            }
        }
        let verdict = told.await;
        verdict.unwrap_or_else(|_| Err(Error::unknown("the leader of the group has failed")))
    }

    /// Judges, writes and lands a group, and tells each member how its commit ended.
    async fn commit_group(
        &self,
        warehouse: &Warehouse,
        id: Uuid,
        members: Vec<Member>,
        lanes: Entered,
        trace: &Trace,
    ) {
        let judging = self.phase(trace, Phase::Judge);
        let judged = self.judge(warehouse, id, members).await;
        drop(judging);
        let judged = match judged {
            Ok(Some(judged)) => judged,
            Ok(None) => return,
            Err((members, error)) => {
                return members.into_iter().for_each(|it| it.tell(Err(error.clone())));
            }
        };
        let began = Instant::now();
        let landed = self.write_group(&judged, lanes, trace).await;
        self.inner.groups.ended(id, judged.members.len(), began);
        // Only now may the next group set out, which goes by this one's pace.
        let landed = landed.map(|lanes| lanes.is_some());
        let outdates_files = judged.new.as_ref().is_some_and(|new| !new.outdated.is_empty());
        if landed.is_ok() && outdates_files {
            self.inner.jobs.announce();
        }
        for (member, judgement) in judged.members {
            member.tell(match judgement {
                Judgement::Changed(_) | Judgement::Same(_) => match &landed {
                    Ok(true) => Ok(Some(Answer::Tabular(judged.state.clone()))),
                    Ok(false) => Ok(None),
                    Err(error) => Err(error.clone()),
                },
                Judgement::Moved => Ok(None),
                Judgement::Refused { refusal, by_predecessor: false } => Err(refusal),
                Judgement::Refused { refusal, by_predecessor: true } => match &landed {
                    Ok(true) => Err(refusal),
                    Ok(false) => Ok(None),
                    // Whether the refusal is true is not known; that nothing was written for it is.
                    Err(error) => Err(Error::unavailable("An earlier commit has not ended", error)),
                },
            });
        }
    }

    /// Judges the members one after the other. None if the table is gone: then all are told so.
    async fn judge(
        &self,
        warehouse: &Warehouse,
        id: Uuid,
        members: Vec<Member>,
    ) -> std::result::Result<Option<Judged>, (Vec<Member>, Error)> {
        let (head, still_named) = match self.named_head(warehouse, id, &members).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                members.into_iter().for_each(|member| member.tell(Ok(None)));
                return Ok(None);
            }
            Err(error) => return Err((members, error)),
        };
        let mut judging = Judging::new(self, warehouse, &head);
        let mut judged = Vec::with_capacity(members.len());
        for (member, named) in members.into_iter().zip(still_named) {
            let judgement = match named {
                Some(enclosing) => Judgement::of(&mut judging, &member, &enclosing).await,
                None => Judgement::Moved,
            };
            judged.push((member, judgement));
        }
        let (state, new, metadata) = judging.finish();
        Ok(Some(Judged { members: judged, before: head.record, state, new, metadata }))
    }

    /// The table's state, and for each member what is known of the namespaces that it is in, if the name that
    /// it used still leads there.
    async fn named_head(
        &self,
        warehouse: &Warehouse,
        id: Uuid,
        members: &[Member],
    ) -> Result<Option<(Head, Vec<Option<Enclosing>>)>> {
        let store = self.store().latest();
        let Some(head) = self.head(&store, id).await? else { return Ok(None) };
        let mut known = HashMap::new();
        let mut named = Vec::with_capacity(members.len());
        for member in members {
            let ident = &member.change.ident;
            let leads_here = match known.get(ident) {
                Some(leads_here) => *leads_here,
                None => {
                    let kind = TabularKind::Table;
                    let found = lookup::tabular_id(&store, warehouse.id, kind, ident).await?;
                    known.insert(ident, found == Some(id));
                    found == Some(id)
                }
            };
            named.push(match leads_here {
                true => {
                    let (operation, namespace) = (&member.operation, &ident.namespace);
                    Some(self.enclosing_of_commit(&store, operation, warehouse, namespace).await?)
                }
                false => None,
            });
        }
        Ok(Some((head, named)))
    }

    /// Writes what a group comes to, in one transaction, and lands it. None if the table has changed since
    /// the group was judged.
    async fn write_group(
        &self,
        judged: &Judged,
        lanes: Entered,
        trace: &Trace,
    ) -> Result<Option<Entered>> {
        let Some(permit) = judged.members.iter().find_map(|(_, it)| it.settled()) else {
            return Ok(Some(lanes));
        };
        let new = judged.new.as_ref();
        let key =
            |new: &NewVersion| PublicationKey { id: new.after.id, version: new.after.version };
        let flight = self.inner.flights.register(new.map(key).into_iter().collect());
        let catalog = self;
        let applying = self.phase(trace, Phase::Apply);
        let (written, accepted) = self
            .store()
            .transact(ACTION, permit, |t| async move {
                if let Some(new) = new
                    && !catalog.write_version(&t, new).await?
                {
                    return Ok(false);
                }
                for (member, judgement) in &judged.members {
                    if let Judgement::Changed(permit) = judgement {
                        let entry = judged.entry(member, permit);
                        catalog.log_change(&t, &member.operation, &entry)?;
                    }
                    if judgement.settled().is_some() {
                        catalog.remember(&t, &member.operation, judged.outcome())?;
                    }
                }
                Ok::<_, Error>(true)
            })
            .await?;
        drop(applying);
        if !written {
            return Ok(None);
        }
        if let Some(new) = new {
            let key = (new.after.id, new.after.version);
            let metadata = Some(Arc::clone(&judged.metadata));
            self.inner.versions.keep(key, Cached { text: new.text.clone(), metadata });
        }
        let files = new.iter().map(|new| metadata_file(&new.after, &new.text)).collect();
        let trace = trace.clone();
        self.land(Landing { accepted, files, flight, lanes, trace }).await.map(Some)
    }
}

/// Links the leader's span with those of the members that it commits for, as far as they are kept.
fn link(span: &mut Span, members: &[Member]) {
    let own = span.trace().ids();
    for member in members.iter().filter(|member| member.operation.trace.ids() != own) {
        span.link(&member.operation.trace);
    }
    span.set("slateberg.commit.group.size", || members.len());
}

impl Judged {
    fn after(&self) -> &TabularRecord {
        self.new.as_ref().map_or(&self.before, |new| &new.after)
    }

    fn outcome(&self) -> Outcome {
        outcome_of(self.after())
    }

    fn entry<'a>(&'a self, member: &'a Member, permit: &'a Permit<Commit>) -> Entry<'a> {
        Entry {
            action: ACTION,
            warehouse: self.before.warehouse,
            subject: self.before.id,
            name: &member.change.ident,
            versions: (Some(self.before.version), Some(self.after().version)),
            decision: permit.decision(),
        }
    }
}
