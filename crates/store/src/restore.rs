//! Restores an earlier state: writes the differences between the current and the earlier state in
//! one batch.
//!
//! SlateDB's manifest, its log and the epochs of its writers stay as they are. The earlier state is
//! written as a change of the current state. So a restore is atomic, respects the fence of the
//! current writer, uses the current keys, and keeps all checkpoints. Another restore can therefore
//! undo it.
//!
//! [`RestoreRule`] describes what a restore does with each key space. A restore deletes no file,
//! and revoked keys stay revoked.

mod differences;
mod markers;
mod objects;
mod summary;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use uuid::Uuid;

use super::codec::Value;
use super::error::Error;
use super::functions::FunctionRecord;
use super::handle::Store;
use super::jobs::JobWork;
use super::key_space::{KeySpace, RestoreRule};
use super::keys::{
    ChangeKey, ChunkKey, DroppedKey, FunctionKey, JobKey, Key, MetadataKey, NamespaceKey,
    PublicationKey, StoreKey, TabularKey, WarehouseKey,
};
use super::policy_snapshot::PolicySnapshot;
use super::read::{KeyRange, StoreRead, corrupt, decode_value};
use super::records::{
    Change, ChangeAction, NamespaceRecord, PolicyChanges, PolicyRevision, StoreFormat,
    TabularRecord, WarehouseRecord,
};
use differences::{Difference, differences, keys};
use objects::UnresolvedObject;
pub use objects::{Object, ObjectKind, Objects};
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_base::progress::{Phase, Progress};
use slateberg_model::ident::TabularKind;
pub use summary::{Counts, RestoreSummary};

/// A planned restore.
pub struct RestorePlan {
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    deletes: Vec<Vec<u8>>,
    /// The store's own record in the earlier state.
    format: Option<StoreFormat>,
    /// Summary of the changes.
    pub summary: RestoreSummary,
    unresolved: Vec<UnresolvedObject>,
    /// Tables and views that are removed or get new metadata.
    touched: HashSet<Uuid>,
    /// New versions of tables and views with new metadata.
    versions: HashMap<Uuid, u64>,
    /// Policies and grants of the earlier state.
    pub book: PolicySnapshot,
    /// Changes of policies and grants.
    pub policy_changes: PolicyChanges,
}

impl RestorePlan {
    /// Plans the changes from the current to an earlier state.
    pub async fn between(
        now: &impl StoreRead,
        then: &impl StoreRead,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let phase = &progress.phase("comparing records", None);
        let (book_now, book) =
            (PolicySnapshot::read(now).await?, PolicySnapshot::read(then).await?);
        let policy_changes = book_now.changes_to(&book);
        let mut plan = Self {
            puts: Vec::new(),
            deletes: Vec::new(),
            format: then.get(&StoreKey).await?,
            summary: RestoreSummary::default(),
            unresolved: Vec::new(),
            touched: HashSet::new(),
            versions: HashMap::new(),
            book,
            policy_changes,
        };
        plan.count_policies();
        // The spaces are handled in the order of their keys, because metadata and markers depend on
        // tables and views.
        for &space in KeySpace::ALL {
            plan.space(space, now, then, phase).await?;
        }
        plan.summary.objects =
            Objects::resolve(std::mem::take(&mut plan.unresolved), now, then).await?;
        Ok(plan)
    }

