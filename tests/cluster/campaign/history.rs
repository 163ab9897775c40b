//! [`History`]: the operations of all clients on registers, and a checker that searches for a serial
//! order of the operations on each register.
//!
//! A **register** is a property of a table, or the existence of a table. Linearizability is local:
//! a history is linearizable if the operations on each register are. The checker follows the
//! history, and keeps all states that the register can have (*configurations*). An operation takes
//! effect at one moment between its call and its response. An operation without a response takes
//! effect at any later moment, or never.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Upper bound of configurations of a register. The number of concurrent operations bounds them.
const CONFIGURATIONS_MAX: usize = 20_000;
/// Operations of a register in a panic.
const LISTED: usize = 40;

/// The value of a register: the number of the change that has set it. `None`: the property or the
/// table does not exist.
pub type Value = Option<u64>;

/// An operation on a register. The outcome in the response is a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A read returned this value.
    Read(Value),
    /// A response shows whether the table exists.
    Exists(bool),
    /// Sets the value.
    Write(u64),
    /// Creates a table that does not exist.
    Create(u64),
    /// Drops an existing table.
    Drop,
}

impl Op {
    /// Returns the value after the operation. `None` if it cannot have this outcome.
    fn after(self, value: Value) -> Option<Value> {
        match self {
            Self::Read(read) => (read == value).then_some(value),
            Self::Exists(exists) => (value.is_some() == exists).then_some(value),
            Self::Write(new) => Some(Some(new)),
            Self::Create(new) => value.is_none().then_some(Some(new)),
            Self::Drop => value.is_some().then_some(None),
        }
    }

    fn is_read(self) -> bool {
        matches!(self, Self::Read(_) | Self::Exists(_))
    }
}

#[derive(Debug, Clone, Copy)]
struct Event {
    op: Op,
    called: u64,
    /// The time of the response. `None` if the outcome is unknown.
    returned: Option<u64>,
}

/// A moment of an event.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Call,
    Return,
}

/// A possible state of a register.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Configuration {
    value: Value,
    /// The operations that have taken effect, of those without a response.
    done: BTreeSet<usize>,
}

/// The operations on one register.
struct Register {
    events: Vec<Event>,
    /// Moments that the checker has not processed, by time and event.
    moments: BTreeMap<(u64, usize), Moment>,
    /// Operations that were called and have no response yet.
    pending: BTreeSet<usize>,
    configurations: HashSet<Configuration>,
}

impl Default for Register {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            moments: BTreeMap::new(),
            pending: BTreeSet::new(),
            configurations: HashSet::from([Configuration::default()]),
        }
    }
}

impl Register {
    fn add(&mut self, event: Event) {
        let number = self.events.len();
        self.moments.insert((event.called, number), Moment::Call);
        if let Some(returned) = event.returned {
            self.moments.insert((returned, number), Moment::Return);
        }
        self.events.push(event);
    }

    /// Processes all moments before `horizon`. Returns `false` if there is no serial order.
    fn check(&mut self, horizon: u64) -> bool {
        while let Some(entry) = self.moments.first_entry()
            && entry.key().0 < horizon
        {
            let (_, number) = *entry.key();
            match entry.remove() {
                Moment::Call => self.call(number),
                Moment::Return => self.complete(number),
            }
            assert!(self.configurations.len() < CONFIGURATIONS_MAX, "too many configurations");
            if self.configurations.is_empty() {
                return false;
            }
        }
        true
    }

    fn call(&mut self, number: usize) {
        self.pending.insert(number);
        let all = std::mem::take(&mut self.configurations);
        self.configurations = all.into_iter().map(|it| self.with_reads(it)).collect();
    }

    /// An early read never hinders other operations.
    fn with_reads(&self, mut configuration: Configuration) -> Configuration {
        for &number in &self.pending {
            let op = self.events[number].op;
            if op.is_read() && op.after(configuration.value).is_some() {
                configuration.done.insert(number);
            }
        }
        configuration
    }

    /// Keeps the configurations in which the operation has taken effect.
    fn complete(&mut self, number: usize) {
        let mut open: Vec<_> = std::mem::take(&mut self.configurations).into_iter().collect();
        let mut seen: HashSet<_> = open.iter().cloned().collect();
        while let Some(mut configuration) = open.pop() {
            if configuration.done.remove(&number) {
                self.configurations.insert(configuration);
                continue;
            }
            for next in self.successors(&configuration) {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        self.pending.remove(&number);
    }

    /// Returns the configurations after each operation that may be next.
    fn successors<'a>(
        &'a self,
        configuration: &'a Configuration,
    ) -> impl Iterator<Item = Configuration> + 'a {
        let open = self.pending.iter().filter(move |number| !configuration.done.contains(number));
        open.filter_map(move |&number| {
            let event = self.events[number];
            let value = event.op.after(configuration.value)?;
            let is_needed = event.returned.is_some() || self.explains(configuration, value);
            is_needed.then(|| {
                let mut done = configuration.done.clone();
                done.insert(number);
                self.with_reads(Configuration { value, done })
            })
        })
    }

