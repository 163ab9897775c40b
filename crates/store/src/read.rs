//! Reads records from three views: the durable state, the accepted state, and the state of a store
//! that is not open for writing.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use slatedb::config::{DurabilityLevel, ReadOptions, ScanOptions, TracingOptions};
use slatedb::{Db, DbIterator, DbReader, DbSnapshot, KeyValue};
use tokio::time::timeout;
use uuid::Uuid;

use super::codec::{ChunkBytes, Document, DocumentHead, EncodedHead, Value};
use super::error::Error;
use super::filters;
use super::handle::{Shared, Store};
pub use super::key_range::KeyRange;
use super::key_space::KeySpace;
use super::keys::{ChunkKey, Key, MetadataKey, PublicationKey};
pub use super::record_cache::ReadStamp;
use super::record_cache::{CacheLookup, NEWEST, PageKey, RecordCache, is_cached};
use super::status::durable_up_to;
use slateberg_base::boxed;
use slateberg_base::error_chain::Cause;
use slateberg_base::hex::hex;
use slateberg_model::page::Names;
use slateberg_model::segmented_json::ChunkHash;
use slateberg_telemetry::traces::current_trace_id;

/// Number of bytes that a scan fetches with one request. SlateDB's default is one block.
const SCAN_READ_AHEAD_BYTES: usize = 1 << 20;
/// Maximum number of concurrent fetches of a scan.
const SCAN_FETCHES_MAX: usize = 4;

/// Maximum number of attempts to read a document that concurrent commits change, before it is read
/// from a snapshot.
const READ_ATTEMPTS_MAX: u32 = 3;
/// Maximum time until everything in the snapshot is durable.
const SNAPSHOT_TIME: Duration = Duration::from_secs(5);
/// Maximum number of chunks that are read individually and concurrently. If more are needed, one
/// scan reads them all.
const CHUNK_GETS_MAX: usize = 8;

/// A readable view of the store.
pub trait StoreRead: Sync {
    /// Returns the bytes at a key.
    fn get_bytes<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>, Error>>;

    /// Iterates over the entries of a range, in order.
    fn iterate<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, Result<DbIterator, Error>>;

    /// Returns the record at a key.
    fn get<K: Key>(&self, key: &K) -> impl Future<Output = Result<Option<K::Value>, Error>> + Send {
        async move {
            let key = key.encode();
            decode::<K>(&key, self.get_bytes(&key).await?.as_deref())
        }
    }

    /// Returns the record at a key. Other readers may share the record.
    fn get_shared<K: Key>(
        &self,
        key: &K,
    ) -> impl Future<Output = Result<Option<Arc<K::Value>>, Error>> + Send {
        async move { Ok(self.get(key).await?.map(Arc::new)) }
    }

    /// Returns at most `limit` records of a range, in the order of their keys.
    fn scan<K: Key>(
        &self,
        range: &KeyRange,
        limit: Option<usize>,
    ) -> impl Future<Output = Result<Vec<(K, K::Value)>, Error>> + Send {
        async move {
            if limit == Some(0) {
                return Ok(Vec::new());
            }
            let entries = read_entries(self.iterate(range).await?, limit).await?;
            entries.iter().map(decode_entry).collect()
        }
    }

    /// Returns the complete metadata of a table or view.
    fn document(&self, id: Uuid) -> impl Future<Output = Result<Option<Document>, Error>> + Send {
        document(self, id)
    }

    /// Returns the metadata of a version from the head in its marker. Returns `None` if a chunk is
    /// missing. Then the file of the version is synced, because chunks are removed only afterwards.
    fn document_of_marker(
        &self,
        key: PublicationKey,
        head: &EncodedHead,
    ) -> impl Future<Output = Result<Option<Document>, Error>> + Send {
        async move {
            let head = head.decode().map_err(|error| corrupt(&key.encode(), error))?;
            let chunks = read_chunks(self, key.id, &head).await?;
            Ok(head.complete(&chunks).ok())
        }
    }

    /// Whether a range contains any key.
    fn any(&self, range: &KeyRange) -> impl Future<Output = Result<bool, Error>> + Send {
        async move { Ok(!read_entries(self.iterate(range).await?, Some(1)).await?.is_empty()) }
    }
}

