//! Tests of puts with spurious conflicts, and with real conflicts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};

use super::{Conditional, TRIES_MAX};

/// An in-memory store that rejects the next puts as conflicts, whether or not the object exists.
#[derive(Debug, Default)]
struct Conflicting {
    inner: InMemory,
    conflicts: AtomicUsize,
    /// Whether requests to read an object fail.
    is_mute: bool,
}

impl fmt::Display for Conflicting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Conflicting {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let left = self.conflicts.load(Ordering::Relaxed);
        if left > 0 {
            self.conflicts.store(left - 1, Ordering::Relaxed);
            let source = "409 ConditionalRequestConflict".into();
            return Err(Error::AlreadyExists { path: location.to_string(), source });
        }
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if self.is_mute {
            return Err(Error::Generic { store: "mute", source: "no answer".into() });
        }
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn store(conflicts: usize, is_mute: bool) -> Arc<dyn ObjectStore> {
    let conflicts = AtomicUsize::new(conflicts);
    Conditional::around(Arc::new(Conflicting { conflicts, is_mute, ..Conflicting::default() }))
}

async fn create(store: &Arc<dyn ObjectStore>, text: &'static str) -> Result<PutResult> {
    store.put_opts(&Path::from("a"), text.into(), PutMode::Create.into()).await
}

#[tokio::test]
async fn spurious_conflict_is_retried() {
    let store = store(3, false);
    create(&store, "mine").await.expect("nothing is there");
    let written = store.get(&Path::from("a")).await.expect("it is there");
    assert_eq!(written.bytes().await.expect("memory is read"), "mine");
    let taken = create(&store, "another's").await;
    assert!(matches!(taken, Err(Error::AlreadyExists { .. })), "{taken:?}");
}

#[tokio::test]
async fn endless_conflicts_are_a_failure_not_another_writer() {
    let store = store(TRIES_MAX, false);
    let failed = create(&store, "mine").await;
    assert!(matches!(failed, Err(Error::Generic { .. })), "{failed:?}");
    create(&store, "mine").await.expect("nothing is there");
}

#[tokio::test]
async fn failed_lookup_does_not_report_an_existing_object() {
    let failed = create(&store(1, true), "mine").await;
    assert!(matches!(failed, Err(Error::Generic { store: "mute", .. })), "{failed:?}");
}

#[tokio::test]
async fn replacing_put_is_passed_through() {
    let store = store(1, false);
    let failed = store.put(&Path::from("a"), "x".into()).await;
    assert!(matches!(failed, Err(Error::AlreadyExists { .. })), "{failed:?}");
}
