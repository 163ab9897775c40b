//! Reads of records: of durable state, or inside a transaction.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use slatedb::config::{DurabilityLevel, ReadOptions, ScanOptions, TracingOptions};
use slatedb::{Db, DbIterator, DbReader};
use uuid::Uuid;

use super::codec::{Document, Head, PieceText, Value};
use super::error::Error;
use super::handle::{Shared, Store};
use super::key_space::KeySpace;
use super::keys::{Key, MetadataKey, PieceKey};
pub use super::recent::Reading;
use super::recent::{Known, PageKey, Recent, is_cached};
use slateberg_base::error_chain::Cause;
use slateberg_model::page::Names;
use slateberg_model::text::PieceHash;
use slateberg_telemetry::traces::current_trace_id;

/// Bytes that a scan fetches at once. SlateDB's default is one block, which costs a request each.
const SCAN_READ_AHEAD_BYTES: usize = 1 << 20;
/// Maximum number of concurrent fetches of a scan.
const SCAN_FETCHES_MAX: usize = 4;

/// Maximum number of attempts to read a document that concurrent commits change.
const READ_ATTEMPTS_MAX: u32 = 16;
/// Maximum number of chunks that are read individually and concurrently. More are read with one
/// scan.
const PIECES_GOT_MAX: usize = 8;

/// A range of keys, in ascending order.
#[derive(Debug, Clone)]
pub struct Range {
    /// Prefix of all keys.
    pub prefix: Vec<u8>,
    /// Only keys after these bytes, exclusively.
    pub after: Option<Vec<u8>>,
}

impl Range {
    /// Returns the range of all keys with this prefix.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), after: None }
    }

    /// Returns the range of a key space.
    pub fn all(space: KeySpace) -> Self {
        Self::prefix([space.byte()])
    }

    /// Returns the range of all keys of a space that start with this id.
    pub fn below(space: u8, id: Uuid) -> Self {
        let mut prefix = vec![space];
        prefix.extend_from_slice(id.as_bytes());
        Self::prefix(prefix)
    }

    /// Excludes the keys up to and including `key`.
    pub fn behind(mut self, key: Option<Vec<u8>>) -> Self {
        self.after = key;
        self
    }

    pub(super) fn bounds(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let start = match &self.after {
            Some(after) if *after >= self.prefix => Bound::Excluded(after.clone()),
            _ => Bound::Included(self.prefix.clone()),
        };
        (start, successor(&self.prefix))
    }
}

