//! Restore: writes the difference between the current and an earlier state in one batch.
//!
//! SlateDB's manifest, log and order of writers stay as they are. The earlier state is written as a
//! change of the current one: atomic, under the same fence, with the same keys, and with all
//! checkpoints. Another restore can therefore undo it.
//!
//! [`RestoreRule`] has the effect on each key space. A restore deletes no file, and revoked keys
//! stay revoked.

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

/// Summary of a restore.
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
    /// Policies that were created at run time.
    pub policies: Counts,
    /// Grants.
    pub grants: Counts,
    /// Restored tables that were purged since: their data files may be gone.
    pub purged: usize,
    /// The warehouses, namespaces, tables and views by name.
    #[serde(skip)]
    pub objects: Objects,
}

/// A planned restore.
pub struct Plan {
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    deletes: Vec<Vec<u8>>,
    /// The store's own record at the earlier state.
    format: Option<StoreFormat>,
    /// Summary of the changes.
    pub told: Told,
    found: Vec<Found>,
    /// Tables and views that are removed or get new metadata.
    touched: HashSet<Uuid>,
    /// New versions of tables and views with new metadata.
    versions: HashMap<Uuid, u64>,
    /// Policies and grants of the earlier state.
    pub book: PolicyBook,
    /// Changes of policies and grants.
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
    /// Whether no visible object changes.
    pub fn is_empty(&self) -> bool {
        let Self { warehouses, namespaces, tables, views, policies, grants, .. } = self;
        [warehouses, namespaces, tables, views, policies, grants].into_iter().all(Counts::is_empty)
    }
}

impl Plan {
    /// Plans the changes from the current to an earlier state.
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
            // `Store::restore` writes those that change.
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

    /// Plans tables and views. Those with new metadata get a version and a marker.
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
                // Only its name or its owner differs.
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

    /// Plans heads of metadata, at the versions of their records. Metadata that exists only for a
    /// purge has no record, and is not restored.
    async fn heads(&mut self, then: &impl Read, different: Vec<Difference>) -> Result<(), Error> {
        // Equal bytes may exist because of a running purge. They get the new version as well.
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

    /// Restores a part of metadata if its table or view existed then, and removes it otherwise.
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

    /// Removes jobs, which may be about to delete files that are needed again: outdated metadata
    /// files, or those of a purged table. Also removes metadata that exists only for them.
    /// Completed jobs are history, and stay.
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

    /// Removes all metadata of a table or view, because the earlier state may also contain metadata
    /// of a running purge.
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
    /// Executes a plan, with this entry in the change log and, if policies or grants change, this
    /// revision. Starts a new timeline, because the versions of dropped tables are unknown. The
    /// result is durable and atomic.
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
                // A put after a deletion of the same key wins.
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

/// Last versions of dropped tables and views in the change log.
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
