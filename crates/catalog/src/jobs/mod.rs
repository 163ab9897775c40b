//! Background jobs. They delete the files of purged tables, outdated metadata files, orphan files,
//! and the files of expired snapshots. Requests themselves never delete files of tables.
//!
//! A **job** is a record, so it survives a restart. If a change turns files into garbage, the
//! transaction of the change also writes the record of the job that deletes these files. Several
//! jobs run concurrently ([`scheduler`]), with a shared rate limit ([`run`]). Each job regularly
//! stores its progress. After a failure, a job waits and then continues at its stored progress. A
//! job that has **ended** is retained for a bounded time. Callers with permission list jobs
//! ([`listing`]), cancel them, and start searches for **orphans** ([`manage`]).
//!
//! There are five kinds of jobs. A [`purge`] deletes the files that are reachable from the table's
//! last metadata. An expiry deletes the files that were reachable only from expired snapshots. An
//! [`orphans`] job deletes the unreachable files at the table's location. A [`clean_up`] deletes
//! outdated metadata files, or the files that rebases have left behind ([`abandoned`]). No job
//! deletes files that are reachable from other tables of the catalog ([`shared_files`]).

mod abandoned;
pub(crate) mod clean_up;
mod interrupted;
pub(crate) mod left_behind;
pub mod listing;
pub mod manage;
mod memory;
mod orphans;
mod purge;
mod run;
mod scheduler;
mod shared_files;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use uuid::Uuid;

use self::left_behind::PendingManifests;
use super::Result;
use super::core::Core;
use super::location_index::locations_of;
use super::settings::Settings;
use slateberg_authz::notation;
use slateberg_authz::resource::{Node, Resource};
use slateberg_base::boxed;
use slateberg_base::rate::RateLimit;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::jobs::{Job, JobProgress, JobTable, JobWork};
use slateberg_store::keys::JobKey;
use slateberg_store::read::StoreRead;
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
    /// The jobs in progress.
    running: Mutex<HashMap<Uuid, Arc<RunningJob>>>,
    /// Number of runs that have ended. Requests that wait for a job watch this number.
    runs_ended: watch::Sender<u64>,
    stopping: AtomicBool,
    rate: RateLimit,
    /// Memory that all jobs together use for names and hashes of files, in bytes.
    memory: Arc<AtomicU64>,
    pending_manifests: Arc<PendingManifests>,
    counters: JobCounters,
}

/// A job in progress.
pub(super) struct RunningJob {
    progress: Mutex<JobProgress>,
    halt: watch::Sender<Option<StopReason>>,
}

/// Reason to stop a job in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopReason {
    /// The server stops; the next start continues the job.
    Stopping,
    /// A caller has cancelled the job. Its record is already among the ended jobs.
    Cancelled,
}

impl RunningJob {
    fn progress(&self) -> JobProgress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_progress(&self, progress: &JobProgress) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone_from(progress);
    }

    fn halt(&self, halt: StopReason) {
        self.halt.send_if_modified(|now| now.is_none() && now.replace(halt).is_none());
    }
}

impl JobsState {
    /// Returns a state without jobs.
    fn new(settings: &Settings) -> Self {
        Self {
            wanted: Notify::new(),
            running: Mutex::default(),
            runs_ended: watch::Sender::new(0),
            stopping: AtomicBool::new(false),
            rate: RateLimit::per_second(settings.file_deletions_per_second_max),
            memory: Arc::default(),
            pending_manifests: Arc::default(),
            counters: JobCounters::default(),
        }
    }

    /// Signals a new job.
    pub(super) fn announce(&self) {
        self.wanted.notify_one();
    }

    /// Claims a job for this process. Returns `None` if it is in progress already.
    fn claim(&self, id: Uuid, job: &Job) -> Option<Arc<RunningJob>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(&id) {
            return None;
        }
        let live = Arc::new(RunningJob {
            progress: Mutex::new(job.progress.clone()),
            halt: watch::Sender::new(None),
        });
        if self.stopping.load(Ordering::Relaxed) {
            live.halt(StopReason::Stopping);
        }
        running.insert(id, Arc::clone(&live));
        Some(live)
    }

    fn live(&self, id: Uuid) -> Option<Arc<RunningJob>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn release(&self, id: Uuid) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.runs_ended.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Returns the name of the kind of job.
fn kind_of(work: &JobWork) -> &'static str {
    match work {
        JobWork::Listed(_) => "metadata-clean-up",
        JobWork::ReachableFrom { .. } => "purge",
        JobWork::Expired { .. } => "snapshot-expiry",
        JobWork::Abandoned { .. } => "rebase-clean-up",
        JobWork::Orphans { .. } => "orphan-removal",
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

    /// Waits for a new job, but no longer than `at_most`.
    #[boxed]
    pub async fn wait_until_due(&self, at_most: Duration) {
        let _ = tokio::time::timeout(at_most, self.state.wanted.notified()).await;
    }

    /// Stops all jobs at their current position. No further job starts.
    pub fn stop_jobs(&self) {
        let jobs = &self.state;
        jobs.stopping.store(true, Ordering::Relaxed);
        let running = jobs.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.values().for_each(|live| live.halt(StopReason::Stopping));
    }

    /// Waits for the end of an announced purge, but no longer than `purge_wait_ms`. Clients and
    /// their tests expect that the drop of a small table also deletes its files. Does not wait if
    /// the maximum number of jobs is running already, because the purge would not start in time.
    pub(super) async fn await_purge(&self, job: Uuid) {
        let jobs = &self.state;
        let running = jobs.running.lock().unwrap_or_else(PoisonError::into_inner).len();
        if running >= self.core.settings().jobs_parallel_max {
            return;
        }
        let mut runs_ended = jobs.runs_ended.subscribe();
        let ended = async {
            // A read error of the store does not change the response: the table is dropped.
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
        work: JobWork,
        table: JobTable,
        created_by: Option<String>,
    ) -> Result<()> {
        let job = Job { created_by, ..Job::new(warehouse, work, Some(table), self.core.now_ms()) };
        Ok(t.put(&JobKey(id), &job)?)
    }
}

/// Returns the description of a table for the record of a job. The description contains the name of
/// the table if `name` is given.
pub(super) fn table_of(
    record: &TabularRecord,
    name: Option<(&Warehouse, &TabularIdent)>,
) -> JobTable {
    JobTable {
        id: record.id,
        uuid: record.uuid,
        resource: name.map(|(warehouse, ident)| resource_text(warehouse, ident)),
        locations: locations_of(record).cloned().collect(),
    }
}

/// Returns a table in the form `table:prod/sales/orders`.
fn resource_text(warehouse: &Warehouse, ident: &TabularIdent) -> String {
    let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
    let table = inside.tabular(TabularKind::Table, Node::named(&ident.name));
    notation::resource_text(&table)
}

/// Returns a warehouse in the form `warehouse:prod`.
fn warehouse_text(warehouse: Option<&Warehouse>) -> Option<String> {
    warehouse.map(|it| notation::resource_text(&Resource::warehouse(&it.name)))
}
