//! [`UsageCounters`]: counts uses in memory until they are stored.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::Operation;
use slateberg_store::usage::{LastUse, UsageRecord};

/// Number of maps. Concurrent requests for different tables rarely use the same map.
const SHARDS: usize = 64;
/// Maximum number of tables and views whose uses are counted between two writes to the store.
const TABULARS_MAX: usize = 100_000;

/// A use of a table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Load,
    Scan,
    Commit,
}

/// The uses since the last write to the store. Each shard has its own lock.
pub(crate) struct UsageCounters {
    shards: [Mutex<HashMap<Uuid, UsageRecord>>; SHARDS],
}

impl UsageCounters {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Counts a use by the principal of a request. If uses of too many other tables were counted
    /// since the last write to the store, this use is not counted.
    pub(crate) fn count(&self, id: Uuid, used: Use, operation: &Operation, now_ms: i64) {
        let mut shard = self.shard(id);
        if shard.len() >= TABULARS_MAX / SHARDS && !shard.contains_key(&id) {
            return;
        }
        let usage = shard
            .entry(id)
            .or_insert_with(|| UsageRecord { since_ms: now_ms, ..UsageRecord::default() });
        let (number, last) = match used {
            Use::Load => (&mut usage.loads, &mut usage.last_read),
            Use::Scan => (&mut usage.scans, &mut usage.last_read),
            Use::Commit => (&mut usage.commits, &mut usage.last_commit),
        };
        *number += 1;
        let principal = operation.principal.id();
        match last {
            Some(last) if last.principal == principal => last.at_ms = now_ms,
            last => {
                let name = operation.principal.name().map(ToOwned::to_owned);
                *last = Some(LastUse { at_ms: now_ms, principal: principal.to_owned(), name });
            }
        }
    }

    /// Returns the uses of a table or view that are not stored yet.
    pub(crate) fn of(&self, id: Uuid) -> Option<UsageRecord> {
        self.shard(id).get(&id).cloned()
    }

    /// Returns all uses that are not stored yet.
    pub(crate) fn all(&self) -> HashMap<Uuid, UsageRecord> {
        let shards = self.shards.iter().map(lock);
        shards.flat_map(|shard| shard.clone()).collect()
    }

    /// Removes and returns all uses.
    pub(crate) fn take(&self) -> Vec<(Uuid, UsageRecord)> {
        let shards = self.shards.iter().map(|shard| std::mem::take(&mut *lock(shard)));
        shards.flatten().collect()
    }

    /// Adds uses that could not be stored.
    pub(crate) fn put_back(&self, uses: Vec<(Uuid, UsageRecord)>) {
        for (id, mut earlier) in uses {
            let mut shard = self.shard(id);
            if let Some(later) = shard.remove(&id) {
                earlier.add(later);
            }
            shard.insert(id, earlier);
        }
    }

    fn shard(&self, id: Uuid) -> MutexGuard<'_, HashMap<Uuid, UsageRecord>> {
        // The last byte of an id is random.
        let [.., last] = *id.as_bytes();
        lock(&self.shards[usize::from(last) % SHARDS])
    }
}

fn lock(shard: &Mutex<HashMap<Uuid, UsageRecord>>) -> MutexGuard<'_, HashMap<Uuid, UsageRecord>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
