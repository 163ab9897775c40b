//! Files of all warehouses, and access to them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use uuid::Uuid;

use super::content::{Bounds, Content, Room};
use super::error::Error;
use super::local::{self, LocalFile, SyncLater};
use super::location::{AZURE, Location};
use super::redact::redact;
use super::reserved::{Extent, Reserved};
use super::vend::Vendor;
use slateberg_base::error_chain::{Cause, chain};
use slateberg_base::secret::Secret;

/// Maximum length of a name in file systems, and in object stores that are based on a file system.
const FILE_NAME_BYTES_MAX: usize = 255;
/// Maximum length of a key in S3, GCS and Azure.
const KEY_BYTES_MAX: usize = 1024;

/// The object stores of all warehouses, and their vendors. Cheap to clone.
#[derive(Clone, Default)]
pub struct Objects {
    warehouses: Arc<HashMap<Uuid, Arc<Access>>>,
    /// Secrets that errors must not contain.
    secrets: Arc<[Secret]>,
    /// Limits for content in memory.
    bounds: Bounds,
    /// Locations that no request and no job may access, even if a table has them.
    reserved: Reserved,
}

/// State of a warehouse's stores.
enum Access {
    /// The stores are open.
    Open {
        /// Locations of the warehouse.
        roots: Vec<Root>,
        /// Locations that were removed from the warehouse since the start of the server. Files of
        /// changes that were accepted before the removal are still written there.
        former: Vec<Root>,
    },
    /// The stores cannot be opened, for this reason.
    Shut(String),
}

/// A location that may contain files of a warehouse.
#[derive(Clone)]
pub struct Root {
    /// The location.
    pub location: Location,
    /// The store of the location.
    pub object_store: Arc<dyn ObjectStore>,
    /// Issues credentials and signatures for the location, if configured.
    pub vendor: Option<Arc<Vendor>>,
}

/// A file of a warehouse that may be accessed.
struct AccessibleFile<'a> {
    object_store: &'a Arc<dyn ObjectStore>,
    path: Path,
    /// The location of the warehouse that contains the file.
    root: &'a Location,
}

impl Objects {
    /// Creates the stores of these warehouses. `warehouses` contains, for each id, the allowed
    /// locations with their stores.
    pub fn new(warehouses: impl IntoIterator<Item = (Uuid, Vec<Root>)>) -> Self {
        let none = Self::default();
        warehouses.into_iter().fold(none, |all, (id, roots)| all.with(id, roots))
    }

    /// Removes these secrets from all errors.
    #[must_use]
    pub fn guarding(self, secrets: Vec<Secret>) -> Self {
        Self { secrets: secrets.into(), ..self }
    }

    /// Limits the size of files, compressed and decompressed.
    #[must_use]
    pub fn reading(self, file_bytes_max: u64) -> Self {
        Self { bounds: Bounds::new(file_bytes_max), ..self }
    }

    /// Rejects locations that overlap with locations of the catalog.
    #[must_use]
    pub fn reserving(self, reserved: Reserved) -> Self {
        Self { reserved, ..self }
    }

    /// Rejects a location that overlaps with a location of the catalog. Resolves symbolic links.
    pub fn check_reserved(&self, location: &Location) -> Result<(), Error> {
        self.reject_reserved(location, &Extent::of(location))
    }

    fn reject_reserved(&self, location: &Location, extent: &Extent) -> Result<(), Error> {
        match self.reserved.overlapping(extent) {
            None => Ok(()),
            Some(reserved) => Err(Error::NotAllowed(format!(
                "Location '{location}' cannot be used: {} is there",
                reserved.what
            ))),
        }
    }

    /// Returns the limits for content in memory.
    pub(super) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Converts an object store's error about the file at `location`.
    pub(super) fn failed(&self, location: &str, error: object_store::Error) -> Error {
        match Error::of(location, error) {
            Error::Unavailable { location, source } => {
                Error::Unavailable { location, source: self.without_secrets(source) }
            }
            Error::Full { location, source } => {
                Error::Full { location, source: self.without_secrets(source) }
            }
            other => other,
        }
    }

