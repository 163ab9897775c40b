//! The book and its log agree.

use proptest::prelude::*;

use super::*;

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

fn book() -> impl Strategy<Value = PolicyBook> {
    let policies = proptest::collection::btree_map(0..4_u8, 0..3_u8, 0..4);
    let grants = proptest::collection::btree_set(0..4_u8, 0..4);
    (policies, grants).prop_map(|(policies, grants)| PolicyBook {
        number: 0,
        policies: policies
            .into_iter()
            .map(|(id, text)| policy(id, text))
            .map(|record| (record.id.clone(), record))
            .collect(),
        grants: grants.into_iter().map(grant).map(|record| (record.id, record)).collect(),
    })
}

fn revision(before: &PolicyBook, after: &PolicyBook) -> PolicyRevision {
    PolicyRevision {
        number: before.number + 1,
        at_ms: 0,
        by: "ann".to_owned(),
        action: "put_policy".to_owned(),
        comment: None,
        in_force: String::new(),
        rolled_back_to: None,
        changes: before.changes_to(after),
    }
}

proptest! {
    #[test]
    fn a_log_leads_to_its_book_and_back(books in proptest::collection::vec(book(), 1..8)) {
        let mut states = vec![PolicyBook::default()];
        let mut log = Vec::new();
        for (number, mut next) in (1..).zip(books) {
            next.number = number;
            log.push(revision(&states[states.len() - 1], &next));
            states.push(next);
        }
        let mut told = PolicyBook::default();
        for (revision, state) in log.iter().zip(&states[1..]) {
            prop_assert_eq!(told.apply(revision), Ok(()));
            prop_assert_eq!(&told, state);
        }
        let numbered = || log.iter().map(|revision| (revision.number, revision));
        prop_assert_eq!(check(&told, numbered()), Vec::<String>::new());
        for (revision, state) in log.iter().zip(&states).rev() {
            told.undo(revision);
            prop_assert_eq!(&told, state);
        }
        prop_assert_eq!(check(&told, numbered()).len(), 1, "this is not where the log ends");
    }
}

#[test]
fn a_log_with_a_gap_is_broken() {
    let mut after = PolicyBook { number: 1, ..PolicyBook::default() };
    after.policies.insert("p1".to_owned(), policy(1, 1));
    let first = revision(&PolicyBook::default(), &after);
    let third = PolicyRevision { number: 3, ..first.clone() };
    let broken = check(&after, [(1, &first), (3, &third)].into_iter());
    assert_eq!(broken, ["policy revision 3: revision 2 should be next"]);
    let other = PolicyRevision { number: 2, ..first.clone() };
    let broken = check(&after, [(1, &first), (2, &other)].into_iter());
    assert_eq!(broken, ["policy revision 2: policy p1 was not what it says"]);
}