/// Returns the first key after all keys with this prefix.
fn successor(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

/// A readable view of the store.
pub trait Read: Sync {
    /// Returns the bytes at a key.
    fn get_bytes(&self, key: &[u8]) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;

    /// Iterates over the entries of a range, in order.
    fn iterate(&self, range: &Range) -> impl Future<Output = Result<DbIterator, Error>> + Send;

    /// Returns the record at a key.
    fn get<K: Key>(&self, key: &K) -> impl Future<Output = Result<Option<K::Value>, Error>> + Send {
        async move {
            let key = key.encode();
            decoded::<K>(&key, self.get_bytes(&key).await?.as_deref())
        }
    }

    /// Returns the record at a key, shared with other readers.
    fn get_shared<K: Key>(
        &self,
        key: &K,
    ) -> impl Future<Output = Result<Option<Arc<K::Value>>, Error>> + Send {
        async move { Ok(self.get(key).await?.map(Arc::new)) }
    }

    /// Returns at most `limit` records of a range, in the order of their keys.
    fn scan<K: Key>(
        &self,
        range: &Range,
        limit: Option<usize>,
    ) -> impl Future<Output = Result<Vec<(K, K::Value)>, Error>> + Send {
        async move {
            let mut entries = Vec::new();
            if limit == Some(0) {
                return Ok(entries);
            }
            let mut iterator = self.iterate(range).await?;
            while let Some(entry) = iterator.next().await? {
                let key = K::decode(&entry.key)
                    .ok_or_else(|| corrupt(&entry.key, "not a key of its space"))?;
                let value = decode_value::<K>(&entry.key, &entry.value)?;
                entries.push((key, value));
                if limit.is_some_and(|limit| entries.len() >= limit) {
                    break;
                }
            }
            Ok(entries)
        }
    }

    /// Returns the complete metadata of a table or view.
    fn document(&self, id: Uuid) -> impl Future<Output = Result<Option<Document>, Error>> + Send {
        document(self, id)
    }

    /// Whether a range contains any key.
    fn any(&self, range: &Range) -> impl Future<Output = Result<bool, Error>> + Send {
        async move {
            let mut iterator = self.iterate(range).await?;
            Ok(iterator.next().await?.is_some())
        }
    }
}

/// Decodes the record at a key.
fn decoded<K: Key>(key: &[u8], bytes: Option<&[u8]>) -> Result<Option<K::Value>, Error> {
    bytes.map(|bytes| decode_value::<K>(key, bytes)).transpose()
}

/// Decodes a record. The error names the key.
pub(super) fn decode_value<K: Key>(key: &[u8], bytes: &[u8]) -> Result<K::Value, Error> {
    K::Value::decode(bytes).map_err(|error| corrupt(key, error))
}

/// Reads the complete document of a table or view. `None` if it does not exist.
async fn document(store: &(impl Read + ?Sized), id: Uuid) -> Result<Option<Document>, Error> {
    let key = MetadataKey(id).encode();
    let mut found = store.get_bytes(&key).await?;
    for _ in 0..READ_ATTEMPTS_MAX {
        let Some(bytes) = found else { return Ok(None) };
        let head = decode_value::<MetadataKey>(&key, &bytes)?;
        let missing = match head.complete(&pieces_of(store, id, &head).await?) {
            Ok(document) => return Ok(Some(document)),
            Err(missing) => missing,
        };
        found = store.get_bytes(&key).await?;
        if found.as_ref() == Some(&bytes) {
            return Err(corrupt(
                &key,
                format!("piece {missing:?} is missing or of another length"),
            ));
        }
    }
    Err(Error::Contended { name: "read_document", attempts: READ_ATTEMPTS_MAX })
}

/// Reads the existing chunks of a document.
async fn pieces_of(
    store: &(impl Read + ?Sized),
    id: Uuid,
    head: &Head,
) -> Result<HashMap<PieceHash, Bytes>, Error> {
    let wanted: HashSet<PieceHash> = head.pieces().collect();
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    if wanted.len() <= PIECES_GOT_MAX {
        let get = |hash| async move {
            let piece = store.get(&PieceKey { id, hash }).await?;
            Ok::<_, Error>(piece.map(|PieceText(text)| (hash, text)))
        };
        let pieces = futures::stream::iter(wanted.into_iter().map(get)).buffered(PIECES_GOT_MAX);
        return pieces.try_filter_map(|piece| async { Ok(piece) }).try_collect().await;
    }
    let pieces =
        store.scan::<PieceKey>(&Range::below(KeySpace::MetadataPieces.byte(), id), None).await?;
    Ok(pieces.into_iter().map(|(key, PieceText(text))| (key.hash, text)).collect())
}

/// Error for a record that cannot be decoded.
pub(super) fn corrupt(
    key: &[u8],
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    use std::fmt::Write;
    let hex = key.iter().fold(String::with_capacity(key.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    Error::Corrupt { key: hex, source: Cause::new(cause) }
}

/// Returns the options of reads of one key. SlateDB creates spans for reads in a trace.
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

/// Durable state, the only state for responses to clients. Uses the record cache.
#[derive(Clone, Copy)]
pub struct Durable<'a> {
    pub(super) db: &'a Db,
    pub(super) shared: &'a Shared,
}

impl Durable<'_> {
    /// Returns at most `limit` names below a parent after `after`, in order.
    pub async fn names(
        &self,
        space: u8,
        parent: Uuid,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Arc<Names>, Error> {
        let recent = &self.shared.recent;
        let key = PageKey { space, parent, after: after.map(ToOwned::to_owned), limit };
        if let Some(names) = recent.page(&key) {
            return Ok(names);
        }
        let mut range = Range::below(space, parent);
        let reading = recent.reading(&range.prefix);
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
            let Some(Ok(name)) = name else { return Err(corrupt(&entry.key, "not a name")) };
            names.push(name);
        }
        let names = Arc::new(names);
        recent.keep_page(reading, key, &names);
        Ok(names)
    }

    /// Prepares to check later whether a record has changed since this read. `None` if a write is
    /// in progress, so that the record may change before the write is durable.
    pub fn reading<K: Key>(&self, key: &K) -> Option<Reading> {
        self.shared.recent.reading(&key.encode())
    }

    /// Returns the indexes of the reads that are out of date.
    pub fn overtaken(&self, readings: &[Option<Reading>]) -> Vec<usize> {
        self.shared.recent.overtaken(readings)
    }
}

impl Read for Durable<'_> {
    async fn get_bytes(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        Ok(self.db.get_with_options(key, &read_options(DurabilityLevel::Remote)).await?)
    }

    async fn iterate(&self, range: &Range) -> Result<DbIterator, Error> {
        let options = scan_options(DurabilityLevel::Remote);
        Ok(self.db.scan_with_options(range.bounds(), &options).await?)
    }

    async fn get<K: Key>(&self, key: &K) -> Result<Option<K::Value>, Error> {
        Ok(self.get_shared(key).await?.map(Arc::unwrap_or_clone))
    }

    async fn get_shared<K: Key>(&self, key: &K) -> Result<Option<Arc<K::Value>>, Error> {
        get_recent(self, &self.shared.recent, key).await
    }
}