/// Returns at most `limit` entries of an iterator.
#[boxed]
pub(super) async fn read_entries(
    mut iterator: DbIterator,
    limit: Option<usize>,
) -> Result<Vec<KeyValue>, Error> {
    let mut entries = Vec::new();
    while limit.is_none_or(|limit| entries.len() < limit)
        && let Some(entry) = iterator.next().await?
    {
        entries.push(entry);
    }
    Ok(entries)
}

/// Decodes a key and its record.
pub(super) fn decode_entry<K: Key>(entry: &KeyValue) -> Result<(K, K::Value), Error> {
    Ok((decode_key(entry)?, decode_value::<K>(&entry.key, &entry.value)?))
}

pub(super) fn decode_key<K: Key>(entry: &KeyValue) -> Result<K, Error> {
    K::decode(&entry.key).ok_or_else(|| corrupt(&entry.key, "the key is invalid in its key space"))
}

/// Decodes the record at a key.
pub(super) fn decode<K: Key>(key: &[u8], bytes: Option<&[u8]>) -> Result<Option<K::Value>, Error> {
    bytes.map(|bytes| decode_value::<K>(key, bytes)).transpose()
}

/// Decodes a record. The error names the key.
pub(super) fn decode_value<K: Key>(key: &[u8], bytes: &[u8]) -> Result<K::Value, Error> {
    K::Value::decode(bytes).map_err(|error| corrupt(key, error))
}

/// Reads the complete document of a table or view. Returns `None` if it does not exist.
async fn document(store: &(impl StoreRead + ?Sized), id: Uuid) -> Result<Option<Document>, Error> {
    let key = MetadataKey(id).encode();
    let mut found = store.get_bytes(&key).await?;
    for _ in 0..READ_ATTEMPTS_MAX {
        let Some(bytes) = found else { return Ok(None) };
        let head = decode_value::<MetadataKey>(&key, &bytes)?;
        let missing = match head.complete(&read_chunks(store, id, &head).await?) {
            Ok(document) => return Ok(Some(document)),
            Err(missing) => missing,
        };
        found = store.get_bytes(&key).await?;
        if found.as_ref() == Some(&bytes) {
            return Err(corrupt(
                &key,
                format!("chunk {missing:?} is missing or has another length"),
            ));
        }
    }
    Err(Error::Contended { name: "read_document", attempts: READ_ATTEMPTS_MAX })
}

/// Reads the complete document of a table or view. If commits change it again and again, reads it
/// from a snapshot, which the store has to keep meanwhile. If `is_durable`, everything in the
/// snapshot is durable.
async fn document_of(
    view: &impl StoreRead,
    db: &Db,
    id: Uuid,
    is_durable: bool,
) -> Result<Option<Document>, Error> {
    let contended = document(view, id).await;
    if !matches!(contended, Err(Error::Contended { .. })) {
        return contended;
    }
    let snapshot = db.snapshot()?;
    if is_durable {
        // A store that cannot write now must not block reads.
        match timeout(SNAPSHOT_TIME, durable_up_to(db, snapshot.seq())).await {
            Ok(true) => {}
            Ok(false) => return Err(Error::Closed),
            Err(_) => return contended,
        }
    }
    document(&SnapshotView(snapshot), id).await
}

/// View of one state, whether durable or not.
pub(super) struct SnapshotView(pub(super) Arc<DbSnapshot>);

impl StoreRead for SnapshotView {
    fn get_bytes<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        let options = read_options(DurabilityLevel::Memory);
        Box::pin(async move { Ok(self.0.get_with_options(key, &options).await?) })
    }

    fn iterate<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, Result<DbIterator, Error>> {
        let options = scan_options(DurabilityLevel::Memory);
        Box::pin(async move { filters::scan(&*self.0, range, &options).await })
    }
}

