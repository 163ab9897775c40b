//! [`Directory`]: all files below a location of a warehouse, regardless of their writer.

use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use uuid::Uuid;

use super::error::Error;
use super::location::Location;
use super::warehouse_files::Objects;

/// Prefix of the name of a temporary file, whose write time shows the clock of the object store. An
/// id follows the prefix.
const CLOCK: &str = ".slateberg-clock-";

/// A directory of a warehouse.
pub struct Directory {
    object_store: Arc<dyn ObjectStore>,
    location: Location,
    path: Path,
    objects: Objects,
}

/// A file in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Path below the bucket's root.
    pub path: Path,
    /// Path below the directory.
    pub below: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last write, by the clock of the object store.
    pub modified_ms: i64,
}

impl Objects {
    /// Returns a directory of a warehouse. Rejects the location of the warehouse itself.
    pub fn directory(&self, warehouse: Uuid, location: &str) -> Result<Directory, Error> {
        let (object_store, location, path) = self.directory_parts(warehouse, location)?;
        Ok(Directory { object_store, location, path, objects: self.clone() })
    }
}

impl Directory {
    /// Returns the location of a file.
    pub fn location_of(&self, file: &ListedFile) -> String {
        format!("{}://{}/{}", self.location.scheme(), self.location.authority(), file.path)
    }

    /// Lists all files below the directory.
    pub fn list(&self) -> BoxStream<'_, Result<ListedFile, Error>> {
        let root = self.path.as_ref().len();
        let listed = self.object_store.list(Some(&self.path));
        let file = move |meta: object_store::ObjectMeta| ListedFile {
            below: meta.location.as_ref().get(root..).unwrap_or_default().to_owned(),
            bytes: meta.size,
            modified_ms: meta.last_modified.timestamp_millis(),
            path: meta.location,
        };
        listed.map_ok(file).map_err(|error| self.failed(error)).boxed()
    }

    /// Whether a listed file is reserved for the catalog. A listing may contain such a file,
    /// because listings follow symbolic links.
    pub fn is_reserved(&self, file: &ListedFile) -> bool {
        let location = Location::parse(&self.location_of(file));
        location.is_ok_and(|location| self.objects.check_reserved(&location).is_err())
    }

    /// Deletes a file. Succeeds if it does not exist.
    pub async fn delete(&self, file: &ListedFile) -> Result<(), Error> {
        match self.object_store.delete(&file.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Returns the time by the clock of the object store, which also determines the write times of
    /// files. Writes a small file and deletes it again.
    pub async fn now_ms(&self, id: Uuid) -> Result<i64, Error> {
        let file = self.path.clone().join(format!("{CLOCK}{}", id.simple()));
        let content = PutPayload::from_static(
            b"slateberg wrote this file to read the store's clock; it may be deleted\n",
        );
        let request = async {
            self.object_store.put(&file, content).await?;
            let dated = self.object_store.head(&file).await?.last_modified;
            self.object_store.delete(&file).await?;
            Ok(dated.timestamp_millis())
        };
        request.await.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: object_store::Error) -> Error {
        self.objects.failed(&self.location.to_string(), error)
    }
}
