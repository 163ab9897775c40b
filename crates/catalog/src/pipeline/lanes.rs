//! Lanes: queues that serialize the changes of one table or view. Changes of different tables run
//! concurrently.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::{Error, Result};

type Lane = Arc<tokio::sync::Mutex<()>>;

/// All lanes in use.
pub(crate) struct Lanes {
    lanes: Mutex<HashMap<Uuid, Lane>>,
    depth_max: usize,
    deadline: Duration,
}

/// The lanes that a change has entered. Dropping the guard leaves these lanes.
#[derive(Default)]
pub(crate) struct LaneGuard {
    guards: Vec<OwnedMutexGuard<()>>,
}

/// Number of lanes at which unused lanes are removed.
const SWEEP_AT: usize = 1024;

impl Lanes {
    /// Creates lanes with room for `depth_max` changes each. A change waits in a lane for at most
    /// `deadline`.
    pub(crate) fn new(depth_max: usize, deadline: Duration) -> Self {
        Self { lanes: Mutex::default(), depth_max, deadline }
    }

    /// Enters the lanes of `ids`, in the order of the ids, so that two changes cannot deadlock.
    pub(crate) async fn enter(&self, mut ids: Vec<Uuid>) -> Result<LaneGuard> {
        ids.sort_unstable();
        ids.dedup();
        let lanes = ids.into_iter().map(|id| self.lane(id)).collect::<Result<Vec<_>>>()?;
        let deadline = Instant::now() + self.deadline;
        let mut guards = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let guard = timeout_at(deadline, lane.lock_owned()).await.map_err(|_| {
                Error::unavailable("Earlier changes are still in progress", "lane wait timed out")
            })?;
            guards.push(guard);
        }
        Ok(LaneGuard { guards })
    }

    fn lane(&self, id: Uuid) -> Result<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() >= SWEEP_AT {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let lane = lanes.entry(id).or_default();
        // The map holds one reference to the lane. Every other reference belongs to a change that
        // holds the lane or waits for it.
        if Arc::strong_count(lane) > self.depth_max {
            return Err(Error::unavailable("Too many changes wait already", "lane is full"));
        }
        Ok(Arc::clone(lane))
    }
}

impl LaneGuard {
    /// Merges two guards into one.
    #[must_use]
    pub(crate) fn and(mut self, mut others: Self) -> Self {
        self.guards.append(&mut others.guards);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn joined_lanes_are_left_together() {
        let lanes = Lanes::new(8, Duration::from_millis(10));
        let (one, other) = (vec![Uuid::from_u128(1)], vec![Uuid::from_u128(2)]);
        let first = lanes.enter(one.clone()).await.expect("the lane is empty");
        let both = first.and(lanes.enter(other.clone()).await.expect("the lane is empty"));
        for id in [&one, &other] {
            assert!(lanes.enter(id.clone()).await.is_err(), "the lane is taken");
        }
        drop(both);
        for id in [one, other] {
            assert!(lanes.enter(id).await.is_ok(), "the lane is free");
        }
    }

    #[tokio::test]
    async fn a_lane_is_bounded_in_depth_and_in_time() {
        let lanes = Lanes::new(2, Duration::from_millis(10));
        let id = Uuid::nil();
        let inside = lanes.enter(vec![id]).await.expect("the lane is empty");
        let (second, third) = tokio::join!(lanes.enter(vec![id]), lanes.enter(vec![id]));
        assert!(matches!(second.err(), Some(Error::Unavailable { .. })), "waited too long");
        assert!(matches!(third.err(), Some(Error::Unavailable { .. })), "found the lane full");
        drop(inside);
        assert!(lanes.enter(vec![id]).await.is_ok());
    }

    #[tokio::test]
    async fn concurrent_entries_of_the_same_lanes_do_not_deadlock() {
        let lanes = Arc::new(Lanes::new(8, Duration::from_secs(5)));
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let run = |ids: Vec<Uuid>| {
            let lanes = Arc::clone(&lanes);
            tokio::spawn(async move {
                for _ in 0..100 {
                    let _inside = lanes.enter(ids.clone()).await.expect("no deadlock");
                    tokio::task::yield_now().await;
                }
            })
        };
        let (one, other) = tokio::join!(run(vec![a, b]), run(vec![b, a]));
        one.expect("no panic");
        other.expect("no panic");
    }
}
