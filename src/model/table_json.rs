//! Table metadata as JSON: the reference's `TableMetadataParser`, for format versions 1 to 3.
//!
//! Reading accepts what any version's writers wrote, the single `schema` and `partition-spec` of old
//! documents of version 1 included. Writing puts the members in the reference's order, and those it
//! does not know at the end. `to_json` after `parse` after `to_json` changes no byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::encryption_key::EncryptionKey;
use super::members::{Members, RawMembers, brief, object, parse_value};
use super::partition::{PartitionSpec, UnboundPartitionSpec};
use super::refusal::Refusal;
use super::schema::Schema;
use super::snapshot::{MAIN_BRANCH, Snapshot, SnapshotRef};
use super::sort::{SortOrder, UnboundSortOrder};
use super::statistics::{PartitionStatisticsFile, StatisticsFile};
use super::table::{
    FORMAT_VERSION_MAX, FORMAT_VERSION_ROW_LINEAGE, MetadataLogEntry, SnapshotLogEntry,
    TableMetadata, clean_location,
};

/// From this format version on, "no current snapshot" is `null`; before, it is -1.
const NULL_CURRENT_SNAPSHOT_VERSION: u8 = 3;

/// The members this version knows; all others are kept in `extra`.
const KNOWN_MEMBERS: [&str; 25] = [
    "format-version",
    "table-uuid",
    "location",
    "last-sequence-number",
    "last-updated-ms",
    "last-column-id",
    "schema",
    "schemas",
    "current-schema-id",
    "partition-spec",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
    "properties",
    "current-snapshot-id",
    "next-row-id",
    "encryption-keys",
    "refs",
    "snapshots",
    "statistics",
    "partition-statistics",
    "snapshot-log",
    "metadata-log",
];

impl TableMetadata {
    /// Parses a metadata document of version 1, 2 or 3 and checks that its parts fit together.
    pub fn parse(json: &[u8]) -> Result<Self, Refusal> {
        let json = std::str::from_utf8(json)
            .map_err(|error| Refusal::invalid(format!("Cannot parse metadata: {error}")))?;
        let document =
            Document { members: RawMembers::parse("metadata", json)?, format_version: 0 };
        document.read()
    }

    /// The document, as the reference writes it for its format version.
    pub fn to_json(&self) -> Vec<u8> {
        let snapshots: usize = self.snapshots.iter().map(|s| s.json().get().len() + 1).sum();
        let mut json = Vec::with_capacity(snapshots + 64 * self.snapshot_log.len() + 4096);
        // Strings, numbers and checked JSON into memory: there is nothing that could fail.
        serde_json::to_writer(&mut json, self).expect("metadata always serializes into memory");
        json
    }
}

/// A document that is being read.
struct Document<'a> {
    members: RawMembers<'a>,
    format_version: u8,
}