/// Reads the existing chunks of a document.
async fn read_chunks(
    store: &(impl StoreRead + ?Sized),
    id: Uuid,
    head: &DocumentHead,
) -> Result<HashMap<ChunkHash, Bytes>, Error> {
    let hashes: HashSet<ChunkHash> = head.chunks().collect();
    if hashes.is_empty() {
        return Ok(HashMap::new());
    }
    if hashes.len() <= CHUNK_GETS_MAX {
        let get = |hash| async move {
            let chunk = store.get(&ChunkKey { id, hash }).await?;
            Ok::<_, Error>(chunk.map(|ChunkBytes(text)| (hash, text)))
        };
        let chunks = futures::stream::iter(hashes.into_iter().map(get)).buffered(CHUNK_GETS_MAX);
        return chunks.try_filter_map(|chunk| async { Ok(chunk) }).try_collect().await;
    }
    let chunks =
        store.scan::<ChunkKey>(&KeyRange::below(KeySpace::MetadataChunks, id), None).await?;
    Ok(chunks.into_iter().map(|(key, ChunkBytes(text))| (key.hash, text)).collect())
}

/// Error for a record that cannot be decoded.
pub(super) fn corrupt(
    key: &[u8],
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::Corrupt { key: hex(key), source: Cause::new(cause) }
}

/// Returns the options for reading one key. If the read belongs to a trace, SlateDB creates spans
/// for it.
pub(super) fn read_options(durability: DurabilityLevel) -> ReadOptions {
    ReadOptions {
        durability_filter: durability,
        tracing_options: current_trace_id().map(TracingOptions::new),
        ..ReadOptions::default()
    }
}

/// Returns the options of scans with this durability.
pub(super) fn scan_options(durability: DurabilityLevel) -> ScanOptions {
    ScanOptions {
        durability_filter: durability,
        read_ahead_bytes: SCAN_READ_AHEAD_BYTES,
        max_fetch_tasks: SCAN_FETCHES_MAX,
        cache_blocks: true,
        tracing_options: current_trace_id().map(TracingOptions::new),
        ..ScanOptions::default()
    }
}

/// View of the durable state. Only this state may be used in responses to clients. Uses the record
/// cache.
#[derive(Clone, Copy)]
pub struct DurableView<'a> {
    pub(super) db: &'a Db,
    pub(super) shared: &'a Shared,
}

impl DurableView<'_> {
    /// Returns at most `limit` names below a parent after `after`, in order.
    #[boxed]
    pub async fn names(
        &self,
        space: KeySpace,
        parent: Uuid,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Arc<Names>, Error> {
        let record_cache = &self.shared.record_cache;
        let key = PageKey { space, parent, after: after.map(ToOwned::to_owned), limit };
        if let Some(names) = record_cache.page(&key) {
            return Ok(names);
        }
        let mut range = KeyRange::below(space, parent);
        let read_stamp = record_cache.read_stamp(&range.prefix, NEWEST);
        if let Some(after) = after {
            let key = [range.prefix.as_slice(), after.as_bytes()].concat();
            range = range.behind(Some(key));
        }
        let mut names = Names::default();
        let mut iterator = self.iterate(&range).await?;
        while limit.is_none_or(|limit| names.len() < limit)
            && let Some(entry) = iterator.next().await?
        {
            let name = entry.key.get(range.prefix.len()..).map(std::str::from_utf8);
            let Some(Ok(name)) = name else {
                return Err(corrupt(&entry.key, "the key does not contain a name"));
            };
            names.push(name);
        }
        let names = Arc::new(names);
        record_cache.insert_page(read_stamp, key, &names);
        Ok(names)
    }

    /// Returns a stamp. [`stale_reads`](Self::stale_reads) can later determine from the stamp
    /// whether the record has changed since this call. Returns `None` if a write in progress may
    /// change the record.
    pub fn read_stamp<K: Key>(&self, key: &K) -> Option<ReadStamp> {
        self.shared.record_cache.read_stamp(&key.encode(), NEWEST)
    }

    /// Returns the indexes of the stamps whose reads are out of date.
    pub fn stale_reads(&self, stamps: &[Option<ReadStamp>]) -> Vec<usize> {
        self.shared.record_cache.stale_reads(stamps)
    }
}

