//! [`History`]: requests and responses, with their times.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::model::{Op, Outcome};

/// A request with its response.
#[derive(Debug, Clone)]
pub struct Event {
    /// The client.
    pub client: usize,
    /// The operation.
    pub op: Op,
    /// The outcome in the response.
    pub outcome: Outcome,
    /// The time of the call, on the history's own clock.
    pub called: u64,
    /// The time of the response.
    pub answered: u64,
}

/// Recorder of requests. Its clock advances with each call and each response, so that all times are
/// different.
#[derive(Default)]
pub struct History {
    clock: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl History {
    /// Returns the time before a call, or after a response.
    pub fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Records a request that was called at this time and has just been answered.
    pub fn answered(&self, client: usize, op: Op, outcome: Outcome, called: u64) {
        let answered = self.tick();
        let event = Event { client, op, outcome, called, answered };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Returns all events, in the order of the calls.
    pub fn events(&self) -> Vec<Event> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        events.sort_by_key(|event| event.called);
        events
    }
}

/// Formats events, one per line.
pub struct Listing<'a>(pub &'a [Event]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Event { client, op, outcome, called, answered } in self.0 {
            writeln!(f, "{called:>4}..{answered:<4} client {client}: {op:?} -> {outcome:?}")?;
        }
        Ok(())
    }
}
