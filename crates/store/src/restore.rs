//! Restoring: the difference between what is and what was, written in one batch.
//!
//! Nothing of SlateDB is turned back: not its manifest, its log, or the order of its writers. What was is
//! written as a change of what is, like any other: all of it or nothing, under the same fence, with the same
//! keys, and with every checkpoint still there. So a restore can be undone by another one.
//!
//! [`RestoreRule`] has the effect on each key space. No file is deleted because of a restore, and what was
//! revoked stays revoked.

mod differences;
mod objects;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

use super::codec::Value;
use super::error::Error;
use super::handle::Store;
use super::jobs::Work;
use super::key_space::{KeySpace, RestoreRule};
use super::keys::{
    ChangeKey, JobKey, Key, MetadataKey, NamespaceKey, PieceKey, PublicationKey, StoreKey,
    TabularKey, WarehouseKey,
};
use super::policy_book::PolicyBook;
use super::read::{Range, Read, corrupt, decode_value};
use super::records::{
    Change, NamespaceRecord, PolicyChanges, PolicyRevision, Publication, StoreFormat,
    TabularRecord, WarehouseRecord,
};
use differences::{Difference, differences};
use objects::Found;
pub use objects::{Object, ObjectKind, Objects};
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::progress::{Phase, Progress};
use slateberg_model::ident::TabularKind;

/// Numbers of objects of one kind that a restore changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Objects that do not exist now.
    pub restored: usize,
    /// Objects that have changed since.
    pub changed: usize,
    /// Objects that did not exist then.
    pub removed: usize,
}

/// The changes of a restore.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Warehouses.
    pub warehouses: Counts,
    /// Namespaces.
    pub namespaces: Counts,
    /// Tables.
    pub tables: Counts,
    /// Views.
    pub views: Counts,
    /// Policies that were made at run time.
    pub policies: Counts,
    /// Grants.
    pub grants: Counts,
    /// Restored tables that were purged since: their data files may be gone.
    pub purged: usize,
    /// The warehouses, namespaces, tables and views by name.
    #[serde(skip)]
    pub objects: Objects,
}

/// A restore that was thought out and is not done.
pub struct Plan {
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    deletes: Vec<Vec<u8>>,
    /// The store's own record as it was.
    format: Option<StoreFormat>,
    /// What it changes.
    pub told: Told,
    found: Vec<Found>,
    /// Tables and views that go or get new metadata.
    touched: HashSet<Uuid>,
    /// The new versions of those with new metadata.
    versions: HashMap<Uuid, u64>,
    /// The policies and grants as they were.
    pub book: PolicyBook,
    /// What becomes of policies and grants.
    pub policy_changes: PolicyChanges,
}

