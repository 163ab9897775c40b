//! Group commit: one flush of the write-ahead log at a time, each for everything that was accepted
//! while the one before it was under way.
//!
//! A flush starts as soon as something waits and none is in flight, so that a lone commit waits for
//! nobody. What is accepted meanwhile gathers in a **group** of its own, and the end of one flush starts
//! the next. What is about to be accepted anyway comes along instead of waiting for a whole flush
//! ([`Pace`]).
//!
//! SlateDB could flush on a timer instead; that costs a lone commit half a period, and an idle process
//! a wake-up for each.

use std::sync::{Arc, Mutex, PoisonError};

use slatedb::{Db, DbStatus};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::error::Error;
use super::metrics::Metrics;
use slateberg_base::error_chain::Cause;
use slateberg_base::pace::Pace;

/// How the flush of a group ended; none while it has not.
type Flushed = Option<Result<(), Error>>;

/// Flushes the write-ahead log whenever something waits for it. Ends with the last handle to it.
pub(super) struct Flusher {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    gathering: Mutex<Gathering>,
    wanted: Notify,
}

/// The group that the next flush will be for.
struct Gathering {
    members: usize,
    flushed: watch::Sender<Flushed>,
}

impl Default for Gathering {
    fn default() -> Self {
        Self { members: 0, flushed: watch::Sender::new(None) }
    }
}

/// Membership in a group: tells when everything that was accepted before it was joined is durable.
#[derive(Clone)]
pub(super) struct Membership(watch::Receiver<Flushed>);

impl Flusher {
    /// Starts flushing the log of `db`.
    pub(super) fn start(db: Db, metrics: Metrics) -> Self {
        let shared = Arc::new(Shared { gathering: Mutex::default(), wanted: Notify::new() });
        let task = tokio::spawn(run(db, Arc::clone(&shared), metrics)).abort_handle();
        Self { shared, task }
    }

    /// Joins the group that gathers now, and has it flushed.
    pub(super) fn join(&self) -> Membership {
        let flushed = {
            let mut gathering = self.shared.gathering();
            gathering.members += 1;
            gathering.flushed.subscribe()
        };
        self.shared.wanted.notify_one();
        Membership(flushed)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Membership {
    /// Waits until the group is durable. If it never was, its outcome is unknown.
    pub(super) async fn durable(&self) -> Result<(), Error> {
        let mut flushed = self.0.clone();
        match flushed.wait_for(Option::is_some).await {
            Ok(flushed) => flushed.clone().unwrap_or(Ok(())),
            Err(_) => Err(Error::Unknown(Cause::new("the log was closed before it was flushed"))),
        }
    }
}

impl Shared {
    fn gathering(&self) -> std::sync::MutexGuard<'_, Gathering> {
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(db: Db, shared: Arc<Shared>, metrics: Metrics) {
    let mut pace = Pace::default();
    loop {
        shared.wanted.notified().await;
        pace.let_others_join(|| shared.gathering().members).await;
        let group = std::mem::take(&mut *shared.gathering());
        if group.members == 0 {
            continue;
        }
        let began = Instant::now();
        metrics.flushed(group.members);
        let flushed = flush(&db).await;
        pace.ended(group.members, shared.gathering().members, began);
        // Nobody needs to listen any more: whoever does not is served all the same.
        group.flushed.send_replace(Some(flushed));
    }
}

/// Flushes what has been accepted so far, and returns when readers of durable state see it.
async fn flush(db: &Db) -> Result<(), Error> {
    let unknown = |error: slatedb::Error| Error::Unknown(Cause::new(error));
    let accepted = db.snapshot().map_err(unknown)?.seq();
    db.flush().await.map_err(unknown)?;
    let closed = || Error::Unknown(Cause::new("the log was closed before it was flushed"));
    let mut status = db.subscribe();
    let over = |status: &DbStatus| status.durable_seq >= accepted || status.close_reason.is_some();
    let status = status.wait_for(over).await.map_err(|_| closed())?;
    if status.durable_seq >= accepted { Ok(()) } else { Err(closed()) }
}
