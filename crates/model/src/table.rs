//! The metadata of a table: everything that a client needs in order to read the table. Commits
//! change it.
//!
//! Terms of the table specification: a *snapshot* is a state of the table. A *ref* (branch or tag)
//! points to a snapshot. *main* is the branch whose snapshot is current. The *snapshot log* records
//! which snapshot was current at what time. The *metadata log* lists the earlier documents.
//!
//! A `TableMetadata` is always valid (`parse`, `create::new_table` and `commit::apply` ensure it).
//! A clone is cheap: large or numerous parts are stored in an `Arc` and shared between versions.
//! The snapshots and the snapshot log share their JSON, chunk by chunk.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::chunked::ChunkedList;
use super::encryption_key::EncryptionKey;
use super::members::brief;
use super::metadata_log::MetadataLogEntry;
use super::partition::PartitionSpec;
use super::refusal::Refusal;
use super::schema::Schema;
use super::snapshot::{MAIN_BRANCH, Snapshot, SnapshotRef, Snapshots};
use super::sort::SortOrder;
use super::statistics::{PartitionStatisticsFile, StatisticsFile};

/// The greatest supported format version. Version 4 is experimental, because its specification is
/// not complete.
pub const FORMAT_VERSION_MAX: u8 = 4;

/// The greatest format version whose specification is complete. The manifests of later versions are
/// Parquet files, which the server cannot read.
pub const FORMAT_VERSION_ADOPTED: u8 = 3;

/// The default format version.
pub(crate) const FORMAT_VERSION_DEFAULT: u8 = 2;

/// The first format version in which rows have ids.
pub const FORMAT_VERSION_ROW_LINEAGE: u8 = 3;

/// The assumed maximum difference between the clocks of different machines, in milliseconds. Log
/// entries may be out of order by at most this time.
pub(super) const CLOCK_SKEW_MS_MAX: i64 = 60_000;

/// A table's metadata document ("Table Metadata" in the table specification, versions 1 to 4).
#[derive(Debug, Clone, PartialEq)]
pub struct TableMetadata {
    /// 1, 2, 3 or 4.
    pub format_version: u8,
    /// The table's UUID. Nil for a document of version 1 without one.
    pub table_uuid: Uuid,
    /// The directory of the table's files, without a trailing slash.
    pub location: String,
    /// The greatest sequence number that was assigned; 0 in version 1.
    pub last_sequence_number: i64,
    /// Creation time of this document, in milliseconds since 1970.
    pub last_updated_ms: i64,
    /// The greatest field id ever assigned.
    pub last_column_id: i32,
    /// The id of the current schema, one of `schemas`.
    pub current_schema_id: i32,
    /// The schemas, in the order in which they were added.
    pub schemas: Vec<Arc<Schema>>,
    /// The id of the spec in `partition_specs` that writers use.
    pub default_spec_id: i32,
    /// The partition specs, in the order in which they were added.
    pub partition_specs: Vec<Arc<PartitionSpec>>,
    /// The greatest partition field id ever assigned; 999 if there never was one.
    pub last_partition_id: i32,
    /// The id of the sort order in `sort_orders` that writers use.
    pub default_sort_order_id: i32,
    /// The sort orders, in the order in which they were added.
    pub sort_orders: Vec<Arc<SortOrder>>,
    /// The table's properties.
    pub properties: BTreeMap<String, String>,
    /// The snapshot of branch main.
    pub current_snapshot_id: Option<i64>,
    /// Branches and tags by name.
    pub refs: BTreeMap<String, SnapshotRef>,
    /// The snapshots, in the order in which they were added.
    pub snapshots: Snapshots,
    /// The log of the snapshots that were current, oldest first.
    pub snapshot_log: SnapshotLog,
    /// The locations of earlier documents, oldest first.
    pub metadata_log: Vec<MetadataLogEntry>,
    /// Statistics files. After a commit, there is at most one per snapshot.
    pub statistics: Vec<Arc<StatisticsFile>>,
    /// Partition statistics files. After a commit, there is at most one per snapshot.
    pub partition_statistics: Vec<Arc<PartitionStatisticsFile>>,
    /// Encrypted keys (v3).
    pub encryption_keys: Vec<Arc<EncryptionKey>>,
    /// The next row id to assign (v3); 0 in earlier versions.
    pub next_row_id: i64,
    /// Members of the document that this version of slateberg does not know.
    pub extra: Map<String, Value>,
}

/// The snapshot log of a table. One chunk has about eight kilobytes of JSON.
pub type SnapshotLog = ChunkedList<SnapshotLogEntry, 128>;

/// A change of the current snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLogEntry {
    /// The time of the change, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The snapshot that became current.
    pub snapshot_id: i64,
}

impl TableMetadata {
    /// Returns the current schema.
    pub fn current_schema(&self) -> Result<&Arc<Schema>, Refusal> {
        let id = self.current_schema_id;
        self.schemas.iter().find(|schema| schema.schema_id() == id).ok_or_else(|| {
            Refusal::invalid(format!("Cannot find schema with current-schema-id={id} from schemas"))
        })
    }

    /// Returns the default partition spec.
    pub fn default_spec(&self) -> Result<&Arc<PartitionSpec>, Refusal> {
        let id = self.default_spec_id;
        self.partition_specs.iter().find(|spec| spec.spec_id == id).ok_or_else(|| {
            let text = format!("Cannot find spec with default-spec-id={id} from partition-specs");
            Refusal::invalid(text)
        })
    }

    /// Returns the default sort order.
    pub fn default_sort_order(&self) -> Result<&Arc<SortOrder>, Refusal> {
        let id = self.default_sort_order_id;
        self.sort_orders.iter().find(|order| order.order_id == id).ok_or_else(|| {
            let text =
                format!("Cannot find sort order with default-sort-order-id={id} from sort-orders");
            Refusal::invalid(text)
        })
    }

    /// Returns the snapshot with this id. The search begins with the newest snapshot.
    pub fn snapshot(&self, snapshot_id: i64) -> Option<&Arc<Snapshot>> {
        self.snapshots.find(snapshot_id)
    }

    /// Returns this document with only the snapshots to which a branch or tag points, for clients
    /// that load the other snapshots on demand. Everything else stays complete, including the
    /// snapshot log.
    pub fn with_referenced_snapshots_only(&self) -> Self {
        let referenced: HashSet<i64> = self.refs.values().map(|r| r.snapshot_id).collect();
        let mut metadata = self.clone();
        metadata.snapshots.retain_ids(|id| referenced.contains(&id));
        metadata
    }

    /// Refuses an inconsistent document. A document is inconsistent if the constructor of the
    /// reference implementation refuses it, or if it refers to ids that do not exist.
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

    /// Refuses a default spec or order that is incompatible with the current schema, and partition
    /// names that equal column names.
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

    /// Refuses logs whose entries are out of order or newer than the document. Checks only the
    /// entries at and after these indexes, because the earlier entries were checked before.
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

/// Whether `later` is after `earlier`, or before it by at most [`CLOCK_SKEW_MS_MAX`].
pub(super) fn in_order(earlier: i64, later: i64) -> bool {
    later.saturating_sub(earlier) >= -CLOCK_SKEW_MS_MAX
}

/// Whether the times are in order. The first of `times` is the newest.
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

/// Normalizes a location: refuses an empty one and removes trailing slashes.
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
