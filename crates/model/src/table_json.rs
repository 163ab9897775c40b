//! Reads and writes table metadata as JSON, like `TableMetadataParser` of the reference
//! implementation, for format versions 1 to 3.
//!
//! Documents of all writers can be read, including old documents of version 1 with a single
//! `schema` and `partition-spec`. [`mod@write`] writes the members in the order of the reference
//! implementation, with unknown members at the end. If a document was read by
//! `from_segmented_json`, writing it yields the same bytes and chunks.

mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::chunked::ChunkedList;
use super::encryption_key::EncryptionKey;
use super::members::{Members, RawMembers, brief, object, parse_value};
use super::metadata_log::MetadataLogEntry;
use super::partition::{PartitionSpec, UnboundPartitionSpec};
use super::refusal::Refusal;
use super::schema::Schema;
use super::segmented_json::{Chunk, Segment, SegmentedJson};
use super::snapshot::{MAIN_BRANCH, Snapshot, SnapshotRef, Snapshots};
use super::sort::{SortOrder, UnboundSortOrder};
use super::statistics::{PartitionStatisticsFile, StatisticsFile};
use super::table::{
    FORMAT_VERSION_MAX, FORMAT_VERSION_ROW_LINEAGE, SnapshotLog, SnapshotLogEntry, TableMetadata,
    clean_location,
};

/// The members that this version knows. All others go to `extra`.
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
    /// Parses a metadata document of version 1, 2 or 3 and checks its consistency.
    pub fn parse(json: &[u8]) -> Result<Self, Refusal> {
        Document::read(json, Vec::new())
    }

    /// Parses a document that `to_segmented_json` wrote, and reuses its chunks.
    pub fn from_segmented_json(text: &SegmentedJson) -> Result<Self, Refusal> {
        let mut at = 0;
        let mut chunks = Vec::new();
        for segment in text.segments() {
            match segment {
                Segment::Inline(bytes) => at += bytes.len(),
                Segment::Chunk(chunk) => chunks.push((at, chunk)),
            }
        }
        Document::read(&text.inline(), chunks)
    }
}

/// A document that is being parsed.
struct Document<'a> {
    /// The JSON without the chunks.
    json: &'a str,
    members: RawMembers<'a>,
    format_version: u8,
    /// The chunks and their offsets in `json`.
    chunks: Vec<(usize, &'a Chunk)>,
}

