//! [`WarehouseFile`]: a file that a change writes to the warehouse.

use bytes::Bytes;
use uuid::Uuid;

use slateberg_model::segmented_json::SegmentedJson;
use slateberg_objects::error::Error;
use slateberg_objects::local::LocalFile;
use slateberg_objects::location::Location;
use slateberg_objects::{Objects, manifest_list, metadata_file};

/// A file that is to be written.
#[derive(Debug, Clone)]
pub(crate) struct WarehouseFile {
    /// The id of the warehouse.
    pub warehouse: Uuid,
    pub location: String,
    pub content: FileContent,
}

/// The content of a file.
#[derive(Debug, Clone)]
pub(crate) enum FileContent {
    /// A metadata file.
    Metadata(SegmentedJson),
    /// A manifest list.
    ManifestList(Bytes),
}

/// Whether a metadata file at this location is synced after the response.
pub(crate) fn is_synced_later(metadata_location: &str) -> bool {
    Location::parse(metadata_location).is_ok_and(|location| location.is_local())
}

/// Reaction to an existing file with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// Fails if the file exists with different content.
    Create,
    /// Replaces a file that exists with different content.
    CreateOrReplace,
}

impl WarehouseFile {
    /// Whether the file is synced after the response: a metadata file on a local file system.
    pub(super) fn is_synced_later(&self) -> bool {
        matches!(self.content, FileContent::Metadata(_)) && is_synced_later(&self.location)
    }

    /// Creates the file. Also succeeds if the file already exists with the same content. If the
    /// file is not synced, returns it.
    ///
    /// A manifest list is always synced: if it had to be restored, the lists on which it is based
    /// might be deleted.
    pub(super) async fn create(&self, objects: &Objects) -> Result<Option<LocalFile>, Error> {
        let Self { warehouse, location, content } = self;
        match content {
            FileContent::Metadata(text) => {
                metadata_file::create(objects, *warehouse, location, text).await
            }
            FileContent::ManifestList(bytes) => {
                manifest_list::create(objects, *warehouse, location, bytes).await.map(|()| None)
            }
        }
    }

    /// Writes the file, and syncs it, even if it exists: a process cannot know whether an existing
    /// file is on the disk. Returns whether it existed with different content.
    pub(super) async fn rewrite(&self, objects: &Objects) -> Result<bool, Error> {
        let Self { warehouse, location, content } = self;
        let differs = match content {
            FileContent::Metadata(text) => {
                match metadata_file::contains_json(objects, *warehouse, location, text).await {
                    Ok(equal) => !equal,
                    Err(Error::NotFound { .. }) => false,
                    // An unreadable file has other content.
                    Err(_) => true,
                }
            }
            FileContent::ManifestList(_) => true,
        };
        self.replace(objects).await.map(|()| differs)
    }

    /// Replaces the file, which is damaged.
    pub(super) async fn replace(&self, objects: &Objects) -> Result<(), Error> {
        let Self { warehouse, location, content } = self;
        match content {
            FileContent::Metadata(text) => {
                metadata_file::replace(objects, *warehouse, location, text).await
            }
            FileContent::ManifestList(bytes) => {
                manifest_list::replace(objects, *warehouse, location, bytes).await
            }
        }
    }
}