    async fn space(
        &mut self,
        space: KeySpace,
        now: &impl StoreRead,
        then: &impl StoreRead,
        phase: &Phase,
    ) -> Result<(), Error> {
        match space.rules().restore {
            // Records with `Keep` stay. `Store::restore` writes the records of the other three
            // kinds.
            RestoreRule::Keep
            | RestoreRule::NewTimeline
            | RestoreRule::Revise
            | RestoreRule::Append => {}
            RestoreRule::Replace => {
                for Difference { key, then, .. } in differences(now, then, space, phase).await? {
                    self.put_or_delete(&key, then);
                }
            }
            RestoreRule::Warehouses => {
                self.warehouses(differences(now, then, space, phase).await?)?;
            }
            RestoreRule::Namespaces => {
                self.namespaces(differences(now, then, space, phase).await?)?;
            }
            RestoreRule::Tabulars => {
                self.tabulars((now, then), differences(now, then, space, phase).await?).await?;
            }
            RestoreRule::Functions => {
                self.functions(differences(now, then, space, phase).await?)?;
            }
            RestoreRule::Dropped => {
                self.dropped(then, differences(now, then, space, phase).await?).await?;
            }
            RestoreRule::Heads => {
                self.heads(then, differences(now, then, space, phase).await?).await?;
            }
            RestoreRule::Chunks => {
                self.chunks(then, differences(now, then, space, phase).await?).await?;
            }
            RestoreRule::Markers => self.delete_markers(now, space).await?,
            RestoreRule::Cancel => self.delete_jobs(now, space).await?,
            RestoreRule::Remove => self.deletes.extend(keys(now, space).await?),
        }
        Ok(())
    }

    fn put<K: Key>(&mut self, key: &K, value: &K::Value) {
        self.puts.push((key.encode(), value.encode()));
    }

    fn put_or_delete(&mut self, key: &Bytes, then: Option<Bytes>) {
        match then {
            Some(value) => self.puts.push((key.to_vec(), value.to_vec())),
            None => self.deletes.push(key.to_vec()),
        }
    }

    fn count_policies(&mut self) {
        for edit in self.policy_changes.policies.values() {
            self.summary.policies.add(edit.before.is_some(), edit.after.is_some());
        }
        self.summary.grants.restored = self.policy_changes.granted.len();
        self.summary.grants.removed = self.policy_changes.revoked.len();
    }

