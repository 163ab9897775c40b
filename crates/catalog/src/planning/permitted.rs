//! Finds the [`PermittedFiles`] of snapshots.

use std::sync::Arc;

use super::Planning;
use super::manifests::PermittedKey;
use super::permitted_files::PermittedFiles;
use super::readable_rows::{ReadableRows, RowFilter};
use super::reads::manifest_list_of;
use super::request::{ReadableTable, Scan, ScanRequest};
use super::table::PlannedTable;
use crate::{Error, Result};
use slateberg_base::boxed;
use slateberg_model::scan::{ScanSnapshots, SnapshotSelection};
use slateberg_model::snapshot::Snapshot;

impl Planning {
    /// Returns the files of a scan that its caller may read. `None` if the caller may read all
    /// files. Errors with `Forbidden` if the snapshot has a mixed file.
    pub(super) async fn permitted_in(
        &self,
        table: &PlannedTable,
        scan: &Scan,
    ) -> Result<Option<Arc<PermittedFiles>>> {
        let ReadableRows::InPermittedFiles(row_filter) = &table.rows else { return Ok(None) };
        let snapshot = match &scan.snapshots {
            ScanSnapshots::Empty => return Ok(None),
            ScanSnapshots::Snapshot(snapshot) => snapshot,
            ScanSnapshots::Appends(_) => {
                return Err(forbidden("incremental scans are not planned for the principal"));
            }
        };
        let permitted = self.permitted_files(table, row_filter, snapshot).await?;
        if permitted.has_mixed() {
            return Err(forbidden(
                "a file may contain both rows that the row filter permits and rows that it hides, \
                 or has delete files that may disclose hidden rows. Partition the table by the \
                 columns of the row filter",
            ));
        }
        Ok(Some(permitted))
    }

    /// Returns the files of a snapshot that a reader with this row filter may read.
    #[boxed]
    pub(super) async fn permitted_files(
        &self,
        table: &PlannedTable,
        row_filter: &RowFilter,
        snapshot: &Snapshot,
    ) -> Result<Arc<PermittedFiles>> {
        let key = key_of(table, row_filter, snapshot)?;
        self.shared.manifests.permitted(key, self.find_permitted(table, row_filter, snapshot)).await
    }

    /// Whether the result of [`permitted_files`](Self::permitted_files) is cached.
    pub(super) fn has_permitted(
        &self,
        table: &PlannedTable,
        row_filter: &RowFilter,
        snapshot: &Snapshot,
    ) -> Result<bool> {
        Ok(self.shared.manifests.has_permitted(&key_of(table, row_filter, snapshot)?))
    }

    #[boxed]
    async fn find_permitted(
        &self,
        table: &PlannedTable,
        row_filter: &RowFilter,
        snapshot: &Snapshot,
    ) -> Result<PermittedFiles> {
        let selection = SnapshotSelection {
            snapshot_id: Some(snapshot.snapshot_id),
            ..SnapshotSelection::default()
        };
        let request = ScanRequest { snapshots: selection, ..ScanRequest::default() };
        let (metadata, restrictions) = (&table.metadata, Some(&*row_filter.restrictions));
        let scan = Scan::bind(ReadableTable { metadata, restrictions }, &request)?;
        // This scan finds the files, so it is not limited to them.
        let prepared = self.prepare(table.clone().with_all_files(), scan).await?;
        let mut found = PermittedFiles::default();
        for range in prepared.candidates.ranges(&prepared.scan) {
            let manifests = self.data_manifests(&prepared, range).await?;
            let (scan, deletes) = (Arc::clone(&prepared.scan), Arc::clone(&prepared.deletes));
            let add = move || {
                for (manifest, spec, rows) in manifests {
                    found.add((&scan, &deletes), manifest, &spec, rows)?;
                }
                Ok::<_, Error>(found)
            };
            found = self.shared.compute.run(add).await??;
        }
        Ok(found)
    }
}

fn key_of(
    table: &PlannedTable,
    row_filter: &RowFilter,
    snapshot: &Snapshot,
) -> Result<PermittedKey> {
    Ok(PermittedKey {
        table: table.record.id,
        list: manifest_list_of(snapshot)?,
        schema_id: table.metadata.current_schema()?.schema_id(),
        rules: row_filter.rules,
    })
}

fn forbidden(why: &str) -> Error {
    Error::Forbidden(format!("Not allowed: planning a scan of the table: {why}"))
}
