//! [`Session`]: a replica, and the task that applies the changes of the writer to it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, OptionFuture};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::catalog_host::{OpenReplica, ReplicaHost};
use super::feed_reader::{FeedReader, Questions};
use super::followed_writer::{FollowedWriter, WriterReport};
use super::node::Node;
use super::peers::{Peers, UsageReport};
use super::read_rounds::Round;
use super::replica::{ANSWER_MAX, Replica, ReplicaStore};
use slateberg_base::error_chain::{Cause, chain};
use slateberg_base::retry::Backoff;
use slateberg_store::Store;
use slateberg_store::keys::PublicationKey;
use slateberg_store::log_tail::LogTail;

/// Age at which a replica is replaced, if the writer has written another manifest since.
const AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// Size of the applied rows at which a replica is replaced.
const APPLIED_BYTES_MAX: usize = 32 << 20;
/// Time for which the policies may differ from those of the writer before the member warns.
const DIFFERENCE_MAX: Duration = Duration::from_secs(10);
/// Interval of the reports about uses.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// Delays until missing metadata files are looked for again.
const FILES_PAUSE_MIN: Duration = Duration::from_millis(50);
const FILES_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Delays until the last file of the log is read again.
const UNSETTLED_PAUSE_MIN: Duration = Duration::from_millis(10);
const UNSETTLED_PAUSE_MAX: Duration = Duration::from_millis(500);

/// The parts of a member that all its sessions share.
pub(super) struct SessionParts {
    /// Opens the catalog on a replica.
    pub(super) host: ReplicaHost,
    /// The state of the election.
    pub(super) node: Arc<Node>,
    /// The other members.
    pub(super) peers: Arc<Peers>,
    /// Each session has a receiver.
    pub(super) sessions: watch::Sender<()>,
}

/// The source of the changes of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeSource {
    /// The writer sends them.
    Feed,
    /// The log in the bucket contains them.
    Log,
}

/// A replica and the task that applies the changes of the writer to it. Ends when it is dropped.
pub(super) struct Session {
    /// The replica.
    pub(super) replica: Arc<Replica>,
    is_due: watch::Receiver<bool>,
    _stop: watch::Sender<()>,
    task: JoinHandle<Cause>,
}

/// The parts of the task of a session.
struct Applier {
    parts: Arc<SessionParts>,
    writer: FollowedWriter,
    replica: Arc<Replica>,
    target: ReplicaStore,
    open: Option<OpenReplica>,
    opened: Instant,
    due: watch::Sender<bool>,
    session: watch::Receiver<()>,
}

/// The changes that follow the state of a replica.
enum Following {
    Feed(Feed),
    Log(LogTail),
}

/// The feed of the writer.
struct Feed {
    reader: FeedReader,
    questions: Questions,
    /// The writer's manifest when the replica was opened.
    manifest_id: u64,
}

/// Warns if the policies of this member and of the writer differ for longer than a change takes.
#[derive(Default)]
struct PolicyDifference {
    since: Option<Instant>,
    is_reported: bool,
}

impl PolicyDifference {
    fn note(&mut self, is_different: bool) {
        if !is_different {
            *self = Self::default();
            return;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= DIFFERENCE_MAX && !self.is_reported {
            self.is_reported = true;
            tracing::warn!(
                "this member and the writer of the cluster have different policies: the writer executes all reads. \
                 Give all members the same policy files"
            );
        }
    }
}

impl Session {
    /// Opens a replica that executes reads.
    pub(super) async fn start(
        parts: Arc<SessionParts>,
        writer: FollowedWriter,
        source: ChangeSource,
    ) -> Result<Self, Cause> {
        let open = async || {
            let ReplicaHost { location, settings, .. } = &parts.host;
            Store::open_replica(location, settings.store.clone()).await.map_err(Cause::new)
        };
        let (mut following, target) = match source {
            ChangeSource::Feed => {
                let Some(record) = &writer.record else {
                    return Err(Cause::new("there is no writer"));
                };
                // The feed begins first, so that no transaction is missing between it and the replica.
                let (mut reader, questions) = FeedReader::open(&parts.peers, record).await?;
                let start = reader.next().await?;
                let (store, _) = open().await?;
                let manifest_id = start.manifest_id;
                let feed = Feed { reader, questions, manifest_id };
                (Following::Feed(feed), ReplicaStore::following(store, &start))
            }
            ChangeSource::Log => {
                let (store, tail) = open().await?;
                let policy_hash = writer.newest(&parts.node).policy_hash;
                (Following::Log(tail), ReplicaStore::new(store, policy_hash))
            }
        };
        let (due, is_due) = watch::channel(false);
        let (stop, stopping) = watch::channel(());
        let replica = Arc::new(Replica::new(Arc::clone(&parts.node.bucket)));
        let mut applier = Applier {
            writer,
            replica: Arc::clone(&replica),
            target,
            open: None,
            opened: Instant::now(),
            due,
            session: parts.sessions.subscribe(),
            parts,
        };
        if let Err(error) = applier.prepare(&mut following).await {
            applier.end();
            return Err(error);
        }
        let task = tokio::spawn(applier.run(following, stopping));
        Ok(Self { replica, is_due, _stop: stop, task })
    }

