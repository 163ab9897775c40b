//! The JSON of a rebased snapshot.

use serde_json::value::to_raw_value;
use serde_json::{Map, Value};

use super::super::refusal::Refusal;
use super::super::snapshot::Snapshot;
use super::summary::Summary;

/// The members of a snapshot that a rebase changes.
pub(super) struct Changes<'a> {
    pub(super) parent_snapshot_id: Option<i64>,
    pub(super) sequence_number: i64,
    pub(super) timestamp_ms: i64,
    pub(super) manifest_list: &'a str,
    /// `None` if the table has no row lineage.
    pub(super) first_row_id: Option<i64>,
    pub(super) summary: Summary,
}

/// Returns the snapshot with these changes. All other members stay, including unknown ones.
pub(super) fn changed(snapshot: &Snapshot, changes: Changes<'_>) -> Result<Snapshot, Refusal> {
    let mut members: Map<String, Value> = serde_json::from_str(snapshot.json())
        .map_err(|error| Refusal::invalid(format!("Cannot parse snapshot: {error}")))?;
    match changes.parent_snapshot_id {
        Some(id) => members.insert("parent-snapshot-id".to_owned(), id.into()),
        None => members.remove("parent-snapshot-id"),
    };
    members.insert("sequence-number".to_owned(), changes.sequence_number.into());
    members.insert("timestamp-ms".to_owned(), changes.timestamp_ms.into());
    members.insert("manifest-list".to_owned(), changes.manifest_list.into());
    if let Some(id) = changes.first_row_id {
        members.insert("first-row-id".to_owned(), id.into());
    }
    let mut summary = Map::new();
    // The operation comes first, as clients write it.
    summary.extend(changes.summary.get_key_value("operation").map(pair));
    summary.extend(changes.summary.iter().filter(|(key, _)| *key != "operation").map(pair));
    members.insert("summary".to_owned(), summary.into());
    let raw = to_raw_value(&members)
        .map_err(|error| Refusal::invalid(format!("Cannot write snapshot: {error}")))?;
    Snapshot::parse(&raw)
}

fn pair((key, value): (&String, &String)) -> (String, Value) {
    (key.clone(), value.clone().into())
}
