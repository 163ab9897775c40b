//! [`SealedObjects`]: an object store for SlateDB that seals every object, chunk by chunk.
//!
//! SlateDB passes its blocks to a transformer, but passes neither its manifests nor the footers of
//! its files. Footers contain the first and last key, and keys contain names. Therefore whole
//! objects are sealed here, in addition to the blocks. A reader of the bucket sees only paths,
//! sizes and times.
//!
//! Each chunk has [`PLAIN_CHUNK_BYTES`] bytes, except the last one, which may be shorter. There is
//! always a last chunk: an empty object has one empty chunk. Each chunk is bound to the object's
//! path, to its own index, and to whether it is the last chunk. Therefore an attacker cannot
//! exchange, move, omit or cut off chunks. The position of a chunk follows from its index, so one
//! request can read any range.
//!
//! A clone (`store::clones`) shares objects with its parent. These objects are below the parent's
//! path, and can be opened only with the parent's keys. So an object of one store cannot replace an
//! object of the other store.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result, UploadPart,
};
use slatedb_common::retry::NonRetryable;

use super::keys::{Keys, OVERHEAD, Purpose};
use super::{self as kms};

/// Size of an unsealed chunk, in bytes.
const PLAIN_CHUNK_BYTES: u64 = 16 << 10;
/// Size of a sealed chunk, in bytes.
const SEALED_CHUNK_BYTES: u64 = PLAIN_CHUNK_BYTES + OVERHEAD as u64;
/// The name of this store in errors.
const STORE: &str = "sealed objects";

/// An object store whose objects are sealed with the keys of an open store.
pub struct SealedObjects {
    inner: Arc<dyn ObjectStore>,
    sealer: Sealer,
    parent: Option<Parent>,
}

/// Access to the objects of a clone's parent.
struct Parent {
    sealer: Sealer,
    access: Access,
}

/// Kind of access to a parent's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only, for the clone itself.
    Read,
    /// Reading and writing with the parent's own keys, for the process that creates the clone.
    Write,
}

/// Seals and opens chunks of objects below a path.
#[derive(Clone)]
struct Sealer {
    keys: Arc<Keys>,
    /// The store's path. Objects are bound to their paths relative to this path, so that a store
    /// can be moved.
    below: Path,
}

impl fmt::Debug for SealedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedObjects").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl fmt::Display for SealedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sealed objects in {}", self.inner)
    }
}

impl SealedObjects {
    /// Seals the objects in `inner` below a path.
    pub fn new(inner: Arc<dyn ObjectStore>, below: Path, keys: Arc<Keys>) -> Self {
        Self { inner, sealer: Sealer { keys, below }, parent: None }
    }

    /// Adds access to the objects of a clone's parent, which are below the path `below` and sealed
    /// with `keys`.
    pub fn sharing(self, below: Path, keys: Arc<Keys>, access: Access) -> Self {
        let sealer = Sealer { keys, below };
        Self { parent: Some(Parent { sealer, access }), ..self }
    }

    /// Returns the sealer with which an object is opened.
    fn reader_of(&self, path: &Path) -> &Sealer {
        let parent =
            self.parent.as_ref().filter(|parent| path.prefix_matches(&parent.sealer.below));
        parent.map_or(&self.sealer, |parent| &parent.sealer)
    }

    /// Returns the sealer with which an object is sealed. Errors if the object must not be written.
    fn writer_of(&self, path: &Path) -> Result<&Sealer> {
        match self.protected_path() {
            Some(below) if path.prefix_matches(below) => Err(parent_object(path)),
            _ => Ok(self.reader_of(path)),
        }
    }

    /// Returns the path below which nothing may be written or deleted.
    fn protected_path(&self) -> Option<&Path> {
        let parent = self.parent.as_ref().filter(|parent| parent.access == Access::Read);
        parent.map(|parent| &parent.sealer.below)
    }

    /// Returns an object's metadata with its unsealed size.
    fn with_plain_size(meta: ObjectMeta) -> Result<ObjectMeta> {
        let size = plain_size(meta.size)
            .ok_or_else(|| tampered(meta.location.as_ref(), "no sealed object has its size"))?;
        Ok(ObjectMeta { size, ..meta })
    }