    /// Returns the cause itself. If its messages contain a secret, returns a cause with only the
    /// redacted messages.
    fn without_secrets(&self, cause: Cause) -> Cause {
        let chain = chain(&cause);
        match redact(&chain, self.secrets.iter()) {
            redacted if redacted == chain => cause,
            redacted => Cause::new(redacted),
        }
    }

    /// Adds the stores of a warehouse, or replaces them.
    #[must_use]
    pub fn with(&self, id: Uuid, roots: Vec<Root>) -> Self {
        let mut former = match self.warehouses.get(&id).map(AsRef::as_ref) {
            Some(Access::Open { roots, former }) => [roots.as_slice(), former].concat(),
            Some(Access::Shut(_)) | None => Vec::new(),
        };
        former.retain(|old| !roots.iter().any(|root| root.location == old.location));
        self.changed(|all| all.insert(id, Arc::new(Access::Open { roots, former })))
    }

    /// Adds a warehouse whose stores cannot be opened, for this reason.
    #[must_use]
    pub fn with_unavailable(&self, id: Uuid, reason: String) -> Self {
        self.changed(|all| all.insert(id, Arc::new(Access::Shut(reason))))
    }

    /// Removes the stores of a warehouse.
    #[must_use]
    pub fn without(&self, id: Uuid) -> Self {
        self.changed(|all| all.remove(&id))
    }

    fn changed<T>(&self, change: impl FnOnce(&mut HashMap<Uuid, Arc<Access>>) -> T) -> Self {
        let mut warehouses = HashMap::clone(&self.warehouses);
        change(&mut warehouses);
        Self { warehouses: Arc::new(warehouses), ..self.clone() }
    }

    /// Returns the vendor for a location of a warehouse. Returns `None` if the location is outside
    /// of the warehouse, if it is (or contains) an allowed location of the warehouse, or if it
    /// overlaps with a location of the catalog.
    pub fn vendor(&self, warehouse: Uuid, location: &Location) -> Option<&Arc<Vendor>> {
        self.reject_reserved(location, &Extent::as_written(location)).ok()?;
        let Access::Open { roots, .. } = self.warehouses.get(&warehouse)?.as_ref() else {
            return None;
        };
        let root = roots.iter().find(|root| location.is_within(&root.location))?;
        let is_root = roots.iter().any(|root| root.location.is_within(location));
        root.vendor.as_ref().filter(|_| !is_root)
    }

    /// Returns the warehouse's own location. `None` if its stores are not open.
    pub fn location(&self, warehouse: Uuid) -> Option<&Location> {
        match self.warehouses.get(&warehouse)?.as_ref() {
            Access::Open { roots, .. } => roots.first().map(|root| &root.location),
            Access::Shut(_) => None,
        }
    }

    /// Whether a location equals or contains the own location of a warehouse, or contains one of
    /// its further allowed locations. A location that equals a further allowed location does not
    /// count, because it may be the location of a single table.
    pub fn is_whole(&self, location: &Location) -> bool {
        let roots = |access: &Access| match access {
            Access::Open { roots, .. } => roots.iter().enumerate().any(|(number, root)| {
                root.location.is_within(location) && (number == 0 || root.location != *location)
            }),
            Access::Shut(_) => false,
        };
        self.warehouses.values().any(|access| roots(access))
    }

    /// Removes the secrets of all stores from a string.
    pub fn redacted(&self, text: &str) -> String {
        redact(text, self.secrets.iter())
    }

    /// Rejects a location that the warehouse may not use for new files, including names that some
    /// stores do not support.
    pub fn check(&self, warehouse: Uuid, location: &str) -> Result<(), Error> {
        let AccessibleFile { path, .. } = self.target(warehouse, location)?;
        let part_bytes_max = path.parts().map(|part| part.as_ref().len()).max();
        if part_bytes_max > Some(FILE_NAME_BYTES_MAX) || path.as_ref().len() > KEY_BYTES_MAX {
            return Err(Error::name_too_long(location));
        }
        Ok(())
    }

