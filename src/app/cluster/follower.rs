//! [`Follower`]: keeps the replica of a standby, which follows the writer.
//!
//! A replica is opened anew if the writer changes, if its feed ends, and from time to time: the
//! writer compacts its sorted runs, and deletes those that a replica still uses some minutes later.
//! While the writer sends no feed, the replica reads the log in the bucket.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::catalog_host::ReplicaHost;
use super::followed_writer::FollowedWriter;
use super::node::{KnownWriter, Node};
use super::peers::Peers;
use super::session::{ChangeSource, Session, SessionParts};
use slateberg_base::error_chain::{Cause, chain};
use slateberg_base::retry::Backoff;
use slateberg_cluster::Role;

/// Delays between attempts to open a replica.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Time without a writer after which a standby reads the log in the bucket.
const NO_WRITER_PAUSE: Duration = Duration::from_secs(2);
/// Time without a feed after which a standby reads the log in the bucket.
const LOG_GRACE: Duration = Duration::from_millis(300);
/// Maximum time until the replicas have ended when the process stops.
const STOP_MAX: Duration = Duration::from_secs(5);

/// Keeps a replica while this process is a standby.
pub(super) struct Follower {
    parts: Arc<SessionParts>,
}

/// A follower that runs.
pub(super) struct RunningFollower {
    parts: Arc<SessionParts>,
    task: JoinHandle<()>,
}

impl RunningFollower {
    /// Ends the replica, after its last report to the writer.
    pub(super) async fn stop(self) {
        self.task.abort();
        self.parts.node.replicate(None);
        let _ = timeout(STOP_MAX, self.parts.sessions.closed()).await;
    }
}

impl Follower {
    /// Starts to follow the writer.
    pub(super) fn start(host: ReplicaHost, node: Arc<Node>, peers: Arc<Peers>) -> RunningFollower {
        let sessions = watch::Sender::new(());
        let parts = Arc::new(SessionParts { host, node, peers, sessions });
        let follower = Self { parts: Arc::clone(&parts) };
        RunningFollower { parts, task: tokio::spawn(follower.run()) }
    }

    async fn run(self) {
        let (mut writer, mut roles) = (self.parts.node.writer(), self.parts.node.roles());
        loop {
            // The senders belong to the node.
            let _ = roles.wait_for(|role| *role == Role::Standby).await;
            let followed = writer.borrow_and_update().clone();
            let is_other = |known: &KnownWriter| match (&followed, known) {
                (KnownWriter::Remote(_), KnownWriter::Paused(_)) => true,
                (KnownWriter::Remote(record), known) => known.is_other_than(record),
                (KnownWriter::Paused(last), KnownWriter::Paused(record)) => {
                    !last.is_same_put(record)
                }
                // After a pause, the replica executes reads until there is a writer.
                (KnownWriter::Paused(_), known) => matches!(known, KnownWriter::Remote(_)),
                (_, known) => matches!(known, KnownWriter::Remote(_) | KnownWriter::Paused(_)),
            };
            tokio::select! {
                never = self.keep_replica(&followed) => match never {},
                _ = writer.wait_for(is_other) => {}
                _ = roles.wait_for(|role| *role != Role::Standby) => {}
            }
            self.parts.node.replicate(None);
        }
    }

    /// Keeps a replica that follows this writer.
    async fn keep_replica(&self, known: &KnownWriter) -> Infallible {
        let writer = match known {
            KnownWriter::Remote(record) => FollowedWriter::new(Some(Arc::clone(record))),
            KnownWriter::Paused(last) => {
                return self.keep_log_replica(&FollowedWriter::paused(last)).await;
            }
            KnownWriter::Unknown | KnownWriter::Local(_) => {
                // A process that has just started does not know the writer yet.
                sleep(NO_WRITER_PAUSE).await;
                return self.keep_log_replica(&FollowedWriter::new(None)).await;
            }
        };
        let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
        let mut feed = self.start_session(&writer, ChangeSource::Feed).await;
        loop {
            let began = Instant::now();
            let ended = match feed {
                Ok(session) => self.keep(&writer, ChangeSource::Feed, session).await,
                Err(error) => error,
            };
            self.parts.node.replicate(None);
            if let Some(record) = &writer.record {
                let (writer, error) = (&record.holder.name, chain(&ended));
                tracing::info!(
                    writer,
                    error,
                    "the writer does not send its changes: reading the log in the bucket"
                );
            }
            if began.elapsed() > PAUSE_MAX {
                backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
            }
            feed = tokio::select! {
                session = self.connect(&writer, &mut backoff) => Ok(session),
                never = self.keep_log_replica(&writer) => match never {},
            };
        }
    }

    /// Opens a replica with a feed, as soon as the writer sends one.
    async fn connect(&self, writer: &FollowedWriter, backoff: &mut Backoff) -> Session {
        loop {
            backoff.wait().await;
            match self.start_session(writer, ChangeSource::Feed).await {
                Ok(session) => return session,
                Err(error) => {
                    let error = chain(&error);
                    tracing::debug!(error, "the writer still does not send its changes");
                }
            }
        }
    }

    /// Keeps a replica that reads the log in the bucket.
    async fn keep_log_replica(&self, writer: &FollowedWriter) -> Infallible {
        let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
        // After a planned transfer, there is another writer soon.
        sleep(LOG_GRACE).await;
        loop {
            match self.start_session(writer, ChangeSource::Log).await {
                Ok(session) => {
                    let ended = self.keep(writer, ChangeSource::Log, session).await;
                    self.parts.node.replicate(None);
                    let error = chain(&ended);
                    tracing::info!(
                        error,
                        "the replica that reads the log has ended: opening it again"
                    );
                }
                Err(error) => {
                    let error = chain(&error);
                    tracing::debug!(error, "a replica that reads the log cannot be opened");
                }
            }
            backoff.wait().await;
        }
    }

    /// Keeps a replica until it ends.
    async fn keep(
        &self,
        writer: &FollowedWriter,
        source: ChangeSource,
        mut current: Session,
    ) -> Cause {
        loop {
            self.parts.node.counters.replica_openings.add(1);
            self.parts.node.replicate(Some(Arc::clone(&current.replica)));
            if let Err(error) = current.until_due().await {
                return error;
            }
            // The current replica executes reads until the next one does.
            current = match self.start_session(writer, source).await {
                Ok(next) => next,
                Err(error) => return error,
            };
        }
    }

    /// Starts a session in a separate task, so that its store is closed even if the caller stops
    /// waiting.
    async fn start_session(
        &self,
        writer: &FollowedWriter,
        source: ChangeSource,
    ) -> Result<Session, Cause> {
        let (parts, writer) = (Arc::clone(&self.parts), writer.clone());
        let starting = tokio::spawn(Session::start(parts, writer, source));
        starting.await.map_err(Cause::new)?
    }
}
