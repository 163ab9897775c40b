//! Reads the manifests of a table, and reports the health of the table.

use std::collections::BTreeSet;

use super::Planning;
use super::candidates::{ManifestRef, check_readable, live_files};
use super::health::{
    FileCounts, Growth, ManifestCounts, MetadataCounts, Names, SnapshotCounts, TableHealth,
    advice_for,
};
use super::table::PlannedTable;
use crate::{Operation, Result};
use slateberg_base::boxed;
use slateberg_model::table::TableMetadata;
use slateberg_objects::manifest::NeededColumns;

/// Maximum number of files that a request counts, up to the files of one chunk of manifests.
const FILES_MAX: u64 = 1_000_000;
/// Number of manifests that are in memory at the same time.
const CHUNK: usize = 16;
/// The default of `commit.manifest.target-size-bytes`.
const MANIFEST_BYTES: u64 = 8 << 20;
/// The default of `write.metadata.previous-versions-max`.
const PREVIOUS_METADATA_MAX: u64 = 100;

impl Planning {
    /// Returns the health of a table with a name such as `table:prod/sales/orders`. The caller
    /// needs the permissions of a scan plan.
    #[boxed]
    pub async fn table_health(&self, operation: &Operation, resource: &str) -> Result<TableHealth> {
        let (cx, ident) = self.table_named(operation, resource)?;
        let table = self.table_with_all_files(&cx, &ident).await?;
        let _slot = self.shared.compute.admit(operation).await?;
        let manifests = self.current_manifests(&table).await?;
        let (files, is_complete) = self.count_files(&table, &manifests).await?;
        let of_manifests = manifest_counts(&table.metadata, &manifests);
        let list_bytes = manifests.first().map_or(0, |manifest| manifest.list.bytes);
        let of_metadata = metadata_counts(&table, list_bytes);
        let (metadata, now_ms) = (table.metadata, self.core.now_ms());
        let store = self.core.store().durable();
        let inherited =
            self.core.inherited_maintenance(&store, &cx.warehouse, &ident.namespace).await?;
        let names = Names::new(resource, &cx.warehouse.name, &ident);
        let finish = move || {
            let mut health = TableHealth {
                snapshot_id: metadata.current_snapshot_id,
                is_complete,
                data_files: files.data(),
                delete_files: files.deletes,
                manifests: of_manifests,
                metadata: of_metadata,
                snapshots: SnapshotCounts::of(&metadata, &inherited, now_ms),
                growth: Growth::of(&metadata),
                advice: Vec::new(),
            };
            health.advice = advice_for(&health, &names);
            health
        };
        self.shared.compute.run(finish).await
    }

    /// Returns the manifests of the current snapshot.
    async fn current_manifests(&self, table: &PlannedTable) -> Result<Vec<ManifestRef>> {
        let id = table.metadata.current_snapshot_id;
        let Some(snapshot) = id.and_then(|id| table.metadata.snapshot(id)) else {
            return Ok(Vec::new());
        };
        let (_, list) = self.list_of(table, snapshot).await?;
        let manifests: Vec<_> = ManifestRef::all(&list).collect();
        for manifest in &manifests {
            check_readable(table, manifest)?;
        }
        Ok(manifests)
    }

    /// Counts the files of these manifests. Also returns whether all of them were counted.
    async fn count_files(
        &self,
        table: &PlannedTable,
        manifests: &[ManifestRef],
    ) -> Result<(FileCounts, bool)> {
        let mut counts = FileCounts::new(&table.metadata.properties);
        let live = manifests.iter().filter(|manifest| live_files(manifest) != Some(0));
        // There are usually few delete files, so they are counted even if the table has too many
        // data files.
        let (data, mut all): (Vec<_>, Vec<_>) = live.cloned().partition(|it| it.is_data());
        all.extend(data);
        for chunk in all.chunks(CHUNK) {
            if counts.files() >= FILES_MAX {
                return Ok((counts, false));
            }
            let needed = NeededColumns::Ids(BTreeSet::new());
            let read = self.read_all(table.record.warehouse, chunk.to_vec(), &needed).await?;
            let specs: Vec<i32> = chunk.iter().map(|manifest| manifest.spec_id).collect();
            let count = move || {
                for (manifest, spec) in read.iter().zip(specs) {
                    counts.add(manifest, spec);
                }
                counts
            };
            counts = self.shared.compute.run(count).await?;
        }
        Ok((counts, true))
    }
}

/// Counts manifests.
fn manifest_counts(metadata: &TableMetadata, manifests: &[ManifestRef]) -> ManifestCounts {
    let target_bytes = number(metadata, "commit.manifest.target-size-bytes", MANIFEST_BYTES);
    let mut counts = ManifestCounts { target_bytes, ..ManifestCounts::default() };
    for manifest in manifests {
        let bytes = u64::try_from(manifest.length).unwrap_or(0);
        counts.bytes = counts.bytes.saturating_add(bytes);
        if manifest.is_data() {
            counts.data += 1;
            counts.small += u64::from(bytes < target_bytes / 2);
        } else {
            counts.delete += 1;
        }
    }
    counts
}

/// Counts the metadata of a table.
fn metadata_counts(table: &PlannedTable, manifest_list_bytes: u64) -> MetadataCounts {
    let metadata = &table.metadata;
    let delete = metadata.properties.get("write.metadata.delete-after-commit.enabled");
    let max = "write.metadata.previous-versions-max";
    MetadataCounts {
        bytes: table.metadata_bytes,
        manifest_list_bytes,
        previous_files: metadata.metadata_log.len() as u64,
        previous_files_max: number(metadata, max, PREVIOUS_METADATA_MAX),
        deletes_previous_files: delete.is_some_and(|it| it.eq_ignore_ascii_case("true")),
    }
}

/// Returns the value of a property. Like engines, does not accept 0.
fn number(metadata: &TableMetadata, name: &str, default: u64) -> u64 {
    let value = metadata.properties.get(name).and_then(|text| text.parse().ok());
    value.filter(|number| *number > 0).unwrap_or(default)
}
