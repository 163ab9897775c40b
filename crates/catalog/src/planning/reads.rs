//! Reading of the manifest lists and manifests of a scan.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use uuid::Uuid;

use super::Planning;
use super::candidates::{Candidates, ManifestRef};
use super::deletes::DeleteFiles;
use super::request::Scan;
use super::table::PlannedTable;
use crate::error::UnreadableManifests;
use crate::{Error, Result};
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::scan::ScanError;
use slateberg_model::snapshot::Snapshot;
use slateberg_model::table::FORMAT_VERSION_ADOPTED;
use slateberg_objects as objects;
use slateberg_objects::content::Content;
use slateberg_objects::manifest::{Inherited, Manifest, NeededColumns};
use slateberg_objects::manifest_list::ManifestList;

/// Number of manifests that one request reads concurrently.
const READS_PARALLEL_MAX: usize = 16;
/// Expected size of a decoded manifest, as a multiple of its compressed size.
const EXPANSION: u64 = 12;
/// Minimum of the expected size of a decoded manifest, in bytes.
const EXPECTED_BYTES_MIN: u64 = 256 << 10;

impl Planning {
    /// Reads the manifest lists of a scan, and selects the manifests that may match its filter.
    pub(super) async fn candidates(
        &self,
        table: &PlannedTable,
        scan: &Arc<Scan>,
    ) -> Result<Candidates> {
        let mut lists = Vec::new();
        for snapshot in scan.snapshots.snapshots() {
            lists.push(self.list_of(table, snapshot).await?);
        }
        let (table, scan) = (table.clone(), Arc::clone(scan));
        self.shared.compute.run(move || Candidates::new(&table, &scan, lists)).await?
    }

    /// Returns the location of a snapshot's manifest list, and the list.
    pub(super) async fn list_of(
        &self,
        table: &PlannedTable,
        snapshot: &Snapshot,
    ) -> Result<(String, Arc<ManifestList>)> {
        let id = snapshot.snapshot_id;
        if snapshot.key_id().is_some() {
            return Err(Error::NotPlannable(UnreadableManifests::EncryptedSnapshot(id)));
        }
        if table.metadata.format_version > FORMAT_VERSION_ADOPTED {
            return Err(Error::NotPlannable(UnreadableManifests::NewerFormat(id)));
        }
        let path = manifest_list_of(snapshot)?;
        table.check_own(&path)?;
        let list = self.manifest_list(table, &path).await?;
        Ok((path, list))
    }

    /// Returns the manifest list of a table at this location.
    async fn manifest_list(
        &self,
        table: &PlannedTable,
        location: &str,
    ) -> Result<Arc<ManifestList>> {
        let warehouse = table.record.warehouse;
        let read = async {
            let content = self.core.objects().read(warehouse, location).await;
            let (content, name) = (content.map_err(unreadable)?, location.to_owned());
            let parsed =
                self.shared.compute.run(move || ManifestList::parse(&name, &content)).await?;
            parsed.map_err(unreadable)
        };
        self.shared.manifests.list(warehouse, location, read).await
    }

    /// Returns the delete files of a scan. The index contains the delete files of all partitions,
    /// so all scans of a snapshot can share it.
    pub(super) async fn deletes(
        &self,
        table: &PlannedTable,
        scan: &Scan,
        candidates: &Candidates,
    ) -> Result<Arc<DeleteFiles>> {
        let Some(list) = candidates.list.as_ref().filter(|_| !candidates.deletes.is_empty()) else {
            return Ok(Arc::default());
        };
        let key = (table.record.id, list.as_str(), scan.schema.schema_id());
        let build = async {
            let (warehouse, all) = (table.record.warehouse, candidates.deletes.clone());
            let read = self.read_all(warehouse, all.clone(), &NeededColumns::All).await?;
            let mut manifests = Vec::with_capacity(read.len());
            for (manifest, entry) in read.into_iter().zip(all) {
                manifests.push((manifest, Arc::clone(&scan.spec(entry.spec_id)?.spec)));
            }
            let schema = Arc::clone(&scan.schema);
            self.shared.compute.run(move || DeleteFiles::build(manifests, &schema)).await?
        };
        self.shared.manifests.deletes(key, build).await
    }

    /// Returns manifests with the statistics of these columns, in order.
    pub(super) async fn read_all(
        &self,
        warehouse: Uuid,
        manifests: Vec<ManifestRef>,
        needed: &NeededColumns,
    ) -> Result<Vec<Arc<Manifest>>> {
        let read = |manifest: ManifestRef| {
            let (planning, needed) = (self.clone(), needed.clone());
            async move { planning.read_one(warehouse, &manifest, &needed).await }
        };
        let reads = stream::iter(manifests).map(read).buffered(READS_PARALLEL_MAX);
        reads.try_collect().await
    }

    async fn read_one(
        &self,
        warehouse: Uuid,
        manifest: &ManifestFile,
        needed: &NeededColumns,
    ) -> Result<Arc<Manifest>> {
        let read = |needed: NeededColumns| async move {
            let content = self.core.objects().read(warehouse, &manifest.path).await;
            let content = Arc::new(content.map_err(unreadable)?);
            let expected = (content.len() as u64).saturating_mul(EXPANSION) + EXPECTED_BYTES_MIN;
            match self.decode(manifest, &content, expected, &needed).await {
                // Perhaps the manifest is valid, but larger than expected. So it is decoded again
                // with the maximum size.
                Err(_) => self.decode(manifest, &content, u64::MAX, &needed).await,
                decoded => decoded,
            }
        };
        self.shared.manifests.manifest((warehouse, manifest), needed, read).await
    }

    /// Decodes a manifest in at most this much memory.
    async fn decode(
        &self,
        manifest: &ManifestFile,
        content: &Arc<Content>,
        bytes_max: u64,
        needed: &NeededColumns,
    ) -> Result<Manifest> {
        let (room, bytes_max) = self.core.objects().reserve(bytes_max).await;
        let (path, inherited) = (manifest.path.clone(), Inherited::of(manifest));
        let (content, needed) = (Arc::clone(content), needed.clone());
        let decode = move || {
            let decoded = Manifest::read(&path, &content, bytes_max, inherited, needed);
            drop(room);
            decoded
        };
        self.shared.compute.run(decode).await?.map_err(unreadable)
    }
}

/// Returns the location of a snapshot's manifest list.
pub(super) fn manifest_list_of(snapshot: &Snapshot) -> Result<String> {
    let id = snapshot.snapshot_id;
    let location = snapshot.manifest_list();
    location.ok_or_else(|| Error::NotPlannable(UnreadableManifests::NoManifestList(id)))
}

/// Converts an error of a file that the table's metadata references.
fn unreadable(error: objects::Error) -> Error {
    use objects::Error as E;
    match error {
        E::NotFound(_) | E::Unreadable { .. } => {
            let message = format!("The table is damaged: {error}");
            Error::Scan(ScanError::Validation(message))
        }
        E::NotAllowed(message) => Error::NotPlannable(UnreadableManifests::NotAllowed(message)),
        E::Taken(_) | E::Full { .. } | E::Unavailable { .. } => error.into(),
    }
}
