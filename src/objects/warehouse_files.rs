//! The files of every warehouse, and which of them may be touched.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use uuid::Uuid;

use super::error::Error;
use super::location::Location;
use super::open::Opened;

/// The object stores of all warehouses. Cheap to clone.
#[derive(Clone, Default)]
pub struct Objects {
    warehouses: Arc<HashMap<Uuid, Vec<Root>>>,
}

/// A place below which a warehouse may have files.
struct Root {
    location: Location,
    object_store: Arc<dyn ObjectStore>,
}

/// A file of a warehouse that may be touched.
struct Target<'a> {
    object_store: &'a dyn ObjectStore,
    path: Path,
}

impl Objects {
    /// The stores of these warehouses: by id, each allowed location with what it opened to.
    pub fn new(warehouses: impl IntoIterator<Item = (Uuid, Vec<(Location, Opened)>)>) -> Self {
        let roots = |opened: Vec<(Location, Opened)>| {
            let root = |(location, opened): (Location, Opened)| Root {
                location,
                object_store: opened.object_store,
            };
            opened.into_iter().map(root).collect()
        };
        let warehouses = warehouses.into_iter().map(|(id, opened)| (id, roots(opened))).collect();
        Self { warehouses: Arc::new(warehouses) }
    }

    /// Refuses a location that the warehouse may not use.
    pub fn check(&self, warehouse: Uuid, location: &str) -> Result<(), Error> {
        self.target(warehouse, location).map(|_| ())
    }

    /// Writes a new file: these parts, one behind the other.
    pub async fn create(
        &self,
        warehouse: Uuid,
        location: &str,
        content: impl IntoIterator<Item = Bytes>,
    ) -> Result<(), Error> {
        let target = self.target(warehouse, location)?;
        let payload = PutPayload::from_iter(content);
        let options = PutOptions::from(PutMode::Create);
        match target.object_store.put_opts(&target.path, payload, options).await {
            Ok(_) => Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => {
                Err(Error::Taken(location.to_owned()))
            }
            Err(error) => Err(Error::of(location, error)),
        }
    }

    /// The content of a file.
    pub async fn read(&self, warehouse: Uuid, location: &str) -> Result<Bytes, Error> {
        let target = self.target(warehouse, location)?;
        let read = async { target.object_store.get(&target.path).await?.bytes().await };
        read.await.map_err(|error| Error::of(location, error))
    }

    /// Deletes a file. That it is gone already counts as deleted.
    pub async fn delete(&self, warehouse: Uuid, location: &str) -> Result<(), Error> {
        let target = self.target(warehouse, location)?;
        match target.object_store.delete(&target.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(Error::of(location, error)),
        }
    }

    fn target(&self, warehouse: Uuid, text: &str) -> Result<Target<'_>, Error> {
        let location =
            Location::parse(text).map_err(|error| Error::NotAllowed(error.to_string()))?;
        let roots = self.warehouses.get(&warehouse).map_or(&[][..], Vec::as_slice);
        let root =
            roots.iter().find(|root| location.is_within(&root.location)).ok_or_else(|| {
                Error::NotAllowed(format!("Location '{text}' is outside of the warehouse"))
            })?;
        let path = Path::parse(location.path())
            .map_err(|error| Error::NotAllowed(format!("Invalid location '{text}': {error}")))?;
        Ok(Target { object_store: root.object_store.as_ref(), path })
    }
}
