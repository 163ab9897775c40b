//! The metadata of a table: everything a client needs to read it, and all that a commit changes.
//!
//! Vocabulary, as the table specification uses it: a *snapshot* is a state of the table, a *ref*
//! (branch or tag) points to a snapshot, *main* is the branch whose snapshot is current, the
//! *snapshot log* tells what was current when, and the *metadata log* where earlier documents are.
//!
//! A `TableMetadata` is valid from birth (`parse`, `create::new_table`, `commit::apply`). It is cheap
//! to clone: whatever is many or large sits behind an `Arc` and is shared between versions, and the
//! snapshots and their log are shared with their text, chunk by chunk.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::chunked::Chunked;
use super::encryption_key::EncryptionKey;
use super::members::brief;
use super::partition::PartitionSpec;
use super::refusal::Refusal;
use super::schema::Schema;
use super::snapshot::{MAIN_BRANCH, Snapshot, SnapshotRef, Snapshots};
use super::sort::SortOrder;
use super::statistics::{PartitionStatisticsFile, StatisticsFile};

/// The greatest format version that is understood.
pub const FORMAT_VERSION_MAX: u8 = 3;

/// The format version of a table that names none.
pub const FORMAT_VERSION_DEFAULT: u8 = 2;

/// From this format version on, rows have ids.
pub(super) const FORMAT_VERSION_ROW_LINEAGE: u8 = 3;

/// How far clocks of different machines may be apart, in milliseconds, before the order of a log's
/// entries counts as wrong.
pub(super) const CLOCK_SKEW_MS_MAX: i64 = 60_000;

/// A table's metadata document ("Table Metadata" in the table specification, versions 1 to 3).
#[derive(Debug, Clone, PartialEq)]
pub struct TableMetadata {
    /// 1, 2 or 3.
    pub format_version: u8,
    /// The table's identity. Nil for a document of version 1 that has none.
    pub table_uuid: Uuid,
    /// Where the table's files are, without a slash at the end.
    pub location: String,
    /// The greatest sequence number assigned; 0 in version 1.
    pub last_sequence_number: i64,
    /// When this document was made, in milliseconds since 1970.
    pub last_updated_ms: i64,
    /// The greatest field id ever assigned.
    pub last_column_id: i32,
    /// The schema that is current; one of `schemas`.
    pub current_schema_id: i32,
    /// The schemas, in the order they were added.
    pub schemas: Vec<Arc<Schema>>,
    /// The spec that writers use; one of `partition_specs`.
    pub default_spec_id: i32,
    /// The partition specs, in the order they were added.
    pub partition_specs: Vec<Arc<PartitionSpec>>,
    /// The greatest partition field id ever assigned; 999 if there was none.
    pub last_partition_id: i32,
    /// The order that writers use; one of `sort_orders`.
    pub default_sort_order_id: i32,
    /// The sort orders, in the order they were added.
    pub sort_orders: Vec<Arc<SortOrder>>,
    /// Settings of the table.
    pub properties: BTreeMap<String, String>,
    /// The snapshot of branch main.
    pub current_snapshot_id: Option<i64>,
    /// Branches and tags by name.
    pub refs: BTreeMap<String, SnapshotRef>,
    /// The snapshots, in the order they were added.
    pub snapshots: Snapshots,
    /// Which snapshot became current when, oldest first.
    pub snapshot_log: SnapshotLog,
    /// Where earlier documents are, oldest first.
    pub metadata_log: Vec<MetadataLogEntry>,
    /// Statistics files, at most one for a snapshot once a commit set it.
    pub statistics: Vec<Arc<StatisticsFile>>,
    /// Partition statistics files, likewise.
    pub partition_statistics: Vec<Arc<PartitionStatisticsFile>>,
    /// Encrypted keys (v3).
    pub encryption_keys: Vec<Arc<EncryptionKey>>,
    /// The next row id to assign (v3); 0 before.
    pub next_row_id: i64,
    /// Members of the document that this version does not know.
    pub extra: Map<String, Value>,
}

