//! [`Directory`]: all that is below one place of a warehouse, whoever has put it there.

use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use uuid::Uuid;

use super::error::Error;
use super::location::Location;
use super::warehouse_files::Objects;

/// What the file is called by which the object store tells its time, before its id.
const CLOCK: &str = ".slateberg-clock-";

/// A place of a warehouse, and what is below it.
pub struct Directory {
    object_store: Arc<dyn ObjectStore>,
    location: Location,
    path: Path,
    objects: Objects,
}

/// A file in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Its path below the bucket's root.
    pub path: Path,
    /// The part of it that is below the directory.
    pub below: String,
    /// How long it is.
    pub bytes: u64,
    /// When it was written, by the clock of the object store.
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
    /// The location of a file in it.
    pub fn location_of(&self, file: &ListedFile) -> String {
        format!("{}://{}/{}", self.location.scheme(), self.location.authority(), file.path)
    }

    /// All files below it.
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

    /// Returns whether the catalog keeps a file of a listing for itself: listings follow symbolic links.
    pub fn is_reserved(&self, file: &ListedFile) -> bool {
        let location = Location::parse(&self.location_of(file));
        location.is_ok_and(|location| self.objects.check_reserved(&location).is_err())
    }

    /// Deletes a file. That it is gone already counts as deleted.
    pub async fn delete(&self, file: &ListedFile) -> Result<(), Error> {
        match self.object_store.delete(&file.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The time by the clock of the object store, by which its files are dated: a small file is written,
    /// and deleted again.
    pub async fn now_ms(&self, id: Uuid) -> Result<i64, Error> {
        let file = self.path.clone().join(format!("{CLOCK}{}", id.simple()));
        let content =
            PutPayload::from_static(b"slateberg asks for the time; this may be deleted\n");
        let asked = async {
            self.object_store.put(&file, content).await?;
            let dated = self.object_store.head(&file).await?.last_modified;
            self.object_store.delete(&file).await?;
            Ok(dated.timestamp_millis())
        };
        asked.await.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: object_store::Error) -> Error {
        self.objects.failed(&self.location.to_string(), error)
    }
}
