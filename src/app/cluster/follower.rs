//! [`Follower`]: keeps the replica of a standby, which follows the writer.
//!
//! A replica is opened anew if the writer changes, if its feed ends, and from time to time: the
//! writer compacts its sorted runs, and deletes those that a replica still uses after 15 minutes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::catalog_host::{OpenReplica, ReplicaHost};
use super::feed_reader::{FeedReader, Questions};
use super::node::{KnownWriter, Node};
use super::peers::{Peers, UsageReport};
use super::replica::{Replica, ReplicaStore};
use slateberg_base::error_chain::{Cause, chain};
use slateberg_base::retry::Backoff;
use slateberg_cluster::{Role, WriterRecord};
use slateberg_store::Store;

/// Delays between attempts to open a replica.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Age at which a replica is replaced, if the writer has written another manifest since.
const AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// Size of the applied rows at which a replica is replaced.
const APPLIED_BYTES_MAX: usize = 32 << 20;
/// Interval of the reports about uses.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Maximum time until the replicas have ended when the process stops.
const STOP_MAX: Duration = Duration::from_secs(5);

/// Keeps a replica while this process is a standby.
pub(super) struct Follower {
    /// Opens the catalog on a replica.
    pub(super) host: ReplicaHost,
    /// The state of the election.
    pub(super) node: Arc<Node>,
    /// The other members.
    pub(super) peers: Arc<Peers>,
    /// Each session has a receiver.
    pub(super) sessions: watch::Sender<()>,
}

/// A follower that runs.
pub(super) struct RunningFollower {
    follower: Arc<Follower>,
    task: JoinHandle<()>,
}

impl RunningFollower {
    /// Ends the replica, after its last report to the writer.
    pub(super) async fn stop(self) {
        self.task.abort();
        self.follower.node.replicate(None);
        let _ = timeout(STOP_MAX, self.follower.sessions.closed()).await;
    }
}

impl Follower {
    /// Starts to follow the writer.
    pub(super) fn start(self) -> RunningFollower {
        let follower = Arc::new(self);
        let task = tokio::spawn(Arc::clone(&follower).run());
        RunningFollower { follower, task }
    }

    async fn run(self: Arc<Self>) {
        let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
        loop {
            let record = self.writer_to_follow().await;
            let began = Instant::now();
            let ended = tokio::select! {
                ended = self.follow(&record) => Some(ended),
                () = self.until_other_than(&record) => None,
            };
            self.node.replicate(None);
            if let Some(error) = ended {
                let (writer, error) = (&record.holder.name, chain(&error));
                tracing::info!(
                    writer,
                    error,
                    "the replica of this standby has ended: opening it again"
                );
                if began.elapsed() > PAUSE_MAX {
                    backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
                }
                backoff.wait().await;
            }
        }
    }

    /// Waits until this process is a standby and knows the writer.
    async fn writer_to_follow(&self) -> Arc<WriterRecord> {
        let (mut writer, mut roles) = (self.node.writer(), self.node.roles());
        loop {
            if *roles.borrow_and_update() == Role::Standby
                && let KnownWriter::Remote(record) = &*writer.borrow_and_update()
            {
                return Arc::clone(record);
            }
            // The senders belong to the node.
            tokio::select! {
                _ = writer.changed() => {}
                _ = roles.changed() => {}
            }
        }
    }

    /// Waits until this process has another role or knows another writer.
    async fn until_other_than(&self, record: &WriterRecord) {
        let (mut writer, mut roles) = (self.node.writer(), self.node.roles());
        tokio::select! {
            _ = writer.wait_for(|known| known.is_other_than(record)) => {}
            _ = roles.wait_for(|role| *role != Role::Standby) => {}
        }
    }

    /// Keeps a replica of this writer until it ends.
    async fn follow(self: &Arc<Self>, record: &Arc<WriterRecord>) -> Cause {
        let mut current = match self.start_session(record).await {
            Ok(session) => session,
            Err(error) => return error,
        };
        loop {
            self.node.counters.replica_openings.add(1);
            self.node.replicate(Some(Arc::clone(&current.replica)));
            if let Err(error) = current.until_due().await {
                return error;
            }
            // The current replica executes reads until the next one does.
            current = match self.start_session(record).await {
                Ok(next) => next,
                Err(error) => return error,
            };
        }
    }

    /// Starts a session in a separate task, so that its store is closed even if the caller stops
    /// waiting.
    async fn start_session(self: &Arc<Self>, record: &Arc<WriterRecord>) -> Result<Session, Cause> {
        let (follower, record) = (Arc::clone(self), Arc::clone(record));
        let starting = tokio::spawn(async move { Session::start(&follower, &record).await });
        starting.await.map_err(Cause::new)?
    }
}

/// A replica and the task that applies the changes of the writer to it. Ends when it is dropped.
struct Session {
    replica: Arc<Replica>,
    is_due: watch::Receiver<bool>,
    _stop: watch::Sender<()>,
    task: JoinHandle<Cause>,
}

/// The parts of the task of a session.
struct Applier {
    follower: Arc<Follower>,
    record: Arc<WriterRecord>,
    replica: Arc<Replica>,
    feed: FeedReader,
    questions: Questions,
    target: ReplicaStore,
    open: Option<OpenReplica>,
    /// The writer's manifest when the replica was opened.
    manifest_id: u64,
    opened: Instant,
    due: watch::Sender<bool>,
    session: watch::Receiver<()>,
}

