//! The policy book: the policies and grants that were created at run time, and its revisions.
//!
//! The contents of the book are separate records, and each change is a revision with the state
//! before and after it. The book at an earlier revision is the current one with the later revisions
//! undone.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::error::Error;
use super::invariants::Broken;
use super::key_space::KeySpace;
use super::keys::{GrantKey, Key, PolicyHeadKey, PolicyKey, PolicyRevisionKey};
use super::read::{Range, Read};
use super::records::{
    GrantRecord, PolicyChanges, PolicyEdit, PolicyHead, PolicyRecord, PolicyRevision,
};
use super::txn::Transaction;

/// Policies and grants that were created at run time, at one revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyBook {
    /// Number of the revision. 0 before the first one.
    pub number: u64,
    /// Policies, by id.
    pub policies: BTreeMap<String, PolicyRecord>,
    /// Grants, by id.
    pub grants: BTreeMap<Uuid, GrantRecord>,
}

impl PolicyBook {
    /// Reads the current book. During a concurrent change, its parts may belong to two revisions.
    pub async fn read(store: &impl Read) -> Result<Self, Error> {
        let head = store.get(&PolicyHeadKey).await?;
        let policies = store.scan::<PolicyKey>(&Range::all(KeySpace::Policies), None).await?;
        let grants = store.scan::<GrantKey>(&Range::all(KeySpace::Grants), None).await?;
        Ok(Self {
            number: head.map_or(0, |head| head.number),
            policies: policies.into_iter().map(|(key, record)| (key.0, record)).collect(),
            grants: grants.into_iter().map(|(key, record)| (key.0, record)).collect(),
        })
    }

    /// Returns the changes of policies and grants from this book to `there`.
    pub fn changes_to(&self, there: &Self) -> PolicyChanges {
        let ids = self.policies.keys().chain(there.policies.keys());
        let edit = |id: &String| {
            let (before, after) = (self.policies.get(id), there.policies.get(id));
            (before != after).then(|| {
                (id.clone(), PolicyEdit { before: before.cloned(), after: after.cloned() })
            })
        };
        PolicyChanges {
            policies: ids.filter_map(edit).collect(),
            granted: missing_from(&self.grants, &there.grants),
            revoked: missing_from(&there.grants, &self.grants),
        }
    }

    /// Applies a revision. Its state before must match.
    pub fn apply(&mut self, revision: &PolicyRevision) -> Result<(), Broken> {
        let broken = |what: &str| Err(format!("policy revision {}: {what}", revision.number));
        if revision.number != self.number + 1 {
            return broken(&format!("revision {} should be next", self.number + 1));
        }
        let PolicyChanges { policies, granted, revoked } = &revision.changes;
        for (id, edit) in policies {
            if self.policies.get(id) != edit.before.as_ref() {
                return broken(&format!("policy {id} was not what it says"));
            }
        }
        if revoked.iter().any(|grant| self.grants.get(&grant.id) != Some(grant)) {
            return broken("a grant that it revokes was not there");
        }
        if granted.iter().any(|grant| self.grants.contains_key(&grant.id)) {
            return broken("a grant that it adds was there before");
        }
        self.number = revision.number;
        self.turn(policies.iter().map(|(id, edit)| (id, &edit.after)), granted, revoked);
        Ok(())
    }

    /// Undoes a revision. The book must be at that revision.
    pub fn undo(&mut self, revision: &PolicyRevision) {
        let PolicyChanges { policies, granted, revoked } = &revision.changes;
        self.number = revision.number.saturating_sub(1);
        self.turn(policies.iter().map(|(id, edit)| (id, &edit.before)), revoked, granted);
    }

    fn turn<'a>(
        &mut self,
        policies: impl Iterator<Item = (&'a String, &'a Option<PolicyRecord>)>,
        add: &[GrantRecord],
        remove: &[GrantRecord],
    ) {
        for (id, record) in policies {
            match record {
                Some(record) => self.policies.insert(id.clone(), record.clone()),
                None => self.policies.remove(id),
            };
        }
        for grant in remove {
            self.grants.remove(&grant.id);
        }
        self.grants.extend(add.iter().map(|grant| (grant.id, grant.clone())));
    }
}

impl PolicyChanges {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.granted.is_empty() && self.revoked.is_empty()
    }
}

/// Returns the grants in `there` that are not in `here`.
fn missing_from(
    here: &BTreeMap<Uuid, GrantRecord>,
    there: &BTreeMap<Uuid, GrantRecord>,
) -> Vec<GrantRecord> {
    there.iter().filter(|(id, _)| !here.contains_key(id)).map(|(_, grant)| grant.clone()).collect()
}

/// Returns at most `limit` revisions after `after`, in order.
pub async fn revisions(
    store: &impl Read,
    after: u64,
    limit: Option<usize>,
) -> Result<Vec<PolicyRevision>, Error> {
    let behind = PolicyRevisionKey(after).encode();
    let range = Range::all(KeySpace::PolicyLog).behind(Some(behind));
    let revisions = store.scan::<PolicyRevisionKey>(&range, limit).await?;
    Ok(revisions.into_iter().map(|(_, revision)| revision).collect())
}

impl Transaction {
    /// Appends a revision to the log, and changes the book. The log must end directly before it.
    pub async fn revise_policies(&self, revision: &PolicyRevision) -> Result<(), Error> {
        let head = self.get(&PolicyHeadKey).await?.map_or(0, |head| head.number);
        if revision.number != head + 1 {
            return Err(Error::internal(format!(
                "the policy log ends with revision {head}, and {} was to be the next",
                revision.number
            )));
        }
        for (id, edit) in &revision.changes.policies {
            let key = PolicyKey(id.clone());
            match &edit.after {
                Some(record) => self.put(&key, record)?,
                None => self.delete(&key)?,
            }
        }
        for grant in &revision.changes.granted {
            self.put(&GrantKey(grant.id), grant)?;
        }
        for grant in &revision.changes.revoked {
            self.delete(&GrantKey(grant.id))?;
        }
        self.put(&PolicyRevisionKey(revision.number), revision)?;
        self.put(&PolicyHeadKey, &PolicyHead { number: revision.number })
    }
}

/// Checks a book against its complete log. Returns all violations.
pub fn check<'a>(
    book: &PolicyBook,
    log: impl Iterator<Item = (u64, &'a PolicyRevision)>,
) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut told = PolicyBook::default();
    for (number, revision) in log {
        if number != revision.number {
            broken.push(format!("policy revision {number} calls itself {}", revision.number));
        }
        if let Err(wrong) = told.apply(revision) {
            broken.push(wrong);
            return broken;
        }
    }
    if told != *book {
        broken.push(format!(
            "the policies and grants are not those of the policy log, which ends with revision {}",
            told.number
        ));
    }
    for (id, record) in &book.policies {
        if record.id != *id {
            broken.push(format!("policy {id} calls itself {}", record.id));
        }
    }
    for (id, record) in &book.grants {
        if record.id != *id {
            broken.push(format!("grant {id} calls itself {}", record.id));
        }
    }
    broken
}

#[cfg(test)]
mod tests;