    /// Whether an operation with a response can take effect at this value, and not before. Other
    /// effects of operations without a response explain nothing.
    fn explains(&self, configuration: &Configuration, value: Value) -> bool {
        self.pending.iter().filter(|number| !configuration.done.contains(number)).any(|&number| {
            let Event { op, returned, .. } = self.events[number];
            returned.is_some()
                && op.after(configuration.value).is_none()
                && op.after(value).is_some()
        })
    }

    /// Lists the last operations.
    fn listing(&self) -> String {
        let mut events = self.events.clone();
        events.sort_by_key(|event| event.called);
        let processed = self.moments.first_key_value().map_or(u64::MAX, |(moment, _)| moment.0);
        events.retain(|event| event.called < processed);
        let mut text = String::new();
        for Event { op, called, returned } in &events[events.len().saturating_sub(LISTED)..] {
            let returned = returned.map_or("unknown".to_owned(), |time| time.to_string());
            let _ = writeln!(text, "{called}..{returned}: {op:?}");
        }
        text
    }
}

/// The operations of all clients.
#[derive(Default)]
pub struct History {
    clock: AtomicU64,
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records {
    registers: BTreeMap<String, Register>,
    /// The times of the calls in progress.
    in_progress: BTreeSet<u64>,
}

impl History {
    /// Returns the next moment.
    pub fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Begins a call, and returns its time.
    pub fn call(&self) -> u64 {
        let mut records = self.records();
        let called = self.tick();
        records.in_progress.insert(called);
        called
    }

    /// Ends a call with these operations on registers. `is_known` is false if there is no response.
    pub fn end(&self, called: u64, is_known: bool, ops: impl IntoIterator<Item = (String, Op)>) {
        let mut records = self.records();
        for (register, op) in ops {
            // No two moments are the same, not even those of one response.
            let returned = is_known.then(|| self.tick());
            let event = Event { op, called, returned };
            records.registers.entry(register).or_default().add(event);
        }
        records.in_progress.remove(&called);
    }

    /// Searches for serial orders up to the first call in progress. Returns a description of a
    /// register that has none.
    pub fn check(&self) -> Result<(), String> {
        let mut records = self.records();
        let horizon = records.in_progress.first().copied();
        let horizon = horizon.unwrap_or_else(|| self.clock.load(Ordering::SeqCst));
        for (name, register) in &mut records.registers {
            if !register.check(horizon) {
                return Err(format!("{name} is not linearizable:\n{}", register.listing()));
            }
        }
        Ok(())
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The checker must reject violations.
mod tests {
    use super::*;

    /// Whether operations with these times of call and response are linearizable.
    fn is_linearizable(events: &[(u64, Option<u64>, Op)]) -> bool {
        let mut register = Register::default();
        for &(called, returned, op) in events {
            register.add(Event { op, called, returned });
        }
        register.check(u64::MAX)
    }

    #[test]
    fn lost_change_is_found() {
        let write = (1, Some(2), Op::Write(1));
        assert!(is_linearizable(&[write, (3, Some(4), Op::Read(Some(1)))]));
        assert!(!is_linearizable(&[write, (3, Some(4), Op::Read(None))]));
        assert!(is_linearizable(&[write, (0, Some(4), Op::Read(None))]));
    }

    #[test]
    fn read_that_is_older_than_an_earlier_read_is_found() {
        let write = (1, Some(10), Op::Write(1));
        let (new, old) = ((2, Some(3), Op::Read(Some(1))), (4, Some(5), Op::Read(None)));
        assert!(!is_linearizable(&[write, new, old]));
    }

    #[test]
    fn change_without_a_response_takes_effect_later_or_never() {
        let events = [(1, None, Op::Write(1)), (2, Some(3), Op::Write(2))];
        for value in [1, 2] {
            let read = (4, Some(5), Op::Read(Some(value)));
            assert!(is_linearizable(&[events[0], events[1], read]));
        }
        let reads = [(4, Some(5), Op::Read(Some(1))), (6, Some(7), Op::Read(Some(2)))];
        assert!(!is_linearizable(&[events[0], events[1], reads[0], reads[1]]));
    }

    #[test]
    fn concurrent_changes_have_one_order() {
        let writes = [(1, Some(10), Op::Write(1)), (2, Some(9), Op::Write(2))];
        let reads = |first, second| {
            let reads = [(11, Some(12), Op::Read(Some(first))), (13, Some(14), Op::Read(second))];
            is_linearizable(&[writes, reads].concat())
        };
        assert!(reads(1, Some(1)) && reads(2, Some(2)));
        assert!(!reads(1, Some(2)));
    }

    #[test]
    fn second_execution_of_a_change_is_found() {
        let created = (1, Some(2), Op::Create(1));
        assert!(!is_linearizable(&[created, (3, Some(4), Op::Create(2))]));
        assert!(!is_linearizable(&[(1, Some(2), Op::Exists(true))]));
        let dropped = (3, Some(4), Op::Drop);
        assert!(is_linearizable(&[created, dropped, (5, Some(6), Op::Create(2))]));
        assert!(!is_linearizable(&[created, dropped, (5, Some(6), Op::Exists(true))]));
    }
}
