//! [`PolicySnapshot`]: the policies and grants that were created at run time, at one revision of
//! the policy log.
//!
//! Policies and grants are separate records. Each change appends a revision to the policy log. The
//! revision contains the changed policies and grants before and after the change. To compute the
//! snapshot at an earlier revision, all later revisions are undone in the current snapshot.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::error::Error;
use super::invariants::Violation;
use super::key_space::KeySpace;
use super::keys::{GrantKey, Key, PolicyHeadKey, PolicyKey, PolicyRevisionKey};
use super::read::{KeyRange, StoreRead};
use super::records::{
    GrantRecord, PolicyChanges, PolicyEdit, PolicyHead, PolicyRecord, PolicyRevision,
};
use super::txn::Transaction;
use slateberg_base::boxed;

/// Policies and grants that were created at run time, at one revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySnapshot {
    /// Number of the revision. 0 before the first revision.
    pub number: u64,
    /// Policies, by id.
    pub policies: BTreeMap<String, PolicyRecord>,
    /// Grants, by id.
    pub grants: BTreeMap<Uuid, GrantRecord>,
}

impl PolicySnapshot {
    /// Reads the current snapshot. During a concurrent change, its records may belong to two
    /// different revisions.
    pub async fn read(store: &impl StoreRead) -> Result<Self, Error> {
        let head = store.get(&PolicyHeadKey).await?;
        let policies = store.scan::<PolicyKey>(&KeyRange::all(KeySpace::Policies), None).await?;
        let grants = store.scan::<GrantKey>(&KeyRange::all(KeySpace::Grants), None).await?;
        Ok(Self {
            number: head.map_or(0, |head| head.number),
            policies: policies.into_iter().map(|(key, record)| (key.0, record)).collect(),
            grants: grants.into_iter().map(|(key, record)| (key.0, record)).collect(),
        })
    }

    /// Returns the changes of policies and grants from this snapshot to `there`.
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

    /// Applies a revision. Errors if the revision cannot be the next one after this snapshot.
    pub fn apply(&mut self, revision: &PolicyRevision) -> Result<(), Violation> {
        let broken = |what: &str| Err(format!("policy revision {}: {what}", revision.number));
        if revision.number != self.number + 1 {
            return broken(&format!("expected revision {}", self.number + 1));
        }
        let PolicyChanges { policies, granted, revoked } = &revision.changes;
        for (id, edit) in policies {
            if self.policies.get(id) != edit.before.as_ref() {
                return broken(&format!(
                    "its previous text of policy {id} differs from the text before this revision"
                ));
            }
        }
        if revoked.iter().any(|grant| self.grants.get(&grant.id) != Some(grant)) {
            return broken("it revokes a grant that did not exist");
        }
        if granted.iter().any(|grant| self.grants.contains_key(&grant.id)) {
            return broken("it adds a grant that existed before");
        }
        self.number = revision.number;
        self.replace(policies.iter().map(|(id, edit)| (id, &edit.after)), granted, revoked);
        Ok(())
    }

    /// Undoes a revision. The snapshot must be at that revision.
    pub fn undo(&mut self, revision: &PolicyRevision) {
        let PolicyChanges { policies, granted, revoked } = &revision.changes;
        self.number = revision.number.saturating_sub(1);
        self.replace(policies.iter().map(|(id, edit)| (id, &edit.before)), revoked, granted);
    }

    fn replace<'a>(
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
    store: &impl StoreRead,
    after: u64,
    limit: Option<usize>,
) -> Result<Vec<PolicyRevision>, Error> {
    let behind = PolicyRevisionKey(after).encode();
    let range = KeyRange::all(KeySpace::PolicyLog).behind(Some(behind));
    let revisions = store.scan::<PolicyRevisionKey>(&range, limit).await?;
    Ok(revisions.into_iter().map(|(_, revision)| revision).collect())
}

impl Transaction {
    /// Appends a revision to the policy log, and changes the records of policies and grants. Errors
    /// if the log does not end with the previous revision.
    #[boxed]
    pub async fn revise_policies(&self, revision: &PolicyRevision) -> Result<(), Error> {
        let head = self.get(&PolicyHeadKey).await?.map_or(0, |head| head.number);
        if revision.number != head + 1 {
            return Err(Error::internal(format!(
                "the policy log ends with revision {head}, so {} cannot be the next",
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

/// Checks a snapshot against the complete policy log. Returns all violations.
pub fn check<'a>(
    snapshot: &PolicySnapshot,
    log: impl Iterator<Item = (u64, &'a PolicyRevision)>,
) -> Vec<Violation> {
    let mut broken = Vec::new();
    let mut replayed = PolicySnapshot::default();
    for (number, revision) in log {
        if number != revision.number {
            broken.push(format!("policy revision {number} has the number {}", revision.number));
        }
        if let Err(wrong) = replayed.apply(revision) {
            broken.push(wrong);
            return broken;
        }
    }
    if replayed != *snapshot {
        broken.push(format!(
            "the policies and grants differ from the result of the policy log at revision {}",
            replayed.number
        ));
    }
    for (id, record) in &snapshot.policies {
        if record.id != *id {
            broken.push(format!("the record of policy {id} has the id {}", record.id));
        }
    }
    for (id, record) in &snapshot.grants {
        if record.id != *id {
            broken.push(format!("the record of grant {id} has the id {}", record.id));
        }
    }
    broken
}

#[cfg(test)]
mod tests;