impl<'a> Document<'a> {
    fn read(json: &'a [u8], chunks: Vec<(usize, &'a Chunk)>) -> Result<TableMetadata, Refusal> {
        let json = std::str::from_utf8(json)
            .map_err(|error| Refusal::invalid(format!("Cannot parse metadata: {error}")))?;
        let members = RawMembers::parse("metadata", json)?;
        let mut document = Self { json, members, format_version: 0, chunks };
        document.format_version = document.read_format_version()?;
        document.metadata()
    }

    fn metadata(self) -> Result<TableMetadata, Refusal> {
        self.check_chunks()?;
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
            snapshots: self.read_snapshots()?,
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

    /// Returns the value of a number that documents contain since format version `version`. Returns
    /// 0 for documents of earlier versions.
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

    fn read_snapshots(&self) -> Result<Snapshots, Refusal> {
        let chunks = self.chunks_of("snapshots").map(|chunk| {
            let read = |raw: &RawValue| Snapshot::parse_in(chunk.text(), raw).map(Arc::new);
            Ok((items(chunk, read)?, chunk))
        });
        let chunks: Vec<_> = chunks.collect::<Result<_, Refusal>>()?;
        Ok(ChunkedList::read_from(chunks, self.read_list("snapshots", Snapshot::parse)?))
    }

    fn read_snapshot_log(&self) -> Result<SnapshotLog, Refusal> {
        let chunks = self.chunks_of("snapshot-log").map(|chunk| {
            let read = |entry: LogEntry| Ok(SnapshotLogEntry::from(entry));
            Ok((items(chunk, read)?, chunk))
        });
        let chunks: Vec<_> = chunks.collect::<Result<_, Refusal>>()?;
        let Some(raw) = self.members.raw("snapshot-log") else { return Ok(SnapshotLog::new()) };
        let behind: Vec<LogEntry> = serde_json::from_str(raw.get())
            .map_err(|error| Refusal::invalid(format!("Cannot parse snapshot-log: {error}")))?;
        let behind = behind.into_iter().map(SnapshotLogEntry::from).collect();
        Ok(ChunkedList::read_from(chunks, behind))
    }

    /// Returns the chunks at the beginning of the list `name`.
    fn chunks_of(&self, name: &str) -> impl Iterator<Item = &'a Chunk> {
        let beginning = self.members.raw(name).map(|list| {
            let offset = list.get().as_ptr() as usize - self.json.as_ptr() as usize;
            offset + "[".len()
        });
        let here = move |(at, _): &&(usize, &'a Chunk)| Some(*at) == beginning;
        self.chunks.iter().filter(here).map(|(_, chunk)| *chunk)
    }

    /// Refuses documents with chunks at any other position, and lists that end with a chunk.
    fn check_chunks(&self) -> Result<(), Refusal> {
        let mut placed = 0;
        for name in ["snapshots", "snapshot-log"] {
            let chunks = self.chunks_of(name).count();
            if chunks > 0 && self.members.raw(name).is_none_or(|list| list.get() == "[]") {
                return Err(Refusal::invalid(format!("Cannot parse {name}: ends with a comma")));
            }
            placed += chunks;
        }
        if placed == self.chunks.len() {
            return Ok(());
        }
        Err(Refusal::invalid("Cannot parse metadata: a chunk is not at the beginning of a list"))
    }

    fn read_metadata_log(&self) -> Result<Vec<MetadataLogEntry>, Refusal> {
        let entries = self.members.raw_list("metadata-log")?.unwrap_or_default();
        let read = |raw: &RawValue| {
            let entry = RawMembers::parse("metadata-log", raw.get())?;
            let timestamp_ms = entry.i64("timestamp-ms")?;
            Ok(MetadataLogEntry::new(timestamp_ms, entry.string("metadata-file")?))
        };
        entries.into_iter().map(read).collect()
    }

    fn read_extra(&self) -> Result<Map<String, Value>, Refusal> {
        let unknown = self.members.iter().filter(|(name, _)| !KNOWN_MEMBERS.contains(name));
        unknown.map(|(name, raw)| Ok((name.to_owned(), parse_value(name, raw)?))).collect()
    }

    /// Returns the elements of a list; an empty list if it is absent.
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

/// An entry of the snapshot log, as in the JSON.
#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LogEntry {
    timestamp_ms: i64,
    snapshot_id: i64,
}

impl From<LogEntry> for SnapshotLogEntry {
    fn from(LogEntry { timestamp_ms, snapshot_id }: LogEntry) -> Self {
        Self { timestamp_ms, snapshot_id }
    }
}

/// Parses the items of a chunk, each of which is followed by a comma.
fn items<'a, J: Deserialize<'a>, T>(
    chunk: &'a Chunk,
    read: impl Fn(J) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let broken = |why: &dyn std::fmt::Display| {
        Refusal::invalid(format!("Cannot parse chunk {:?}: {why}", chunk.hash()))
    };
    let mut rest = std::str::from_utf8(chunk.text()).map_err(|error| broken(&error))?;
    let mut items = Vec::new();
    while !rest.is_empty() {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<J>();
        let value = values.next().ok_or_else(|| broken(&"only blanks"))?;
        items.push(read(value.map_err(|error| broken(&error))?)?);
        let behind = &rest[values.byte_offset()..];
        rest = behind.strip_prefix(',').ok_or_else(|| broken(&"a comma is missing"))?;
    }
    Ok(items)
}

/// Parses the UUID in the client's member `name`.
pub(super) fn parse_uuid(name: &str, text: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text)
        .map_err(|_| Refusal::invalid(format!("Cannot parse to a UUID: {name}: {}", brief(text))))
}

#[cfg(test)]
mod tests;
