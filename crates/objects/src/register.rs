//! [`Register`]: one object that several processes replace on the condition that it is unchanged.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use tokio::time::timeout;

use super::open::Opened;
use slateberg_base::error_chain::Cause;

/// Separates the parts of a version in its text. Neither part contains it.
const SEPARATOR: char = '\n';

/// An object that is replaced with conditional puts. Cheap to clone.
#[derive(Clone)]
pub struct Register {
    object_store: Arc<dyn ObjectStore>,
    path: Path,
    request_max: Duration,
}

/// The version of an object, such as its `ETag`. Versions are only compared for equality.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion(pub String);

/// The outcome of a conditional put.
#[derive(Debug)]
pub enum Replacement {
    /// The object was written, and has this version.
    Written(ObjectVersion),
    /// The object has another version, or exists although it must not exist. Nothing was written,
    /// unless an earlier attempt of the same put has succeeded and its response was lost.
    Conflict,
    /// The request failed. The object may be written, even after this response.
    Unknown(Cause),
}

impl Register {
    /// Opens the object with this name below a location. A request fails if it takes longer than
    /// `request_max`.
    pub fn open(opened: &Opened, name: &str, request_max: Duration) -> Self {
        let path = name.split('/').fold(opened.path.clone(), |path, part| path.join(part));
        Self { object_store: Arc::clone(&opened.object_store), path, request_max }
    }

    /// Returns the content of the object and its version. `None` if the object does not exist.
    pub async fn read(&self) -> Result<Option<(Bytes, ObjectVersion)>, Cause> {
        let read = async {
            let found = self.object_store.get(&self.path).await?;
            let version = version(found.meta.e_tag.clone(), found.meta.version.clone());
            Ok((found.bytes().await?, version))
        };
        match timeout(self.request_max, read).await {
            Ok(Ok(found)) => Ok(Some(found)),
            Ok(Err(Error::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(Cause::new(error)),
            Err(_) => Err(self.late()),
        }
    }

    /// Writes the object if it has the version `replaces` or, without a version, if it does not
    /// exist.
    pub async fn put(&self, content: Bytes, replaces: Option<&ObjectVersion>) -> Replacement {
        let mode = match replaces {
            None => PutMode::Create,
            Some(version) => PutMode::Update(update_version(version)),
        };
        let put = self.object_store.put_opts(&self.path, content.into(), mode.into());
        match timeout(self.request_max, put).await {
            Ok(Ok(put)) => Replacement::Written(version(put.e_tag, put.version)),
            Ok(Err(
                Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotFound { .. },
            )) => Replacement::Conflict,
            Ok(Err(error)) => Replacement::Unknown(Cause::new(error)),
            Err(_) => Replacement::Unknown(self.late()),
        }
    }

    fn late(&self) -> Cause {
        let seconds = self.request_max.as_secs_f64();
        Cause::new(format!("{}: no response within {seconds:.1} s", self.path))
    }
}

fn version(e_tag: Option<String>, version: Option<String>) -> ObjectVersion {
    let (e_tag, version) = (e_tag.unwrap_or_default(), version.unwrap_or_default());
    ObjectVersion(format!("{e_tag}{SEPARATOR}{version}"))
}

fn update_version(version: &ObjectVersion) -> UpdateVersion {
    let (e_tag, version) = version.0.split_once(SEPARATOR).unwrap_or((&version.0, ""));
    let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    UpdateVersion { e_tag: set(e_tag), version: set(version) }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn register() -> Register {
        let opened = Opened {
            object_store: Arc::new(InMemory::new()),
            path: Path::from("state"),
            conditional_update: true,
            directory: None,
            is_remote: false,
        };
        Register::open(&opened, "cluster/writer.json", Duration::from_secs(5))
    }

    async fn written(
        register: &Register,
        content: &'static str,
        replaces: Option<&ObjectVersion>,
    ) -> ObjectVersion {
        match register.put(Bytes::from_static(content.as_bytes()), replaces).await {
            Replacement::Written(version) => version,
            other => panic!("{content}: {other:?}"),
        }
    }

    #[tokio::test]
    async fn object_is_created_once() {
        let register = register();
        assert!(register.read().await.expect("it responds").is_none());
        let version = written(&register, "a", None).await;
        let again = register.put(Bytes::from_static(b"b"), None).await;
        assert!(matches!(again, Replacement::Conflict), "{again:?}");
        let (content, found) = register.read().await.expect("it responds").expect("it exists");
        assert_eq!((content.as_ref(), found), (&b"a"[..], version));
    }

    #[tokio::test]
    async fn object_is_replaced_only_in_the_expected_version() {
        let register = register();
        let first = written(&register, "a", None).await;
        let second = written(&register, "b", Some(&first)).await;
        let stale = register.put(Bytes::from_static(b"c"), Some(&first)).await;
        assert!(matches!(stale, Replacement::Conflict), "{stale:?}");
        let (content, found) = register.read().await.expect("it responds").expect("it exists");
        assert_eq!((content.as_ref(), found), (&b"b"[..], second));
    }
}
