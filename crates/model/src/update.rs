//! Updates: the changes that a commit makes to a table, with the names of the REST specification.
//!
//! The parser is written by hand, so that large members (snapshots, statistics) can stay unparsed.
//! A derived parser of an internally tagged enum would parse them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::encryption_key::EncryptionKey;
use super::members::{Members, RawMembers, brief};
use super::partition::UnboundPartitionSpec;
use super::refusal::Refusal;
use super::schema::Schema;
use super::snapshot::{Snapshot, SnapshotRef};
use super::sort::UnboundSortOrder;
use super::statistics::{PartitionStatisticsFile, StatisticsFile};
use super::table_json::parse_uuid;

/// Placeholder for the id of the schema, spec, order or version that this commit added last.
pub(super) const LAST_ADDED: i32 = -1;

/// One change to a table.
#[derive(Debug, Clone)]
pub enum TableUpdate {
    /// `assign-uuid`
    AssignUuid {
        /// The table's UUID.
        uuid: Uuid,
    },
    /// `upgrade-format-version`
    UpgradeFormatVersion {
        /// The new format version.
        format_version: i32,
    },
    /// `add-schema`
    AddSchema {
        /// The schema. The table assigns its id.
        schema: Schema,
    },
    /// `set-current-schema`
    SetCurrentSchema {
        /// A schema of the table, or -1 for the one that was added last.
        schema_id: i32,
    },
    /// `add-spec`
    AddSpec {
        /// The spec. The table assigns its id.
        spec: UnboundPartitionSpec,
    },
    /// `set-default-spec`
    SetDefaultSpec {
        /// A spec of the table, or -1 for the one that was added last.
        spec_id: i32,
    },
    /// `add-sort-order`
    AddSortOrder {
        /// The order. The table assigns its id.
        sort_order: UnboundSortOrder,
    },
    /// `set-default-sort-order`
    SetDefaultSortOrder {
        /// An order of the table, or -1 for the one that was added last.
        sort_order_id: i32,
    },
    /// `add-snapshot`
    AddSnapshot {
        /// The snapshot.
        snapshot: Arc<Snapshot>,
    },
    /// `set-snapshot-ref`
    SetSnapshotRef {
        /// The name of the branch or tag.
        ref_name: String,
        /// The new value.
        reference: SnapshotRef,
    },
    /// `remove-snapshots`
    RemoveSnapshots {
        /// The snapshots. Unknown ids are ignored.
        snapshot_ids: Vec<i64>,
    },
    /// `remove-snapshot-ref`
    RemoveSnapshotRef {
        /// The name of the branch or tag.
        ref_name: String,
    },
    /// `set-location`
    SetLocation {
        /// The new directory of the table's files.
        location: String,
    },
    /// `set-properties`
    SetProperties {
        /// The properties to add or overwrite.
        updates: BTreeMap<String, String>,
    },
    /// `remove-properties`
    RemoveProperties {
        /// The properties to remove. Unknown names are ignored.
        removals: Vec<String>,
    },
    /// `set-statistics`
    SetStatistics {
        /// The new statistics file of its snapshot.
        statistics: Arc<StatisticsFile>,
    },
    /// `remove-statistics`
    RemoveStatistics {
        /// The snapshot whose statistics are removed.
        snapshot_id: i64,
    },
    /// `set-partition-statistics`
    SetPartitionStatistics {
        /// The new partition statistics file of its snapshot.
        partition_statistics: Arc<PartitionStatisticsFile>,
    },
    /// `remove-partition-statistics`
    RemovePartitionStatistics {
        /// The snapshot whose partition statistics are removed.
        snapshot_id: i64,
    },
    /// `remove-partition-specs`
    RemovePartitionSpecs {
        /// The specs. Unknown ids are ignored.
        spec_ids: Vec<i32>,
    },
    /// `remove-schemas`
    RemoveSchemas {
        /// The schemas. Unknown ids are ignored.
        schema_ids: Vec<i32>,
    },
    /// `add-encryption-key`
    AddEncryptionKey {
        /// The key. It is ignored if the table already has a key with the same id.
        encryption_key: Arc<EncryptionKey>,
    },
    /// `remove-encryption-key`
    RemoveEncryptionKey {
        /// The id of the key. Unknown ids are ignored.
        key_id: String,
    },
}

