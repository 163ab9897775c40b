//! Writes table metadata, in the order of the reference implementation. All snapshots and log
//! entries except the newest are written as chunks.

use bytes::Bytes;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::super::chunked::Item;
use super::super::segmented_json::{SegmentedJson, SegmentedJsonWriter, write_json};
use super::super::table::{FORMAT_VERSION_ROW_LINEAGE, SnapshotLogEntry, TableMetadata};

/// The first format version in which `null` means "no current snapshot". In earlier versions, -1
/// means this.
const NULL_CURRENT_SNAPSHOT_VERSION: u8 = 3;

impl TableMetadata {
    /// Returns the document as the reference implementation writes it for this format version.
    pub fn to_segmented_json(&self) -> SegmentedJson {
        let mut text = SegmentedJsonWriter::default();
        ObjectWriter::begin(&mut text).metadata(self);
        text.finish()
    }

    /// Returns the same document as contiguous bytes.
    pub fn to_json(&self) -> Bytes {
        self.to_segmented_json().to_bytes()
    }
}

/// Bytes for the end of a document, after the metadata log.
const END_BYTES: usize = 256;

/// A JSON object during writing.
struct ObjectWriter<'a> {
    text: &'a mut SegmentedJsonWriter,
    members: usize,
}

impl<'a> ObjectWriter<'a> {
    fn begin(text: &'a mut SegmentedJsonWriter) -> Self {
        text.inline().push(b'{');
        Self { text, members: 0 }
    }

    /// Begins a member. The caller writes its value next.
    fn name(&mut self, name: &str) -> &mut SegmentedJsonWriter {
        if self.members > 0 {
            self.text.inline().push(b',');
        }
        self.members += 1;
        self.text.json(name);
        self.text.inline().push(b':');
        self.text
    }

    fn member(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.name(name).json(value);
    }

    fn end(self) {
        self.text.inline().push(b'}');
    }

    fn metadata(mut self, table: &TableMetadata) {
        self.head(table);
        self.layout(table);
        self.member("properties", &table.properties);
        match table.current_snapshot_id {
            None if table.format_version < NULL_CURRENT_SNAPSHOT_VERSION => {
                self.member("current-snapshot-id", &-1);
            }
            current => self.member("current-snapshot-id", &current),
        }
        if table.format_version >= FORMAT_VERSION_ROW_LINEAGE {
            self.member("next-row-id", &table.next_row_id);
        }
        if !table.encryption_keys.is_empty() {
            self.member("encryption-keys", &table.encryption_keys);
        }
        self.member("refs", &table.refs);
        table.snapshots.write(self.name("snapshots"));
        self.member("statistics", &table.statistics);
        self.member("partition-statistics", &table.partition_statistics);
        table.snapshot_log.write(self.name("snapshot-log"));
        // The log is most of the metadata of a table without snapshots. To copy it into a larger buffer
        // would take as long as to write it.
        let log_bytes: usize = table.metadata_log.iter().map(|entry| entry.json_bytes() + 1).sum();
        self.name("metadata-log").reserve(log_bytes + END_BYTES).json(&table.metadata_log);
        for (name, value) in &table.extra {
            self.member(name, value);
        }
        self.end();
    }

    fn head(&mut self, table: &TableMetadata) {
        self.member("format-version", &table.format_version);
        if table.format_version > 1 || !table.table_uuid.is_nil() {
            self.member("table-uuid", &table.table_uuid);
        }
        self.member("location", &table.location);
        if table.format_version > 1 {
            self.member("last-sequence-number", &table.last_sequence_number);
        }
        self.member("last-updated-ms", &table.last_updated_ms);
        self.member("last-column-id", &table.last_column_id);
    }

    /// Writes schemas, specs and orders. In version 1, also writes the current schema and spec as
    /// single members, because some readers know only these members.
    fn layout(&mut self, table: &TableMetadata) {
        if let (1, Ok(schema)) = (table.format_version, table.current_schema()) {
            self.member("schema", schema);
        }
        self.member("current-schema-id", &table.current_schema_id);
        self.member("schemas", &table.schemas);
        if let (1, Ok(spec)) = (table.format_version, table.default_spec()) {
            self.member("partition-spec", &spec.fields);
        }
        self.member("default-spec-id", &table.default_spec_id);
        self.member("partition-specs", &table.partition_specs);
        self.member("last-partition-id", &table.last_partition_id);
        self.member("default-sort-order-id", &table.default_sort_order_id);
        self.member("sort-orders", &table.sort_orders);
    }
}

impl Item for SnapshotLogEntry {
    fn id(&self) -> i64 {
        self.snapshot_id
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_json(out, self);
    }

    fn with_json(&self, _json: Bytes) -> Self {
        *self
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