impl StoreRead for DurableView<'_> {
    fn get_bytes<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        Box::pin(async move {
            Ok(self.db.get_with_options(key, &read_options(DurabilityLevel::Remote)).await?)
        })
    }

    fn iterate<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, Result<DbIterator, Error>> {
        Box::pin(async move {
            let options = scan_options(DurabilityLevel::Remote);
            filters::scan(self.db, range, &options).await
        })
    }

    async fn get<K: Key>(&self, key: &K) -> Result<Option<K::Value>, Error> {
        Ok(self.get_shared(key).await?.map(Arc::unwrap_or_clone))
    }

    async fn get_shared<K: Key>(&self, key: &K) -> Result<Option<Arc<K::Value>>, Error> {
        get_cached(self, &self.shared.record_cache, key).await
    }

    async fn document(&self, id: Uuid) -> Result<Option<Document>, Error> {
        document_of(self, self.db, id, true).await
    }
}

/// Returns the record at a key, from the cache or from the store. A valid cache entry is both
/// durable and the newest version, so both `DurableView` and `LatestView` can use it.
async fn get_cached<K: Key>(
    view: &impl StoreRead,
    record_cache: &RecordCache,
    key: &K,
) -> Result<Option<Arc<K::Value>>, Error> {
    let key = key.encode();
    if !is_cached(&key) {
        return Ok(decode::<K>(&key, view.get_bytes(&key).await?.as_deref())?.map(Arc::new));
    }
    match record_cache.record(&key, NEWEST) {
        CacheLookup::Miss => read_and_cache::<K>(view, record_cache, key, NEWEST).await,
        CacheLookup::Absent => Ok(None),
        CacheLookup::Present(record) => Ok(Some(record)),
    }
}

/// Reads a record from the store, and caches it. `sequence` is the number of the snapshot of the
/// view.
pub(super) async fn read_and_cache<K: Key>(
    view: &impl StoreRead,
    record_cache: &RecordCache,
    key: Vec<u8>,
    sequence: u64,
) -> Result<Option<Arc<K::Value>>, Error> {
    let read_stamp = record_cache.read_stamp(&key, sequence);
    let bytes = view.get_bytes(&key).await?;
    let record = decode::<K>(&key, bytes.as_deref())?.map(Arc::new);
    let bytes = bytes.map_or(0, |bytes| bytes.len());
    record_cache.insert_record(read_stamp, key, record.clone(), bytes);
    Ok(record)
}

/// View of the accepted state, whether durable or not. Changes may be based on this state, because
/// the response to a change waits until everything before the change is durable.
#[derive(Clone, Copy)]
pub struct LatestView<'a> {
    pub(super) db: &'a Db,
    pub(super) shared: &'a Shared,
}

impl StoreRead for LatestView<'_> {
    fn get_bytes<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        Box::pin(async move {
            Ok(self.db.get_with_options(key, &read_options(DurabilityLevel::Memory)).await?)
        })
    }

    fn iterate<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, Result<DbIterator, Error>> {
        Box::pin(async move {
            let options = scan_options(DurabilityLevel::Memory);
            filters::scan(self.db, range, &options).await
        })
    }

    async fn get<K: Key>(&self, key: &K) -> Result<Option<K::Value>, Error> {
        Ok(self.get_shared(key).await?.map(Arc::unwrap_or_clone))
    }

    async fn get_shared<K: Key>(&self, key: &K) -> Result<Option<Arc<K::Value>>, Error> {
        get_cached(self, &self.shared.record_cache, key).await
    }

    async fn document(&self, id: Uuid) -> Result<Option<Document>, Error> {
        document_of(self, self.db, id, false).await
    }
}

/// A store that is only opened for reading, for `fsck` and similar commands.
pub struct OfflineView {
    pub(super) reader: DbReader,
}

impl StoreRead for OfflineView {
    fn get_bytes<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        Box::pin(async move { Ok(self.reader.get(key).await?) })
    }

    fn iterate<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, Result<DbIterator, Error>> {
        Box::pin(async move {
            let options = scan_options(DurabilityLevel::Memory);
            filters::scan(&self.reader, range, &options).await
        })
    }
}

impl Store {
    /// Returns the durable state.
    pub fn durable(&self) -> DurableView<'_> {
        DurableView { db: &self.db, shared: &self.shared }
    }

    /// Returns the accepted state.
    pub fn latest(&self) -> LatestView<'_> {
        LatestView { db: &self.db, shared: &self.shared }
    }
}

#[cfg(test)]
mod tests;
