//! [`Turns`]: lets commits succeed that cannot be rebased, on tables with many appends.
//!
//! While the server rebases the appends of others, a delete or an overwrite fails again and again:
//! each time, the table has changed before the commit arrives. Such a commit gets a *turn*. The next
//! load by its principal begins a hold, in which appends to the table wait. The hold ends with the
//! next commit of this principal that is not an append, or after a maximum time. If the principal
//! has not committed in this time, no hold begins for the same time. So a principal that never
//! commits delays appends for at most half of the time.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use slateberg_telemetry::collection::Collection;

/// Time in which the principal must load the table. Clients wait for up to a minute before a retry.
const GRANT_LIFETIME: Duration = Duration::from_secs(60);
/// Number of tables at which expired turns are removed.
const SWEEP_AT: usize = 256;

/// The turns of all tables.
pub(crate) struct Turns {
    turns: Mutex<HashMap<Uuid, Turn>>,
    /// Maximum duration of a hold. Zero disables turns.
    hold_max: Duration,
    /// Number of holds.
    holds: AtomicU64,
}

/// The turn of a table.
#[derive(Default)]
struct Turn {
    /// The principal whose next load begins a hold, and the time at which its commit failed.
    granted: Option<(String, Instant)>,
    hold: Option<Hold>,
    /// The time before which no hold begins, because the last one was not used.
    rest_until: Option<Instant>,
}

struct Hold {
    principal: String,
    began: Instant,
    /// Whether all commits from before the hold have ended.
    is_settled: bool,
    /// Appends wait until this is dropped.
    released: watch::Sender<()>,
}

impl Turns {
    /// Creates turns with holds of at most `hold_max`.
    pub(crate) fn new(hold_max: Duration) -> Self {
        Self { turns: Mutex::default(), hold_max, holds: AtomicU64::new(0) }
    }

    /// Grants a turn to a principal whose commit to a table has failed because of appends.
    pub(super) fn grant(&self, id: Uuid, principal: &str, now: Instant) {
        if self.hold_max.is_zero() {
            return;
        }
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= SWEEP_AT {
            turns.retain(|_, turn| !turn.is_over(now, self.hold_max));
        }
        let turn = turns.entry(id).or_default();
        // Two principals that lose at the same time get their turns one after the other.
        if turn.granted.as_ref().is_none_or(|(_, at)| now >= *at + GRANT_LIFETIME) {
            turn.granted = Some((principal.to_owned(), now));
        }
    }

    /// Returns whether a load by this principal must wait until all commits from before its hold
    /// have ended, because their changes would make the loaded state stale. Begins the hold if the
    /// principal has a turn.
    pub(super) fn begins_hold(&self, id: Uuid, principal: &str, now: Instant) -> bool {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(turn) = turns.get_mut(&id) else { return false };
        turn.expire(now, self.hold_max);
        if let Some(hold) = &turn.hold {
            return hold.principal == principal && !hold.is_settled;
        }
        let has_turn = turn.granted.as_ref().is_some_and(|(granted, _)| granted == principal);
        if !has_turn || turn.rest_until.is_some_and(|until| now < until) {
            return false;
        }
        let principal = turn.granted.take().map(|(principal, _)| principal).unwrap_or_default();
        let released = watch::Sender::new(());
        turn.hold = Some(Hold { principal, began: now, is_settled: false, released });
        self.holds.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Collects the metrics of turns.
    pub(super) fn collect(&self, into: &mut Collection) {
        let help = "Times that appends waited for a commit that cannot be rebased.";
        let holds = self.holds.load(Ordering::Relaxed);
        into.counter("slateberg.commit.turns", "{turn}", help, Vec::new(), holds);
    }

    /// Records that all commits from before the hold have ended.
    pub(super) fn settle(&self, id: Uuid) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hold) = turns.get_mut(&id).and_then(|turn| turn.hold.as_mut()) {
            hold.is_settled = true;
        }
    }

    /// Waits while appends to a table are held. Waits for one hold only, so that several holds
    /// cannot delay an append further.
    pub(super) async fn wait(&self, id: Uuid) {
        if let Some((mut released, until)) = self.held(id, Instant::now()) {
            // An error means that the hold has ended.
            let _ended = timeout_at(until, released.changed()).await;
        }
    }

    fn held(&self, id: Uuid, now: Instant) -> Option<(watch::Receiver<()>, Instant)> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = turns.get_mut(&id)?;
        turn.expire(now, self.hold_max);
        let hold = turn.hold.as_ref()?;
        Some((hold.released.subscribe(), hold.began + self.hold_max))
    }

    /// Ends the hold of a principal whose commit has ended. The commit must have arrived during the
    /// hold, at `arrived`: an earlier commit of the principal is the reason for the hold.
    pub(super) fn end(&self, id: Uuid, principal: &str, arrived: Instant) {
        let now = Instant::now().max(arrived);
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(turn) = turns.get_mut(&id) else { return };
        turn.expire(now, self.hold_max);
        let is_used = |hold: &Hold| hold.principal == principal && hold.began <= arrived;
        if turn.hold.as_ref().is_some_and(is_used) {
            // There is no rest: the commit may have failed because of an append that arrived just
            // before the hold. Then the principal needs the next hold at once.
            turn.hold = None;
        }
    }
}

impl Turn {
    /// Ends the hold if its maximum time has passed, and removes an unused turn.
    fn expire(&mut self, now: Instant, hold_max: Duration) {
        if let Some(end) = self.hold.as_ref().map(|hold| hold.began + hold_max)
            && now >= end
        {
            self.hold = None;
            self.rest_until = Some(end + hold_max);
        }
        if self.granted.as_ref().is_some_and(|(_, at)| now >= *at + GRANT_LIFETIME) {
            self.granted = None;
        }
    }

    /// Whether the turn has no effect anymore.
    fn is_over(&mut self, now: Instant, hold_max: Duration) -> bool {
        self.expire(now, hold_max);
        let rests = self.rest_until.is_some_and(|until| now < until);
        self.granted.is_none() && self.hold.is_none() && !rests
    }
}
