//! [`DeleteFiles`]: the delete files of a snapshot, with their index.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::planned_manifest::PlannedManifest;
use crate::{Error, Result};
use slateberg_model::scan::{
    BoundSpec, DataFileHead, DeleteFile, DeleteFileHead, DeleteIndex, DeleteKind, ScanError,
};
use slateberg_model::schema::Schema;
use slateberg_objects::manifest::{FileContent, Manifest, ManifestEntry};

/// Approximate size of a delete file in the index, in bytes.
const INDEX_ENTRY_BYTES: usize = 300;

/// The delete files of a snapshot.
#[derive(Debug, Default)]
pub struct DeleteFiles {
    index: DeleteIndex,
    manifests: Vec<PlannedManifest>,
    /// For each file in the index, the positions of its manifest and of its entry in the manifest.
    files: Vec<(u32, u32)>,
    equality_ids: BTreeSet<i32>,
}

impl DeleteFiles {
    /// Returns the number of delete files.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns a delete file, and its manifest.
    pub fn file(&self, position: u32) -> Option<(&PlannedManifest, ManifestEntry<'_>)> {
        let (manifest, row) = *self.files.get(position as usize)?;
        let manifest = self.manifests.get(manifest as usize)?;
        Some((manifest, manifest.file(row)))
    }

    /// Returns the positions of the delete files of a data file.
    pub(super) fn of_data_file(
        &self,
        manifest: &PlannedManifest,
        file: ManifestEntry<'_>,
    ) -> Box<[u32]> {
        if self.index.is_empty() {
            return Box::default();
        }
        let path = file.path();
        let head = DataFileHead {
            path: &path,
            spec_id: manifest.spec().spec_id,
            partition: manifest.partition(file),
            sequence_number: file.sequence_number(),
        };
        let positions = self.index.for_data_file(&head, &file);
        positions.into_iter().filter_map(|position| u32::try_from(position).ok()).collect()
    }

    /// Returns the columns by which equality delete files delete.
    pub(super) fn equality_ids(&self) -> &BTreeSet<i32> {
        &self.equality_ids
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let manifests = self.manifests.iter().map(PlannedManifest::bytes).sum::<usize>();
        manifests + self.files.len() * INDEX_ENTRY_BYTES
    }

    pub(super) fn build(
        manifests: Vec<(Arc<Manifest>, Arc<BoundSpec>)>,
        schema: &Schema,
    ) -> Result<Self> {
        let (mut all, mut files) = (Self::default(), Vec::new());
        for (manifest, spec) in manifests {
            let manifest = PlannedManifest::new(manifest, spec)?;
            let number = u32::try_from(all.manifests.len()).map_err(Error::internal)?;
            for row in 0..u32::try_from(manifest.len()).map_err(Error::internal)? {
                let file = manifest.file(row);
                all.equality_ids.extend(file.equality_ids());
                files.push(delete_file(&manifest, file, schema)?);
                all.files.push((number, row));
            }
            all.manifests.push(manifest);
        }
        all.index = DeleteIndex::build(files)?;
        Ok(all)
    }
}

fn delete_file(
    manifest: &PlannedManifest,
    file: ManifestEntry<'_>,
    schema: &Schema,
) -> Result<DeleteFile> {
    let kind = match file.content() {
        FileContent::PositionDeletes if file.content_offset().is_some() => DeleteKind::Vector,
        FileContent::PositionDeletes => DeleteKind::Position,
        FileContent::EqualityDeletes => DeleteKind::Equality(file.equality_ids().collect()),
        FileContent::Data => {
            let message = "The table is damaged: a delete manifest has a data file";
            return Err(Error::Scan(ScanError::Validation(message.to_owned())));
        }
    };
    let head = DeleteFileHead {
        kind,
        spec: manifest.spec(),
        partition: manifest.partition(file),
        sequence_number: file.sequence_number(),
        referenced_data_file: file.referenced_data_file(),
    };
    Ok(DeleteFile::new(head, &file, schema)?)
}
