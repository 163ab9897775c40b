//! Expiry of snapshots: determines which snapshots and references a table no longer has to retain.
//! The rules are those of `expire_snapshots` in Iceberg's Java library ("Snapshot Retention Policy"
//! in the table specification).

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;

use super::refusal::Refusal;
use super::snapshot::{MAIN_BRANCH, Snapshot, SnapshotRef, SnapshotRefKind};
use super::table::TableMetadata;
use super::update::TableUpdate;

/// Age from which snapshots expire, in milliseconds.
pub const MAX_SNAPSHOT_AGE_PROPERTY: &str = "history.expire.max-snapshot-age-ms";
/// Number of snapshots of each branch that are retained, whatever their age.
pub const MIN_SNAPSHOTS_PROPERTY: &str = "history.expire.min-snapshots-to-keep";
/// Age from which branches and tags expire, in milliseconds. The age of a reference is that of its
/// snapshot.
pub const MAX_REF_AGE_PROPERTY: &str = "history.expire.max-ref-age-ms";
/// Whether files of the table may be deleted.
pub const GC_PROPERTY: &str = "gc.enabled";

/// The default of [`MAX_SNAPSHOT_AGE_PROPERTY`]: five days.
const MAX_SNAPSHOT_AGE_MS: i64 = 5 * 24 * 60 * 60 * 1000;

/// Retention that a caller requests instead of that in the table's properties.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpiryRequest {
    /// Minimum age of expired snapshots, in milliseconds. `None`: the property decides.
    pub older_than_ms: Option<i64>,
    /// Number of snapshots of each branch to retain. `None`: the property decides.
    pub retain_last: Option<usize>,
}

/// The branches, tags and snapshots of a table that expire, and the files of the snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expiry {
    /// Branches and tags, in alphabetical order.
    pub refs: Vec<String>,
    /// Ids of snapshots, in the order in which they were added.
    pub snapshots: Vec<i64>,
    /// The files that these snapshots reference directly.
    pub files: SnapshotFiles,
}

/// The files that snapshots reference directly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotFiles {
    /// Manifest lists.
    pub manifest_lists: Vec<String>,
    /// Manifests of snapshots without a manifest list (version 1).
    pub manifests: Vec<String>,
    /// Statistics of tables and partitions.
    pub statistics: Vec<String>,
}

/// The members of snapshots and statistics that contain locations.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Locations {
    manifest_list: Option<String>,
    manifests: Option<Vec<String>>,
    statistics_path: Option<String>,
}

impl SnapshotFiles {
    fn add(&mut self, json: &str) {
        // Snapshots and statistics were parsed before, so these members have the expected types.
        let Ok(locations) = serde_json::from_str::<Locations>(json) else { return };
        if locations.manifest_list.is_none() {
            self.manifests.extend(locations.manifests.into_iter().flatten());
        }
        self.manifest_lists.extend(locations.manifest_list);
        self.statistics.extend(locations.statistics_path);
    }
}

impl Expiry {
    /// Returns the expired snapshots and references of a table. `inherited` contains the retention
    /// properties that apply if the table does not have them.
    ///
    /// # Errors
    /// Rejects a table with an invalid retention property. Also rejects a table with
    /// `gc.enabled=false`, because other tables may need its files.
    pub fn of(
        table: &TableMetadata,
        request: ExpiryRequest,
        inherited: &BTreeMap<String, String>,
        now_ms: i64,
    ) -> Result<Self, Refusal> {
        let rules = Rules::of(table, request, inherited, now_ms)?;
        let by_id: HashMap<i64, &Snapshot> =
            table.snapshots.iter().map(|it| (it.snapshot_id, &**it)).collect();
        let (kept, expired): (Vec<_>, Vec<_>) = table
            .refs
            .iter()
            .partition(|(name, it)| *name == MAIN_BRANCH || rules.keeps_ref(it, &by_id));
        let mut retained = HashSet::new();
        let mut reachable = HashSet::new();
        for (_, reference) in kept {
            rules.retain(reference, &by_id, &mut retained, &mut reachable);
        }
        // A recent snapshot outside of all branches stays, because its writer may be about to
        // publish it.
        let stays = |it: &Snapshot| {
            retained.contains(&it.snapshot_id)
                || !reachable.contains(&it.snapshot_id) && it.timestamp_ms >= rules.expire_before_ms
        };
        let mut files = SnapshotFiles::default();
        let mut snapshots = Vec::new();
        for snapshot in table.snapshots.iter().filter(|it| !stays(it)) {
            snapshots.push(snapshot.snapshot_id);
            files.add(snapshot.json());
        }
        let removed: HashSet<i64> = snapshots.iter().copied().collect();
        let of_removed = table.statistics.iter().filter(|it| removed.contains(&it.snapshot_id));
        of_removed.for_each(|it| files.add(it.json().get()));
        let of_removed = table.partition_statistics.iter();
        let of_removed = of_removed.filter(|it| removed.contains(&it.snapshot_id));
        of_removed.for_each(|it| files.add(it.json().get()));
        Ok(Self {
            refs: expired.into_iter().map(|(name, _)| name.clone()).collect(),
            snapshots,
            files,
        })
    }

