//! [`RemoteBucket`]: a bucket behind a network.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::runtime::Handle;

use crate::support::faults::FaultStore;

/// A bucket whose requests do not run in the process that sends them. So a request that the process
/// has sent takes effect although the process is paused or has crashed, and its response may be old
/// when the process continues.
pub struct RemoteBucket {
    store: Arc<FaultStore>,
    /// Executes the requests.
    network: Handle,
}

impl RemoteBucket {
    /// Returns this bucket. The current runtime executes its requests.
    pub fn new(store: &Arc<FaultStore>) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(store), network: Handle::current() })
    }

    async fn send<T, F>(&self, request: impl FnOnce(Arc<FaultStore>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        execute(&self.network, request(Arc::clone(&self.store))).await
    }
}

async fn execute<T: Send + 'static>(
    network: &Handle,
    request: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let executed = network.spawn(request).await;
    executed.map_err(|error| Error::Generic { store: "RemoteBucket", source: error.into() })?
}

impl fmt::Debug for RemoteBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for RemoteBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteBucket({})", self.store)
    }
}

#[async_trait]
impl ObjectStore for RemoteBucket {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let location = location.clone();
        self.send(async move |store| store.put_opts(&location, payload, options).await).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let location = location.clone();
        self.send(async move |store| store.put_multipart_opts(&location, options).await).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let location = location.clone();
        self.send(async move |store| store.get_opts(&location, options).await).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (store, network) = (Arc::clone(&self.store), self.network.clone());
        let delete = move |location: Result<Path>| {
            let (store, network) = (Arc::clone(&store), network.clone());
            async move {
                let location = location?;
                let deleting = async move { store.delete(&location).await.map(|()| location) };
                execute(&network, deleting).await
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, network) = (Arc::clone(&self.store), self.network.clone());
        let prefix = prefix.cloned();
        let listing = async move {
            let listing = async move { store.list(prefix.as_ref()).try_collect::<Vec<_>>().await };
            let objects = execute(&network, listing).await?;
            Ok::<_, Error>(stream::iter(objects.into_iter().map(Ok::<_, Error>)))
        };
        stream::once(listing).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned();
        self.send(async move |store| store.list_with_delimiter(prefix.as_ref()).await).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (from, to) = (from.clone(), to.clone());
        self.send(async move |store| store.copy_opts(&from, &to, options).await).await
    }
}