    /// Waits until the replica has to be replaced. Errors if it has ended.
    pub(super) async fn until_due(&mut self) -> Result<(), Cause> {
        // The task has the sender until it ends.
        if self.is_due.wait_for(|is_due| *is_due).await.is_ok() {
            return Ok(());
        }
        Err((&mut self.task).await.unwrap_or_else(Cause::new))
    }
}

impl Applier {
    /// Opens the catalog. If the writer sends a feed, first applies changes until the replica contains
    /// only state that the writer knows as durable: the log in the bucket can be ahead of the writer
    /// for a moment.
    async fn prepare(&mut self, following: &mut Following) -> Result<(), Cause> {
        match following {
            Following::Feed(feed) => {
                let opened_at = self.target.store.sequence().map_err(Cause::new)?;
                if opened_at < self.target.released {
                    return Err(Cause::new(
                        "the bucket lacks transactions that the writer has acknowledged",
                    ));
                }
                while self.target.released < opened_at {
                    let changes = feed.reader.next().await?;
                    self.target.apply(&self.replica, changes).await.map_err(Cause::new)?;
                }
            }
            Following::Log(_) => {
                let unpublished = self.target.store.publications().await.map_err(Cause::new)?;
                self.target.add_unpublished(unpublished);
            }
        }
        self.open_catalog().await
    }

    /// Opens the catalog, and begins to execute reads.
    async fn open_catalog(&mut self) -> Result<(), Cause> {
        let opened = self.parts.host.open(self.target.store.clone()).await;
        let opened = opened.map_err(Cause::new)?;
        self.target.serve(&self.replica, &opened.services);
        self.open = Some(opened);
        Ok(())
    }

    async fn run(mut self, following: Following, mut stopping: watch::Receiver<()>) -> Cause {
        let ended = tokio::select! {
            ended = self.follow(following) => ended,
            // A session that is dropped closes the channel.
            _ = stopping.changed() => Cause::new("another replica has replaced this one"),
        };
        self.end();
        ended
    }

    /// Applies the changes of the writer until there are no more.
    async fn follow(&mut self, following: Following) -> Cause {
        let replica = Arc::clone(&self.replica);
        match following {
            Following::Feed(mut feed) => {
                let questions = feed.questions.clone();
                tokio::select! {
                    ended = self.apply_feed(&mut feed) => ended,
                    never = replica.run_rounds(&questions) => match never {},
                }
            }
            Following::Log(mut tail) => self.apply_log(&mut tail).await,
        }
    }

    async fn apply_feed(&mut self, feed: &mut Feed) -> Cause {
        let mut reported = Instant::now();
        let mut different = PolicyDifference::default();
        loop {
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                self.report().await;
            }
            let changes = match feed.reader.next().await {
                Ok(changes) => changes,
                Err(error) => return error,
            };
            let manifest_id = changes.manifest_id;
            let reopens = match self.target.apply(&self.replica, changes).await {
                Ok(reopens) => reopens,
                Err(error) => return Cause::new(error),
            };
            self.writer.note(self.target.released, &self.target.policy_hash);
            if reopens {
                self.report().await;
                if let Err(error) = self.reopen_catalog().await {
                    return error;
                }
            }
            self.note_age(manifest_id != feed.manifest_id);
            different.note(self.replica.has_other_policies());
        }
    }