/// Returns the record at a key, from the cache or from the store. A valid cache entry is both
/// durable and the newest version, so views of both kinds can use it.
async fn get_recent<K: Key>(
    view: &impl Read,
    recent: &Recent,
    key: &K,
) -> Result<Option<Arc<K::Value>>, Error> {
    let key = key.encode();
    if !is_cached(&key) {
        return Ok(decoded::<K>(&key, view.get_bytes(&key).await?.as_deref())?.map(Arc::new));
    }
    match recent.record(&key) {
        Known::Unknown => {}
        Known::Absent => return Ok(None),
        Known::Present(record) => return Ok(Some(record)),
    }
    let reading = recent.reading(&key);
    let bytes = view.get_bytes(&key).await?;
    let record = decoded::<K>(&key, bytes.as_deref())?.map(Arc::new);
    recent.keep_record(reading, key, record.clone(), bytes.map_or(0, |bytes| bytes.len()));
    Ok(record)
}

/// Accepted state, durable or not: for evaluating a change that itself waits until everything
/// before it is durable.
#[derive(Clone, Copy)]
pub struct Latest<'a> {
    pub(super) db: &'a Db,
    pub(super) shared: &'a Shared,
}

impl Read for Latest<'_> {
    async fn get_bytes(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        Ok(self.db.get_with_options(key, &read_options(DurabilityLevel::Memory)).await?)
    }

    async fn iterate(&self, range: &Range) -> Result<DbIterator, Error> {
        let options = scan_options(DurabilityLevel::Memory);
        Ok(self.db.scan_with_options(range.bounds(), &options).await?)
    }

    async fn get<K: Key>(&self, key: &K) -> Result<Option<K::Value>, Error> {
        Ok(self.get_shared(key).await?.map(Arc::unwrap_or_clone))
    }

    async fn get_shared<K: Key>(&self, key: &K) -> Result<Option<Arc<K::Value>>, Error> {
        get_recent(self, &self.shared.recent, key).await
    }
}

/// A store that is only opened for reading, for `fsck` and similar commands.
pub struct Offline {
    pub(super) reader: DbReader,
}

impl Read for Offline {
    async fn get_bytes(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        Ok(self.reader.get(key).await?)
    }

    async fn iterate(&self, range: &Range) -> Result<DbIterator, Error> {
        let options = scan_options(DurabilityLevel::Memory);
        Ok(self.reader.scan_with_options(range.bounds(), &options).await?)
    }
}

impl Store {
    /// Returns the durable state.
    pub fn durable(&self) -> Durable<'_> {
        Durable { db: &self.db, shared: &self.shared }
    }

    /// Returns the accepted state.
    pub fn latest(&self) -> Latest<'_> {
        Latest { db: &self.db, shared: &self.shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_one_begins() {
        assert_eq!(successor(b"a"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(successor(b"\xff"), Bound::Unbounded);
    }
}