impl TableUpdate {
    /// Parses one update. Refuses an unknown `action`, as the specification requires.
    pub fn parse(raw: &RawValue) -> Result<Self, Refusal> {
        let (action, members) = split_action(raw)?;
        match action.as_str() {
            "assign-uuid" => {
                Ok(Self::AssignUuid { uuid: parse_uuid("uuid", &members.string("uuid")?)? })
            }
            "upgrade-format-version" => {
                Ok(Self::UpgradeFormatVersion { format_version: members.i32("format-version")? })
            }
            "set-location" => Ok(Self::SetLocation { location: members.string("location")? }),
            "set-properties" => Ok(Self::SetProperties { updates: read_updates(&members)? }),
            "remove-properties" => {
                Ok(Self::RemoveProperties { removals: read_removals(&members)? })
            }
            "add-schema"
            | "set-current-schema"
            | "remove-schemas"
            | "add-spec"
            | "set-default-spec"
            | "remove-partition-specs"
            | "add-sort-order"
            | "set-default-sort-order" => Self::parse_layout(&action, &members),
            "add-view-version" | "set-current-view-version" => {
                Err(Refusal::invalid(format!("Cannot apply update {action} to a table")))
            }
            _ => Self::parse_snapshots(&action, &members),
        }
    }

    /// Parses updates of schemas, specs and orders.
    fn parse_layout(action: &str, members: &RawMembers<'_>) -> Result<Self, Refusal> {
        Ok(match action {
            "add-schema" => {
                Self::AddSchema { schema: Schema::parse(members.required_raw("schema")?)? }
            }
            "set-current-schema" => Self::SetCurrentSchema { schema_id: members.i32("schema-id")? },
            "remove-schemas" => Self::RemoveSchemas { schema_ids: members.i32_list("schema-ids")? },
            "add-spec" => {
                let spec = UnboundPartitionSpec::parse(members.required_raw("spec")?)?;
                Self::AddSpec { spec }
            }
            "set-default-spec" => Self::SetDefaultSpec { spec_id: members.i32("spec-id")? },
            "remove-partition-specs" => {
                Self::RemovePartitionSpecs { spec_ids: members.i32_list("spec-ids")? }
            }
            "add-sort-order" => {
                let sort_order = UnboundSortOrder::parse(members.required_raw("sort-order")?)?;
                Self::AddSortOrder { sort_order }
            }
            "set-default-sort-order" => {
                Self::SetDefaultSortOrder { sort_order_id: members.i32("sort-order-id")? }
            }
            _ => return Err(unrecognized(action)),
        })
    }

    /// Parses updates of snapshots, references, statistics and keys. Ignores the deprecated
    /// `snapshot-id` next to `statistics`.
    fn parse_snapshots(action: &str, members: &RawMembers<'_>) -> Result<Self, Refusal> {
        Ok(match action {
            "add-snapshot" => {
                let snapshot = Snapshot::parse(members.required_raw("snapshot")?)?;
                Self::AddSnapshot { snapshot: Arc::new(snapshot) }
            }
            "set-snapshot-ref" => Self::SetSnapshotRef {
                ref_name: members.string("ref-name")?,
                reference: SnapshotRef::from_members(members)?,
            },
            "remove-snapshots" => {
                Self::RemoveSnapshots { snapshot_ids: members.i64_list("snapshot-ids")? }
            }
            "remove-snapshot-ref" => {
                Self::RemoveSnapshotRef { ref_name: members.string("ref-name")? }
            }
            "set-statistics" => {
                let statistics = StatisticsFile::parse(members.required_raw("statistics")?)?;
                Self::SetStatistics { statistics: Arc::new(statistics) }
            }
            "remove-statistics" => {
                Self::RemoveStatistics { snapshot_id: members.i64("snapshot-id")? }
            }
            "set-partition-statistics" => {
                let raw = members.required_raw("partition-statistics")?;
                let file = PartitionStatisticsFile::parse(raw)?;
                Self::SetPartitionStatistics { partition_statistics: Arc::new(file) }
            }
            "remove-partition-statistics" => {
                Self::RemovePartitionStatistics { snapshot_id: members.i64("snapshot-id")? }
            }
            "add-encryption-key" => {
                let key = EncryptionKey::parse(members.required_raw("encryption-key")?)?;
                Self::AddEncryptionKey { encryption_key: Arc::new(key) }
            }
            "remove-encryption-key" => {
                Self::RemoveEncryptionKey { key_id: members.string("key-id")? }
            }
            _ => return Err(unrecognized(action)),
        })
    }

