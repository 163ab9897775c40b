//! `Measured`: an object store with metrics of its requests, by kind and error.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span};

use super::open::{Opened, Opener};
use slateberg_telemetry::requests::RequestMetrics;
use slateberg_telemetry::traces::TARGET;

/// An object store with metrics.
struct Measured {
    inner: Arc<dyn ObjectStore>,
    requests: Arc<RequestMetrics>,
    whom: &'static str,
}

/// A request in progress.
struct PendingRequest {
    requests: Arc<RequestMetrics>,
    whom: &'static str,
    operation: &'static str,
    began: Instant,
    span: Span,
}

/// Wraps a store, and counts the requests to it. `whom` is the name of the store in metrics.
pub fn measured(
    inner: Arc<dyn ObjectStore>,
    requests: &Arc<RequestMetrics>,
    whom: &'static str,
) -> Arc<dyn ObjectStore> {
    Arc::new(Measured { inner, requests: Arc::clone(requests), whom })
}

/// Wraps an opener, and counts the requests to the stores that it opens. `whom` is the name of
/// these stores in metrics.
pub fn measured_opener(inner: Opener, requests: Arc<RequestMetrics>, whom: &'static str) -> Opener {
    Arc::new(move |url, options| {
        let opened = inner(url, options)?;
        let object_store = measured(opened.object_store, &requests, whom);
        Ok(Opened { object_store, ..opened })
    })
}

impl Measured {
    fn pending(&self, operation: &'static str) -> PendingRequest {
        PendingRequest::new(&self.requests, self.whom, operation)
    }
}

impl PendingRequest {
    fn new(requests: &Arc<RequestMetrics>, whom: &'static str, operation: &'static str) -> Self {
        let span = debug_span!(
            target: TARGET,
            "object_store",
            otel.name = format_args!("object_store.{operation}"),
            otel.kind = "client",
            slateberg.store = whom,
            error.type = Empty
        );
        Self { requests: Arc::clone(requests), whom, operation, began: Instant::now(), span }
    }

    /// Waits for the response inside the request's span, and records its outcome.
    async fn ended<T>(self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let result = request.instrument(self.span.clone()).await;
        self.note(result.as_ref().err());
        result
    }

    fn note(self, error: Option<&Error>) {
        let kind = error.map(kind_of);
        self.span.record("error.type", kind);
        self.requests.ended(self.whom, self.operation, kind, self.began);
    }
}

/// Returns the kind of an error. `NotFound` and `AlreadyExists` are often expected responses.
fn kind_of(error: &Error) -> &'static str {
    match error {
        Error::NotFound { .. } => "not_found",
        Error::AlreadyExists { .. } => "already_exists",
        Error::Precondition { .. } => "precondition",
        Error::NotModified { .. } => "not_modified",
        Error::PermissionDenied { .. } => "permission_denied",
        Error::Unauthenticated { .. } => "unauthenticated",
        _ => "other",
    }
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Measured {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let pending = self.pending("put");
        pending.ended(self.inner.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let pending = self.pending("create_multipart");
        let upload = pending.ended(self.inner.put_multipart_opts(location, options)).await?;
        let (requests, whom) = (Arc::clone(&self.requests), self.whom);
        Ok(Box::new(MeasuredUpload { inner: upload, requests, whom }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let pending = self.pending(if options.head { "head" } else { "get" });
        pending.ended(self.inner.get_opts(location, options)).await
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[std::ops::Range<u64>],
    ) -> Result<Vec<Bytes>> {
        let pending = self.pending("get");
        pending.ended(self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        MeasuredStream::boxed(self.inner.delete_stream(locations), self.pending("delete"))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        MeasuredStream::boxed(self.inner.list(prefix), self.pending("list"))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        MeasuredStream::boxed(self.inner.list_with_offset(prefix, offset), self.pending("list"))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let pending = self.pending("list");
        pending.ended(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let pending = self.pending("copy");
        pending.ended(self.inner.copy_opts(from, to, options)).await
    }
}

/// A multipart upload. Each part is a request.
#[derive(Debug)]
struct MeasuredUpload {
    inner: Box<dyn MultipartUpload>,
    requests: Arc<RequestMetrics>,
    whom: &'static str,
}

impl MeasuredUpload {
    fn pending(&self, operation: &'static str) -> PendingRequest {
        PendingRequest::new(&self.requests, self.whom, operation)
    }
}

#[async_trait]
impl MultipartUpload for MeasuredUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let pending = self.pending("put_part");
        pending.ended(self.inner.put_part(data)).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let pending = self.pending("complete_multipart");
        pending.ended(self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let pending = self.pending("abort_multipart");
        pending.ended(self.inner.abort()).await
    }
}

/// A stream of results. The time until the first result counts as the duration of the request.
struct MeasuredStream<T> {
    inner: BoxStream<'static, Result<T>>,
    pending: Option<PendingRequest>,
}

impl<T: 'static> MeasuredStream<T> {
    fn boxed(
        inner: BoxStream<'static, Result<T>>,
        pending: PendingRequest,
    ) -> BoxStream<'static, Result<T>> {
        Self { inner, pending: Some(pending) }.boxed()
    }
}

impl<T> Stream for MeasuredStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.inner.poll_next_unpin(context);
        if let Poll::Ready(answer) = &polled
            && let Some(pending) = self.pending.take()
        {
            pending.note(answer.as_ref().and_then(|answer| answer.as_ref().err()));
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;
    use slateberg_telemetry::collection::Collection;
    use slateberg_telemetry::prometheus::render;

    #[tokio::test]
    async fn requests_are_counted_by_kind_and_error() {
        let requests = Arc::new(RequestMetrics::to_object_stores());
        let store = measured(Arc::new(InMemory::new()), &requests, "state");
        let path = Path::from("a/b");
        store.put(&path, "x".into()).await.expect("there is room");
        store.get(&path).await.expect("it is there");
        store.head(&Path::from("c")).await.expect_err("it is not there");
        let mut upload = store.put_multipart(&Path::from("d")).await.expect("there is room");
        upload.put_part("y".into()).await.expect("there is room");
        upload.complete().await.expect("there is room");
        let listed: Vec<_> = store.list(None).try_collect().await.expect("it lists");
        assert_eq!(listed.len(), 2);
        store.delete(&path).await.expect("it is there");

        let mut collection = Collection::default();
        requests.collect(&mut collection);
        let text = render(&collection);
        for (operation, error) in [
            ("put", ""),
            ("get", ""),
            ("head", ",error_type=\"not_found\""),
            ("create_multipart", ""),
            ("put_part", ""),
            ("complete_multipart", ""),
            ("list", ""),
            ("delete", ""),
        ] {
            let name = "slateberg_object_store_request_duration_seconds_count";
            let line = format!("{name}{{store=\"state\",operation=\"{operation}\"{error}}} 1");
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
