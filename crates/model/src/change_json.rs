//! Writes requirements and updates as JSON, as the REST specification defines them. Requests that
//! did not arrive over HTTP need this JSON: the fingerprint for their idempotency key is computed
//! from it.

use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::partition::{UnboundPartitionField, UnboundPartitionSpec};
use super::requirement::{TableRequirement, requirement_type};
use super::snapshot::Snapshot;
use super::sort::UnboundSortOrder;
use super::update::TableUpdate;
use super::view_update::{ViewRequirement, ViewUpdate};

impl Serialize for TableRequirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", requirement_type(self))?;
        match self {
            Self::NotExist => {}
            Self::UuidMatch { uuid } => map.serialize_entry("uuid", &format_args!("{uuid}"))?,
            Self::RefSnapshotIdMatch { r#ref, snapshot_id } => {
                map.serialize_entry("ref", r#ref)?;
                map.serialize_entry("snapshot-id", snapshot_id)?;
            }
            Self::LastAssignedFieldIdMatch { last_assigned_field_id } => {
                map.serialize_entry("last-assigned-field-id", last_assigned_field_id)?;
            }
            Self::CurrentSchemaIdMatch { current_schema_id } => {
                map.serialize_entry("current-schema-id", current_schema_id)?;
            }
            Self::LastAssignedPartitionIdMatch { last_assigned_partition_id } => {
                map.serialize_entry("last-assigned-partition-id", last_assigned_partition_id)?;
            }
            Self::DefaultSpecIdMatch { default_spec_id } => {
                map.serialize_entry("default-spec-id", default_spec_id)?;
            }
            Self::DefaultSortOrderIdMatch { default_sort_order_id } => {
                map.serialize_entry("default-sort-order-id", default_sort_order_id)?;
            }
        }
        map.end()
    }
}

impl Serialize for TableUpdate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("action", self.action())?;
        match self {
            Self::AssignUuid { uuid } => map.serialize_entry("uuid", &format_args!("{uuid}"))?,
            Self::UpgradeFormatVersion { format_version } => {
                map.serialize_entry("format-version", format_version)?;
            }
            Self::AddSchema { schema } => map.serialize_entry("schema", schema)?,
            Self::SetCurrentSchema { schema_id } => map.serialize_entry("schema-id", schema_id)?,
            Self::AddSpec { spec } => map.serialize_entry("spec", spec)?,
            Self::SetDefaultSpec { spec_id } => map.serialize_entry("spec-id", spec_id)?,
            Self::AddSortOrder { sort_order } => map.serialize_entry("sort-order", sort_order)?,
            Self::SetDefaultSortOrder { sort_order_id } => {
                map.serialize_entry("sort-order-id", sort_order_id)?;
            }
            Self::AddSnapshot { snapshot } => {
                map.serialize_entry("snapshot", json::<S::Error>(snapshot)?)?;
            }
            Self::SetSnapshotRef { ref_name, reference } => {
                map.serialize_entry("ref-name", ref_name)?;
                reference.write(&mut map)?;
            }
            Self::RemoveSnapshots { snapshot_ids } => {
                map.serialize_entry("snapshot-ids", snapshot_ids)?;
            }
            Self::RemoveSnapshotRef { ref_name } => map.serialize_entry("ref-name", ref_name)?,
            Self::SetLocation { location } => map.serialize_entry("location", location)?,
            Self::SetProperties { updates } => map.serialize_entry("updates", updates)?,
            Self::RemoveProperties { removals } => map.serialize_entry("removals", removals)?,
            Self::SetStatistics { statistics } => {
                map.serialize_entry("statistics", &**statistics)?;
            }
            Self::SetPartitionStatistics { partition_statistics } => {
                map.serialize_entry("partition-statistics", &**partition_statistics)?;
            }
            Self::RemoveStatistics { snapshot_id }
            | Self::RemovePartitionStatistics { snapshot_id } => {
                map.serialize_entry("snapshot-id", snapshot_id)?;
            }
            Self::RemovePartitionSpecs { spec_ids } => map.serialize_entry("spec-ids", spec_ids)?,
            Self::RemoveSchemas { schema_ids } => map.serialize_entry("schema-ids", schema_ids)?,
            Self::AddEncryptionKey { encryption_key } => {
                map.serialize_entry("encryption-key", &**encryption_key)?;
            }
            Self::RemoveEncryptionKey { key_id } => map.serialize_entry("key-id", key_id)?,
        }
        map.end()
    }
}

fn json<E: Error>(snapshot: &Snapshot) -> Result<&RawValue, E> {
    serde_json::from_str(snapshot.json()).map_err(E::custom)
}

impl Serialize for ViewRequirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self::UuidMatch { uuid } = self;
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", "assert-view-uuid")?;
        map.serialize_entry("uuid", &format_args!("{uuid}"))?;
        map.end()
    }
}

impl Serialize for ViewUpdate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("action", self.action())?;
        match self {
            Self::AssignUuid { uuid } => map.serialize_entry("uuid", &format_args!("{uuid}"))?,
            Self::UpgradeFormatVersion { format_version } => {
                map.serialize_entry("format-version", format_version)?;
            }
            Self::AddSchema { schema } => map.serialize_entry("schema", schema)?,
            Self::SetLocation { location } => map.serialize_entry("location", location)?,
            Self::SetProperties { updates } => map.serialize_entry("updates", updates)?,
            Self::RemoveProperties { removals } => map.serialize_entry("removals", removals)?,
            Self::AddViewVersion { view_version } => {
                map.serialize_entry("view-version", view_version)?;
            }
            Self::SetCurrentViewVersion { view_version_id } => {
                map.serialize_entry("view-version-id", view_version_id)?;
            }
        }
        map.end()
    }
}

impl Serialize for UnboundPartitionSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("spec-id", &self.spec_id)?;
        map.serialize_entry("fields", &self.fields)?;
        map.end()
    }
}

impl Serialize for UnboundPartitionField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("source-id", &self.source_id)?;
        map.serialize_entry("field-id", &self.field_id)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("transform", &format_args!("{}", self.transform))?;
        map.end()
    }
}

impl Serialize for UnboundSortOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("order-id", &self.order_id)?;
        map.serialize_entry("fields", &self.fields)?;
        map.end()
    }
}
