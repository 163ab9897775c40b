//! The snapshot of a rewrite of manifests.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::current::{CurrentManifests, RewrittenManifests, rejected};
use super::merge::{MergedManifest, MergedManifests};
use crate::tabular::Tabulars;
use crate::tabular::append::lists::sync_marker;
use crate::{Error, Result};
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::requirement::TableRequirement;
use slateberg_model::snapshot::{MAIN_BRANCH, Snapshot, SnapshotRef};
use slateberg_model::table::{FORMAT_VERSION_ROW_LINEAGE, TableMetadata};
use slateberg_model::update::TableUpdate;
use slateberg_objects::manifest_list::{ListBlocks, ListHeader};
use slateberg_objects::metadata_file;

/// Prefix of the totals in the summary of a snapshot. A rewrite changes none of them.
const TOTALS_PREFIX: &str = "total-";

/// The commit of a rewrite, and its manifest list.
pub(super) struct NewSnapshot {
    pub(super) requirements: Vec<TableRequirement>,
    pub(super) updates: Vec<TableUpdate>,
    /// Location of the manifest list.
    pub(super) location: String,
    /// Content of the manifest list.
    pub(super) content: Bytes,
    pub(super) response: RewrittenManifests,
}

/// Returns the commit that replaces manifests of the current snapshot.
pub(super) fn rewritten(
    tabulars: &Tabulars,
    current: &CurrentManifests<'_>,
    merged: &MergedManifests,
) -> Result<NewSnapshot> {
    let (head, parent) = (current.head, current.snapshot);
    let (table, ids) = (&head.metadata, tabulars.core.ids());
    let (snapshot_id, file_id) = (new_snapshot_id(tabulars, table), ids.random());
    let version = table.format_version;
    let sequence_number = next_sequence_number(table)?;
    let mut row_ids = (version >= FORMAT_VERSION_ROW_LINEAGE).then_some(table.next_row_id);
    let first_row_id = row_ids;
    let mut manifests = Vec::with_capacity(current.manifests.len());
    for new in &merged.new {
        let manifest = manifest_of(new, (snapshot_id, sequence_number), row_ids)?;
        // Like other writers, the server reserves row ids for existing files, although they have
        // row ids already.
        row_ids = row_ids.map(|first| first.saturating_add(new.counts.rows));
        manifests.push(manifest);
    }
    let kept = current.manifests.iter().filter(|it| !merged.replaced.contains(&it.path));
    manifests.extend(kept.cloned());
    let response = response_of(merged, snapshot_id, manifests.len());
    let directory = metadata_file::directory(&table.location, &table.properties);
    let location = format!("{directory}/snap-{snapshot_id}-1-{file_id}.avro");
    let header = ListHeader {
        format_version: version,
        snapshot_id,
        parent_snapshot_id: Some(parent.snapshot_id),
        sequence_number,
        first_row_id,
    };
    let blocks = ListBlocks::new(version, sync_marker(&head.record), manifests);
    let mut json = json!({
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": parent.snapshot_id,
        "timestamp-ms": timestamp_ms(tabulars, table),
        "summary": summary_of(parent, &response),
        "manifest-list": location,
        "schema-id": table.current_schema_id,
    });
    if version > 1 {
        json["sequence-number"] = sequence_number.into();
    }
    if let Some((first, end)) = first_row_id.zip(row_ids) {
        json["first-row-id"] = first.into();
        json["added-rows"] = (end - first).into();
    }
    let snapshot = Arc::new(Snapshot::parse(&to_raw_value(&json).map_err(Error::internal)?)?);
    let main = table.refs.get(MAIN_BRANCH).ok_or_else(|| rejected("the table has no branch"))?;
    let (ref_name, base) = (MAIN_BRANCH.to_owned(), Some(parent.snapshot_id));
    let reference = SnapshotRef { snapshot_id, ..main.clone() };
    Ok(NewSnapshot {
        requirements: vec![
            TableRequirement::UuidMatch { uuid: table.table_uuid },
            TableRequirement::RefSnapshotIdMatch { r#ref: ref_name.clone(), snapshot_id: base },
        ],
        updates: vec![
            TableUpdate::AddSnapshot { snapshot },
            TableUpdate::SetSnapshotRef { ref_name, reference },
        ],
        location,
        content: blocks.to_file(&header),
        response,
    })
}

/// Returns the response to the request. `manifests` is the number of manifests of the new snapshot.
fn response_of(merged: &MergedManifests, snapshot_id: i64, manifests: usize) -> RewrittenManifests {
    RewrittenManifests {
        snapshot_id: Some(snapshot_id),
        created: merged.new.len(),
        kept: manifests - merged.new.len(),
        replaced: merged.replaced.len(),
        entries: merged.new.iter().map(|new| new.counts.files).sum(),
    }
}

/// Returns the sequence number of the next snapshot. Tables of format version 1 have none.
fn next_sequence_number(table: &TableMetadata) -> Result<i64> {
    let next = match table.format_version {
        1 => Some(0),
        _ => table.last_sequence_number.checked_add(1),
    };
    next.ok_or_else(|| rejected("the table has no more sequence numbers"))
}

/// Returns the time of the next snapshot, which is not before the latest change.
fn timestamp_ms(tabulars: &Tabulars, table: &TableMetadata) -> i64 {
    let logged = table.snapshot_log.last().map_or(0, |entry| entry.timestamp_ms);
    tabulars.core.now_ms().max(table.last_updated_ms).max(logged)
}

/// Returns an id that no snapshot of the table has.
fn new_snapshot_id(tabulars: &Tabulars, table: &TableMetadata) -> i64 {
    loop {
        let (high, low) = tabulars.core.ids().random().as_u64_pair();
        let id = i64::try_from((high ^ low) >> 1).unwrap_or_default();
        if id > 0 && table.snapshot(id).is_none() {
            return id;
        }
    }
}

fn manifest_of(
    new: &MergedManifest,
    (snapshot_id, sequence_number): (i64, i64),
    first_row_id: Option<i64>,
) -> Result<ManifestFile> {
    let files = i32::try_from(new.counts.files);
    let files = files.map_err(|_| rejected("a manifest would have too many files"))?;
    Ok(ManifestFile {
        path: new.path.clone(),
        length: new.length,
        spec_id: new.spec_id,
        content: 0,
        sequence_number,
        min_sequence_number: new.counts.min_sequence_number.unwrap_or(sequence_number),
        added_snapshot_id: snapshot_id,
        added_files_count: Some(0),
        existing_files_count: Some(files),
        deleted_files_count: Some(0),
        added_rows_count: Some(0),
        existing_rows_count: Some(new.counts.rows),
        deleted_rows_count: Some(0),
        partitions: new.partitions.clone(),
        key_metadata: None,
        first_row_id,
    })
}

/// Returns the summary, with the keys of Iceberg's `rewrite_manifests`.
fn summary_of(parent: &Snapshot, response: &RewrittenManifests) -> Map<String, Value> {
    let mut summary = Map::new();
    summary.insert("operation".to_owned(), "replace".into());
    let counts = [
        ("manifests-created", response.created.to_string()),
        ("manifests-kept", response.kept.to_string()),
        ("manifests-replaced", response.replaced.to_string()),
        ("entries-processed", response.entries.to_string()),
    ];
    summary.extend(counts.map(|(key, count)| (key.to_owned(), count.into())));
    let totals = parent.summary().into_iter().filter(|(key, _)| key.starts_with(TOTALS_PREFIX));
    summary.extend(totals.map(|(key, total)| (key, total.into())));
    summary
}
