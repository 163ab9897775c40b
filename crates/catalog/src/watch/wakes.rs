//! [`Wakes`]: wakes the watches when they may have something to read.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Notify, watch::Receiver};

use crate::core::Core;

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
    /// Whether a task wakes the groups. It ends when no group is left.
    is_running: bool,
}

/// Watches that are woken together. A watch is in its group until it drops this value.
pub(super) type WakeGroup = Arc<Notify>;

impl Wakes {
    /// Returns the group of the watches of a connection.
    pub(super) fn join(&self, core: &Core, connection: Option<SocketAddr>) -> WakeGroup {
        let mut state = self.lock();
        let group = state.groups.get(&connection).and_then(Weak::upgrade).unwrap_or_default();
        state.groups.insert(connection, Arc::downgrade(&group));
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
        state.groups.retain(|_, group| group.strong_count() > 0);
        state.is_running = !state.groups.is_empty();
        let groups = state.groups.values().filter_map(Weak::upgrade);
        state.is_running.then(|| groups.collect())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