/// The log of a table: some eight kilobytes of text to a chunk.
pub type SnapshotLog = Chunked<SnapshotLogEntry, 128>;

/// At this time, this snapshot became current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLogEntry {
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The snapshot.
    pub snapshot_id: i64,
}

/// Up to some later time, this was the table's document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataLogEntry {
    /// The `last_updated_ms` of that document, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Where the document is.
    pub metadata_file: Arc<str>,
}

impl TableMetadata {
    /// The current schema.
    pub fn current_schema(&self) -> Result<&Arc<Schema>, Refusal> {
        let id = self.current_schema_id;
        self.schemas.iter().find(|schema| schema.schema_id() == id).ok_or_else(|| {
            Refusal::invalid(format!("Cannot find schema with current-schema-id={id} from schemas"))
        })
    }

    /// The default partition spec.
    pub fn default_spec(&self) -> Result<&Arc<PartitionSpec>, Refusal> {
        let id = self.default_spec_id;
        self.partition_specs.iter().find(|spec| spec.spec_id == id).ok_or_else(|| {
            let text = format!("Cannot find spec with default-spec-id={id} from partition-specs");
            Refusal::invalid(text)
        })
    }

    /// The default sort order.
    pub fn default_sort_order(&self) -> Result<&Arc<SortOrder>, Refusal> {
        let id = self.default_sort_order_id;
        self.sort_orders.iter().find(|order| order.order_id == id).ok_or_else(|| {
            let text =
                format!("Cannot find sort order with default-sort-order-id={id} from sort-orders");
            Refusal::invalid(text)
        })
    }

    /// The snapshot of this id. Looks from the newest back.
    pub fn snapshot(&self, snapshot_id: i64) -> Option<&Arc<Snapshot>> {
        self.snapshots.find(snapshot_id)
    }

    /// This document with only the snapshots that a branch or tag points to, for clients that load
    /// the others when they need them. All else stays whole, the snapshot log too.
    pub fn with_referenced_snapshots_only(&self) -> Self {
        let referenced: HashSet<i64> = self.refs.values().map(|r| r.snapshot_id).collect();
        let mut metadata = self.clone();
        metadata.snapshots.retain_ids(|id| referenced.contains(&id));
        metadata
    }

