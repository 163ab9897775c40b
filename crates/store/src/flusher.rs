//! Group commit: one flush of the write-ahead log at a time, each for everything that was accepted
//! during the previous one.
//!
//! A flush starts as soon as something waits and none is in progress, so a lone commit does not
//! wait. Transactions that are accepted during a flush form the next **group**, whose flush starts
//! when the current one ends. A group waits for transactions that are about to be accepted, so that
//! they need not wait for a whole flush ([`Pace`]).
//!
//! SlateDB can flush on a timer instead, but then a lone commit waits for half a period on average,
//! and an idle process wakes up in every period.

use std::sync::{Arc, Mutex, PoisonError};

use slatedb::{Db, DbStatus};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::error::Error;
use super::metrics::Metrics;
use slateberg_base::error_chain::Cause;
use slateberg_base::pace::Pace;

/// Result of a group's flush. `None` until it has ended.
type Flushed = Option<Result<(), Error>>;

/// Flushes the write-ahead log whenever a transaction waits for it. Ends with its last handle.
pub(super) struct Flusher {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    gathering: Mutex<Gathering>,
    wanted: Notify,
}

/// The group of the next flush.
struct Gathering {
    members: usize,
    flushed: watch::Sender<Flushed>,
}

impl Default for Gathering {
    fn default() -> Self {
        Self { members: 0, flushed: watch::Sender::new(None) }
    }
}

/// Membership in a group: reports when everything that was accepted before joining is durable.
#[derive(Clone)]
pub(super) struct Membership(watch::Receiver<Flushed>);

impl Flusher {
    /// Starts to flush the log of `db`.
    pub(super) fn start(db: Db, metrics: Metrics) -> Self {
        let shared = Arc::new(Shared { gathering: Mutex::default(), wanted: Notify::new() });
        let task = tokio::spawn(run(db, Arc::clone(&shared), metrics)).abort_handle();
        Self { shared, task }
    }

    /// Joins the current group, and requests its flush.
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
    /// Waits until the group is durable. If the flush fails, the outcome of the group is unknown.
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
        // Members that stopped waiting need no result.
        group.flushed.send_replace(Some(flushed));
    }
}

/// Flushes everything that has been accepted. Returns when readers of durable state see it.
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
