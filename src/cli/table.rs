//! `slateberg table show`: describes one table from its metadata.

mod health;
mod reports;
mod usage;

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client::run_online;
use super::client::{ClientError, Connection, encoded, parse, query};
use super::exit::Outcome;
use super::ls::{Warehouse, joined, split};
use super::output::{Output, bytes, count, grouped, json_text, lines_of, table};
use slateberg_base::rfc3339;

/// Number of snapshots in the output.
const SNAPSHOTS_SHOWN: usize = 10;
/// Keys under which engines record the writer in the summary of a snapshot.
const WRITERS: [&str; 8] = [
    "engine-name",
    "engine-version",
    "user",
    "trino_user",
    "trino_query_id",
    "app-name",
    "spark.app.id",
    "flink.job-id",
];

/// Show a table, its health, or the use of tables.
#[derive(Debug, Args)]
pub struct Table {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show size, snapshots, schema, properties and last write of a table
    Show(Show),
    /// Show counts and sizes of files, manifests and snapshots, and what to compact and to expire
    Health(health::Health),
    /// Show how often tables are loaded, scanned and changed, and who did so last
    Usage(usage::Usage),
    /// Show the newest metrics reports that clients sent of a table
    Reports(reports::Reports),
}

#[derive(Debug, Args)]
struct Show {
    /// Table, as WAREHOUSE/LEVEL.../NAME
    #[arg(value_name = "TABLE")]
    name: String,
    /// Show the table of this name at this time, such as 2026-11-24T10:00:00Z, or at a position of
    /// the change feed
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LoadResponse {
    metadata_location: Option<String>,
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata {
    format_version: u8,
    table_uuid: String,
    location: String,
    last_updated_ms: i64,
    current_schema_id: i32,
    schemas: Vec<Schema>,
    default_spec_id: i32,
    partition_specs: Vec<PartitionSpec>,
    #[serde(default)]
    properties: BTreeMap<String, String>,
    current_snapshot_id: Option<i64>,
    #[serde(default)]
    snapshots: Vec<Snapshot>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Schema {
    schema_id: i32,
    fields: Vec<Column>,
}

#[derive(Deserialize, Serialize)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    data_type: Value,
    required: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PartitionSpec {
    spec_id: i32,
    fields: Vec<PartitionField>,
}

#[derive(Deserialize, Serialize)]
struct PartitionField {
    name: String,
    transform: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Snapshot {
    snapshot_id: i64,
    timestamp_ms: i64,
    #[serde(default)]
    summary: BTreeMap<String, String>,
}

/// The numbers in the summary of a snapshot. `None` if the writer did not record them.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct SnapshotWrite {
    snapshot_id: i64,
    at_ms: i64,
    operation: Option<String>,
    /// The writer's entries in the summary, such as the engine and its user.
    writer: BTreeMap<String, String>,
    rows: Option<u64>,
    bytes: Option<u64>,
    data_files: Option<u64>,
    delete_files: Option<u64>,
}

impl Table {
    /// Runs the subcommand and prints the result.
    pub fn run(self) -> Outcome {
        run_online(async {
            match self.command {
                Command::Show(show) => show.run().await,
                Command::Health(health) => health.run().await,
                Command::Usage(usage) => usage.run().await,
                Command::Reports(reports) => reports.run().await,
            }
        })
    }
}

/// Returns the name of a table, and its path on the server.
pub(super) async fn table_path(
    connection: &Connection,
    notation: &str,
) -> Result<(String, String), ClientError> {
    let notation = notation.strip_prefix("table:").unwrap_or(notation);
    let names = split(notation);
    let ([warehouse, levels @ .., name], 3..) = (names.as_slice(), names.len()) else {
        return Err(ClientError::Input(format!(
            "not a table: '{notation}'. Write WAREHOUSE/NAMESPACE/NAME, such as default/sales/orders"
        )));
    };
    let warehouse = Warehouse::open(connection, Some(warehouse)).await?;
    let path = format!("{}/{}", warehouse.path(levels, "tables"), encoded(name));
    Ok((joined(&names), path))
}

impl Show {
    async fn run(self) -> Result<String, ClientError> {
        let (name, path) = match self.as_of {
            None => table_path(&self.connection, &self.name).await?,
            Some(as_of) => {
                let name = self.name.strip_prefix("table:").unwrap_or(&self.name).to_owned();
                let resource = Some(format!("table:{name}"));
                let query = query(&[("resource", resource), ("as-of", Some(as_of))]);
                (name, format!("/management/v1/past/metadata{query}"))
            }
        };
        let loaded: LoadResponse = parse(self.connection.send("GET", &path, &Value::Null).await?)?;
        Ok(match self.connection.output {
            Output::Json => json_text(&loaded.json(&name)),
            Output::Table => loaded.text(&name),
        })
    }
}

impl Snapshot {
    fn write(&self) -> SnapshotWrite {
        let number = |name: &str| self.summary.get(name)?.parse().ok();
        let writer = WRITERS.iter().filter_map(|name| self.summary.get_key_value(*name));
        SnapshotWrite {
            snapshot_id: self.snapshot_id,
            at_ms: self.timestamp_ms,
            operation: self.summary.get("operation").cloned(),
            writer: writer.map(|(name, value)| (name.clone(), value.clone())).collect(),
            rows: number("total-records"),
            bytes: number("total-files-size"),
            data_files: number("total-data-files"),
            delete_files: number("total-delete-files"),
        }
    }
}

impl Metadata {
    fn current(&self) -> Option<SnapshotWrite> {
        let is_current = |it: &&Snapshot| Some(it.snapshot_id) == self.current_snapshot_id;
        self.snapshots.iter().find(is_current).map(Snapshot::write)
    }

    fn columns(&self) -> &[Column] {
        let current = |schema: &&Schema| schema.schema_id == self.current_schema_id;
        self.schemas.iter().find(current).map_or(&[], |schema| schema.fields.as_slice())
    }

    fn partition(&self) -> &[PartitionField] {
        let current = |spec: &&PartitionSpec| spec.spec_id == self.default_spec_id;
        self.partition_specs.iter().find(current).map_or(&[], |spec| spec.fields.as_slice())
    }
}

impl LoadResponse {
    fn json(&self, name: &str) -> Value {
        let metadata = &self.metadata;
        let current = metadata.current();
        // A table without snapshots is empty, so its totals are 0.
        let total = |of: fn(&SnapshotWrite) -> Option<u64>| current.as_ref().map_or(Some(0), of);
        json!({
            "name": name,
            "uuid": metadata.table_uuid,
            "format-version": metadata.format_version,
            "location": metadata.location,
            "metadata-location": self.metadata_location,
            "updated-at-ms": metadata.last_updated_ms,
            "rows": total(|write| write.rows),
            "bytes": total(|write| write.bytes),
            "data-files": total(|write| write.data_files),
            "delete-files": total(|write| write.delete_files),
            "last-write": current,
            "snapshots": metadata.snapshots.iter().map(Snapshot::write).collect::<Vec<_>>(),
            "columns": metadata.columns(),
            "partition-by": metadata.partition(),
            "properties": metadata.properties,
        })
    }

    fn text(&self, name: &str) -> String {
        let metadata = &self.metadata;
        let row = |name: &str, value: String| [name.to_owned(), value];
        let mut rows = vec![
            row("name", name.to_owned()),
            row("uuid", metadata.table_uuid.clone()),
            row("format version", metadata.format_version.to_string()),
            row("location", metadata.location.clone()),
        ];
        rows.extend(self.metadata_location.iter().map(|it| row("metadata", it.clone())));
        rows.push(row("changed", rfc3339::format_seconds(metadata.last_updated_ms)));
        match metadata.current() {
            None => rows.push(row("last write", "none: the table has no snapshot".to_owned())),
            Some(write) => {
                let at = rfc3339::format_seconds(write.at_ms);
                let operation = write.operation.clone().unwrap_or_default();
                rows.push(row(
                    "last write",
                    format!("{at} {operation} by {}", write.writer_text()),
                ));
                rows.push(row("rows", number(write.rows)));
                rows.push(row("size", write.bytes.map_or("unknown".to_owned(), bytes)));
                rows.push(row("data files", number(write.data_files)));
                rows.push(row("delete files", number(write.delete_files)));
            }
        }
        rows.push(row("snapshots", number(u64::try_from(metadata.snapshots.len()).ok())));
        let partition = metadata.partition().iter();
        rows.extend(
            partition.map(|it| row("partition by", format!("{} ({})", it.name, it.transform))),
        );
        let properties = metadata.properties.iter();
        rows.extend(properties.map(|(key, value)| row("property", format!("{key}={value}"))));
        format!("{}\n{}{}", lines_of(&rows), columns(metadata.columns()), self.snapshots())
    }

    /// Formats the newest snapshots as a table.
    fn snapshots(&self) -> String {
        let all = &self.metadata.snapshots;
        if all.is_empty() {
            return String::new();
        }
        let row = |snapshot: &Snapshot| {
            let write = snapshot.write();
            [
                write.snapshot_id.to_string(),
                rfc3339::format_seconds(write.at_ms),
                write.operation.clone().unwrap_or_default(),
                number(write.rows),
                write.bytes.map_or("unknown".to_owned(), bytes),
                write.writer_text(),
            ]
        };
        let mut newest: Vec<_> = all.iter().collect();
        newest.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.timestamp_ms));
        let rows: Vec<_> = newest.into_iter().take(SNAPSHOTS_SHOWN).map(row).collect();
        let head = ["SNAPSHOT", "AT", "OPERATION", "ROWS", "SIZE", "BY"];
        let rest = match all.len().saturating_sub(SNAPSHOTS_SHOWN) {
            0 => String::new(),
            rest => format!("and {}\n", count(rest, "older snapshot", "older snapshots")),
        };
        format!("\n{}{rest}", table(head, &rows))
    }
}

impl SnapshotWrite {
    /// Formats the entries of the snapshot's summary that identify the writer.
    fn writer_text(&self) -> String {
        let pairs = self.writer.iter().map(|(name, value)| format!("{name}={value}"));
        match pairs.collect::<Vec<_>>().join(", ") {
            text if text.is_empty() => "an unknown writer".to_owned(),
            text => text,
        }
    }
}

fn columns(columns: &[Column]) -> String {
    let row = |column: &Column| {
        let data_type = match &column.data_type {
            Value::String(name) => name.clone(),
            nested => nested["type"].as_str().unwrap_or("nested").to_owned(),
        };
        let required = if column.required { "required" } else { "optional" };
        [column.name.clone(), data_type, required.to_owned()]
    };
    let rows: Vec<_> = columns.iter().map(row).collect();
    table(["COLUMN", "TYPE", ""], &rows)
}

fn number(number: Option<u64>) -> String {
    number.map_or("unknown".to_owned(), grouped)
}
