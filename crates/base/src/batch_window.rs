//! [`BatchWindow`]: the batching window, during which a group waits for further members.
//!
//! Members of one group tend to send their next request as soon as the group ends. If the first of
//! these requests started the next group at once, the requests of all other members would have to
//! wait until that group ends. Two groups with half of the members each would then alternate, and
//! each request would take twice as long. So a group that follows another group closely waits while
//! further members arrive so quickly that all requests together lose less time in the wait than the
//! later ones gain. The wait lasts at most as long as the previous group. If the previous group had
//! a single member, the new group only yields to tasks that are ready.

use std::time::Duration;

use tokio::time::Instant;

/// Interval in which a waiting group checks for new members: the duration of the previous group
/// divided by this number, but at least `GAP_MIN`.
const GAP_DIVISOR: u32 = 16;
const GAP_MIN: Duration = Duration::from_micros(150);
/// A longer group, such as one that waited for the end of an outage, says nothing about the next.
const TOOK_MAX: Duration = Duration::from_millis(250);
/// Time by which a sleep exceeds its planned duration if no blocking thread is free.
const SLEEP_GRACE: Duration = Duration::from_millis(1);
/// Maximum number of yields before the group sleeps. Each yield lets all ready tasks run.
const YIELDS_MAX: usize = 64;

/// Statistics of the last group.
#[derive(Debug, Clone, Copy, Default)]
pub struct BatchWindow {
    last: Option<LastGroup>,
}

#[derive(Debug, Clone, Copy)]
struct LastGroup {
    members: usize,
    /// Expected number of members: those of the last group, and those that were waiting when it
    /// ended.
    expected: usize,
    took: Duration,
    ended: Instant,
}

impl LastGroup {
    fn window_end(&self) -> Instant {
        self.ended + self.took
    }

    /// Whether members join so quickly that it is worthwhile to wait for more of them. A wait
    /// delays each of the `count` members by its length. A member that joins in time need not wait
    /// for the end of this group, which takes about as long as the previous one.
    fn is_worthwhile(&self, joined: usize, wait: Duration, count: usize) -> bool {
        let gained = self.took * u32::try_from(joined).unwrap_or(u32::MAX);
        let lost = wait * u32::try_from(count).unwrap_or(u32::MAX);
        gained > lost
    }
}

impl BatchWindow {
    /// Records a group that has just ended. `waiting` is the number of members that wait for the
    /// next group. `took` is the time that a member loses if it misses a group: the duration of
    /// the group, if groups do not overlap.
    pub fn ended(&mut self, members: usize, waiting: usize, took: Duration) {
        let (took, ended) = (took.min(TOOK_MAX), Instant::now());
        self.last = Some(LastGroup { members, expected: members + waiting, took, ended });
    }

    /// Whether the last group is recent enough to influence the next one.
    pub fn is_fresh(&self) -> bool {
        self.last.is_some_and(|last| Instant::now() < last.window_end())
    }

    /// Waits for further members while that is worthwhile. `count` returns the current number of
    /// members.
    pub async fn wait_for_members_to_join(self, count: impl Fn() -> usize) {
        yield_while_growing(&count).await;
        let Some(last) = self.last.filter(|last| last.members > 1) else { return };
        let gap = (last.took / GAP_DIVISOR).max(GAP_MIN);
        let mut count_before = count();
        while count_before < last.expected && Instant::now() + gap <= last.window_end() {
            let began = Instant::now();
            sleep(gap).await;
            let now = count();
            let joined = now.saturating_sub(count_before);
            if !last.is_worthwhile(joined, began.elapsed(), count_before) {
                break;
            }
            count_before = now;
        }
    }
}

/// Yields to other tasks as long as new members arrive.
async fn yield_while_growing(count: impl Fn() -> usize) {
    let mut count_before = count();
    for _ in 0..YIELDS_MAX {
        tokio::task::yield_now().await;
        let now = count();
        if now == count_before {
            break;
        }
        count_before = now;
    }
}

/// Sleeps on a blocking thread, because a sleep may be shorter than one millisecond, the
/// resolution of the runtime's timer. If all blocking threads are busy, the timer ends the sleep.
async fn sleep(time: Duration) {
    let sleeping = tokio::task::spawn_blocking(move || std::thread::sleep(time));
    let waiting = sleeping.abort_handle();
    // A runtime that shuts down rejects `spawn_blocking`. The group then starts without a sleep.
    let _ = tokio::time::timeout(time + SLEEP_GRACE, sleeping).await;
    // If the sleep has not started, it must not occupy a blocking thread later.
    waiting.abort();
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn after(members: usize, waiting: usize, took: Duration) -> BatchWindow {
        let mut window = BatchWindow::default();
        window.ended(members, waiting, took);
        window
    }

    #[tokio::test]
    async fn single_member_does_not_wait() {
        let calls = Cell::new(0);
        let count = || {
            calls.set(calls.get() + 1);
            1
        };
        BatchWindow::default().wait_for_members_to_join(count).await;
        after(1, 0, Duration::from_secs(1000)).wait_for_members_to_join(count).await;
        assert_eq!(calls.get(), 4, "it yields once, and does not sleep");
    }

    #[tokio::test]
    async fn group_waits_while_members_arrive() {
        let members = Cell::new(0);
        let count = || {
            members.set(members.get() + 1);
            members.get()
        };
        after(80, 20, Duration::from_millis(80)).wait_for_members_to_join(count).await;
        assert!(members.get() >= 66, "it yields as long as members arrive: {}", members.get());
    }

    #[test]
    fn wait_is_worthwhile_while_members_join_quickly() {
        let took = Duration::from_millis(160);
        let last = LastGroup { members: 80, expected: 100, took, ended: Instant::now() };
        let wait = took / 16;
        assert!(last.is_worthwhile(5, wait, 64));
        assert!(!last.is_worthwhile(4, wait, 64), "64 members lose as much as 4 gain");
        assert!(!last.is_worthwhile(0, wait, 1));
    }

    #[tokio::test]
    async fn group_after_an_outage_does_not_wait_long() {
        let window = after(50, 0, Duration::from_secs(1000));
        let began = Instant::now();
        window.wait_for_members_to_join(|| 1).await;
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn group_stops_waiting_when_members_arrive_slowly() {
        let calls = Cell::new(0);
        let count = || {
            calls.set(calls.get() + 1);
            60 + calls.get() / 3
        };
        after(80, 60, Duration::from_millis(80)).wait_for_members_to_join(count).await;
        assert!(calls.get() <= 8, "the 60 waiting members lose more: {}", calls.get());
    }

    #[tokio::test]
    async fn group_stops_waiting_when_no_member_arrives() {
        let calls = Cell::new(0);
        let count = || {
            calls.set(calls.get() + 1);
            1
        };
        after(100, 0, Duration::from_millis(80)).wait_for_members_to_join(count).await;
        assert!(calls.get() <= 4, "no member arrived in the first gap: {}", calls.get());
    }
}
