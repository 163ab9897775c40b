//! Background jobs, which delete files: those of purged tables, metadata files that are not kept, and files
//! that nothing leads to. Nothing on the path of a request deletes a table's file.
//!
//! A **job** is a record, written in the batch of the change that made its files garbage, so that it
//! survives a restart. Some jobs run side by side ([`due`]), all of them at one bounded rate ([`run`]);
//! each stores from time to time how far it has come. One that fails waits, and goes on from there. One
//! that has **ended** stays to be looked at for a bounded time. Whoever may, sees them ([`listing`]),
//! cancels them, and starts the search for **orphans** ([`manage`]).
//!
//! A [`purge`] goes by what the table's last metadata leads to, an [`orphans`] job by what is there and
//! nothing leads to, and a [`clean_up`] by a list. What another table of the catalog leads to stays in all
//! of them ([`kept`]).

pub(crate) mod clean_up;
mod due;
mod interrupted;
mod kept;
pub mod listing;
pub mod manage;
mod memory;
mod orphans;
mod purge;
mod run;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::Result;
use super::core::Core;
use super::places::places_of;
use super::settings::Settings;
use slateberg_authz::notation;
use slateberg_authz::resource::{Node, Resource};
use slateberg_base::rate::Rate;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::jobs::{Job, JobTable, Progress, Work};
use slateberg_store::keys::JobKey;
use slateberg_store::read::Read;
use slateberg_store::records::TabularRecord;
use slateberg_store::txn::Transaction;
use slateberg_telemetry::collection::Collection;
use slateberg_telemetry::jobs::JobCounters;

/// Background jobs. Cheap to clone.
#[derive(Clone)]
pub struct Jobs {
    core: Arc<Core>,
    state: Arc<JobsState>,
}

/// The jobs that this process runs.
pub(super) struct JobsState {
    wanted: Notify,
    /// Those that are under way.
    running: Mutex<HashMap<Uuid, Arc<Live>>>,
    /// Counts the runs that ended, for requests that wait for one.
    runs_ended: watch::Sender<u64>,
    stopping: AtomicBool,
    rate: Rate,
    /// Bytes that jobs have taken for the files that they know.
    memory: Arc<AtomicU64>,
    counters: JobCounters,
}

/// A job that is under way.
pub(super) struct Live {
    progress: Mutex<Progress>,
    halt: watch::Sender<Option<Halt>>,
}

/// Why a job that is under way is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halt {
    /// The server stops; the next one goes on with it.
    Stopping,
    /// Somebody has cancelled it: its record is gone.
    Cancelled,
}

impl Live {
    fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_progress(&self, progress: &Progress) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone_from(progress);
    }

    fn halt(&self, halt: Halt) {
        self.halt.send_if_modified(|now| now.is_none() && now.replace(halt).is_none());
    }
}

impl JobsState {
    /// None under way.
    fn new(settings: &Settings) -> Self {
        Self {
            wanted: Notify::new(),
            running: Mutex::default(),
            runs_ended: watch::Sender::new(0),
            stopping: AtomicBool::new(false),
            rate: Rate::per_second(settings.file_deletions_per_second_max),
            memory: Arc::default(),
            counters: JobCounters::default(),
        }
    }

    /// Says that there is a new job.
    pub(super) fn announce(&self) {
        self.wanted.notify_one();
    }

    /// Takes up a job; none if it is under way.
    fn claim(&self, id: Uuid, job: &Job) -> Option<Arc<Live>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(&id) {
            return None;
        }
        let live = Arc::new(Live {
            progress: Mutex::new(job.progress.clone()),
            halt: watch::Sender::new(None),
        });
        if self.stopping.load(Ordering::Relaxed) {
            live.halt(Halt::Stopping);
        }
        running.insert(id, Arc::clone(&live));
        Some(live)
    }

    fn live(&self, id: Uuid) -> Option<Arc<Live>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn release(&self, id: Uuid) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.runs_ended.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// What a job is called.
fn kind_of(work: &Work) -> &'static str {
    match work {
        Work::Listed(_) => "metadata-clean-up",
        Work::ReachableFrom { .. } => "purge",
        Work::Orphans { .. } => "orphan-removal",
    }
}

impl Jobs {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let state = Arc::new(JobsState::new(core.settings()));
        Self { core: Arc::clone(core), state }
    }

    /// Collects the metrics of jobs.
    pub(crate) fn collect(&self, into: &mut Collection) {
        self.state.counters.collect(into);
    }

    /// Returns when there is a new job, or after `at_most`.
    pub async fn jobs_wanted(&self, at_most: Duration) {
        let _ = tokio::time::timeout(at_most, self.state.wanted.notified()).await;
    }

    /// Tells all jobs to stop where they are; none is taken up any more.
    pub fn stop_jobs(&self) {
        let jobs = &self.state;
        jobs.stopping.store(true, Ordering::Relaxed);
        let running = jobs.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.values().for_each(|live| live.halt(Halt::Stopping));
    }

    /// Waits for the end of a job that was announced, for at most `purge_wait_ms`. Clients and their tests
    /// expect the files of a small table to be gone with the table. Does not wait while as many jobs run as
    /// may run at once: the job would not begin in time.
    pub(super) async fn await_purge(&self, job: Uuid) {
        let jobs = &self.state;
        let running = jobs.running.lock().unwrap_or_else(PoisonError::into_inner).len();
        if running >= self.core.settings().jobs_parallel_max {
            return;
        }
        let mut runs_ended = jobs.runs_ended.subscribe();
        let ended = async {
            // A store that cannot be read does not change the response: the table is dropped.
            while matches!(self.core.store().latest().get(&JobKey(job)).await, Ok(Some(_))) {
                if runs_ended.changed().await.is_err() {
                    return;
                }
            }
        };
        let at_most = Duration::from_millis(self.core.settings().purge_wait_ms);
        let _ = tokio::time::timeout(at_most, ended).await;
    }

    /// Stores a job that deletes files in the background.
    pub(super) fn put_job(
        &self,
        t: &Transaction,
        id: Uuid,
        warehouse: Uuid,
        work: Work,
        table: JobTable,
        created_by: Option<String>,
    ) -> Result<()> {
        let job = Job { created_by, ..Job::new(warehouse, work, Some(table), self.core.now_ms()) };
        Ok(t.put(&JobKey(id), &job)?)
    }
}

/// What a job has to know of the table whose files it deletes, and by which name it is known, if that is at
/// hand.
pub(super) fn table_of(
    record: &TabularRecord,
    name: Option<(&Warehouse, &TabularIdent)>,
) -> JobTable {
    JobTable {
        id: record.id,
        uuid: record.uuid,
        resource: name.map(|(warehouse, ident)| resource_word(warehouse, ident)),
        places: places_of(record).cloned().collect(),
    }
}

/// The word for a table.
fn resource_word(warehouse: &Warehouse, ident: &TabularIdent) -> String {
    let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
    let table = inside.tabular(TabularKind::Table, Node::named(&ident.name));
    notation::resource_word(&table)
}

/// The word for a warehouse.
fn warehouse_word(warehouse: Option<&Warehouse>) -> Option<String> {
    warehouse.map(|it| notation::resource_word(&Resource::warehouse(&it.name)))
}
