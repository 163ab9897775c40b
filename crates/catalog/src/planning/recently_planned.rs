//! [`RecentlyPlanned`]: the tables that were planned recently.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use slateberg_objects::manifest::NeededColumns;

/// Time since the last plan of a table after which its manifests are no longer read.
const IDLE_MS: i64 = 10 * 60 * 1000;
/// Maximum number of tables. Plans of further tables are not followed.
const TABLES_MAX: usize = 100;

/// The tables that were planned recently.
#[derive(Default)]
pub(super) struct RecentlyPlanned(Mutex<State>);

#[derive(Default)]
struct State {
    tables: HashMap<Uuid, Followed>,
    is_running: bool,
}

/// A table that was planned recently.
#[derive(Clone)]
pub(super) struct Followed {
    /// The version whose manifests were read last.
    pub(super) version: u64,
    /// The columns whose statistics the last plan needed.
    pub(super) needed: NeededColumns,
    pub(super) planned_ms: i64,
}

impl RecentlyPlanned {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a table, or replaces it. Returns whether the caller has to start the task that follows
    /// the tables.
    pub(super) fn add(&self, id: Uuid, table: Followed) -> bool {
        let mut state = self.lock();
        if state.tables.len() >= TABLES_MAX && !state.tables.contains_key(&id) {
            return false;
        }
        state.tables.insert(id, table);
        !std::mem::replace(&mut state.is_running, true)
    }

    /// Returns the tables. Empty if there are none: the task that calls this function must then end.
    pub(super) fn all(&self, now_ms: i64) -> Vec<(Uuid, Followed)> {
        let mut state = self.lock();
        state.tables.retain(|_, table| now_ms - table.planned_ms <= IDLE_MS);
        state.is_running = !state.tables.is_empty();
        state.tables.iter().map(|(id, table)| (*id, table.clone())).collect()
    }

    pub(super) fn set_version(&self, id: Uuid, version: u64) {
        if let Some(table) = self.lock().tables.get_mut(&id) {
            table.version = table.version.max(version);
        }
    }
}