    /// Refuses a document whose parts contradict each other: what the reference's constructor
    /// refuses, and ids that point nowhere.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.format_version == 1 && self.last_sequence_number != 0 {
            let number = self.last_sequence_number;
            return Err(Refusal::invalid(format!("Sequence number must be 0 in v1: {number}")));
        }
        unique("schema id", self.schemas.iter().map(|schema| schema.schema_id()))?;
        unique("partition spec id", self.partition_specs.iter().map(|spec| spec.spec_id))?;
        unique("sort order id", self.sort_orders.iter().map(|order| order.order_id))?;
        unique("encryption key id", self.encryption_keys.iter().map(|key| &key.key_id))?;
        self.check_snapshots_and_refs()?;
        self.check_against_schema()?;
        self.check_logs_from(0, 0)
    }

    /// Refuses a default spec or order that the current schema cannot serve, and partition names
    /// that are names of columns.
    pub(super) fn check_against_schema(&self) -> Result<(), Refusal> {
        let schema = self.current_schema()?.index()?;
        self.partition_specs.iter().try_for_each(|spec| spec.check_names(&schema))?;
        self.default_spec()?.check_compatibility(&schema)?;
        self.default_sort_order()?.check_compatibility(&schema)
    }

    fn check_snapshots_and_refs(&self) -> Result<(), Refusal> {
        let ids = unique("snapshot id", self.snapshots.ids())?;
        let last = self.last_sequence_number;
        let ahead = |snapshot: &&Arc<Snapshot>| snapshot.sequence_number > last;
        if let Some(snapshot) = self.snapshots.iter().find(ahead) {
            return Err(Refusal::invalid(format!(
                "Invalid snapshot with sequence number {} greater than last sequence number {last}",
                snapshot.sequence_number
            )));
        }
        if let Some((name, _)) = self.refs.iter().find(|(_, r)| !ids.contains(&r.snapshot_id)) {
            return Err(Refusal::invalid(format!(
                "Snapshot for reference {} does not exist in the existing snapshots list",
                brief(name)
            )));
        }
        let main = self.refs.get(MAIN_BRANCH).map(|main| main.snapshot_id);
        match (self.current_snapshot_id, main) {
            (Some(current), Some(main)) if current != main => Err(Refusal::invalid(format!(
                "Current snapshot ID does not match main branch ({current} != {main})"
            ))),
            (None, Some(main)) => Err(Refusal::invalid(format!(
                "Current snapshot is not set, but main branch exists: {main}"
            ))),
            (Some(current), _) if !ids.contains(&current) => {
                Err(Refusal::invalid("Invalid table metadata: Cannot find current version"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses logs whose entries are out of order, or newer than the document. The entries before
    /// these places were judged before.
    pub(super) fn check_logs_from(
        &self,
        snapshot_log_at: usize,
        metadata_log_at: usize,
    ) -> Result<(), Refusal> {
        let updated = self.last_updated_ms;
        let added = self.snapshot_log.len().saturating_sub(snapshot_log_at);
        let times = self.snapshot_log.iter().rev().map(|entry| entry.timestamp_ms);
        if !is_sorted_from_the_end(times.take(added.saturating_add(1))) {
            return Err(Refusal::invalid("Invalid snapshot log: entries are not sorted by time"));
        }
        let last = self.snapshot_log.last().map(|entry| entry.timestamp_ms);
        if let Some(last) = last.filter(|last| !in_order(*last, updated)) {
            return Err(Refusal::invalid(format!(
                "Invalid update timestamp {updated}: before last snapshot log entry at {last}"
            )));
        }
        let added = self.metadata_log.len().saturating_sub(metadata_log_at);
        let times = self.metadata_log.iter().rev().map(|entry| entry.timestamp_ms);
        if !is_sorted_from_the_end(times.take(added.saturating_add(1))) {
            return Err(Refusal::invalid("Invalid metadata log: entries are not sorted by time"));
        }
        let last = self.metadata_log.last().map(|entry| entry.timestamp_ms);
        if let Some(last) = last.filter(|last| !in_order(*last, updated)) {
            return Err(Refusal::invalid(format!(
                "Invalid update timestamp {updated}: before the latest metadata log entry \
                 timestamp {last}"
            )));
        }
        Ok(())
    }
}

/// Whether `later` is not before `earlier` by more than clocks may differ.
pub(super) fn in_order(earlier: i64, later: i64) -> bool {
    later.saturating_sub(earlier) >= -CLOCK_SKEW_MS_MAX
}

/// Whether times, newest first, are in order.
fn is_sorted_from_the_end(times: impl Iterator<Item = i64> + Clone) -> bool {
    times.clone().zip(times.skip(1)).all(|(later, earlier)| in_order(earlier, later))
}

fn unique<T: std::hash::Hash + Eq + std::fmt::Display>(
    what: &str,
    ids: impl Iterator<Item = T>,
) -> Result<HashSet<T>, Refusal> {
    let mut seen = HashSet::with_capacity(ids.size_hint().0);
    for id in ids {
        if seen.contains(&id) {
            let id = brief(&id);
            return Err(Refusal::invalid(format!("Invalid metadata: duplicate {what}: {id}")));
        }
        seen.insert(id);
    }
    Ok(seen)
}

/// A location as it is kept: not empty, and without slashes at the end.
pub(super) fn clean_location(location: &str) -> Result<String, Refusal> {
    if location.is_empty() {
        return Err(Refusal::invalid("Invalid location: must not be empty"));
    }
    let mut rest = location;
    while let Some(shorter) = rest.strip_suffix('/') {
        if rest.ends_with("://") {
            break;
        }
        rest = shorter;
    }
    Ok(rest.to_owned())
}