    /// Returns the range of the sealed object that contains the requested range of the plain
    /// object.
    async fn sealed_range(&self, path: &Path, options: &GetOptions) -> Result<Option<GetRange>> {
        Ok(match &options.range {
            None => None,
            Some(GetRange::Bounded(range)) if range.start >= range.end => {
                return Err(generic(format!("{path}: the range {range:?} is empty")));
            }
            Some(GetRange::Bounded(range)) => {
                let end = range.end.div_ceil(PLAIN_CHUNK_BYTES).saturating_mul(SEALED_CHUNK_BYTES);
                Some(GetRange::Bounded(range.start / PLAIN_CHUNK_BYTES * SEALED_CHUNK_BYTES..end))
            }
            Some(GetRange::Offset(offset)) => {
                Some(GetRange::Offset(offset / PLAIN_CHUNK_BYTES * SEALED_CHUNK_BYTES))
            }
            Some(GetRange::Suffix(length)) => {
                let size = self.head(path).await?.size;
                Some(GetRange::Offset(
                    size.saturating_sub(*length) / PLAIN_CHUNK_BYTES * SEALED_CHUNK_BYTES,
                ))
            }
        })
    }
}

impl Sealer {
    fn name<'a>(&self, path: &'a Path) -> &'a str {
        let below = path.as_ref().strip_prefix(self.below.as_ref());
        below.map_or(path.as_ref(), |rest| rest.trim_start_matches('/'))
    }

    /// Seals consecutive chunks of an object, beginning with index `first`. `with_last` states that
    /// the last of these chunks is the last chunk of the object.
    fn seal(&self, path: &Path, first: u64, text: &[u8], with_last: bool) -> Result<Bytes> {
        let path = self.name(path);
        let chunks = text.len().div_ceil(PLAIN_CHUNK_BYTES as usize).max(usize::from(with_last));
        let mut sealed = Vec::with_capacity(text.len() + chunks * OVERHEAD);
        for chunk in 0..chunks {
            let begin = chunk * PLAIN_CHUNK_BYTES as usize;
            let plain = &text[begin..text.len().min(begin + PLAIN_CHUNK_BYTES as usize)];
            let is_last = with_last && chunk + 1 == chunks;
            let purpose = Purpose::Chunk { path, index: first + chunk as u64, is_last };
            self.keys.seal_into(purpose, plain, &mut sealed).map_err(encryption_error)?;
        }
        Ok(Bytes::from(sealed))
    }

    /// Opens consecutive chunks of an object, beginning with index `first`. `chunks` is the
    /// object's total number of chunks.
    fn open(&self, path: &Path, first: u64, sealed: &[u8], chunks: u64) -> Result<Vec<u8>> {
        let path = self.name(path);
        let mut plain = Vec::with_capacity(sealed.len());
        for (index, sealed) in (first..).zip(sealed.chunks(SEALED_CHUNK_BYTES as usize)) {
            let purpose = Purpose::Chunk { path, index, is_last: index + 1 == chunks };
            self.keys.open_into(purpose, sealed, &mut plain).map_err(encryption_error)?;
        }
        Ok(plain)
    }
}

/// Returns the unsealed size of an object. `None` if no sealed object has this size.
fn plain_size(sealed: u64) -> Option<u64> {
    let chunks = sealed.div_ceil(SEALED_CHUNK_BYTES);
    let last = sealed.checked_sub(chunks.checked_sub(1)? * SEALED_CHUNK_BYTES)?;
    // Only the first chunk may be empty.
    let least = OVERHEAD as u64 + u64::from(chunks > 1);
    (last >= least).then(|| sealed - chunks * OVERHEAD as u64)
}

/// Converts an encryption error to an object store error. The result is marked as not retryable,
/// because SlateDB would otherwise retry the request forever.
fn encryption_error(error: kms::Error) -> Error {
    tracing::error!(%error, "cannot encrypt or decrypt an object of the store");
    Error::Generic { store: STORE, source: Box::new(NonRetryable(Box::new(error))) }
}

fn parent_object(path: &Path) -> Error {
    generic(format!("{path} belongs to the parent of this clone and cannot be changed"))
}

fn tampered(path: &str, reason: &'static str) -> Error {
    encryption_error(kms::Error::Tampered { what: format!("the object {path}"), reason })
}

fn generic(reason: String) -> Error {
    Error::Generic { store: STORE, source: Box::new(NonRetryable(reason.into())) }
}

fn join_payload(payload: &PutPayload) -> Vec<u8> {
    let mut text = Vec::with_capacity(payload.content_length());
    payload.iter().for_each(|bytes| text.extend_from_slice(bytes));
    text
}