    /// Rejects a location below an existing file, because file systems cannot store anything there.
    pub async fn check_above(&self, warehouse: Uuid, location: &str) -> Result<(), Error> {
        let AccessibleFile { object_store, path, root } = self.target(warehouse, location)?;
        // Azure lists directories like files, so they cannot be distinguished.
        if AZURE.contains(&root.scheme()) {
            return Ok(());
        }
        let parts: Vec<_> = path.parts().collect();
        let own = root.depth() + 1..parts.len();
        let above = own.map(|depth| Path::from_iter(parts[..depth].iter().cloned()));
        let looks = above.map(|path| async move { (object_store.head(&path).await, path) });
        for (found, path) in futures::future::join_all(looks).await {
            match found {
                Ok(_) => {
                    let reason = format!("Location '{location}' lies below the file '{path}'");
                    return Err(Error::NotAllowed(reason));
                }
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed(location, error)),
            }
        }
        Ok(())
    }

    /// Creates a file from these parts. Also accepts former locations of the warehouse, because the
    /// change to which the file belongs may have been accepted before the location was removed.
    pub async fn create(
        &self,
        warehouse: Uuid,
        location: &str,
        content: impl IntoIterator<Item = Bytes>,
    ) -> Result<(), Error> {
        let target = self.target_among(warehouse, location, true)?;
        self.put(&target, location, content, PutMode::Create.into()).await
    }

    /// Creates a file like [`create`](Self::create). If the file is on the local file system, does
    /// not sync it, and returns it. The caller has to [sync](local::sync) it.
    pub(super) async fn create_unsynced(
        &self,
        warehouse: Uuid,
        location: &str,
        content: impl IntoIterator<Item = Bytes>,
    ) -> Result<Option<LocalFile>, Error> {
        self.put_unsynced(warehouse, location, content, PutMode::Create).await
    }

    async fn put_unsynced(
        &self,
        warehouse: Uuid,
        location: &str,
        content: impl IntoIterator<Item = Bytes>,
        mode: PutMode,
    ) -> Result<Option<LocalFile>, Error> {
        let target = self.target_among(warehouse, location, true)?;
        let file = local_file_at(&target);
        let mut options = PutOptions::from(mode);
        if file.is_some() {
            options.extensions.insert(SyncLater);
        }
        self.put(&target, location, content, options).await.map(|()| file)
    }

    /// Returns a file that is on the local file system. Returns `None` for a file in a bucket. Also
    /// accepts former locations of the warehouse.
    pub(super) fn local_file(
        &self,
        warehouse: Uuid,
        location: &str,
    ) -> Result<Option<LocalFile>, Error> {
        Ok(local_file_at(&self.target_among(warehouse, location, true)?))
    }

    /// Writes a file, or replaces it. The file and all directories above it are durable.
    pub(super) async fn replace(
        &self,
        warehouse: Uuid,
        location: &str,
        content: impl IntoIterator<Item = Bytes>,
    ) -> Result<(), Error> {
        let written = self.put_unsynced(warehouse, location, content, PutMode::Overwrite).await?;
        let Some(file) = written else { return Ok(()) };
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            let source = object_store::Error::Generic { store: "LocalFileSystem", source };
            self.failed(location, source)
        };
        let syncing = tokio::task::spawn_blocking(move || local::sync(&[file]));
        let results = syncing.await.map_err(|stopped| failed(stopped.into()))?;
        results.into_iter().collect::<Result<(), _>>().map_err(|error| failed(error.into()))
    }

    async fn put(
        &self,
        target: &AccessibleFile<'_>,
        location: &str,
        content: impl IntoIterator<Item = Bytes>,
        options: PutOptions,
    ) -> Result<(), Error> {
        let payload = PutPayload::from_iter(content);
        match target.object_store.put_opts(&target.path, payload, options).await {
            Ok(_) => Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => {
                Err(Error::Taken(location.to_owned()))
            }
            Err(error) => Err(self.failed(location, error)),
        }
    }

    /// Reads a file. Errors if the file is too long. Waits if other files that are being read take
    /// too much memory.
    pub async fn read(&self, warehouse: Uuid, location: &str) -> Result<Content, Error> {
        let found = self.find(warehouse, location, false).await?;
        self.bounds.check(location, found.meta.size)?;
        let room = self.bounds.reading(found.meta.size).await;
        let bytes = found.bytes().await.map_err(|error| self.failed(location, error))?;
        Ok(Content::new(bytes, self.bounds.file_bytes_max, room))
    }

    /// Whether this file exists.
    pub async fn exists(&self, warehouse: Uuid, location: &str) -> Result<bool, Error> {
        let target = self.target(warehouse, location)?;
        match target.object_store.head(&target.path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed(location, error)),
        }
    }

    /// Waits for memory to decode a file. Returns the reservation and the maximum size of the
    /// decoded content. This is the smaller one of `bytes` and the limit for files.
    pub async fn reserve(&self, bytes: u64) -> (Room, u64) {
        let bytes = bytes.min(self.bounds.file_bytes_max);
        (self.bounds.decompression(bytes).await, bytes)
    }

    /// Reads a file that should have at most `bytes_max` bytes. No memory is reserved, because the
    /// calling code already has as many bytes in memory. Returns `None` if the file is longer. Also
    /// accepts former locations of the warehouse.
    pub(super) async fn read_of_size(
        &self,
        warehouse: Uuid,
        location: &str,
        bytes_max: u64,
    ) -> Result<Option<Bytes>, Error> {
        let found = self.find(warehouse, location, true).await?;
        if found.meta.size > bytes_max {
            return Ok(None);
        }
        found.bytes().await.map(Some).map_err(|error| self.failed(location, error))
    }

    async fn find(
        &self,
        warehouse: Uuid,
        location: &str,
        or_former: bool,
    ) -> Result<GetResult, Error> {
        let target = self.target_among(warehouse, location, or_former)?;
        let found = target.object_store.get(&target.path).await;
        found.map_err(|error| self.failed(location, error))
    }

    /// Deletes a file. Succeeds if it does not exist.
    pub async fn delete(&self, warehouse: Uuid, location: &str) -> Result<(), Error> {
        let target = self.target(warehouse, location)?;
        // A symbolic link below a table must not cause a deletion of the catalog's state.
        if let Ok(location) = Location::parse(location) {
            self.check_reserved(&location)?;
        }
        match target.object_store.delete(&target.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(location, error)),
        }
    }

    /// Returns the object store, the location and the path of a directory of a warehouse. Rejects
    /// the location of the warehouse itself.
    pub(super) fn directory_parts(
        &self,
        warehouse: Uuid,
        location: &str,
    ) -> Result<(Arc<dyn ObjectStore>, Location, Path), Error> {
        let AccessibleFile { object_store, path, .. } = self.target(warehouse, location)?;
        let parsed =
            Location::parse(location).map_err(|error| Error::NotAllowed(error.to_string()))?;
        self.check_reserved(&parsed)?;
        let access = self.warehouses.get(&warehouse).map(AsRef::as_ref);
        if let Some(Access::Open { roots, .. }) = access
            && roots.iter().any(|root| root.location.is_within(&parsed))
        {
            let reason =
                format!("Location '{location}' is the location of the warehouse, not of a table");
            return Err(Error::NotAllowed(reason));
        }
        Ok((Arc::clone(object_store), parsed, path))
    }

    fn target(&self, warehouse: Uuid, text: &str) -> Result<AccessibleFile<'_>, Error> {
        self.target_among(warehouse, text, false)
    }

    fn target_among(
        &self,
        warehouse: Uuid,
        text: &str,
        or_former: bool,
    ) -> Result<AccessibleFile<'_>, Error> {
        let location =
            Location::parse(text).map_err(|error| Error::NotAllowed(error.to_string()))?;
        let (roots, former) = match self.warehouses.get(&warehouse).map(AsRef::as_ref) {
            None => (&[][..], &[][..]),
            Some(Access::Open { roots, former }) => (roots.as_slice(), former.as_slice()),
            Some(Access::Shut(reason)) => {
                let (location, source) = (text.to_owned(), Cause::new(reason.as_str()));
                return Err(Error::Unavailable { location, source });
            }
        };
        let mut usable = roots.iter().chain(former.iter().filter(|_| or_former));
        let root = usable.find(|root| location.is_within(&root.location)).ok_or_else(|| {
            Error::NotAllowed(format!("Location '{text}' is outside of the warehouse"))
        })?;
        if location.is_local() && location.part_bytes_max() > FILE_NAME_BYTES_MAX {
            return Err(Error::name_too_long(text));
        }
        self.reject_reserved(&location, &Extent::as_written(&location))?;
        let path = Path::parse(location.path())
            .map_err(|error| Error::NotAllowed(format!("Invalid location '{text}': {error}")))?;
        Ok(AccessibleFile { object_store: &root.object_store, path, root: &root.location })
    }
}

