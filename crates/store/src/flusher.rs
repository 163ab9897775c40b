//! Group commit: flushes the write-ahead log. Each flush writes everything that was accepted since
//! the previous flush began.
//!
//! If no flush is in progress, a flush starts as soon as a transaction waits, so a single commit
//! has no delay. Transactions that are accepted during a flush form the next **group**. A log in a
//! directory has one flush at a time, so the group's flush starts when the current one ends. In a
//! bucket, flushes overlap: the next one starts a part of the duration of a flush after the last one
//! started. This part is smaller if many transactions wait for it, because each flush costs a put.
//! A group that closely follows another group first waits a short time for transactions that are
//! about to be accepted. Otherwise, these transactions would become durable only with the flush of a
//! later group ([`BatchWindow`]).
//!
//! SlateDB could flush on a timer instead. But then a single commit waits for half a period on
//! average, and an idle process wakes up in every period.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::change_feed::ChangeFeed;
use super::error::Error;
use super::metrics::Metrics;
use super::replication::Replication;
use super::status::Status;
use slateberg_base::batch_window::BatchWindow;
use slateberg_base::error_chain::Cause;
use slateberg_wal::LogFlusher;

/// Number of flushes that usually overlap, if flushes may overlap.
const USUAL_OVERLAP: u32 = 4;
/// A longer flush, such as one that waited for the end of an outage, says nothing about the next.
const TOOK_MAX: Duration = Duration::from_secs(1);
/// Number of waiting transactions for which more flushes overlap.
const MANY: usize = 8;

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
    /// Starts to flush a log, with at most `flushes_max` flushes at the same time.
    pub(super) fn start(durable: Durable, flushes_max: u32, metrics: Metrics) -> Self {
        let shared =
            Arc::new(Shared { next_group: Mutex::default(), flush_requested: Notify::new() });
        let run = run(flushes_max, Arc::clone(&shared), durable, metrics);
        let task = tokio::spawn(run).abort_handle();
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

/// The log, and those that have to know how much of it is durable.
pub(super) struct Durable {
    pub(super) log: LogFlusher,
    pub(super) status: Status,
    pub(super) changes: Arc<ChangeFeed>,
    pub(super) replication: Arc<Replication>,
}

impl Durable {
    fn report(&self) {
        let sequence = self.status.durable_sequence();
        self.changes.mark_durable(sequence);
        self.replication.mark_durable(sequence);
    }
}

/// The pauses between the starts of overlapping flushes.
struct Pauses {
    /// Part of the duration of a flush after which the next one starts.
    divisor: u32,
    /// The same if at least `MANY` transactions wait.
    divisor_if_many: u32,
    /// When the last flush started.
    started: Instant,
    /// Duration of the last flush that has ended.
    took: Duration,
}

impl Pauses {
    fn new(flushes_max: u32) -> Self {
        let divisor = flushes_max.min(USUAL_OVERLAP);
        Self {
            divisor,
            divisor_if_many: flushes_max,
            started: Instant::now(),
            took: Duration::ZERO,
        }
    }

    /// Returns the usual pause.
    fn usual(&self) -> Duration {
        self.took / self.divisor
    }

    /// Returns the end of the current pause.
    fn end(&self, waiting: usize) -> Instant {
        let divisor = if waiting < MANY { self.divisor } else { self.divisor_if_many };
        self.started + self.took / divisor
    }
}

async fn run(flushes_max: u32, shared: Arc<Shared>, durable: Durable, metrics: Metrics) {
    let mut flushes = FuturesOrdered::new();
    let mut window = BatchWindow::default();
    let mut pauses = Pauses::new(flushes_max);
    loop {
        let (is_idle, waiting) = (flushes.is_empty(), shared.next_group().members);
        let may_start = waiting > 0 && flushes.len() < flushes_max as usize;
        let pause_end = pauses.end(waiting);
        if may_start && (is_idle || Instant::now() >= pause_end) {
            if is_idle {
                window.wait_for_members_to_join(|| shared.next_group().members).await;
            }
            let group = std::mem::take(&mut *shared.next_group());
            metrics.record_flush(group.members);
            let began = Instant::now();
            pauses.started = began;
            let log = &durable.log;
            flushes.push_back(async move { (flush(log).await, group, began) });
            continue;
        }
        tokio::select! {
            Some((result, group, began)) = flushes.next(), if !is_idle => {
                durable.report();
                pauses.took = began.elapsed().min(TOOK_MAX);
                window.ended(group.members, shared.next_group().members, pauses.usual());
                // All members may have stopped waiting. The call works without a receiver, too.
                group.result.send_replace(Some(result));
            }
            () = shared.flush_requested.notified(), if waiting == 0 || may_start && waiting < MANY => {}
            () = sleep_until(pause_end), if may_start => {}
        }
    }
}

/// Flushes everything that has been accepted. Returns when readers of the durable state see all of
/// it: SlateDB is a listener of the log.
async fn flush(log: &LogFlusher) -> Result<(), Error> {
    log.flush().await.map_err(|error| Error::Unknown(Cause::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_is_shorter_if_many_transactions_wait() {
        let took = Duration::from_secs(80);
        let pause = |flushes_max, waiting| {
            let pauses = Pauses { took, ..Pauses::new(flushes_max) };
            (pauses.end(waiting) - pauses.started).as_secs()
        };
        assert_eq!((pause(8, 1), pause(8, MANY)), (20, 10));
        assert_eq!(pause(1, MANY), 80, "flushes of a journal do not overlap");
    }
}
