//! Searches for a serial order with the algorithm of Wing and Gong: tries every request that could
//! be next, and visits each pair of remaining requests and state only once.

use std::collections::HashSet;

use super::history::Event;
use super::model::{Op, Outcome, State};

/// Set of the requests that the search has already placed in the serial order, one bit for each
/// request.
type Done = u128;

/// Whether a history has a serial order that respects its times.
pub fn is_linearizable(events: &[Event]) -> bool {
    let events: Vec<Event> = events.iter().flat_map(moments).collect();
    has_order(&events)
}

/// Splits a commit into the commit and a load. Commits that the server combines into one version
/// (group commit) all return that version, so the response to a commit may show the table after
/// later commits of the group.
fn moments(event: &Event) -> Vec<Event> {
    let (Op::Set(name, _) | Op::Append { table: name, .. }) = &event.op else {
        return vec![event.clone()];
    };
    let Outcome::Table(_) = &event.outcome else { return vec![event.clone()] };
    let commit = Event { outcome: Outcome::Done, ..event.clone() };
    vec![commit, Event { op: Op::Load(*name), ..event.clone() }]
}

fn has_order(events: &[Event]) -> bool {
    assert!(events.len() < Done::BITS as usize, "{} events are too many", events.len());
    let mut seen = HashSet::new();
    let mut open = vec![(0, State::default())];
    let all = (1 << events.len()) - 1;
    while let Some((done, state)) = open.pop() {
        if done == all {
            return true;
        }
        for (bit, event) in candidates(events, done) {
            if let Some(next) = state.after(&event.op, &event.outcome)
                && seen.insert((done | bit, next.clone()))
            {
                open.push((done | bit, next));
            }
        }
    }
    false
}

/// Returns the events that may come next: those that were called before the first response to a
/// remaining event.
fn candidates(events: &[Event], done: Done) -> impl Iterator<Item = (Done, &Event)> {
    let left = move || {
        let bits = events.iter().enumerate().map(|(at, event)| (1 << at, event));
        bits.filter(move |(bit, _)| done & bit == 0)
    };
    let first_answer = left().map(|(_, event)| event.answered).min().unwrap_or(u64::MAX);
    left().filter(move |(_, event)| event.called < first_answer)
}

/// The checker must reject violations.
mod tests {
    use super::super::model::{Name, Namespace, Op, Outcome, Table};
    use super::*;

    const A: Namespace = &["a"];
    const T: Name = (A, "t");

    fn table(properties: &[u32]) -> Outcome {
        let properties = properties.iter().copied().collect();
        Outcome::Table(Table { uuid: "1".to_owned(), properties, snapshots: Vec::new() })
    }

    /// Returns events with these times of call and response.
    fn history(events: &[(u64, u64, Op, Outcome)]) -> Vec<Event> {
        let made = [(0, 1, Op::CreateNamespace(A), Outcome::Done)];
        let created = [(2, 3, Op::CreateTable(T), table(&[]))];
        let all = made.iter().chain(&created).chain(events);
        all.map(|(called, answered, op, outcome)| Event {
            client: 0,
            op: op.clone(),
            outcome: outcome.clone(),
            called: *called,
            answered: *answered,
        })
        .collect()
    }

    #[test]
    fn concurrent_requests_may_take_any_order() {
        let one = (10, 20, Op::Set(T, 1), table(&[1, 2]));
        let other = (11, 19, Op::Set(T, 2), table(&[2]));
        assert!(is_linearizable(&history(&[one, other])));
    }

    #[test]
    fn a_lost_update_is_found() {
        let one = (10, 20, Op::Set(T, 1), table(&[1]));
        let other = (11, 19, Op::Set(T, 2), table(&[2]));
        let read = (30, 31, Op::Load(T), table(&[1]));
        assert!(!is_linearizable(&history(&[one, other, read])));
    }

    #[test]
    fn a_stale_read_is_found() {
        let set = (10, 11, Op::Set(T, 1), table(&[1]));
        assert!(!is_linearizable(&history(&[set.clone(), (12, 13, Op::Load(T), table(&[]))])));
        assert!(is_linearizable(&history(&[set, (10, 13, Op::Load(T), table(&[]))])));
    }

    #[test]
    fn a_table_in_a_dropped_namespace_is_found() {
        let drop = (10, 20, Op::DropNamespace(A), Outcome::Done);
        assert!(!is_linearizable(&history(&[drop])));
    }

    #[test]
    fn rejection_without_a_reason_is_found() {
        let rejection = (10, 20, Op::CreateNamespace(&["b"]), Outcome::AlreadyExists);
        assert!(!is_linearizable(&history(std::slice::from_ref(&rejection))));
        let created = (15, 25, Op::CreateNamespace(&["b"]), Outcome::Done);
        assert!(is_linearizable(&history(&[rejection, created])));
    }

    #[test]
    fn partial_transaction_is_found() {
        let u: Name = (A, "u");
        let other = Outcome::Table(Table { uuid: "2".to_owned(), ..Table::default() });
        let created = (4, 5, Op::CreateTable(u), other.clone());
        let both = Op::Transact { tables: vec![T, u], property: 1, parent: None };
        let transact = (10, 40, both, Outcome::Done);
        let sees = (11, 12, Op::Load(T), table(&[1]));
        let misses = (13, 14, Op::Load(u), other);
        assert!(!is_linearizable(&history(&[created, transact, sees, misses])));
    }
}