    /// Whether nothing expires.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty() && self.snapshots.is_empty()
    }

    /// Returns the updates that remove the expired references, the expired snapshots, and the
    /// statistics of these snapshots.
    pub fn updates(&self, table: &TableMetadata) -> Vec<TableUpdate> {
        let removed: HashSet<i64> = self.snapshots.iter().copied().collect();
        let refs = self.refs.iter().cloned();
        let refs = refs.map(|ref_name| TableUpdate::RemoveSnapshotRef { ref_name });
        let statistics = table.statistics.iter().map(|it| it.snapshot_id);
        let statistics = statistics
            .filter(|id| removed.contains(id))
            .map(|snapshot_id| TableUpdate::RemoveStatistics { snapshot_id });
        let partition_statistics = table.partition_statistics.iter().map(|it| it.snapshot_id);
        let partition_statistics = partition_statistics
            .filter(|id| removed.contains(id))
            .map(|snapshot_id| TableUpdate::RemovePartitionStatistics { snapshot_id });
        let mut updates: Vec<_> = refs.chain(statistics).chain(partition_statistics).collect();
        if !self.snapshots.is_empty() {
            updates.push(TableUpdate::RemoveSnapshots { snapshot_ids: self.snapshots.clone() });
        }
        updates
    }
}

/// The retention rules of a table at a time.
struct Rules {
    now_ms: i64,
    /// Snapshots from before this time expire. The retention settings of a branch override this
    /// time.
    expire_before_ms: i64,
    min_snapshots: usize,
    max_ref_age_ms: i64,
}

impl Rules {
    fn of(
        table: &TableMetadata,
        request: ExpiryRequest,
        inherited: &BTreeMap<String, String>,
        now_ms: i64,
    ) -> Result<Self, Refusal> {
        let gc = table.properties.get(GC_PROPERTY);
        if gc.is_some_and(|value| value.eq_ignore_ascii_case("false")) {
            return Err(Refusal::invalid(
                "Cannot expire snapshots: gc.enabled is false, because other tables may need the files of \
                 this table",
            ));
        }
        let set = |name: &str| table.properties.get(name).or_else(|| inherited.get(name));
        let property = |name: &str, default: i64| match set(name) {
            None => Ok(default),
            Some(text) => text.parse().ok().filter(|number: &i64| *number >= 0).ok_or_else(|| {
                Refusal::invalid(format!(
                    "Invalid table property {name}: expected a number of at least 0, got '{text}'"
                ))
            }),
        };
        let age_ms = property(MAX_SNAPSHOT_AGE_PROPERTY, MAX_SNAPSHOT_AGE_MS)?;
        let min_snapshots = property(MIN_SNAPSHOTS_PROPERTY, 1)?;
        let min_snapshots = usize::try_from(min_snapshots).unwrap_or(usize::MAX);
        Ok(Self {
            now_ms,
            expire_before_ms: now_ms.saturating_sub(request.older_than_ms.unwrap_or(age_ms)),
            // At least the newest snapshot stays, because it is the current state of the branch.
            min_snapshots: request.retain_last.unwrap_or(min_snapshots).max(1),
            max_ref_age_ms: property(MAX_REF_AGE_PROPERTY, i64::MAX)?,
        })
    }

    fn keeps_ref(&self, reference: &SnapshotRef, by_id: &HashMap<i64, &Snapshot>) -> bool {
        let max_age_ms = reference.max_ref_age_ms.unwrap_or(self.max_ref_age_ms);
        let snapshot = by_id.get(&reference.snapshot_id);
        snapshot.is_some_and(|it| self.now_ms.saturating_sub(it.timestamp_ms) <= max_age_ms)
    }

    /// Adds the snapshots that a reference retains to `retained`. Adds the snapshot of the
    /// reference and, for a branch, all ancestors of this snapshot to `reachable`.
    fn retain(
        &self,
        reference: &SnapshotRef,
        by_id: &HashMap<i64, &Snapshot>,
        retained: &mut HashSet<i64>,
        reachable: &mut HashSet<i64>,
    ) {
        retained.insert(reference.snapshot_id);
        if reference.kind == SnapshotRefKind::Tag {
            reachable.insert(reference.snapshot_id);
            return;
        }
        let age_ms = reference.max_snapshot_age_ms;
        let expire_before_ms =
            age_ms.map_or(self.expire_before_ms, |age_ms| self.now_ms.saturating_sub(age_ms));
        let min_snapshots = reference.min_snapshots_to_keep.and_then(|it| usize::try_from(it).ok());
        let min_snapshots = min_snapshots.unwrap_or(self.min_snapshots);
        let mut next = by_id.get(&reference.snapshot_id);
        let mut is_retaining = true;
        let mut depth = 0;
        // Metadata of other catalogs could contain a cycle.
        while let Some(snapshot) = next
            && depth < by_id.len()
        {
            // As in the reference implementation, a branch does not retain the ancestors of an
            // expired snapshot, even if their timestamps are later because the clock of a writer
            // was wrong.
            is_retaining &= depth < min_snapshots || snapshot.timestamp_ms >= expire_before_ms;
            if is_retaining {
                retained.insert(snapshot.snapshot_id);
            }
            reachable.insert(snapshot.snapshot_id);
            depth += 1;
            next = snapshot.parent_snapshot_id.and_then(|parent| by_id.get(&parent));
        }
    }
}

#[cfg(test)]
mod tests;