    fn warehouses(&mut self, different: Vec<Difference>) -> Result<(), Error> {
        for different in different {
            let (before, after) = different.records::<WarehouseKey>()?;
            self.summary.warehouses.add(before.is_some(), after.is_some());
            let WarehouseKey(name) = different.decode_key()?;
            self.unresolved.push(UnresolvedObject {
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
            self.summary.namespaces.add(before.is_some(), after.is_some());
            let name = |it: &NamespaceRecord| (Some(it.parent), it.name.clone());
            let (now, then) = (before.as_ref().map(name), after.as_ref().map(name));
            self.unresolved.push(UnresolvedObject { kind: ObjectKind::Namespace, now, then });
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

    fn functions(&mut self, different: Vec<Difference>) -> Result<(), Error> {
        for different in different {
            let (before, after) = different.records::<FunctionKey>()?;
            self.summary.functions.add(before.is_some(), after.is_some());
            let name = |it: &FunctionRecord| (Some(it.namespace), it.name.clone());
            let (now, then) = (before.as_ref().map(name), after.as_ref().map(name));
            self.unresolved.push(UnresolvedObject { kind: ObjectKind::Function, now, then });
            let Some(after) = after else {
                self.deletes.push(different.key.to_vec());
                continue;
            };
            let highest = before.map_or(0, |before| before.version).max(after.version);
            let after = FunctionRecord { version: highest + 1, ..after };
            self.puts.push((different.key.to_vec(), after.encode()));
        }
        Ok(())
    }

    /// Plans the changes of tables and views. Tables and views with new metadata get a new version
    /// and a marker.
    async fn tabulars(
        &mut self,
        (now, then): (&impl StoreRead, &impl StoreRead),
        different: Vec<Difference>,
    ) -> Result<(), Error> {
        let mut last_versions = LastVersions::default();
        if different.iter().any(|different| different.now.is_none()) {
            last_versions = LastVersions::read(now).await?;
        }
        for different in different {
            let (before, after) = different.records::<TabularKey>()?;
            let Some(either) = before.as_ref().or(after.as_ref()) else { continue };
            let (id, kind) = (either.id, either.kind);
            let counts = match kind {
                TabularKind::Table => &mut self.summary.tables,
                TabularKind::View => &mut self.summary.views,
            };
            counts.add(before.is_some(), after.is_some());
            let name = |it: &TabularRecord| (Some(it.namespace), it.name.clone());
            let (name_now, name_then) = (before.as_ref().map(name), after.as_ref().map(name));
            self.unresolved.push(UnresolvedObject {
                kind: kind.into(),
                now: name_now,
                then: name_then,
            });
            let Some(after) = after else {
                self.touched.insert(id);
                self.deletes.push(different.key.to_vec());
                if then.get(&DroppedKey(id)).await?.is_none() {
                    self.delete_metadata(now, id).await?;
                }
                continue;
            };
            self.summary.purged +=
                usize::from(before.is_none() && last_versions.purged.contains(&id));
            let version = match &before {
                // The metadata is the same, and only the name or the owner differs.
                Some(before) if is_same_metadata(before, &after) => after.version,
                Some(before) => before.version.max(after.version) + 1,
                None => last_versions.of(id).max(after.version) + 1,
            };
            if version != after.version {
                self.touched.insert(id);
                self.versions.insert(id, version);
                self.put_marker(then, &after, version).await?;
            }
            self.put(&TabularKey(id), &TabularRecord { version, ..after });
        }
        Ok(())
    }

    async fn delete_markers(&mut self, now: &impl StoreRead, space: KeySpace) -> Result<(), Error> {
        for (key, _) in now.scan::<PublicationKey>(&KeyRange::all(space), None).await? {
            if self.touched.contains(&key.id) {
                self.deletes.push(key.encode());
            }
        }
        Ok(())
    }

    /// Plans the changes of metadata heads, which get the versions of their records. Metadata that
    /// exists only for a purge has no record, and is not restored.
    async fn heads(
        &mut self,
        then: &impl StoreRead,
        different: Vec<Difference>,
    ) -> Result<(), Error> {
        // While a purge is running, the head of the purged table still exists. So this head may be
        // equal in both states, and then `different` does not contain it. Therefore this loop
        // writes the heads of all tables and views with a new version.
        let versions = std::mem::take(&mut self.versions);
        for (id, version) in &versions {
            let head = then.get(&MetadataKey(*id)).await?;
            let lost = || {
                corrupt(&MetadataKey(*id).encode(), "the checkpoint does not contain the metadata")
            };
            self.put(&MetadataKey(*id), &head.ok_or_else(lost)?.at_version(*version));
        }
        for different in different {
            let id = different.decode_key::<MetadataKey>()?.0;
            if !versions.contains_key(&id) {
                self.put_or_delete_part(then, id, different).await?;
            }
        }
        Ok(())
    }

    async fn chunks(
        &mut self,
        then: &impl StoreRead,
        different: Vec<Difference>,
    ) -> Result<(), Error> {
        for different in different {
            let id = different.decode_key::<ChunkKey>()?.id;
            self.put_or_delete_part(then, id, different).await?;
        }
        Ok(())
    }

    /// Restores a head or chunk if the earlier state contains its table or view, dropped or not.
    /// Otherwise, removes the head or chunk.
    async fn put_or_delete_part(
        &mut self,
        then: &impl StoreRead,
        id: Uuid,
        different: Difference,
    ) -> Result<(), Error> {
        match different.then {
            Some(part) if tabular_exists(then, id).await? => {
                self.puts.push((different.key.to_vec(), part.to_vec()));
            }
            _ => self.deletes.push(different.key.to_vec()),
        }
        Ok(())
    }

    /// Removes active jobs, because they could delete files that are needed again: outdated
    /// metadata files, or files of a purged table. Also removes metadata that exists only for these
    /// jobs. Records of ended jobs stay, as history.
    async fn delete_jobs(&mut self, now: &impl StoreRead, space: KeySpace) -> Result<(), Error> {
        for (key, job) in now.scan::<JobKey>(&KeyRange::all(space), None).await? {
            self.deletes.push(key.encode());
            let JobWork::ReachableFrom { id, .. } = job.work else { continue };
            let restored = [TabularKey(id).encode(), DroppedKey(id).encode()];
            if !self.puts.iter().any(|(key, _)| restored.contains(key)) {
                self.delete_metadata(now, id).await?;
            }
        }
        Ok(())
    }

    /// Removes all metadata of a table or view. If its purge was already running in the earlier
    /// state, both states contain the metadata, so the comparison of the states does not remove it.
    async fn delete_metadata(&mut self, now: &impl StoreRead, id: Uuid) -> Result<(), Error> {
        self.deletes.push(MetadataKey(id).encode());
        let chunks = KeyRange::below(KeySpace::MetadataChunks, id);
        for (key, _) in now.scan::<ChunkKey>(&chunks, None).await? {
            self.deletes.push(key.encode());
        }
        Ok(())
    }
}

impl Store {
    /// Executes a plan in one durable and atomic transaction. Adds `entry` to the change log and,
    /// if policies or grants change, `revision` to the policy log. Starts a new timeline, because
    /// the change log may no longer contain the last version of a dropped table. The restored table
    /// could then get a version number that an earlier `ETag` contains.
    #[boxed]
    pub async fn restore(
        &self,
        permit: &Permit<Maintain>,
        plan: &RestorePlan,
        timeline: Uuid,
        revision: Option<&PolicyRevision>,
        entry: &Change,
    ) -> Result<(), Error> {
        let ((), accepted) = self
            .transact("restore", permit, |t| async move {
                // The puts come last, because a put wins over an earlier deletion of the same key.
                plan.deletes.iter().try_for_each(|key| t.delete_at(key.clone()))?;
                plan.puts.iter().try_for_each(|(key, value)| t.put_at(key.clone(), value))?;
                if let Some(format) = plan.format.clone() {
                    t.put(&StoreKey, &StoreFormat { timeline: Some(timeline), ..format })?;
                }
                if let Some(revision) = revision {
                    t.revise_policies(revision).await?;
                }
                t.log(entry);
                Ok::<_, Error>(())
            })
            .await?;
        accepted.durable().await
    }
}

/// Last versions of dropped tables and views, according to the change log.
#[derive(Default)]
struct LastVersions {
    versions: HashMap<Uuid, u64>,
    purged: HashSet<Uuid>,
}

impl LastVersions {
    async fn read(now: &impl StoreRead) -> Result<Self, Error> {
        let mut last_versions = Self::default();
        let mut entries = now.iterate(&KeyRange::all(KeySpace::Changes)).await?;
        while let Some(entry) = entries.next().await? {
            let change = decode_value::<ChangeKey>(&entry.key, &entry.value)?;
            let newest = change.version_after.max(change.version_before).unwrap_or_default();
            let version = last_versions.versions.entry(change.subject).or_default();
            *version = newest.max(*version);
            let purges = [ChangeAction::PurgeTable, ChangeAction::PurgeDropped];
            if purges.into_iter().any(|purge| change.action == purge.into()) {
                last_versions.purged.insert(change.subject);
            }
        }
        Ok(last_versions)
    }

    fn of(&self, id: Uuid) -> u64 {
        self.versions.get(&id).copied().unwrap_or_default()
    }
}

fn is_same_metadata(before: &TabularRecord, after: &TabularRecord) -> bool {
    before.version == after.version && before.metadata_location == after.metadata_location
}

async fn tabular_exists(then: &impl StoreRead, id: Uuid) -> Result<bool, Error> {
    Ok(then.get_bytes(&TabularKey(id).encode()).await?.is_some()
        || then.get_bytes(&DroppedKey(id).encode()).await?.is_some())
}
