//! [`ReadRounds`]: reads of a replica see all changes that the writer has acknowledged before.
//!
//! A read waits until the writer has reported the sequence number of its state, and the replica has
//! applied all transactions up to this number. Without a feed, the read waits until the replica has
//! read the log in the bucket. All reads that wait share one such request, a **round**. A round
//! serves only reads that arrived before it began, so a read that arrives during a round waits for
//! the next one.

use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::consistency::Consistency;
use slateberg_base::uptime::uptime;

/// The rounds of one replica.
pub(super) struct ReadRounds {
    /// `None` after the end of all rounds.
    next: Mutex<Option<Reads>>,
    requested: Notify,
    /// When the last successful round began.
    confirmed: Mutex<Option<Began>>,
}

/// The beginning of a round, on two clocks. The uptime also counts while the machine is suspended.
#[derive(Clone, Copy)]
struct Began {
    instant: Instant,
    uptime: Duration,
}

impl Began {
    fn now() -> Self {
        Self { instant: Instant::now(), uptime: uptime() }
    }

    fn elapsed(self) -> Duration {
        self.instant.elapsed().max(uptime().saturating_sub(self.uptime))
    }
}

/// The reads that wait for the same request.
struct Reads {
    has_any: bool,
    result: watch::Sender<Option<bool>>,
}

/// A round whose request must be sent now.
pub(super) struct Round {
    reads: Reads,
    began: Began,
}

impl Default for Reads {
    fn default() -> Self {
        Self { has_any: false, result: watch::Sender::new(None) }
    }
}

impl Default for ReadRounds {
    fn default() -> Self {
        let next = Mutex::new(Some(Reads::default()));
        Self { next, requested: Notify::new(), confirmed: Mutex::default() }
    }
}

impl ReadRounds {
    /// Waits until a read is current enough, and returns the maximum age of the state that it sees.
    /// `None` if the round has failed.
    pub(super) async fn wait(&self, consistency: Consistency) -> Option<Duration> {
        if let Consistency::Bounded { staleness_max, .. } = consistency
            && let Some(confirmed) = *lock(&self.confirmed)
            && confirmed.elapsed() <= staleness_max
        {
            return Some(confirmed.elapsed());
        }
        let arrived = Began::now();
        let mut result = {
            let mut next = lock(&self.next);
            let next = next.as_mut()?;
            next.has_any = true;
            next.result.subscribe()
        };
        self.requested.notify_one();
        let is_confirmed = result.wait_for(Option::is_some).await.is_ok_and(|it| *it == Some(true));
        is_confirmed.then(|| arrived.elapsed())
    }

    /// Returns the maximum age of the state of the replica. `None` before the first successful round.
    pub(super) fn age(&self) -> Option<Duration> {
        lock(&self.confirmed).map(Began::elapsed)
    }

    /// Waits until there are reads, and begins a round for them. After `idle_max`, if it is given,
    /// begins a round without reads, so that bounded reads that arrive later need none.
    pub(super) async fn begin(&self, idle_max: Option<Duration>) -> Round {
        let idle_at = idle_max.map(|idle_max| Instant::now() + idle_max);
        loop {
            let requested = self.requested.notified();
            let is_idle = match idle_at {
                Some(idle_at) => timeout_at(idle_at, requested).await.is_err(),
                None => {
                    requested.await;
                    false
                }
            };
            if let Some(reads) = self.take(is_idle) {
                return Round { reads, began: Began::now() };
            }
            if is_idle {
                // The rounds are closed.
                pending::<()>().await;
            }
        }
    }

    /// Takes the reads that wait.
    fn take(&self, or_without_reads: bool) -> Option<Reads> {
        let mut next = lock(&self.next);
        let reads = next.take_if(|reads| reads.has_any || or_without_reads)?;
        *next = Some(Reads::default());
        Some(reads)
    }

    /// Ends a round. `is_confirmed` states whether the replica has applied everything that the
    /// writer has reported.
    pub(super) fn end(&self, round: Round, is_confirmed: bool) {
        if is_confirmed {
            *lock(&self.confirmed) = Some(round.began);
        }
        round.reads.result.send_replace(Some(is_confirmed));
    }

    /// Fails all reads that wait, and all later ones.
    pub(super) fn close(&self) {
        lock(&self.next).take();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    const BOUNDED_READ: Consistency =
        Consistency::Bounded { staleness_max: Duration::from_secs(60), at_least: 0 };

    /// Rounds that count their requests. Each request takes some time.
    async fn run(rounds: &ReadRounds, requests: &AtomicUsize, is_confirmed: bool) {
        loop {
            let round = rounds.begin(None).await;
            requests.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            rounds.end(round, is_confirmed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reads_that_arrive_during_a_round_wait_for_the_next_one() {
        let (rounds, requests) = (ReadRounds::default(), AtomicUsize::new(0));
        let reads = async {
            let read = |delay_ms| {
                let rounds = &rounds;
                async move {
                    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
                    rounds.wait(Consistency::Linearizable).await.expect("it is confirmed");
                    Instant::now()
                }
            };
            let began = Instant::now();
            let ended = join_all([0, 0, 5, 9].map(read)).await;
            ended.into_iter().map(|end| (end - began).as_millis()).collect::<Vec<_>>()
        };
        let ended = tokio::select! {
            ended = reads => ended,
            () = run(&rounds, &requests, true) => unreachable!("rounds do not end"),
        };
        assert_eq!(ended, [10, 10, 20, 20]);
        assert_eq!(requests.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn bounded_read_needs_no_round_while_the_last_one_is_recent() {
        let (rounds, requests) = (ReadRounds::default(), AtomicUsize::new(0));
        let reads = async {
            rounds.wait(BOUNDED_READ).await.expect("the first read needs a round");
            tokio::time::sleep(Duration::from_secs(50)).await;
            let age = rounds.wait(BOUNDED_READ).await.expect("the round is recent");
            assert_eq!(age, Duration::from_millis(50_010));
            tokio::time::sleep(Duration::from_secs(10)).await;
            let age = rounds.wait(BOUNDED_READ).await.expect("another round");
            assert_eq!(age, Duration::from_millis(10));
        };
        tokio::select! {
            () = reads => {}
            () = run(&rounds, &requests, true) => unreachable!("rounds do not end"),
        }
        assert_eq!(requests.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn reads_fail_with_their_round_and_after_the_end() {
        let (rounds, requests) = (ReadRounds::default(), AtomicUsize::new(0));
        tokio::select! {
            failed = rounds.wait(BOUNDED_READ) => assert_eq!(failed, None),
            () = run(&rounds, &requests, false) => unreachable!("rounds do not end"),
        }
        let waiting = rounds.wait(Consistency::Linearizable);
        let closing = async {
            tokio::task::yield_now().await;
            rounds.close();
        };
        assert_eq!(tokio::join!(waiting, closing).0, None);
        assert_eq!(rounds.wait(Consistency::Linearizable).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_replica_begins_rounds_without_reads() {
        let rounds = ReadRounds::default();
        assert_eq!(rounds.age(), None);
        let began = Instant::now();
        for _ in 0..2 {
            let round = rounds.begin(Some(Duration::from_secs(1))).await;
            rounds.end(round, true);
        }
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        assert!(rounds.wait(BOUNDED_READ).await.is_some(), "it needs no round");
        assert!(rounds.age().is_some());
    }
}