impl Counts {
    fn add(&mut self, now: bool, then: bool) {
        match (now, then) {
            (false, _) => self.restored += 1,
            (true, true) => self.changed += 1,
            (true, false) => self.removed += 1,
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Told {
    /// Whether nothing changes that anybody could see.
    pub fn is_empty(&self) -> bool {
        let Self { warehouses, namespaces, tables, views, policies, grants, .. } = self;
        [warehouses, namespaces, tables, views, policies, grants].into_iter().all(Counts::is_empty)
    }
}

impl Plan {
    /// Thinks out how what is becomes what was.
    pub async fn between(
        now: &impl Read,
        then: &impl Read,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let phase = &progress.phase("comparing records", None);
        let (book_now, book) = (PolicyBook::read(now).await?, PolicyBook::read(then).await?);
        let policy_changes = book_now.changes_to(&book);
        let mut plan = Self {
            puts: Vec::new(),
            deletes: Vec::new(),
            format: then.get(&StoreKey).await?,
            told: Told::default(),
            found: Vec::new(),
            touched: HashSet::new(),
            versions: HashMap::new(),
            book,
            policy_changes,
        };
        plan.count_policies();
        // In the order of the keys: metadata and markers follow tables and views.
        for &space in KeySpace::ALL {
            plan.space(space, now, then, phase).await?;
        }
        plan.told.objects = Objects::named(std::mem::take(&mut plan.found), now, then).await?;
        Ok(plan)
    }

    async fn space(
        &mut self,
        space: KeySpace,
        now: &impl Read,
        then: &impl Read,
        phase: &Phase,
    ) -> Result<(), Error> {
        match space.rules().restore {
            // `Store::restore` writes those that are not kept.
            RestoreRule::Keep
            | RestoreRule::NewTimeline
            | RestoreRule::Revise
            | RestoreRule::Append => {}
            RestoreRule::Replace => {
                for Difference { key, then, .. } in differences(now, then, space, phase).await? {
                    self.become_of(&key, then);
                }
            }
            RestoreRule::Warehouses => {
                self.warehouses(differences(now, then, space, phase).await?)?;
            }
            RestoreRule::Namespaces => {
                self.namespaces(differences(now, then, space, phase).await?)?;
            }
            RestoreRule::Tabulars => {
                self.tabulars(now, differences(now, then, space, phase).await?).await?;
            }
            RestoreRule::Heads => {
                self.heads(then, differences(now, then, space, phase).await?).await?;
            }
            RestoreRule::Pieces => {
                self.pieces(then, differences(now, then, space, phase).await?).await?;
            }
            RestoreRule::Markers => self.forget_markers(now, space).await?,
            RestoreRule::Cancel => self.forget_jobs(now, space).await?,
        }
        Ok(())
    }

    fn put<K: Key>(&mut self, key: &K, value: &K::Value) {
        self.puts.push((key.encode(), value.encode()));
    }

    fn become_of(&mut self, key: &Bytes, then: Option<Bytes>) {
        match then {
            Some(value) => self.puts.push((key.to_vec(), value.to_vec())),
            None => self.deletes.push(key.to_vec()),
        }
    }

    fn count_policies(&mut self) {
        for edit in self.policy_changes.policies.values() {
            self.told.policies.add(edit.before.is_some(), edit.after.is_some());
        }
        self.told.grants.restored = self.policy_changes.granted.len();
        self.told.grants.removed = self.policy_changes.revoked.len();
    }

    fn warehouses(&mut self, different: Vec<Difference>) -> Result<(), Error> {
        for different in different {
            let (before, after) = different.records::<WarehouseKey>()?;
            self.told.warehouses.add(before.is_some(), after.is_some());
            let WarehouseKey(name) = different.decoded()?;
            self.found.push(Found {
                kind: ObjectKind::Warehouse,
                now: before.is_some().then(|| (None, name.clone())),
                then: after.is_some().then_some((None, name)),
            });
            let Some(mut after) = after else {
                self.deletes.push(different.key.to_vec());
                continue;
            };
            let version = |it: &WarehouseRecord| it.definition.as_ref().map(|it| it.version);
            let highest = before.as_ref().and_then(version).max(version(&after));
            if let (Some(definition), Some(highest)) = (&mut after.definition, highest) {
                definition.version = highest + 1;
            }
            self.puts.push((different.key.to_vec(), after.encode()));
        }
        Ok(())
    }

    fn namespaces(&mut self, different: Vec<Difference>) -> Result<(), Error> {
        for different in different {
            let (before, after) = different.records::<NamespaceKey>()?;
            self.told.namespaces.add(before.is_some(), after.is_some());
            let name = |it: &NamespaceRecord| (Some(it.parent), it.name.clone());
            let (now, then) = (before.as_ref().map(name), after.as_ref().map(name));
            self.found.push(Found { kind: ObjectKind::Namespace, now, then });
            let Some(after) = after else {
                self.deletes.push(different.key.to_vec());
                continue;
            };
            let highest = before.map_or(0, |before| before.version).max(after.version);
            let after = NamespaceRecord { version: highest + 1, ..after };
            self.puts.push((different.key.to_vec(), after.encode()));
        }
        Ok(())
    }

    /// Tables and views. Those with new metadata get a version and a marker.
    async fn tabulars(&mut self, now: &impl Read, different: Vec<Difference>) -> Result<(), Error> {
        let mut known = LastVersions::default();
        if different.iter().any(|different| different.now.is_none()) {
            known = LastVersions::read(now).await?;
        }
        for different in different {
            let (before, after) = different.records::<TabularKey>()?;
            let Some(either) = before.as_ref().or(after.as_ref()) else { continue };
            let (id, kind) = (either.id, either.kind);
            let counts = match kind {
                TabularKind::Table => &mut self.told.tables,
                TabularKind::View => &mut self.told.views,
            };
            counts.add(before.is_some(), after.is_some());
            let name = |it: &TabularRecord| (Some(it.namespace), it.name.clone());
            let (named, was_named) = (before.as_ref().map(name), after.as_ref().map(name));
            self.found.push(Found { kind: kind.into(), now: named, then: was_named });
            let Some(after) = after else {
                self.touched.insert(id);
                self.deletes.push(different.key.to_vec());
                self.forget_metadata(now, id).await?;
                continue;
            };
            self.told.purged += usize::from(before.is_none() && known.purged.contains(&id));
            let version = match &before {
                // Only its name, or its owner, is another.
                Some(before) if is_same_metadata(before, &after) => after.version,
                Some(before) => before.version.max(after.version) + 1,
                None => known.of(id).max(after.version) + 1,
            };
            if version != after.version {
                self.touched.insert(id);
                self.versions.insert(id, version);
                let metadata_location = after.metadata_location.clone();
                self.put(&PublicationKey { id, version }, &Publication { metadata_location });
            }
            self.put(&TabularKey(id), &TabularRecord { version, ..after });
        }
        Ok(())
    }

    async fn forget_markers(&mut self, now: &impl Read, space: KeySpace) -> Result<(), Error> {
        for (key, _) in now.scan::<PublicationKey>(&Range::all(space), None).await? {
            if self.touched.contains(&key.id) {
                self.deletes.push(key.encode());
            }
        }
        Ok(())
    }

    /// Heads of metadata, at the versions of their records. Metadata that a purge has kept has no record,
    /// and does not come back.
    async fn heads(&mut self, then: &impl Read, different: Vec<Difference>) -> Result<(), Error> {
        // The same bytes are there while a purge is under way. They get the new version, too.
        let versions = std::mem::take(&mut self.versions);
        for (id, version) in &versions {
            let head = then.get(&MetadataKey(*id)).await?;
            let lost =
                || corrupt(&MetadataKey(*id).encode(), "the metadata of the checkpoint is gone");
            self.put(&MetadataKey(*id), &head.ok_or_else(lost)?.at_version(*version));
        }
        for different in different {
            let id = different.decoded::<MetadataKey>()?.0;
            if !versions.contains_key(&id) {
                self.follow(then, id, different).await?;
            }
        }
        Ok(())
    }

    async fn pieces(&mut self, then: &impl Read, different: Vec<Difference>) -> Result<(), Error> {
        for different in different {
            let id = different.decoded::<PieceKey>()?.id;
            self.follow(then, id, different).await?;
        }
        Ok(())
    }

    /// A part of metadata becomes what it was if its table or view was there, and goes otherwise.
    async fn follow(
        &mut self,
        then: &impl Read,
        id: Uuid,
        different: Difference,
    ) -> Result<(), Error> {
        match different.then {
            Some(part) if is_there(then, id).await? => {
                self.puts.push((different.key.to_vec(), part.to_vec()));
            }
            _ => self.deletes.push(different.key.to_vec()),
        }
        Ok(())
    }

    /// A job may be about to delete what is needed again: an outdated metadata file, or a purged table's.
    /// With the jobs goes the metadata that was kept for them alone. Jobs that have ended are history, and
    /// stay.
    async fn forget_jobs(&mut self, now: &impl Read, space: KeySpace) -> Result<(), Error> {
        for (key, job) in now.scan::<JobKey>(&Range::all(space), None).await? {
            self.deletes.push(key.encode());
            let Work::ReachableFrom { id, .. } = job.work else { continue };
            let restored = TabularKey(id).encode();
            if !self.puts.iter().any(|(key, _)| *key == restored) {
                self.forget_metadata(now, id).await?;
            }
        }
        Ok(())
    }

    /// The metadata of what goes goes whole: a purge under way has kept it on the other side, too.
    async fn forget_metadata(&mut self, now: &impl Read, id: Uuid) -> Result<(), Error> {
        self.deletes.push(MetadataKey(id).encode());
        let pieces = Range::below(KeySpace::MetadataPieces.byte(), id);
        for (key, _) in now.scan::<PieceKey>(&pieces, None).await? {
            self.deletes.push(key.encode());
        }
        Ok(())
    }
}

impl Store {
    /// Carries a plan out, with this entry in the change log and, if policies or grants change, this
    /// revision of theirs. A new timeline begins with it: nobody knows for sure what versions those tables
    /// had that are gone by now. It is durable when this returns, and nothing of it is there before.
    pub async fn restore(
        &self,
        permit: &Permit<Maintain>,
        plan: &Plan,
        timeline: Uuid,
        revision: Option<&PolicyRevision>,
        entry: &Change,
    ) -> Result<(), Error> {
        let ((), accepted) = self
            .transact("restore", permit, |t| async move {
                // What is deleted and put is put.
                plan.deletes.iter().try_for_each(|key| t.delete_at(key.clone()))?;
                plan.puts.iter().try_for_each(|(key, value)| t.put_at(key.clone(), value))?;
                if let Some(format) = plan.format.clone() {
                    t.put(&StoreKey, &StoreFormat { timeline: Some(timeline), ..format })?;
                }
                if let Some(revision) = revision {
                    t.revise_policies(revision).await?;
                }
                t.log(entry)
            })
            .await?;
        accepted.durable().await
    }
}

/// What the change log knows of tables and views that are gone.
#[derive(Default)]
struct LastVersions {
    versions: HashMap<Uuid, u64>,
    purged: HashSet<Uuid>,
}

impl LastVersions {
    async fn read(now: &impl Read) -> Result<Self, Error> {
        let mut known = Self::default();
        let mut entries = now.iterate(&Range::all(KeySpace::Changes)).await?;
        while let Some(entry) = entries.next().await? {
            let change = decode_value::<ChangeKey>(&entry.key, &entry.value)?;
            let newest = change.version_after.max(change.version_before).unwrap_or_default();
            let version = known.versions.entry(change.subject).or_default();
            *version = newest.max(*version);
            if change.action == "purge_table" {
                known.purged.insert(change.subject);
            }
        }
        Ok(known)
    }

    fn of(&self, id: Uuid) -> u64 {
        self.versions.get(&id).copied().unwrap_or_default()
    }
}

fn is_same_metadata(before: &TabularRecord, after: &TabularRecord) -> bool {
    before.version == after.version && before.metadata_location == after.metadata_location
}

async fn is_there(then: &impl Read, id: Uuid) -> Result<bool, Error> {
    Ok(then.get_bytes(&TabularKey(id).encode()).await?.is_some())
}
