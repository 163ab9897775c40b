//! [`Pace`]: whether it is worth waiting for others before a group sets out.
//!
//! Whoever was served by one group tends to come back at once. If the next group left with the first of
//! them, the others would wait for a whole round: two half groups taking turns, each at twice the time.
//! So a group that sets out just behind another waits for those who come back, as long as they come one
//! close upon the other: never longer than a part of what a round takes, and not at all where the group
//! before had a single member.

use std::time::Duration;

use tokio::time::Instant;

/// A group waits for at most this part of the time that the one before it took.
const PATIENCE_DIVISOR: u32 = 4;
/// It sets out when nobody has come for this part of that time, and for at least so long.
const GAP_DIVISOR: u32 = 16;
const GAP_MIN: Duration = Duration::from_micros(150);
/// Extra time that a sleep may take if no blocking thread is free.
const LATE_MAX: Duration = Duration::from_millis(1);
/// How often to step back at most before any time is spent. Each step lets every task run that is ready.
const STEPS_BACK_MAX: usize = 64;

/// How the last group of a series went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    members: usize,
    /// Who may come: its members, and those who were waiting already when it ended.
    expected: usize,
    took: Duration,
    ended: Instant,
}

impl Last {
    fn patient_until(&self) -> Instant {
        self.ended + self.took / PATIENCE_DIVISOR
    }
}

impl Pace {
    /// Takes note of a group that has just ended, and of how many wait for the next one.
    pub fn ended(&mut self, members: usize, waiting: usize, began: Instant) {
        let ended = Instant::now();
        let took = ended - began;
        self.last = Some(Last { members, expected: members + waiting, took, ended });
    }

    /// Whether the last group still tells anything of the next.
    pub fn is_fresh(&self) -> bool {
        self.last.is_some_and(|last| Instant::now() < last.patient_until())
    }

    /// Waits for others, as long as it is worth while. `count` says how many have come.
    pub async fn let_others_join(self, count: impl Fn() -> usize) {
        step_back(&count).await;
        let Some(last) = self.last.filter(|last| last.members > 1) else { return };
        let gap = (last.took / GAP_DIVISOR).max(GAP_MIN);
        let mut come = count();
        while come < last.expected && Instant::now() + gap <= last.patient_until() {
            sleep(gap).await;
            let now = count();
            if now == come {
                break;
            }
            come = now;
        }
    }
}

/// Lets other tasks run as long as that makes more of them come.
async fn step_back(count: impl Fn() -> usize) {
    let mut come = count();
    for _ in 0..STEPS_BACK_MAX {
        tokio::task::yield_now().await;
        let now = count();
        if now == come {
            break;
        }
        come = now;
    }
}

/// Sleeps on a blocking thread: the runtime's timer has a resolution of a millisecond. While all of
/// those threads are busy, the timer ends the sleep all the same.
async fn sleep(time: Duration) {
    let sleeping = tokio::task::spawn_blocking(move || std::thread::sleep(time));
    let waiting = sleeping.abort_handle();
    // A runtime that shuts down rejects the call. The group sets out then, as after a sleep.
    let _ = tokio::time::timeout(time + LATE_MAX, sleeping).await;
    // A sleep that has not begun must not take a thread any more.
    waiting.abort();
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn after(members: usize, waiting: usize, took: Duration) -> Pace {
        let mut pace = Pace::default();
        pace.ended(members, waiting, Instant::now() - took);
        pace
    }

    #[tokio::test]
    async fn one_who_is_alone_waits_for_nobody() {
        let asked = Cell::new(0);
        let count = || {
            asked.set(asked.get() + 1);
            1
        };
        Pace::default().let_others_join(count).await;
        after(1, 0, Duration::from_secs(1000)).let_others_join(count).await;
        assert_eq!(asked.get(), 4, "it steps back once, and does not sleep");
    }

    #[tokio::test]
    async fn a_group_waits_for_those_who_come_back() {
        let come = Cell::new(0);
        let count = || {
            come.set(come.get() + 1);
            come.get()
        };
        after(80, 20, Duration::from_millis(80)).let_others_join(count).await;
        assert!(come.get() >= 66, "it steps back as long as somebody comes: {}", come.get());
    }

    #[tokio::test]
    async fn a_group_does_not_wait_for_those_who_stay_away() {
        let asked = Cell::new(0);
        let count = || {
            asked.set(asked.get() + 1);
            1
        };
        after(100, 0, Duration::from_millis(80)).let_others_join(count).await;
        assert!(asked.get() <= 4, "nobody came in the first gap: {}", asked.get());
    }
}
