//! [`Pace`]: the batching window, during which a group waits for further members.
//!
//! Members of one group tend to send their next request as soon as the group ends. If the next
//! group started with the first of them, the others would wait for a whole round: two half groups
//! would alternate, with twice the latency for each. So a group that starts just after another one
//! waits while further members arrive in quick succession. It waits for at most a fraction of the
//! previous group's duration, and not at all if the previous group had a single member.

use std::time::Duration;

use tokio::time::Instant;

/// The maximum wait is the duration of the previous group divided by this.
const PATIENCE_DIVISOR: u32 = 4;
/// The group starts if no member arrives for the duration of the previous group divided by this,
/// and for at least `GAP_MIN`.
const GAP_DIVISOR: u32 = 16;
const GAP_MIN: Duration = Duration::from_micros(150);
/// Extra time for a sleep if no blocking thread is free.
const LATE_MAX: Duration = Duration::from_millis(1);
/// Maximum number of yields before the group sleeps. Each yield lets all ready tasks run.
const STEPS_BACK_MAX: usize = 64;

/// Statistics of the last group.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    members: usize,
    /// Expected members: those of the last group, and those that were waiting when it ended.
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
    /// Records a group that has just ended, and the number of callers that wait for the next one.
    pub fn ended(&mut self, members: usize, waiting: usize, began: Instant) {
        let ended = Instant::now();
        let took = ended - began;
        self.last = Some(Last { members, expected: members + waiting, took, ended });
    }

    /// Whether the last group is recent enough to influence the next one.
    pub fn is_fresh(&self) -> bool {
        self.last.is_some_and(|last| Instant::now() < last.patient_until())
    }

    /// Waits for further members while that is worthwhile. `count` returns the current number of
    /// members.
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

/// Yields to other tasks as long as new members arrive.
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

/// Sleeps on a blocking thread, because the runtime's timer has a resolution of one millisecond. If
/// all blocking threads are busy, the timer ends the sleep.
async fn sleep(time: Duration) {
    let sleeping = tokio::task::spawn_blocking(move || std::thread::sleep(time));
    let waiting = sleeping.abort_handle();
    // A runtime that shuts down rejects the call. The group then starts, as after a sleep.
    let _ = tokio::time::timeout(time + LATE_MAX, sleeping).await;
    // A sleep that has not started must not occupy a thread later.
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