impl Session {
    /// Opens a replica that executes reads.
    async fn start(follower: &Arc<Follower>, record: &Arc<WriterRecord>) -> Result<Self, Cause> {
        // The feed begins first, so that no transaction is missing between it and the replica.
        let (mut feed, questions) = FeedReader::open(&follower.peers, record).await?;
        let start = feed.next().await?;
        let ReplicaHost { location, settings, .. } = &follower.host;
        let store = Store::open_replica(location, settings.store.clone()).await;
        let store = store.map_err(Cause::new)?;
        let (due, is_due) = watch::channel(false);
        let (stop, stopping) = watch::channel(());
        let replica = Arc::new(Replica::new());
        let mut applier = Applier {
            follower: Arc::clone(follower),
            record: Arc::clone(record),
            replica: Arc::clone(&replica),
            feed,
            questions,
            manifest_id: start.manifest_id,
            target: ReplicaStore::new(store, &start),
            open: None,
            opened: Instant::now(),
            due,
            session: follower.sessions.subscribe(),
        };
        if let Err(error) = applier.prepare().await {
            applier.end().await;
            return Err(error);
        }
        Ok(Self { replica, is_due, _stop: stop, task: tokio::spawn(applier.run(stopping)) })
    }

    /// Waits until the replica has to be replaced. Errors if it has ended.
    async fn until_due(&mut self) -> Result<(), Cause> {
        // The task has the sender until it ends.
        if self.is_due.wait_for(|is_due| *is_due).await.is_ok() {
            return Ok(());
        }
        Err((&mut self.task).await.unwrap_or_else(Cause::new))
    }
}

impl Applier {
    /// Applies changes until the replica contains only state that the writer knows as durable, and
    /// opens the catalog. The log in the bucket can be ahead of the writer for a moment.
    async fn prepare(&mut self) -> Result<(), Cause> {
        let opened_at = self.target.store.sequence().map_err(Cause::new)?;
        if opened_at < self.target.released {
            return Err(Cause::new(
                "the bucket lacks transactions that the writer has acknowledged",
            ));
        }
        while self.target.released < opened_at {
            let changes = self.feed.next().await?;
            self.target.apply(&self.replica, changes).await.map_err(Cause::new)?;
        }
        self.open_catalog().await
    }

    /// Opens the catalog, and begins to execute reads.
    async fn open_catalog(&mut self) -> Result<(), Cause> {
        let opened = self.follower.host.open(self.target.store.clone()).await;
        let opened = opened.map_err(Cause::new)?;
        opened.services.catalog().replicas().await_publications(self.target.unpublished());
        self.replica.serve(Some(Arc::clone(&opened.services)));
        self.open = Some(opened);
        Ok(())
    }

    async fn run(mut self, mut stopping: watch::Receiver<()>) -> Cause {
        let ended = tokio::select! {
            ended = self.follow() => ended,
            // A session that is dropped closes the channel.
            _ = stopping.changed() => Cause::new("another replica has replaced this one"),
        };
        self.end().await;
        ended
    }

    /// Applies the changes of the writer until the feed ends.
    async fn follow(&mut self) -> Cause {
        let (replica, questions) = (Arc::clone(&self.replica), self.questions.clone());
        tokio::select! {
            ended = self.apply_all() => ended,
            never = replica.run_rounds(&questions) => match never {},
        }
    }

    async fn apply_all(&mut self) -> Cause {
        let mut reported = Instant::now();
        loop {
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                self.report().await;
            }
            let changes = match self.feed.next().await {
                Ok(changes) => changes,
                Err(error) => return error,
            };
            let manifest_id = changes.manifest_id;
            let stopped = match self.target.apply(&self.replica, changes).await {
                Ok(stopped) => stopped,
                Err(error) => return Cause::new(error),
            };
            if stopped.is_some()
                && let Err(error) = self.reopen_catalog().await
            {
                return error;
            }
            let is_old = self.opened.elapsed() >= AGE_MAX && manifest_id != self.manifest_id;
            if is_old || self.target.applied_bytes >= APPLIED_BYTES_MAX {
                self.due.send_replace(true);
            }
        }
    }

    /// Opens the catalog again after a change of records that it has loaded.
    async fn reopen_catalog(&mut self) -> Result<(), Cause> {
        self.report().await;
        if let Some(former) = self.open.take() {
            tokio::spawn(former.close());
        }
        self.open_catalog().await
    }

    /// Reports uses to the writer. Uses that the writer has not received stay with the replica.
    async fn report(&self) {
        let Some(open) = &self.open else { return };
        let replicas = open.services.catalog().replicas();
        let (tabulars, keys) = (replicas.take_uses(), open.services.keys().last_uses());
        if tabulars.is_empty() && keys.is_empty() {
            return;
        }
        let report = UsageReport { tabulars, keys };
        if !self.follower.peers.report(&self.record.peer, &report).await {
            replicas.add_uses(report.tabulars);
        }
    }

    /// Ends the replica. Requests that wait or arrive later are forwarded. The store is closed after
    /// the requests in progress.
    async fn end(self) {
        self.replica.serve(None);
        self.replica.rounds.close();
        self.report().await;
        let Self { open, target, session, .. } = self;
        tokio::spawn(async move {
            let _session = session;
            if let Some(open) = open {
                open.close().await;
            }
            if let Err(error) = target.store.close().await {
                let error = chain(&error);
                tracing::debug!(error, "the store of a replica could not be closed");
            }
        });
    }
}
