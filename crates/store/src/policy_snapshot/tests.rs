//! Tests that policy snapshots and the log of revisions agree.

use proptest::prelude::*;

use super::*;
use crate::records::ChangeAction;

fn policy(id: u8, text: u8) -> PolicyRecord {
    let (id, text) = (format!("p{id}"), format!("text {text}"));
    PolicyRecord { id, text, changed_ms: 0, changed_by: "ann".to_owned() }
}

fn grant(id: u8) -> GrantRecord {
    GrantRecord {
        id: Uuid::from_u128(u128::from(id)),
        template: "grant-read".to_owned(),
        grantee: "role:analysts".to_owned(),
        resource: format!("table:w/n/t{id}"),
        created_ms: 0,
        created_by: "ann".to_owned(),
    }
}

fn any_snapshot() -> impl Strategy<Value = PolicySnapshot> {
    let policies = proptest::collection::btree_map(0..4_u8, 0..3_u8, 0..4);
    let grants = proptest::collection::btree_set(0..4_u8, 0..4);
    (policies, grants).prop_map(|(policies, grants)| PolicySnapshot {
        number: 0,
        policies: policies
            .into_iter()
            .map(|(id, text)| policy(id, text))
            .map(|record| (record.id.clone(), record))
            .collect(),
        grants: grants.into_iter().map(grant).map(|record| (record.id, record)).collect(),
    })
}

fn revision(before: &PolicySnapshot, after: &PolicySnapshot) -> PolicyRevision {
    PolicyRevision {
        number: before.number + 1,
        at_ms: 0,
        by: "ann".to_owned(),
        action: ChangeAction::PutPolicy.into(),
        comment: None,
        in_force: String::new(),
        rolled_back_to: None,
        changes: before.changes_to(after),
    }
}

proptest! {
    #[test]
    fn undoing_the_log_restores_each_snapshot(snapshots in proptest::collection::vec(any_snapshot(), 1..8)) {
        let mut states = vec![PolicySnapshot::default()];
        let mut log = Vec::new();
        for (number, mut next) in (1..).zip(snapshots) {
            next.number = number;
            log.push(revision(&states[states.len() - 1], &next));
            states.push(next);
        }
        let mut replayed = PolicySnapshot::default();
        for (revision, state) in log.iter().zip(&states[1..]) {
            prop_assert_eq!(replayed.apply(revision), Ok(()));
            prop_assert_eq!(&replayed, state);
        }
        let numbered = || log.iter().map(|revision| (revision.number, revision));
        prop_assert_eq!(check(&replayed, numbered()), Vec::<String>::new());
        for (revision, state) in log.iter().zip(&states).rev() {
            replayed.undo(revision);
            prop_assert_eq!(&replayed, state);
        }
        prop_assert_eq!(check(&replayed, numbered()).len(), 1, "the log ends with a later revision");
    }
}

#[test]
fn log_with_a_gap_is_a_violation() {
    let mut after = PolicySnapshot { number: 1, ..PolicySnapshot::default() };
    after.policies.insert("p1".to_owned(), policy(1, 1));
    let first = revision(&PolicySnapshot::default(), &after);
    let third = PolicyRevision { number: 3, ..first.clone() };
    let broken = check(&after, [(1, &first), (3, &third)].into_iter());
    assert_eq!(broken, ["policy revision 3: expected revision 2"]);
    let other = PolicyRevision { number: 2, ..first.clone() };
    let broken = check(&after, [(1, &first), (2, &other)].into_iter());
    assert_eq!(
        broken,
        [
            "policy revision 2: its previous text of policy p1 differs from the text before this revision"
        ]
    );
}
