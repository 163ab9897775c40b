//! [`Folder`]: small objects below one path of a bucket.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use tokio::time::timeout;

use super::open::Opened;
use slateberg_base::error_chain::Cause;

/// The objects below one path. Cheap to clone.
#[derive(Clone)]
pub struct Folder {
    object_store: Arc<dyn ObjectStore>,
    path: Path,
    request_max: Duration,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Name below the folder.
    pub name: String,
    /// Time of the last write, by the clock of the object store.
    pub modified_ms: i64,
}

impl Folder {
    /// Opens the folder with this name below a location. A request fails if it takes longer than
    /// `request_max`.
    pub fn open(opened: &Opened, name: &str, request_max: Duration) -> Self {
        let path = name.split('/').fold(opened.path.clone(), |path, part| path.join(part));
        Self { object_store: Arc::clone(&opened.object_store), path, request_max }
    }

    /// Writes an object, whether it exists or not.
    pub async fn put(&self, name: &str, content: Bytes) -> Result<(), Cause> {
        let path = self.path.clone().join(name);
        let put = async { self.object_store.put(&path, content.into()).await.map(|_| ()) };
        self.bounded(put).await
    }

    /// Returns the content of an object. `None` if the object does not exist.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, Cause> {
        let path = self.path.clone().join(name);
        let get = async {
            match self.object_store.get(&path).await {
                Ok(found) => found.bytes().await.map(Some),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.bounded(get).await
    }

    /// Deletes an object. Succeeds if the object does not exist.
    pub async fn delete(&self, name: &str) -> Result<(), Cause> {
        let path = self.path.clone().join(name);
        let delete = async {
            match self.object_store.delete(&path).await {
                Err(Error::NotFound { .. }) => Ok(()),
                deleted => deleted,
            }
        };
        self.bounded(delete).await
    }

    /// Lists the objects directly below the folder.
    pub async fn list(&self) -> Result<Vec<ListedObject>, Cause> {
        let object = |meta: object_store::ObjectMeta| ListedObject {
            name: meta.location.filename().unwrap_or_default().to_owned(),
            modified_ms: meta.last_modified.timestamp_millis(),
        };
        let listed = self.object_store.list(Some(&self.path)).map_ok(object).try_collect();
        self.bounded(listed).await
    }

    async fn bounded<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Cause> {
        match timeout(self.request_max, request).await {
            Ok(outcome) => outcome.map_err(Cause::new),
            Err(_) => {
                let seconds = self.request_max.as_secs_f64();
                Err(Cause::new(format!("{}: no response within {seconds:.1} s", self.path)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn objects_of_a_folder_are_written_listed_and_deleted() {
        let opened = Opened {
            object_store: Arc::new(InMemory::new()),
            path: Path::from("state"),
            conditional_update: true,
            directory: None,
            is_remote: false,
        };
        let folder = Folder::open(&opened, "cluster/members", Duration::from_secs(5));
        assert_eq!(folder.list().await.expect("it responds"), []);
        folder.put("a.json", Bytes::from_static(b"{}")).await.expect("it responds");
        let names: Vec<_> =
            folder.list().await.expect("it responds").into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["a.json"]);
        let content = folder.get("a.json").await.expect("it responds");
        assert_eq!(content, Some(Bytes::from_static(b"{}")));
        for _ in 0..2 {
            folder.delete("a.json").await.expect("it responds");
        }
        assert_eq!(folder.get("a.json").await.expect("it responds"), None);
    }
}