    /// Reads the log for each round of reads. Looks for missing metadata files meanwhile.
    async fn apply_log(&mut self, tail: &mut LogTail) -> Cause {
        let replica = Arc::clone(&self.replica);
        let mut backoff = Backoff::new(FILES_PAUSE_MIN, FILES_PAUSE_MAX);
        let mut looking = None;
        loop {
            if looking.is_none() && self.target.unpublished().next().is_some() {
                looking = Some(self.look_for_files(backoff.delay()));
            }
            let round = tokio::select! {
                round = replica.rounds.begin(None) => round,
                Some(published) = OptionFuture::from(looking.as_mut()) => {
                    self.target.mark_published(&replica, published);
                    looking = None;
                    continue;
                }
            };
            self.parts.node.counters.log_reads.add(1);
            let before = self.target.unpublished().count();
            if let Err(error) = self.read_log_for(round, tail).await {
                return error;
            }
            if self.target.unpublished().count() > before {
                backoff = Backoff::new(FILES_PAUSE_MIN, FILES_PAUSE_MAX);
                looking = None;
            }
            self.note_age(true);
        }
    }

    /// Returns those versions whose metadata files exist after this time.
    fn look_for_files(&self, after: Duration) -> BoxFuture<'static, Vec<PublicationKey>> {
        let replicas = self.open.as_ref().map(|open| open.services.catalog().replicas().clone());
        let unpublished: Vec<_> = self.target.unpublished().collect();
        Box::pin(async move {
            sleep(after).await;
            match replicas {
                Some(replicas) => replicas.with_existing_files(unpublished).await,
                None => Vec::new(),
            }
        })
    }

    /// Reads the log for a round. The round fails if this takes too long. Until the log has been read,
    /// all later rounds fail at once, so that reads are forwarded.
    async fn read_log_for(&mut self, round: Round, tail: &mut LogTail) -> Result<(), Cause> {
        let replica = Arc::clone(&self.replica);
        let mut reading = pin!(self.read_log(tail));
        let in_time = timeout(ANSWER_MAX, &mut reading).await;
        replica.rounds.end(round, matches!(in_time, Ok(Ok(()))));
        if let Ok(read) = in_time {
            return read;
        }
        loop {
            tokio::select! {
                read = &mut reading => return read,
                round = replica.rounds.begin(None) => replica.rounds.end(round, false),
            }
        }
    }

    /// Reads the log until all transactions in it are settled, and applies them.
    async fn read_log(&mut self, tail: &mut LogTail) -> Result<(), Cause> {
        let mut backoff = Backoff::new(UNSETTLED_PAUSE_MIN, UNSETTLED_PAUSE_MAX);
        loop {
            let WriterReport { sequence, policy_hash } = self.writer.newest(&self.parts.node);
            let groups = tail.read(sequence).await.map_err(Cause::new)?;
            let applied = self.target.apply_groups(&self.replica, groups).await;
            if applied.map_err(Cause::new)? {
                self.reopen_catalog().await?;
            }
            self.target.note_policies(&self.replica, policy_hash);
            if tail.is_settled() {
                return Ok(());
            }
            // The record of the writer may contain a newer sequence number.
            self.parts.node.suspect_writer();
            backoff.wait().await;
        }
    }

    /// Requests the replacement of the replica once it is old or has many changes in memory.
    /// `has_changed` states whether a new replica could be smaller.
    fn note_age(&self, has_changed: bool) {
        let is_old = self.opened.elapsed() >= AGE_MAX && has_changed;
        if is_old || self.target.applied_bytes >= APPLIED_BYTES_MAX {
            self.due.send_replace(true);
        }
    }

    /// Opens the catalog again after a change of records that it has loaded.
    async fn reopen_catalog(&mut self) -> Result<(), Cause> {
        if let Some(former) = self.open.take() {
            tokio::spawn(former.close());
        }
        self.open_catalog().await
    }

    /// Reports uses to the writer. Uses that the writer has not received stay with the replica.
    async fn report(&self) {
        let (Some(open), Some(record)) = (&self.open, &self.writer.record) else { return };
        let replicas = open.services.catalog().replicas();
        let (tabulars, keys) = (replicas.take_uses(), open.services.keys().last_uses());
        if tabulars.is_empty() && keys.is_empty() {
            return;
        }
        let report = UsageReport { tabulars, keys };
        if !self.parts.peers.report(&record.peer, &report).await {
            replicas.add_uses(report.tabulars);
        }
    }

    /// Ends the replica. Requests that wait or arrive later are forwarded. The store is closed after
    /// the requests in progress.
    fn end(self) {
        self.replica.end();
        tokio::spawn(async move {
            self.report().await;
            let Self { open, target, session, .. } = self;
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
