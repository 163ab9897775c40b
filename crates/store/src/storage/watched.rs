//! [`WatchedObjectStore`]: an object store that records failures, and ends the retries of requests
//! that cannot succeed.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result, UploadPart,
};
use slatedb_common::retry::NonRetryable;

use super::{Operation, Request, Storage, StorageError};
use slateberg_base::io_failure::{IoFailure, io_error};

/// The name of this store in errors.
const STORE: &str = "storage";

/// An object store that records failures.
struct WatchedObjectStore {
    inner: Arc<dyn ObjectStore>,
    watch: Watch,
}

/// Records the outcomes of requests.
#[derive(Clone)]
struct Watch {
    storage: Storage,
    is_local: bool,
}

impl Storage {
    /// Returns an object store that passes requests to `inner` and records their failures here.
    /// `is_local` states that `inner` is a local directory. There, the kind of an error determines
    /// whether a retry can succeed.
    pub fn watch(&self, inner: Arc<dyn ObjectStore>, is_local: bool) -> Arc<dyn ObjectStore> {
        Arc::new(WatchedObjectStore::new(inner, self.clone(), is_local))
    }
}

impl WatchedObjectStore {
    fn new(inner: Arc<dyn ObjectStore>, storage: Storage, is_local: bool) -> Self {
        Self { inner, watch: Watch { storage, is_local } }
    }

    async fn get(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let result = self.inner.get_opts(location, options).await?;
        if is_head || !self.watch.is_local {
            return Ok(result);
        }
        // By default, the file is read only when the content is used. Reading it here makes it
        // possible to record errors.
        let (meta, range) = (result.meta.clone(), result.range.clone());
        let (attributes, extensions) = (result.attributes.clone(), result.extensions.clone());
        let content = result.bytes().await?;
        let content = futures::stream::once(async { Ok(content) }).boxed();
        let payload = GetResultPayload::Stream(content);
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    /// If the object is too short for a range, returns the reason why the range can never be read.
    async fn beyond_end(&self, location: &Path, range: &GetRange) -> Option<String> {
        let size = self.inner.head(location).await.ok()?.size;
        let first = match range {
            GetRange::Bounded(range) => range.start,
            GetRange::Offset(offset) => *offset,
            GetRange::Suffix(_) => 0,
        };
        (first >= size).then(|| {
            format!(
                "it ends after {size} bytes, but bytes after byte {first} are needed: it is truncated or damaged"
            )
        })
    }

    /// Records the result of a read of ranges. A range beyond the end of the object is a final
    /// error.
    async fn record_read<T>(
        &self,
        location: &Path,
        range: Option<GetRange>,
        result: Result<T>,
    ) -> Result<T> {
        let failed = result.as_ref().is_err_and(is_failure);
        if let Some(range) = range.filter(|_| failed)
            && let Some(reason) = self.beyond_end(location, &range).await
        {
            return Err(self.watch.final_error(Operation::Read, location.as_ref(), reason, true));
        }
        self.watch.record(Operation::Read, location.as_ref(), result)
    }
}

impl Watch {
    fn request(&self, operation: Operation, location: &str) -> Request {
        let root = if self.is_local { "/" } else { "" };
        Request { operation, file: format!("{root}{location}") }
    }

    fn record<T>(&self, operation: Operation, location: &str, result: Result<T>) -> Result<T> {
        let error = match result {
            // The runtime is shutting down, so nothing will retry the request.
            Err(error @ Error::JoinError { .. }) => return Err(error),
            Err(error) if is_failure(&error) => error,
            result => {
                self.storage.succeeded(|| self.request(operation, location));
                return result;
            }
        };
        let reason = reason(&error);
        if self.is_final(&error) {
            return Err(self.final_error(operation, location, reason, false));
        }
        let is_full = io_error(&error).map(IoFailure::of) == Some(IoFailure::Full);
        self.storage.failed(self.request(operation, location), reason, is_full);
        Err(error)
    }

    /// Whether no retry can succeed after an error. In a bucket, each error may be temporary.
    fn is_final(&self, error: &Error) -> bool {
        if !self.is_local {
            return false;
        }
        match io_error(error).map(IoFailure::of) {
            Some(IoFailure::Full) => !self.storage.waits_for_space(),
            Some(IoFailure::Transient) => false,
            // If the cause is not an I/O error, the request cannot succeed, whatever the state of
            // the file.
            Some(IoFailure::Final) | None => true,
        }
    }

    fn final_error(
        &self,
        operation: Operation,
        location: &str,
        reason: String,
        is_damage: bool,
    ) -> Error {
        let request = self.request(operation, location);
        let (operation, file) = (operation.verb(), request.file.clone());
        let error = StorageError { operation, file, reason, is_damage };
        tracing::error!(%error, "storage request failed: no retry can succeed");
        self.storage.succeeded(|| request);
        Error::Generic { store: STORE, source: Box::new(NonRetryable(Box::new(error))) }
    }
}

/// Whether an error is a failure that SlateDB would retry. Other errors are information about an
/// object, such as its absence.
fn is_failure(error: &Error) -> bool {
    slatedb_common::retry::should_retry(error)
}

/// Returns the innermost cause of an error.
fn reason(error: &Error) -> String {
    if let Some(io) = io_error(error) {
        return io.to_string();
    }
    let mut reason: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

impl fmt::Debug for WatchedObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for WatchedObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for WatchedObjectStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let put = self.inner.put_opts(location, payload, options).await;
        self.watch.record(Operation::Write, location.as_ref(), put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.inner.put_multipart_opts(location, options).await;
        let inner = self.watch.record(Operation::Write, location.as_ref(), begun)?;
        let (watch, file) = (self.watch.clone(), location.to_string());
        Ok(Box::new(WatchedUpload { inner, watch, file }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let range = options.range.clone();
        let result = self.get(location, options).await;
        self.record_read(location, range, result).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let furthest = ranges.iter().max_by_key(|range| range.start).cloned();
        let result = self.inner.get_ranges(location, ranges).await;
        self.record_read(location, furthest.map(GetRange::Bounded), result).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let watch = self.watch.clone();
        // The location is empty here, because an error does not state which deletion failed. In a
        // local directory, the reason contains the location.
        let deleted = self.inner.delete_stream(locations);
        deleted.map(move |deleted| watch.record(Operation::Delete, "", deleted)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.watched_list(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.watched_list(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.inner.list_with_delimiter(prefix).await;
        self.watch.record(Operation::List, prefix.map_or("", Path::as_ref), listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copied = self.inner.copy_opts(from, to, options).await;
        self.watch.record(Operation::Copy, from.as_ref(), copied)
    }
}

impl WatchedObjectStore {
    fn watched_list(
        &self,
        prefix: Option<&Path>,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (watch, prefix) = (self.watch.clone(), prefix.map(Path::to_string).unwrap_or_default());
        listed.map(move |listed| watch.record(Operation::List, &prefix, listed)).boxed()
    }
}

/// A multipart upload.
#[derive(Debug)]
struct WatchedUpload {
    inner: Box<dyn MultipartUpload>,
    watch: Watch,
    file: String,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("is_local", &self.is_local).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for WatchedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (watch, file) = (self.watch.clone(), self.file.clone());
        let put = self.inner.put_part(data);
        put.map(move |put| watch.record(Operation::Write, &file, put)).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let completed = self.inner.complete().await;
        self.watch.record(Operation::Write, &self.file, completed)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
