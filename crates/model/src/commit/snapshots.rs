//! Applies updates of snapshots, references, statistics and encryption keys.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::encryption_key::EncryptionKey;
use super::super::members::brief;
use super::super::refusal::Refusal;
use super::super::snapshot::{MAIN_BRANCH, Snapshot, SnapshotRef, SnapshotRefKind};
use super::super::statistics::{PartitionStatisticsFile, StatisticsFile};
use super::super::table::{FORMAT_VERSION_ROW_LINEAGE, SnapshotLogEntry};
use super::Builder;
use super::snapshot_sets::Removals;

impl Builder<'_> {
    pub(super) fn add_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Result<(), Refusal> {
        self.flush_removals();
        let before_what = if self.metadata.schemas.is_empty() {
            Some("schema")
        } else if self.metadata.partition_specs.is_empty() {
            Some("partition spec")
        } else if self.metadata.sort_orders.is_empty() {
            Some("sort order")
        } else {
            None
        };
        if let Some(what) = before_what {
            return Err(Refusal::invalid(format!(
                "Attempting to add a snapshot before a {what} is added"
            )));
        }
        let id = snapshot.snapshot_id;
        if self.snapshot_ids.contains(&self.metadata, id) {
            return Err(Refusal::invalid(format!("Snapshot already exists for id: {id}")));
        }
        self.check_sequence_number(&snapshot)?;
        self.assign_row_ids(&snapshot)?;
        let last = self.metadata.last_sequence_number.max(snapshot.sequence_number);
        self.metadata.last_sequence_number = last;
        self.snapshot_ids.add(id);
        self.added.insert(id);
        self.metadata.snapshots.push(snapshot);
        self.changed = true;
        Ok(())
    }

    /// Checks that the sequence number of a snapshot is greater than the last sequence number of
    /// the table. If the snapshot has no parent, its number only has to be at least the numbers of
    /// all existing snapshots. Such a snapshot replaces the content of the table, and its writer
    /// did not know the existing snapshots.
    ///
    /// (If the number of a snapshot without a parent is too small, the reference implementation
    /// lowers the last sequence number of the table, and then fails because of the newer snapshots.
    /// Here, such a number is a conflict, and the client retries.)
    fn check_sequence_number(&self, snapshot: &Snapshot) -> Result<(), Refusal> {
        let number = snapshot.sequence_number;
        let last = self.metadata.last_sequence_number;
        if self.metadata.format_version == 1 {
            return match number {
                0 => Ok(()),
                _ => Err(Refusal::invalid(format!("Sequence number must be 0 in v1: {number}"))),
            };
        }
        if number > last {
            return Ok(());
        }
        let newer = |other: &Arc<Snapshot>| other.sequence_number > number;
        if snapshot.parent_snapshot_id.is_none() && !self.metadata.snapshots.iter().any(newer) {
            return Ok(());
        }
        Err(Refusal::conflict(format!(
            "Validation failed, please retry: Cannot add snapshot with sequence number {number} \
             older than last sequence number {last}"
        )))
    }

    /// Assigns the row ids of a snapshot of version 3. Afterwards, the table's next row id is
    /// greater than all row ids of the snapshot, even if there is a gap before the first row id of
    /// the snapshot. (The reference implementation only adds the number of rows, so after a gap it
    /// would assign some ids twice.)
    fn assign_row_ids(&mut self, snapshot: &Snapshot) -> Result<(), Refusal> {
        if self.metadata.format_version < FORMAT_VERSION_ROW_LINEAGE {
            return Ok(());
        }
        let Some(first) = snapshot.first_row_id else {
            return Err(Refusal::invalid("Cannot add a snapshot: first-row-id is null"));
        };
        let next = self.metadata.next_row_id;
        if first < next {
            return Err(Refusal::conflict(format!(
                "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind \
                 table next-row-id: {first} < {next}"
            )));
        }
        let after = first.checked_add(snapshot.added_rows.unwrap_or_default());
        self.metadata.next_row_id = after
            .ok_or_else(|| Refusal::invalid("Cannot add a snapshot: row ids are exhausted"))?;
        Ok(())
    }

    pub(super) fn set_ref(&mut self, name: String, reference: SnapshotRef) -> Result<(), Refusal> {
        self.flush_removals();
        if self.metadata.refs.get(&name) == Some(&reference) {
            return Ok(());
        }
        let id = reference.snapshot_id;
        if !self.snapshot_ids.contains(&self.metadata, id) {
            return Err(Refusal::invalid(format!(
                "Cannot set {} to unknown snapshot: {id}",
                brief(&name)
            )));
        }
        if name == MAIN_BRANCH {
            if reference.kind == SnapshotRefKind::Tag {
                return Err(Refusal::invalid("Cannot set main to a tag, it must be a branch"));
            }
            self.set_current_snapshot(id);
        }
        self.metadata.refs.insert(name, reference);
        self.changed = true;
        Ok(())
    }

    /// Makes a snapshot current and adds it to the snapshot log. The entry of a new snapshot has
    /// the time of the snapshot. The entry of an older snapshot (a rollback) has the current time.
    fn set_current_snapshot(&mut self, snapshot_id: i64) {
        self.metadata.current_snapshot_id = Some(snapshot_id);
        let timestamp_ms = if self.added.contains(&snapshot_id) {
            self.added_to_main.insert(snapshot_id);
            let added = self.metadata.snapshot(snapshot_id);
            added.map_or(self.updated_ms, |snapshot| snapshot.timestamp_ms)
        } else {
            self.updated_ms
        };
        self.metadata.snapshot_log.push(SnapshotLogEntry { timestamp_ms, snapshot_id });
    }

    pub(super) fn remove_ref(&mut self, name: &str) -> Result<(), Refusal> {
        self.flush_removals();
        if name == MAIN_BRANCH {
            self.changed |= self.metadata.current_snapshot_id.take().is_some();
        }
        self.changed |= self.metadata.refs.remove(name).is_some();
        Ok(())
    }

    pub(super) fn set_statistics(&mut self, file: Arc<StatisticsFile>) -> Result<(), Refusal> {
        self.flush_removals();
        let id = file.snapshot_id;
        let same = |other: &StatisticsFile| other.snapshot_id == id;
        self.changed |= replace(&mut self.metadata.statistics, file, same);
        Ok(())
    }

    pub(super) fn set_partition_statistics(
        &mut self,
        file: Arc<PartitionStatisticsFile>,
    ) -> Result<(), Refusal> {
        self.flush_removals();
        let id = file.snapshot_id;
        let same = |other: &PartitionStatisticsFile| other.snapshot_id == id;
        self.changed |= replace(&mut self.metadata.partition_statistics, file, same);
        Ok(())
    }

    pub(super) fn add_encryption_key(&mut self, key: Arc<EncryptionKey>) -> Result<(), Refusal> {
        if !self.metadata.encryption_keys.iter().any(|other| other.key_id == key.key_id) {
            self.metadata.encryption_keys.push(key);
            self.changed = true;
        }
        Ok(())
    }

    pub(super) fn remove_encryption_key(&mut self, key_id: &str) -> Result<(), Refusal> {
        let before = self.metadata.encryption_keys.len();
        self.metadata.encryption_keys.retain(|key| key.key_id != key_id);
        self.changed |= self.metadata.encryption_keys.len() != before;
        Ok(())
    }

    /// Performs the collected removals: of snapshots, of their statistics, and of the references to
    /// them.
    pub(super) fn flush_removals(&mut self) {
        let Removals { snapshots, mut statistics, mut partition_statistics } =
            std::mem::take(&mut self.removals);
        if !snapshots.is_empty() {
            let removed = self.remove_snapshots(&snapshots);
            statistics.extend(&removed);
            partition_statistics.extend(&removed);
        }
        let metadata = &mut self.metadata;
        let before = metadata.statistics.len() + metadata.partition_statistics.len();
        if !statistics.is_empty() {
            metadata.statistics.retain(|file| !statistics.contains(&file.snapshot_id));
        }
        if !partition_statistics.is_empty() {
            let gone = &partition_statistics;
            metadata.partition_statistics.retain(|file| !gone.contains(&file.snapshot_id));
        }
        self.changed |= metadata.statistics.len() + metadata.partition_statistics.len() != before;
    }

    /// Removes the snapshots with these ids, and the references to them. Returns the ids of the
    /// snapshots that existed.
    fn remove_snapshots(&mut self, ids: &HashSet<i64>) -> HashSet<i64> {
        let mut removed = HashSet::new();
        self.metadata.snapshots.retain_ids(|id| {
            let stays = !ids.contains(&id);
            if !stays {
                removed.insert(id);
            }
            stays
        });
        if removed.is_empty() {
            return removed;
        }
        self.snapshot_ids.remove(&removed);
        self.removed_snapshots = true;
        self.changed = true;
        if self.metadata.current_snapshot_id.is_some_and(|id| removed.contains(&id)) {
            self.metadata.current_snapshot_id = None;
        }
        self.metadata.refs.retain(|_, reference| !removed.contains(&reference.snapshot_id));
        removed
    }
}

/// Replaces all files that match `same` with `file`. Returns whether that changed anything.
fn replace<T: PartialEq>(files: &mut Vec<Arc<T>>, file: Arc<T>, same: impl Fn(&T) -> bool) -> bool {
    let mut matching = files.iter().filter(|other| same(other));
    if matching.next() == Some(&file) && matching.next().is_none() {
        return false;
    }
    let position = files.iter().position(|other| same(other)).unwrap_or(files.len());
    files.retain(|other| !same(other));
    files.insert(position, file);
    true
}
