//! Group commit: flushes the write-ahead log, one flush at a time. Each flush writes everything
//! that was accepted during the previous flush.
//!
//! If no flush is in progress, a flush starts as soon as a transaction waits, so a single commit
//! has no delay. Transactions that are accepted during a flush form the next **group**, whose flush
//! starts when the current one ends. A group that closely follows another group first waits a short
//! time for transactions that are about to be accepted. Otherwise, these transactions would become
//! durable only with the flush of a later group ([`BatchWindow`]).
//!
//! SlateDB could flush on a timer instead. But then a single commit waits for half a period on
//! average, and an idle process wakes up in every period.

use std::sync::{Arc, Mutex, PoisonError};

use slatedb::{Db, DbStatus};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::change_feed::ChangeFeed;
use super::error::Error;
use super::metrics::Metrics;
use super::replication::Replication;
use slateberg_base::batch_window::BatchWindow;
use slateberg_base::error_chain::Cause;

/// Result of a group's flush. `None` until the flush has ended.
type FlushResult = Option<Result<(), Error>>;

/// Flushes the write-ahead log whenever a transaction waits to become durable. Stops when this
/// value is dropped.
pub(super) struct Flusher {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    next_group: Mutex<FlushGroup>,
    flush_requested: Notify,
}

/// The group of the next flush.
struct FlushGroup {
    members: usize,
    result: watch::Sender<FlushResult>,
}

impl Default for FlushGroup {
    fn default() -> Self {
        Self { members: 0, result: watch::Sender::new(None) }
    }
}

/// Membership in a group. With it, a transaction waits for the flush of the group. This flush makes
/// everything durable that was accepted before the transaction joined.
#[derive(Clone)]
pub(super) struct Membership(watch::Receiver<FlushResult>);

impl Flusher {
    /// Starts to flush the log of `db`.
    pub(super) fn start(
        db: Db,
        changes: Arc<ChangeFeed>,
        replication: Arc<Replication>,
        metrics: Metrics,
    ) -> Self {
        let shared =
            Arc::new(Shared { next_group: Mutex::default(), flush_requested: Notify::new() });
        let observers = (changes, replication);
        let task = tokio::spawn(run(db, Arc::clone(&shared), observers, metrics)).abort_handle();
        Self { shared, task }
    }

    /// Joins the group of the next flush, and requests that flush.
    pub(super) fn join(&self) -> Membership {
        let result = {
            let mut next_group = self.shared.next_group();
            next_group.members += 1;
            next_group.result.subscribe()
        };
        self.shared.flush_requested.notify_one();
        Membership(result)
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
        let mut result = self.0.clone();
        match result.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or(Ok(())),
            Err(_) => Err(Error::Unknown(Cause::new("the log was closed before it was flushed"))),
        }
    }
}

impl Shared {
    fn next_group(&self) -> std::sync::MutexGuard<'_, FlushGroup> {
        self.next_group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(
    db: Db,
    shared: Arc<Shared>,
    (changes, replication): (Arc<ChangeFeed>, Arc<Replication>),
    metrics: Metrics,
) {
    let mut window = BatchWindow::default();
    loop {
        shared.flush_requested.notified().await;
        window.wait_for_members_to_join(|| shared.next_group().members).await;
        let group = std::mem::take(&mut *shared.next_group());
        if group.members == 0 {
            continue;
        }
        let began = Instant::now();
        metrics.record_flush(group.members);
        let result = flush(&db).await;
        let durable_seq = db.status().durable_seq;
        changes.mark_durable(durable_seq);
        replication.mark_durable(durable_seq);
        window.ended(group.members, shared.next_group().members, began);
        // All members may have stopped waiting. The call works without a receiver, too.
        group.result.send_replace(Some(result));
    }
}

/// Flushes everything that has been accepted. Returns when readers of the durable state see all of
/// it.
async fn flush(db: &Db) -> Result<(), Error> {
    let unknown = |error: slatedb::Error| Error::Unknown(Cause::new(error));
    let accepted = db.snapshot().map_err(unknown)?.seq();
    db.flush().await.map_err(unknown)?;
    if durable_up_to(db, accepted).await {
        return Ok(());
    }
    Err(Error::Unknown(Cause::new("the log was closed before it was flushed")))
}

/// Waits until everything up to a sequence number is durable. Returns `false` if the store is closed
/// before.
pub(super) async fn durable_up_to(db: &Db, sequence: u64) -> bool {
    let is_done =
        |status: &DbStatus| status.durable_seq >= sequence || status.close_reason.is_some();
    let mut status = db.subscribe();
    status.wait_for(is_done).await.is_ok_and(|status| status.durable_seq >= sequence)
}