impl Document<'_> {
    fn read(mut self) -> Result<TableMetadata, Refusal> {
        self.format_version = self.read_format_version()?;
        let (current_schema_id, schemas) = self.read_schemas()?;
        let (default_spec_id, partition_specs) = self.read_specs()?;
        let (default_sort_order_id, sort_orders) = self.read_sort_orders()?;
        let last_partition_id = self.read_last_partition_id(&partition_specs)?;
        let current_snapshot_id =
            self.members.opt_i64("current-snapshot-id")?.filter(|id| *id != -1);
        let metadata = TableMetadata {
            format_version: self.format_version,
            table_uuid: self.read_uuid()?,
            location: clean_location(&self.members.string("location")?)?,
            last_sequence_number: self.since(2, "last-sequence-number")?,
            last_updated_ms: self.members.i64("last-updated-ms")?,
            last_column_id: self.members.i32("last-column-id")?,
            current_schema_id,
            schemas,
            default_spec_id,
            partition_specs,
            last_partition_id,
            default_sort_order_id,
            sort_orders,
            properties: self.members.opt_string_map("properties")?.unwrap_or_default(),
            current_snapshot_id,
            refs: self.read_refs(current_snapshot_id)?,
            snapshots: self.read_list("snapshots", Snapshot::parse)?,
            snapshot_log: self.read_snapshot_log()?,
            metadata_log: self.read_metadata_log()?,
            statistics: self.read_list("statistics", StatisticsFile::parse)?,
            partition_statistics: self
                .read_list("partition-statistics", PartitionStatisticsFile::parse)?,
            encryption_keys: self.read_list("encryption-keys", EncryptionKey::parse)?,
            next_row_id: self.since(FORMAT_VERSION_ROW_LINEAGE, "next-row-id")?,
            extra: self.read_extra()?,
        };
        metadata.check()?;
        Ok(metadata)
    }

    fn read_format_version(&self) -> Result<u8, Refusal> {
        let version = self.members.i32("format-version")?;
        match u8::try_from(version) {
            Ok(number) if (1..=FORMAT_VERSION_MAX).contains(&number) => Ok(number),
            _ => Err(Refusal::invalid(format!("Cannot read unsupported version {version}"))),
        }
    }

    /// A number that documents have from `version` on, and that is 0 before.
    fn since(&self, version: u8, name: &str) -> Result<i64, Refusal> {
        if self.format_version < version {
            return Ok(0);
        }
        match self.members.i64(name)? {
            number if number < 0 => {
                Err(Refusal::invalid(format!("Invalid {name} (cannot be negative): {number}")))
            }
            number => Ok(number),
        }
    }

    fn read_uuid(&self) -> Result<Uuid, Refusal> {
        match self.members.opt_string("table-uuid")? {
            Some(text) => parse_uuid("table-uuid", &text),
            None if self.format_version == 1 => Ok(Uuid::nil()),
            None => Err(Refusal::invalid(format!(
                "UUID is required in format v{}",
                self.format_version
            ))),
        }
    }

    fn read_schemas(&self) -> Result<(i32, Vec<Arc<Schema>>), Refusal> {
        let schemas = self.read_list("schemas", Schema::parse)?;
        if self.members.raw("schemas").is_some() {
            return Ok((self.members.i32("current-schema-id")?, schemas));
        }
        self.only_in_v1("schemas")?;
        let schema = Schema::parse(self.members.required_raw("schema")?)?;
        Ok((schema.schema_id(), vec![Arc::new(schema)]))
    }

    fn read_specs(&self) -> Result<(i32, Vec<Arc<PartitionSpec>>), Refusal> {
        let bind = |raw: &RawValue| {
            let spec = UnboundPartitionSpec::parse(raw)?;
            let id = spec
                .spec_id
                .ok_or_else(|| Refusal::invalid("Cannot parse missing int: spec-id"))?;
            spec.with_sequential_ids(id)
        };
        let specs = self.read_list("partition-specs", bind)?;
        if self.members.raw("partition-specs").is_some() {
            if specs.is_empty() {
                return Err(Refusal::invalid("Partition specs cannot be null or empty"));
            }
            return Ok((self.members.i32("default-spec-id")?, specs));
        }
        self.only_in_v1("partition-specs")?;
        let fields = self.members.required("partition-spec")?;
        let spec = UnboundPartitionSpec::from_fields_json(0, &fields)?.with_sequential_ids(0)?;
        Ok((0, vec![Arc::new(spec)]))
    }

    fn read_last_partition_id(&self, specs: &[Arc<PartitionSpec>]) -> Result<i32, Refusal> {
        if let Some(id) = self.members.opt_i32("last-partition-id")? {
            return Ok(id);
        }
        self.only_in_v1("last-partition-id")?;
        let ids = specs.iter().map(|spec| spec.last_assigned_field_id());
        Ok(ids.fold(PartitionSpec::unpartitioned().last_assigned_field_id(), i32::max))
    }

    fn read_sort_orders(&self) -> Result<(i32, Vec<Arc<SortOrder>>), Refusal> {
        let bind = |raw: &RawValue| {
            let order = UnboundSortOrder::parse(raw)?;
            let id = order.order_id;
            Ok(order.with_order_id(id))
        };
        let orders = self.read_list("sort-orders", bind)?;
        if self.members.raw("sort-orders").is_some() {
            if orders.is_empty() {
                return Err(Refusal::invalid("Sort orders cannot be null or empty"));
            }
            return Ok((self.members.i32("default-sort-order-id")?, orders));
        }
        self.only_in_v1("sort-orders")?;
        Ok((0, vec![Arc::new(SortOrder::unsorted())]))
    }

    fn read_refs(&self, current: Option<i64>) -> Result<BTreeMap<String, SnapshotRef>, Refusal> {
        let Some(refs) = self.members.member("refs")? else {
            let main = current.map(|id| (MAIN_BRANCH.to_owned(), SnapshotRef::branch(id)));
            return Ok(main.into_iter().collect());
        };
        let refs = object("refs", &refs)?.iter();
        refs.map(|(name, json)| Ok((name.clone(), SnapshotRef::from_json(json)?))).collect()
    }

    fn read_snapshot_log(&self) -> Result<Vec<SnapshotLogEntry>, Refusal> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Entry {
            timestamp_ms: i64,
            snapshot_id: i64,
        }
        let Some(raw) = self.members.raw("snapshot-log") else { return Ok(Vec::new()) };
        let entries: Vec<Entry> = serde_json::from_str(raw.get())
            .map_err(|error| Refusal::invalid(format!("Cannot parse snapshot-log: {error}")))?;
        let entries = entries.into_iter();
        Ok(entries
            .map(|Entry { timestamp_ms, snapshot_id }| SnapshotLogEntry {
                timestamp_ms,
                snapshot_id,
            })
            .collect())
    }

    fn read_metadata_log(&self) -> Result<Vec<MetadataLogEntry>, Refusal> {
        let entries = self.members.raw_list("metadata-log")?.unwrap_or_default();
        let read = |raw: &RawValue| {
            let entry = RawMembers::parse("metadata-log", raw.get())?;
            let timestamp_ms = entry.i64("timestamp-ms")?;
            Ok(MetadataLogEntry { timestamp_ms, metadata_file: entry.string("metadata-file")? })
        };
        entries.into_iter().map(read).collect()
    }

    fn read_extra(&self) -> Result<Map<String, Value>, Refusal> {
        let unknown = self.members.iter().filter(|(name, _)| !KNOWN_MEMBERS.contains(name));
        unknown.map(|(name, raw)| Ok((name.to_owned(), parse_value(name, raw)?))).collect()
    }

    /// The elements of a list; none when it is absent.
    fn read_list<T>(
        &self,
        name: &str,
        read: impl Fn(&RawValue) -> Result<T, Refusal>,
    ) -> Result<Vec<Arc<T>>, Refusal> {
        let elements = self.members.raw_list(name)?.unwrap_or_default();
        elements.into_iter().map(|raw| read(raw).map(Arc::new)).collect()
    }

    fn only_in_v1(&self, name: &str) -> Result<(), Refusal> {
        if self.format_version == 1 {
            return Ok(());
        }
        Err(Refusal::invalid(format!("{name} must exist in format v{}", self.format_version)))
    }
}