    /// Returns the `action` of this update, as in the JSON.
    pub fn action(&self) -> &'static str {
        match self {
            Self::AssignUuid { .. } => "assign-uuid",
            Self::UpgradeFormatVersion { .. } => "upgrade-format-version",
            Self::AddSchema { .. } => "add-schema",
            Self::SetCurrentSchema { .. } => "set-current-schema",
            Self::AddSpec { .. } => "add-spec",
            Self::SetDefaultSpec { .. } => "set-default-spec",
            Self::AddSortOrder { .. } => "add-sort-order",
            Self::SetDefaultSortOrder { .. } => "set-default-sort-order",
            Self::AddSnapshot { .. } => "add-snapshot",
            Self::SetSnapshotRef { .. } => "set-snapshot-ref",
            Self::RemoveSnapshots { .. } => "remove-snapshots",
            Self::RemoveSnapshotRef { .. } => "remove-snapshot-ref",
            Self::SetLocation { .. } => "set-location",
            Self::SetProperties { .. } => "set-properties",
            Self::RemoveProperties { .. } => "remove-properties",
            Self::SetStatistics { .. } => "set-statistics",
            Self::RemoveStatistics { .. } => "remove-statistics",
            Self::SetPartitionStatistics { .. } => "set-partition-statistics",
            Self::RemovePartitionStatistics { .. } => "remove-partition-statistics",
            Self::RemovePartitionSpecs { .. } => "remove-partition-specs",
            Self::RemoveSchemas { .. } => "remove-schemas",
            Self::AddEncryptionKey { .. } => "add-encryption-key",
            Self::RemoveEncryptionKey { .. } => "remove-encryption-key",
        }
    }
}

/// Splits an update into its `action` and its members.
pub(super) fn split_action(raw: &RawValue) -> Result<(String, RawMembers<'_>), Refusal> {
    let members = RawMembers::parse("metadata update", raw.get())?;
    let action = members
        .opt_string("action")?
        .ok_or_else(|| Refusal::invalid("Cannot parse metadata update. Missing field: action"))?;
    Ok((action.to_ascii_lowercase(), members))
}

/// Returns the refusal of an action that this version of slateberg does not know.
pub(super) fn unrecognized(action: &str) -> Refusal {
    Refusal::invalid(format!(
        "Cannot parse metadata update. Unrecognized action: {}",
        brief(action)
    ))
}

/// Reads the properties of `set-properties`, which releases before 1.0 called `updated`.
pub(super) fn read_updates(members: &RawMembers<'_>) -> Result<BTreeMap<String, String>, Refusal> {
    match members.opt_string_map("updates")? {
        Some(updates) => Ok(updates),
        None if members.raw("updated").is_some() => members.string_map("updated"),
        None => members.string_map("updates"),
    }
}

/// Reads the names of `remove-properties`, which releases before 1.0 called `removed`.
pub(super) fn read_removals(members: &RawMembers<'_>) -> Result<Vec<String>, Refusal> {
    if members.raw("removals").is_none() && members.raw("removed").is_some() {
        return members.string_list("removed");
    }
    members.string_list("removals")
}

#[cfg(test)]
mod tests;