#[async_trait]
impl ObjectStore for SealedObjects {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let sealed = self.writer_of(location)?.seal(location, 0, &join_payload(&payload), true)?;
        self.inner.put_opts(location, sealed.into(), opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (sealer, path) = (self.writer_of(location)?.clone(), location.clone());
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        let state = Mutex::new(UploadBuffer::default());
        Ok(Box::new(SealedUpload { inner, sealer, path, state }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head {
            let result = self.inner.get_opts(location, options).await?;
            let meta = Self::with_plain_size(result.meta)?;
            return Ok(GetResult { range: 0..meta.size, meta, ..result });
        }
        let requested_range = options.range.clone();
        let range = self.sealed_range(location, &options).await?;
        let result = self.inner.get_opts(location, GetOptions { range, ..options }).await?;
        let (sealed_size, attributes) = (result.meta.size, result.attributes.clone());
        let (read, extensions) = (result.range.clone(), result.extensions.clone());
        let meta = Self::with_plain_size(result.meta.clone())?;
        let sealed = result.bytes().await?;
        if read.start % SEALED_CHUNK_BYTES != 0
            || sealed.len() as u64 != read.end.saturating_sub(read.start)
        {
            return Err(generic(format!(
                "{location}: the store returned {read:?}, which is not the requested range"
            )));
        }
        let first = read.start / SEALED_CHUNK_BYTES;
        let chunks = sealed_size.div_ceil(SEALED_CHUNK_BYTES);
        let plain = self.reader_of(location).open(location, first, &sealed, chunks)?;
        let plain = Bytes::from(plain);
        let range = match requested_range {
            None => 0..meta.size,
            Some(requested_range) => {
                requested_range.as_range(meta.size).map_err(|e| generic(e.to_string()))?
            }
        };
        let part = part(&plain, first * PLAIN_CHUNK_BYTES, &range);
        let part = part.ok_or_else(|| {
            generic(format!("{location}: the store did not return all of {range:?}"))
        })?;
        let payload = GetResultPayload::Stream(futures::stream::once(async { Ok(part) }).boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let Some(protected_path) = self.protected_path().cloned() else {
            return self.inner.delete_stream(locations);
        };
        let ours = locations.map(move |path| match path {
            Ok(path) if path.prefix_matches(&protected_path) => Err(parent_object(&path)),
            other => other,
        });
        self.inner.delete_stream(ours.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        // An object with an impossible size is listed unchanged. Reading it fails.
        self.inner.list(prefix).map_ok(with_plain_size_if_valid).boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset).map_ok(with_plain_size_if_valid).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listing = self.inner.list_with_delimiter(prefix).await?;
        listing.objects = listing.objects.into_iter().map(with_plain_size_if_valid).collect();
        Ok(listing)
    }

    async fn copy_opts(&self, from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        // A copy could not be opened at its new path, because chunks are bound to the path of their
        // object. SlateDB copies objects only to clone the log of a store, and slateberg clones
        // only states without a log.
        Err(Error::NotSupported {
            source: format!("{from}: sealed objects cannot be copied").into(),
        })
    }
}

fn with_plain_size_if_valid(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta { size: plain_size(meta.size).unwrap_or(meta.size), ..meta }
}

/// Returns a range of an object. `plain` is the part of the object that begins at `offset`. Returns
/// `None` if the range is not inside this part.
fn part(plain: &Bytes, offset: u64, range: &Range<u64>) -> Option<Bytes> {
    let begin = usize::try_from(range.start.checked_sub(offset)?).ok()?;
    let end = usize::try_from(range.end.checked_sub(offset)?).ok()?;
    (begin <= end && end <= plain.len()).then(|| plain.slice(begin..end))
}

/// A multipart upload. Only whole chunks are sent. The remaining bytes wait for the next part or
/// for the end. At least one byte always waits, because the last chunk is known only at the end.
struct SealedUpload {
    inner: Box<dyn MultipartUpload>,
    sealer: Sealer,
    path: Path,
    state: Mutex<UploadBuffer>,
}

#[derive(Default)]
struct UploadBuffer {
    text: BytesMut,
    /// The index of the next chunk.
    next: u64,
}

impl fmt::Debug for SealedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedUpload").field("path", &self.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for SealedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let sealed = {
            let mut buffer = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            data.iter().for_each(|bytes| buffer.text.extend_from_slice(bytes));
            let whole = buffer.text.len().saturating_sub(1) as u64 / PLAIN_CHUNK_BYTES;
            let first = buffer.next;
            buffer.next += whole;
            let text = buffer.text.split_to((whole * PLAIN_CHUNK_BYTES) as usize);
            self.sealer.seal(&self.path, first, &text, false)
        };
        match sealed {
            Ok(sealed) if sealed.is_empty() => async { Ok(()) }.boxed(),
            Ok(sealed) => self.inner.put_part(sealed.into()),
            Err(error) => async { Err(error) }.boxed(),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let last = {
            let buffer = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            self.sealer.seal(&self.path, buffer.next, &buffer.text, true)?
        };
        self.inner.put_part(last.into()).await?;
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests;
