//! Creates the metadata of a table from a request. Assigns fresh field ids, and builds the first
//! spec, the first order and the properties.

use std::collections::BTreeMap;

use super::commit::{self, CommitContext, supported_format_version};
use super::members::brief;
use super::partition::UnboundPartitionSpec;
use super::refusal::Refusal;
use super::schema::Schema;
use super::sort::{INITIAL_SORT_ORDER_ID, SortField, UNSORTED_ORDER_ID, UnboundSortOrder};
use super::table::{FORMAT_VERSION_DEFAULT, TableMetadata};
use super::update::{LAST_ADDED, TableUpdate};

/// The property that selects a new table's format version. It is not stored.
pub const FORMAT_VERSION_PROPERTY: &str = "format-version";

/// Properties that only control the creation. A table never stores them.
const RESERVED_PROPERTIES: [&str; 9] = [
    FORMAT_VERSION_PROPERTY,
    "uuid",
    "snapshot-count",
    "current-snapshot-id",
    "current-snapshot-summary",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
];

/// Property that a new table gets if the client does not set it. Without the property, writers use
/// gzip.
const PARQUET_COMPRESSION_PROPERTY: (&str, &str) = ("write.parquet.compression-codec", "zstd");

/// Properties whose values must be nonnegative integers.
const COMMIT_PROPERTIES: [&str; 4] = [
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
];

/// Prefix of properties whose names end with a column name.
const METRICS_COLUMN_PREFIX: &str = "write.metadata.metrics.column.";

/// Encryption properties, which require format version 3.
const ENCRYPTION_PROPERTIES: [&str; 2] = ["encryption.key-id", "encryption.data-key-length"];

/// A request to create a table.
#[derive(Debug, Clone)]
pub struct NewTable {
    /// Directory of the table's files.
    pub location: String,
    /// The columns. The table assigns new ids to the columns, and replaces the old ids in the spec,
    /// the order and the identifier fields.
    pub schema: Schema,
    /// The partitioning. `None` if the table is not partitioned.
    pub partition_spec: Option<UnboundPartitionSpec>,
    /// The sort order. `None` if the table is not sorted.
    pub sort_order: Option<UnboundSortOrder>,
    /// The properties. `format-version` selects the format version.
    pub properties: BTreeMap<String, String>,
}

/// Builds the metadata of a new table, with field ids from 1 and partition field ids from 1000.
pub fn new_table(new: NewTable, ctx: &CommitContext) -> Result<TableMetadata, Refusal> {
    let format_version = format_version(&new.properties, ctx.format_version_max)?;
    check_commit_properties(&new.properties)?;
    check_encryption_properties(&new.properties, format_version)?;
    let (schema, fresh_ids) = new.schema.with_fresh_ids(0)?;
    check_metrics_columns(&new.properties, &schema)?;

    let mut spec =
        new.partition_spec.unwrap_or(UnboundPartitionSpec { spec_id: None, fields: Vec::new() });
    for field in &mut spec.fields {
        let fresh_id = fresh_ids.get(&field.source_id).ok_or_else(|| {
            Refusal::invalid(format!(
                "Cannot find source column for partition field: {}: {}({})",
                brief(&field.name),
                brief(&field.transform),
                field.source_id
            ))
        })?;
        field.source_id = *fresh_id;
        field.field_id = None;
    }
    let mut fields = new.sort_order.map(|order| order.fields).unwrap_or_default();
    for field in &mut fields {
        field.source_id = fresh_sort_source(field, &fresh_ids)?;
    }
    let order_id = if fields.is_empty() { UNSORTED_ORDER_ID } else { INITIAL_SORT_ORDER_ID };

    let updates = vec![
        TableUpdate::UpgradeFormatVersion { format_version: i32::from(format_version) },
        TableUpdate::AddSchema { schema },
        TableUpdate::SetCurrentSchema { schema_id: LAST_ADDED },
        TableUpdate::AddSpec { spec },
        TableUpdate::SetDefaultSpec { spec_id: LAST_ADDED },
        TableUpdate::AddSortOrder { sort_order: UnboundSortOrder { order_id, fields } },
        TableUpdate::SetDefaultSortOrder { sort_order_id: LAST_ADDED },
        TableUpdate::SetLocation { location: new.location },
        TableUpdate::SetProperties { updates: stored_properties(new.properties) },
    ];
    Ok(commit::apply(None, &[], &updates, ctx)?.metadata)
}

fn fresh_sort_source(
    field: &SortField,
    fresh_ids: &std::collections::HashMap<i32, i32>,
) -> Result<i32, Refusal> {
    fresh_ids.get(&field.source_id).copied().ok_or_else(|| {
        Refusal::invalid(format!("Cannot find source column for sort field: {}", brief(field)))
    })
}

fn format_version(properties: &BTreeMap<String, String>, max: u8) -> Result<u8, Refusal> {
    let Some(text) = properties.get(FORMAT_VERSION_PROPERTY) else {
        return Ok(FORMAT_VERSION_DEFAULT);
    };
    let version = text.parse::<i32>().map_err(|_| {
        Refusal::invalid(format!(
            "Table property {FORMAT_VERSION_PROPERTY} must have integer value: {}",
            brief(text)
        ))
    })?;
    supported_format_version(version, max)
}

fn stored_properties(mut properties: BTreeMap<String, String>) -> BTreeMap<String, String> {
    properties.retain(|name, _| !RESERVED_PROPERTIES.contains(&name.as_str()));
    let (name, value) = PARQUET_COMPRESSION_PROPERTY;
    properties.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    properties
}

fn check_commit_properties(properties: &BTreeMap<String, String>) -> Result<(), Refusal> {
    for name in COMMIT_PROPERTIES {
        let Some(value) = properties.get(name) else { continue };
        let problem = match value.parse::<i32>() {
            Ok(number) if number >= 0 => continue,
            Ok(_) => "non negative integer",
            Err(_) => "integer",
        };
        return Err(Refusal::invalid(format!("Table property {name} must have {problem} value")));
    }
    Ok(())
}

fn check_encryption_properties(
    properties: &BTreeMap<String, String>,
    format_version: u8,
) -> Result<(), Refusal> {
    let set = ENCRYPTION_PROPERTIES.iter().filter(|name| properties.contains_key(**name));
    let set: Vec<&str> = set.copied().collect();
    if format_version >= 3 || set.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid(format!("Invalid properties for v{format_version}: [{}]", set.join(", "))))
}

/// Checks that metrics properties name existing columns. As in the reference implementation, this
/// check applies only to new tables. So existing tables with an invalid property stay usable.
fn check_metrics_columns(
    properties: &BTreeMap<String, String>,
    schema: &Schema,
) -> Result<(), Refusal> {
    let index = schema.index()?;
    for name in properties.keys() {
        let Some(column) = name.strip_prefix(METRICS_COLUMN_PREFIX) else { continue };
        if index.id_by_name(column).is_none() {
            return Err(Refusal::invalid(format!(
                "Invalid metrics config, could not find column {} from table prop {} in schema",
                brief(column),
                brief(name)
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