/// Parses a UUID that a client sent under `name`.
pub(super) fn parse_uuid(name: &str, text: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text)
        .map_err(|_| Refusal::invalid(format!("Cannot parse to a UUID: {name}: {}", brief(text))))
}

impl Serialize for TableMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("format-version", &self.format_version)?;
        if self.format_version > 1 || !self.table_uuid.is_nil() {
            map.serialize_entry("table-uuid", &self.table_uuid)?;
        }
        map.serialize_entry("location", &self.location)?;
        if self.format_version > 1 {
            map.serialize_entry("last-sequence-number", &self.last_sequence_number)?;
        }
        map.serialize_entry("last-updated-ms", &self.last_updated_ms)?;
        map.serialize_entry("last-column-id", &self.last_column_id)?;
        // Readers of version 1 may know only the single schema and spec.
        if let (1, Ok(schema)) = (self.format_version, self.current_schema()) {
            map.serialize_entry("schema", schema)?;
        }
        map.serialize_entry("current-schema-id", &self.current_schema_id)?;
        map.serialize_entry("schemas", &self.schemas)?;
        if let (1, Ok(spec)) = (self.format_version, self.default_spec()) {
            map.serialize_entry("partition-spec", &spec.fields)?;
        }
        map.serialize_entry("default-spec-id", &self.default_spec_id)?;
        map.serialize_entry("partition-specs", &self.partition_specs)?;
        map.serialize_entry("last-partition-id", &self.last_partition_id)?;
        map.serialize_entry("default-sort-order-id", &self.default_sort_order_id)?;
        map.serialize_entry("sort-orders", &self.sort_orders)?;
        map.serialize_entry("properties", &self.properties)?;
        match self.current_snapshot_id {
            None if self.format_version < NULL_CURRENT_SNAPSHOT_VERSION => {
                map.serialize_entry("current-snapshot-id", &-1)?;
            }
            current => map.serialize_entry("current-snapshot-id", &current)?,
        }
        if self.format_version >= FORMAT_VERSION_ROW_LINEAGE {
            map.serialize_entry("next-row-id", &self.next_row_id)?;
        }
        if !self.encryption_keys.is_empty() {
            map.serialize_entry("encryption-keys", &self.encryption_keys)?;
        }
        map.serialize_entry("refs", &self.refs)?;
        map.serialize_entry("snapshots", &self.snapshots)?;
        map.serialize_entry("statistics", &self.statistics)?;
        map.serialize_entry("partition-statistics", &self.partition_statistics)?;
        map.serialize_entry("snapshot-log", &self.snapshot_log)?;
        map.serialize_entry("metadata-log", &self.metadata_log)?;
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for SnapshotLogEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("SnapshotLogEntry", 2)?;
        entry.serialize_field("timestamp-ms", &self.timestamp_ms)?;
        entry.serialize_field("snapshot-id", &self.snapshot_id)?;
        entry.end()
    }
}

impl Serialize for MetadataLogEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("MetadataLogEntry", 2)?;
        entry.serialize_field("timestamp-ms", &self.timestamp_ms)?;
        entry.serialize_field("metadata-file", &self.metadata_file)?;
        entry.end()
    }
}

#[cfg(test)]
mod tests;
