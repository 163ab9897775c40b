//! [`Extraction`]: writes the added files of merged manifests to manifests of their own.

use std::time::Duration;

use uuid::Uuid;

use super::lists::Files;
use slateberg_base::ids::Ids;
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::rebase::{NotRebased, RebaseCandidate};
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
    /// The directory of the table's metadata files.
    pub(super) directory: &'a str,
    /// Maximum time to read and write the manifests.
    pub(super) time_max: Duration,
}

impl Extraction<'_> {
    /// Returns manifests with the files that an append adds. Manifests that only add files remain.
    /// Manifests that contain only older files are omitted. All others are rewritten.
    pub(super) async fn run(
        self,
        files: Files<'_>,
        candidate: &RebaseCandidate,
        own: &[ManifestFile],
    ) -> Result<Vec<ManifestFile>, NotRebased> {
        let extracting = self.extracted(files, candidate, own);
        let extracted = tokio::time::timeout(self.time_max, extracting).await;
        extracted.unwrap_or(Err(NotRebased::MergedManifest))
    }

    async fn extracted(
        self,
        files: Files<'_>,
        candidate: &RebaseCandidate,
        own: &[ManifestFile],
    ) -> Result<Vec<ManifestFile>, NotRebased> {
        let adds = |it: &&ManifestFile| it.added_files_count != Some(0);
        let merged = |it: &ManifestFile| it.existing_files_count != Some(0);
        if own.iter().filter(adds).filter(|it| merged(it)).count() > MERGED_MAX {
            return Err(NotRebased::MergedManifest);
        }
        let mut extracted = Vec::new();
        for manifest in own.iter().filter(adds) {
            extracted.push(if merged(manifest) {
                self.rewritten(files, candidate, manifest).await?
            } else {
                manifest.clone()
            });
        }
        if extracted.is_empty() {
            return Err(NotRebased::MergedManifest);
        }
        Ok(extracted)
    }

    async fn rewritten(
        self,
        files: Files<'_>,
        candidate: &RebaseCandidate,
        merged: &ManifestFile,
    ) -> Result<ManifestFile, NotRebased> {
        let failed = |error: slateberg_objects::Error| {
            tracing::debug!(location = merged.path, %error, "cannot rewrite merged manifest");
            NotRebased::MergedManifest
        };
        if merged.length > MERGED_BYTES_MAX {
            return Err(NotRebased::MergedManifest);
        }
        let warehouse = files.record.warehouse;
        let content = files.objects.read(warehouse, &merged.path).await.map_err(failed)?;
        // The list of the client may contain a wrong length.
        if i64::try_from(content.len()).is_ok_and(|bytes| bytes > MERGED_BYTES_MAX) {
            return Err(NotRebased::MergedManifest);
        }
        let (location, snapshot_id) = (merged.path.clone(), candidate.snapshot_id());
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
        manifest_list::create(files.objects, warehouse, &path, &extracted.content)
            .await
            .map_err(failed)?;
        // Files without an explicit sequence number get that of the manifest.
        let inherited = extracted.inherits_sequence_number.then_some(merged.sequence_number);
        let numbers = [inherited, extracted.min_sequence_number];
        let min_sequence_number = numbers.into_iter().flatten().min();
        Ok(ManifestFile {
            path,
            length: i64::try_from(extracted.content.len())
                .map_err(|_| NotRebased::MergedManifest)?,
            min_sequence_number: min_sequence_number.unwrap_or(merged.sequence_number),
            existing_files_count: Some(0),
            existing_rows_count: Some(0),
            ..merged.clone()
        })
    }
}