/// Returns a file that is on the local file system. Returns `None` for a file in a bucket.
fn local_file_at(target: &AccessibleFile<'_>) -> Option<LocalFile> {
    target.root.is_local().then(|| LocalFile::new(&target.path, &target.root.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open_url;

    #[tokio::test]
    async fn name_too_long_for_file_systems_is_rejected() {
        let directory = tempfile::tempdir().expect("there is room");
        let url = format!("file://{}", directory.path().display());
        let root = Location::parse(&url).expect("it is a location");
        let opened = open_url(&url, &Default::default()).expect("it opens");
        let id = Uuid::nil();
        let root = Root { location: root, object_store: opened.object_store, vendor: None };
        let objects = Objects::new([(id, vec![root])]);
        let read =
            async |bytes: usize| objects.read(id, &format!("{url}/{}", "x".repeat(bytes))).await;
        assert!(matches!(read(FILE_NAME_BYTES_MAX).await, Err(Error::NotFound(_))));
        assert!(matches!(read(FILE_NAME_BYTES_MAX + 1).await, Err(Error::NotAllowed(_))));
    }

    #[tokio::test]
    async fn new_location_has_names_that_all_stores_support() {
        let root = Location::parse("memory:///w").expect("it is a location");
        let opened = open_url("memory:///w", &Default::default()).expect("it opens");
        let id = Uuid::nil();
        let root = Root { location: root, object_store: opened.object_store, vendor: None };
        let objects = Objects::new([(id, vec![root])]);
        let check = |parts: &[usize]| {
            let path: String =
                parts.iter().map(|bytes| format!("/{}", "x".repeat(*bytes))).collect();
            objects.check(id, &format!("memory:///w{path}"))
        };
        assert!(check(&[255, 255, 255, 254]).is_ok(), "1024 bytes with the root and slashes");
        for too_long in [&[256][..], &[1, 256, 1], &[255, 255, 255, 255]] {
            assert!(matches!(check(too_long), Err(Error::NotAllowed(_))), "{too_long:?}");
        }
    }

    #[tokio::test]
    async fn store_errors_contain_no_secrets() {
        let directory = tempfile::tempdir().expect("there is room");
        std::fs::write(directory.path().join("file"), "").expect("it can be written");
        let url = format!("file://{}", directory.path().display());
        let root = Location::parse(&url).expect("it is a location");
        let opened = open_url(&url, &Default::default()).expect("it opens");
        let id = Uuid::nil();
        let root = Root { location: root, object_store: opened.object_store, vendor: None };
        let objects = Objects::new([(id, vec![root])]);
        let below_a_file = format!("{url}/file/x");
        let create = async |objects: &Objects| match objects.create(id, &below_a_file, []).await {
            Err(Error::Unavailable { source, .. }) => chain(&source),
            other => panic!("{other:?}"),
        };
        let name = directory.path().file_name().expect("it has a name").to_string_lossy();
        assert!(create(&objects).await.contains(&*name), "the store says where it failed");
        let guarded = objects.guarding(vec![Secret::new(&*name)]).without(Uuid::max());
        assert!(!create(&guarded).await.contains(&*name));
    }
}
