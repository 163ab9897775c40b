//! [`History`]: what was asked and answered, and when.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::model::{Op, Outcome};

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Event {
    /// Who asked.
    pub client: usize,
    /// For what.
    pub op: Op,
    /// What the answer was.
    pub outcome: Outcome,
    /// When the request was sent, on the history's own clock.
    pub called: u64,
    /// When the answer was there.
    pub answered: u64,
}

/// Requests as they come. Its clock ticks with each call and each answer, so that no two have the same
/// moment.
#[derive(Default)]
pub struct History {
    clock: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl History {
    /// The moment before a call, or after an answer.
    pub fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Writes down a request that was called at this moment, and has been answered just now.
    pub fn answered(&self, client: usize, op: Op, outcome: Outcome, called: u64) {
        let answered = self.tick();
        let event = Event { client, op, outcome, called, answered };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// All of it, in the order of the calls.
    pub fn events(&self) -> Vec<Event> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        events.sort_by_key(|event| event.called);
        events
    }
}

/// Events, one to a line.
pub struct Listing<'a>(pub &'a [Event]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Event { client, op, outcome, called, answered } in self.0 {
            writeln!(f, "{called:>4}..{answered:<4} client {client}: {op:?} -> {outcome:?}")?;
        }
        Ok(())
    }
}
