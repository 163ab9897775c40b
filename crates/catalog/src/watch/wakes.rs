//! [`Wakes`]: wakes the watches when they may have something to read.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Notify, watch::Receiver};

use crate::core::Core;

/// Number of closed connections whose groups remain in memory, at least.
const PRUNE_MIN: usize = 64;

/// Wakes the watches when the horizon of the change feed moves, and when other policies come into
/// force. The watches of a connection are woken directly one after the other, so that the connection
/// can send their events in one write. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Wakes {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The group of each connection. `None` is the key of the watches without a connection.
    groups: BTreeMap<Option<SocketAddr>, Weak<Notify>>,
    /// Number of groups at which those without watches are removed.
    prune_at: usize,
    /// Whether a task wakes the groups. It ends when no group is left.
    is_running: bool,
}

/// Watches that are woken together. A watch is in its group until it drops this value.
pub(super) type WakeGroup = Arc<Notify>;

impl Wakes {
    /// Returns the group of the watches of a connection.
    pub(super) fn join(&self, core: &Core, connection: Option<SocketAddr>) -> WakeGroup {
        let mut state = self.lock();
        let group = state.group(connection);
        if !state.is_running {
            state.is_running = true;
            let (horizon, policies) = (core.store().change_horizon(), core.access.policy_changes());
            tokio::spawn(self.clone().run(horizon, policies));
        }
        group
    }

    /// Wakes the groups until no group is left, or until the catalog is closed.
    async fn run(self, mut horizon: Receiver<u64>, mut policies: Receiver<()>) {
        loop {
            let changed = tokio::select! {
                changed = horizon.changed() => changed,
                changed = policies.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            let Some(groups) = self.groups() else { return };
            groups.iter().for_each(|group| group.notify_waiters());
        }
    }

    /// Returns the groups with watches. `None` if there are none: the task that calls this function
    /// must then end.
    fn groups(&self) -> Option<Vec<WakeGroup>> {
        let mut state = self.lock();
        state.prune();
        state.is_running = !state.groups.is_empty();
        let groups = state.groups.values().filter_map(Weak::upgrade);
        state.is_running.then(|| groups.collect())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn group(&mut self, connection: Option<SocketAddr>) -> WakeGroup {
        if self.groups.len() >= self.prune_at {
            self.prune();
        }
        let group = self.groups.get(&connection).and_then(Weak::upgrade).unwrap_or_default();
        self.groups.insert(connection, Arc::downgrade(&group));
        group
    }

    /// Removes the groups without watches.
    fn prune(&mut self) {
        self.groups.retain(|_, group| group.strong_count() > 0);
        self.prune_at = self.groups.len() * 2 + PRUNE_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(port: u16) -> Option<SocketAddr> {
        Some(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    #[test]
    fn watches_of_a_connection_are_in_one_group() {
        let mut state = State::default();
        let [first, other] = [1, 2].map(|port| state.group(connection(port)));
        assert!(Arc::ptr_eq(&first, &state.group(connection(1))));
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[test]
    fn groups_of_closed_connections_are_removed() {
        let mut state = State::default();
        let open = state.group(connection(1));
        for port in 2..10_000 {
            drop(state.group(connection(port)));
        }
        assert!(state.groups.len() <= 2 * PRUNE_MIN, "{}", state.groups.len());
        assert!(Arc::ptr_eq(&open, &state.group(connection(1))));
    }
}
