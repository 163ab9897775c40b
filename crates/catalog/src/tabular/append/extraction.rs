//! [`Extraction`]: writes the added files of merged manifests to manifests of their own.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::lists::Files;
use crate::jobs::Jobs;
use crate::jobs::left_behind::NewManifests;
use slateberg_base::ids::Ids;
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::rebase::NotRebased;
use slateberg_objects::manifest::ExtractedManifest;
use slateberg_objects::manifest_list;

/// Maximum size of a merged manifest that is rewritten, in bytes. Clients merge manifests up to
/// 8 MiB by default (`commit.manifest.target-size-bytes`).
const MERGED_BYTES_MAX: i64 = 16 << 20;
/// Maximum number of merged manifests of an append that are rewritten.
const MERGED_MAX: usize = 8;

/// Where new manifests are written.
#[derive(Clone, Copy)]
pub(super) struct Extraction<'a> {
    pub(super) ids: &'a dyn Ids,
    /// Deletes the new manifests if the table does not use them.
    pub(super) jobs: &'a Jobs,
    /// The directory of the table's metadata files.
    pub(super) directory: &'a str,
    /// Maximum time to read and write the manifests.
    pub(super) time_max: Duration,
}

/// The added files of a commit, in manifests of their own.
pub(super) struct AddedFiles {
    /// All manifests of the commit, including those that the client has written.
    pub(super) manifests: Vec<ManifestFile>,
    /// The manifests among them that the server has written.
    pub(super) new: NewManifests,
}

/// A new manifest that is not written yet.
struct UnwrittenManifest {
    manifest: ManifestFile,
    content: Bytes,
}

impl Extraction<'_> {
    /// Returns manifests with the files that an append adds. Manifests that only add files remain.
    /// Manifests that contain only older files are omitted. All others are rewritten. Writes
    /// nothing unless all of them can be rewritten. `snapshot_id` is the snapshot of the append.
    pub(super) async fn run(
        self,
        files: Files<'_>,
        snapshot_id: i64,
        own: &[ManifestFile],
    ) -> Result<AddedFiles, NotRebased> {
        let extracting = self.extracted(files, snapshot_id, own);
        let extracted = tokio::time::timeout(self.time_max, extracting).await;
        extracted.unwrap_or(Err(NotRebased::MergedManifest))
    }

    async fn extracted(
        self,
        files: Files<'_>,
        snapshot_id: i64,
        own: &[ManifestFile],
    ) -> Result<AddedFiles, NotRebased> {
        let adds = |it: &&ManifestFile| it.added_files_count != Some(0);
        let merged = |it: &ManifestFile| it.existing_files_count != Some(0);
        if own.iter().filter(adds).filter(|it| merged(it)).count() > MERGED_MAX {
            return Err(NotRebased::MergedManifest);
        }
        let (mut manifests, mut unwritten) = (Vec::new(), Vec::new());
        for manifest in own.iter().filter(adds) {
            if merged(manifest) {
                let new = self.rewritten(files, snapshot_id, manifest).await?;
                manifests.push(new.manifest.clone());
                unwritten.push(new);
            } else {
                manifests.push(manifest.clone());
            }
        }
        if manifests.is_empty() {
            return Err(NotRebased::MergedManifest);
        }
        let paths = unwritten.iter().map(|new| new.manifest.path.clone()).collect();
        let announced = self.jobs.announce_manifests(files.record, paths).await;
        let new = announced.map_err(|error| {
            tracing::debug!(%error, "cannot record new manifests");
            NotRebased::MergedManifest
        })?;
        for UnwrittenManifest { manifest, content } in &unwritten {
            let (objects, warehouse) = (files.objects, files.record.warehouse);
            let written = manifest_list::create(objects, warehouse, &manifest.path, content);
            written.await.map_err(failed(&manifest.path))?;
        }
        Ok(AddedFiles { manifests, new })
    }

    async fn rewritten(
        self,
        files: Files<'_>,
        snapshot_id: i64,
        merged: &ManifestFile,
    ) -> Result<UnwrittenManifest, NotRebased> {
        let failed = failed(&merged.path);
        if merged.length > MERGED_BYTES_MAX {
            return Err(NotRebased::MergedManifest);
        }
        let warehouse = files.record.warehouse;
        let content = files.objects.read(warehouse, &merged.path).await.map_err(&failed)?;
        // The list of the client may contain a wrong length.
        if i64::try_from(content.len()).is_ok_and(|bytes| bytes > MERGED_BYTES_MAX) {
            return Err(NotRebased::MergedManifest);
        }
        let location = merged.path.clone();
        let sync: Uuid = self.ids.random();
        let extracting = tokio::task::spawn_blocking(move || {
            ExtractedManifest::of(&location, &content, snapshot_id, sync)
        });
        let extracted = extracting.await.map_err(|_| NotRebased::MergedManifest)?;
        let extracted = extracted.map_err(failed)?;
        let counts = (Some(extracted.files), Some(extracted.rows));
        if counts != (merged.added_files_count, merged.added_rows_count) {
            return Err(NotRebased::MergedManifest);
        }
        let path = format!("{}/{}-m0.avro", self.directory, self.ids.random());
        // Files without an explicit sequence number get that of the manifest.
        let inherited = extracted.inherits_sequence_number.then_some(merged.sequence_number);
        let numbers = [inherited, extracted.min_sequence_number];
        let min_sequence_number = numbers.into_iter().flatten().min();
        let manifest = ManifestFile {
            path,
            length: i64::try_from(extracted.content.len())
                .map_err(|_| NotRebased::MergedManifest)?,
            min_sequence_number: min_sequence_number.unwrap_or(merged.sequence_number),
            existing_files_count: Some(0),
            existing_rows_count: Some(0),
            ..merged.clone()
        };
        Ok(UnwrittenManifest { manifest, content: extracted.content })
    }
}

fn failed(location: &str) -> impl Fn(slateberg_objects::Error) -> NotRebased {
    move |error| {
        tracing::debug!(location, %error, "cannot rewrite merged manifest");
        NotRebased::MergedManifest
    }
}
