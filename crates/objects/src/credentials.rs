//! `WithCredentials`: a bucket that can get credentials only from the instance metadata. Before its
//! first request, it checks whether the instance metadata has credentials.
//!
//! Without configured credentials, the last source is the metadata service of the machine (AWS,
//! Google Cloud, Azure). On a machine without such a service, every request would fail after its
//! own retries, with an error about an address that the operator never configured.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::OnceCell;

/// Timeout of the metadata service, which is on the same machine.
const METADATA_MAX: Duration = Duration::from_secs(3);

/// Waits for credentials. Fails with the reason if there are none.
pub(super) type Lookup = Box<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// A bucket that gets credentials before its first request.
pub(super) struct WithCredentials {
    inner: Arc<dyn ObjectStore>,
    lookup: Arc<LookupOnce>,
}

struct LookupOnce {
    lookup: Lookup,
    /// URL of the bucket. `searched` names the other sources of credentials.
    url: String,
    searched: &'static str,
    found: OnceCell<()>,
}

/// No credentials were found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no credentials for {url}: neither its options nor the environment contain {searched}, and this machine's \
     instance metadata has none ({reason})"
)]
pub(super) struct NoCredentials {
    url: String,
    searched: &'static str,
    reason: String,
}

impl NoCredentials {
    /// Finds this error among the causes of an object store's error.
    pub(super) fn find(error: &Error) -> Option<&Self> {
        match error {
            Error::Unauthenticated { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }
}

impl WithCredentials {
    /// Gets credentials before the first request to `inner`. `searched` names other sources of
    /// credentials.
    pub(super) fn around(
        inner: Arc<dyn ObjectStore>,
        url: String,
        searched: &'static str,
        lookup: Lookup,
    ) -> Arc<dyn ObjectStore> {
        let lookup = LookupOnce { lookup, url, searched, found: OnceCell::new() };
        Arc::new(Self { inner, lookup: Arc::new(lookup) })
    }
}

impl LookupOnce {
    async fn ready(&self, path: &str) -> Result<()> {
        let looked = self.found.get_or_try_init(|| async {
            let looked = tokio::time::timeout(METADATA_MAX, (self.lookup)()).await;
            let reason = match looked {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no response within {} s", METADATA_MAX.as_secs()),
            };
            let (url, searched) = (self.url.clone(), self.searched);
            let source = Box::new(NoCredentials { url, searched, reason });
            Err(Error::Unauthenticated { path: path.to_owned(), source })
        });
        looked.await?;
        Ok(())
    }
}

impl fmt::Debug for WithCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for WithCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Returns a stream that starts when the credentials were found.
fn once_ready<T: Send + 'static>(
    lookup: Arc<LookupOnce>,
    inner: BoxStream<'static, Result<T>>,
) -> BoxStream<'static, Result<T>> {
    let ready = async move { lookup.ready("").await.map(|()| inner) };
    ready.into_stream().try_flatten().boxed()
}

#[async_trait]
impl ObjectStore for WithCredentials {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.lookup.ready(location.as_ref()).await?;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.lookup.ready(location.as_ref()).await?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.lookup.ready(location.as_ref()).await?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        searched: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        once_ready(Arc::clone(&self.lookup), self.inner.delete_stream(searched))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        once_ready(Arc::clone(&self.lookup), self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        once_ready(Arc::clone(&self.lookup), self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.lookup.ready(prefix.map_or("", Path::as_ref)).await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.lookup.ready(from.as_ref()).await?;
        self.inner.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::TcpListener;
    use std::time::Instant;

    use object_store::ObjectStoreExt;

    use super::*;
    use crate::open::{Opened, open_url};

    /// Opens a bucket with these options, without the environment.
    fn open(options: &[(&str, &str)]) -> Opened {
        let options: BTreeMap<_, _> =
            options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        open_url("s3://bucket/state", &options).expect("it opens")
    }

    /// Returns an address that refuses connections.
    fn nowhere() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        format!("http://{}", listener.local_addr().expect("it is bound"))
    }

    #[tokio::test]
    async fn bucket_without_credentials_names_the_searched_sources() {
        let metadata = nowhere();
        let opened = open(&[("aws_metadata_endpoint", metadata.as_str()), ("aws_region", "x")]);
        let since = Instant::now();
        let error = opened.object_store.head(&opened.path).await.expect_err("there are none");
        let message =
            NoCredentials::find(&error).unwrap_or_else(|| panic!("{error:?}")).to_string();
        for part in ["s3://bucket/state", "aws_access_key_id", "web identity", "instance metadata"]
        {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(since.elapsed() < METADATA_MAX * 3, "{:?}", since.elapsed());
        let listed = opened.object_store.list(None).next().await.expect("an error");
        assert!(NoCredentials::find(&listed.expect_err("there are none")).is_some());
    }

    #[tokio::test]
    async fn bucket_with_credentials_does_not_query_instance_metadata() {
        let (metadata, endpoint) = (nowhere(), nowhere());
        let common = [
            ("aws_metadata_endpoint", metadata.as_str()),
            ("aws_endpoint", endpoint.as_str()),
            ("aws_allow_http", "true"),
            ("aws_region", "x"),
        ];
        for own in [
            &[("aws_access_key_id", "a"), ("aws_secret_access_key", "b")][..],
            &[("aws_skip_signature", "true")],
            &[("aws_web_identity_token_file", "/nowhere"), ("aws_role_arn", "arn")],
        ] {
            let opened = open(&[&common[..], own].concat());
            let error = opened.object_store.head(&opened.path).await.expect_err("nobody listens");
            assert!(NoCredentials::find(&error).is_none(), "{own:?}: {error}");
        }
    }
}
