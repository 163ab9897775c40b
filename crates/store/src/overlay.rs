//! [`OverlayObjectStore`]: a bucket as it was at one moment, with changes that stay in memory.
//!
//! A replica opens the state of a catalog through it, and writes to it as if it were the writer. The
//! bucket never gets any of these writes. Objects of the bucket are visible, with two exceptions:
//! manifests and log files that the real writer has written since the overlay was created. So the
//! replica sees one consistent state, and its own manifests and log files replace those of the
//! writer.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use tokio::sync::Mutex;

use slateberg_wal::bucket::{self, BucketLog, number};

/// The name of this store in errors.
const STORE: &str = "overlay";
/// SlateDB's directory of manifests.
const MANIFESTS: &str = "manifest";

/// A bucket with changes in memory.
#[derive(Debug)]
pub(super) struct OverlayObjectStore {
    bucket: Arc<dyn ObjectStore>,
    changes: InMemory,
    moment: Arc<Moment>,
    /// Serializes conditional writes.
    writes: Mutex<()>,
}

/// The moment that an overlay shows: the newest visible file in each directory of numbered files.
#[derive(Debug)]
pub(super) struct Moment([(Path, u64); 2]);

/// Returns the id of the newest manifest of the store at this path.
pub(super) async fn newest_manifest(bucket: &dyn ObjectStore, store: &Path) -> Result<u64> {
    let listed = bucket.list(Some(&store.clone().join(MANIFESTS)));
    let newest =
        async |newest: u64, meta: ObjectMeta| Ok(newest.max(number(&meta.location).unwrap_or(0)));
    listed.try_fold(0, newest).await
}

impl Moment {
    /// Returns the moment at which this manifest was read. It replays the files of `log` after
    /// `replay_after`.
    pub(super) async fn now(
        log: &BucketLog,
        store: &Path,
        manifest: u64,
        replay_after: u64,
    ) -> Result<Arc<Self>> {
        let (manifests, logs) = (store.clone().join(MANIFESTS), bucket::directory(store));
        let end = log.last_after(replay_after).await?;
        Ok(Arc::new(Self([(manifests, manifest), (logs, end)])))
    }

    /// Returns the number of the last visible log file.
    pub(super) fn end_of_log(&self) -> u64 {
        self.0[1].1
    }

    /// Whether an object of the bucket is visible.
    fn shows(&self, location: &Path) -> bool {
        let Some(number) = number(location) else { return true };
        let mut directories = self.0.iter();
        directories.all(|(directory, newest)| {
            number <= *newest || location.prefix_match(directory).is_none()
        })
    }
}

impl OverlayObjectStore {
    /// Creates an overlay of the bucket at this moment.
    pub(super) fn new(bucket: Arc<dyn ObjectStore>, moment: &Arc<Moment>) -> Self {
        let moment = Arc::clone(moment);
        Self { bucket, changes: InMemory::new(), moment, writes: Mutex::default() }
    }

    async fn exists(&self, location: &Path) -> Result<bool> {
        match self.head(location).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns an error if the condition of a write is not met.
    async fn check_condition(&self, location: &Path, mode: &PutMode) -> Result<()> {
        let path = || location.to_string();
        match mode {
            PutMode::Overwrite => Ok(()),
            PutMode::Create if self.exists(location).await? => {
                Err(Error::AlreadyExists { path: path(), source: "the object exists".into() })
            }
            PutMode::Create => Ok(()),
            PutMode::Update(expected) if self.head(location).await?.e_tag == expected.e_tag => {
                Ok(())
            }
            PutMode::Update(_) => {
                Err(Error::Precondition { path: path(), source: "the object has changed".into() })
            }
        }
    }
}

impl fmt::Display for OverlayObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "overlay of {}", self.bucket)
    }
}

#[async_trait]
impl ObjectStore for OverlayObjectStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let _write = self.writes.lock().await;
        self.check_condition(location, &options.mode).await?;
        let options = PutOptions { mode: PutMode::Overwrite, ..options };
        self.changes.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.changes.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.changes.get_opts(location, options.clone()).await {
            Err(Error::NotFound { .. }) if self.moment.shows(location) => {
                self.bucket.get_opts(location, options).await
            }
            found => found,
        }
    }

    /// Deletes changes. Objects of the bucket stay visible.
    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.changes.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let changes = self.changes.list(prefix);
        let bucket = self.bucket.list(prefix);
        let moment = Arc::clone(&self.moment);
        let listing = async move {
            let changed: Vec<ObjectMeta> = changes.try_collect().await?;
            let locations: HashSet<Path> =
                changed.iter().map(|meta| meta.location.clone()).collect();
            let visible = move |meta: &ObjectMeta| {
                moment.shows(&meta.location) && !locations.contains(&meta.location)
            };
            let unchanged = bucket.try_filter(move |meta| {
                let is_visible = visible(meta);
                async move { is_visible }
            });
            Ok::<_, Error>(stream::iter(changed.into_iter().map(Ok)).chain(unchanged))
        };
        stream::once(listing).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, _prefix: Option<&Path>) -> Result<ListResult> {
        Err(not_supported("a listing of directories"))
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        Err(not_supported("a copy"))
    }
}

fn not_supported(what: &str) -> Error {
    Error::NotSupported { source: format!("{STORE}: {what} is not supported").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn later_manifests_and_log_files_of_the_bucket_are_hidden() {
        let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let put = async |store: &dyn ObjectStore, name: &str, text: &'static str| {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            store.put_opts(&Path::from(format!("s/{name}")), text.into(), options).await
        };
        for name in ["manifest/1.manifest", "wal/00000000000000000001.sst", "compacted/a.sst"] {
            put(&bucket, name, "old").await.expect("it is new");
        }
        let store = Path::from("s");
        let manifest = newest_manifest(&bucket, &store).await.expect("a listing");
        let log = BucketLog::new(Arc::clone(&bucket), &store, None);
        let moment = Moment::now(&log, &store, manifest, 0).await.expect("a listing");
        let overlay = OverlayObjectStore::new(Arc::clone(&bucket), &moment);
        for name in ["manifest/2.manifest", "wal/00000000000000000002.sst", "compacted/b.sst"] {
            put(&bucket, name, "of the writer").await.expect("it is new");
        }
        put(&overlay, "wal/00000000000000000002.sst", "own")
            .await
            .expect("the file of the writer is hidden");
        let taken = put(&overlay, "wal/00000000000000000001.sst", "own").await;
        assert!(matches!(taken, Err(Error::AlreadyExists { .. })), "{taken:?}");
        let listed = overlay.list(Some(&store)).map_ok(|meta| meta.location.to_string());
        let mut listed: Vec<String> = listed.try_collect().await.expect("a listing");
        listed.sort_unstable();
        let visible = [
            "compacted/a.sst",
            "compacted/b.sst",
            "manifest/1.manifest",
            "wal/00000000000000000001.sst",
        ];
        let expected =
            visible.iter().chain(&["wal/00000000000000000002.sst"]).map(|name| format!("s/{name}"));
        assert_eq!(listed, expected.collect::<Vec<_>>());
        let read =
            overlay.get(&Path::from("s/wal/00000000000000000002.sst")).await.expect("it exists");
        assert_eq!(read.bytes().await.expect("it is read"), "own");
        let of_writer =
            bucket.get(&Path::from("s/wal/00000000000000000002.sst")).await.expect("it exists");
        assert_eq!(of_writer.bytes().await.expect("it is read"), "of the writer");
    }
}
