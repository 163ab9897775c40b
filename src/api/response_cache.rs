//! [`ResponseCache`]: cache of complete `loadTable` responses.
//!
//! The response for one version of a table never changes for callers with the same read access, so
//! no entry can become stale. Before each lookup, the catalog has confirmed the current version and
//! evaluated the policies for reading it.
//!
//! Long responses are compressed for clients that accept it, once per version and coding.
//! Compression takes CPU from other requests, so it uses only a part of the cores. While these
//! cores are busy, responses are sent uncompressed. Responses with chunks that were compressed for
//! earlier versions take hardly any CPU, so they are always compressed.

use std::num::NonZero;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use super::coding::{Coding, PlainBody, PreferredCodings};
use super::delegation::ConfigDigest;
use super::etag::{ETag, Representation};
use super::respond::{NO_STORE, RenderedResponse, response_from_parts, tagged_json};
use slateberg_catalog::ReadVersion;
use slateberg_config::server::Settings;
use slateberg_model::gzip::INLINE_BYTES_MAX;
use slateberg_telemetry::cache::{ByteCache, CacheUsage};

/// Bytes of an entry in addition to its body.
const ENTRY_BYTES: usize = 512;
/// Expected bytes of a response, to size the cache.
const TYPICAL_BYTES: u64 = 16 << 10;
/// Maximum size of a response that is cached uncompressed, as one buffer.
const UNCOMPRESSED_ENTRY_BYTES_MAX: usize = 1 << 20;

/// Recent responses, bounded in bytes.
pub struct ResponseCache {
    entries: ByteCache<(ResponseKey, Coding), CachedResponse>,
    compression_bytes_min: usize,
    bytes_max: usize,
    compression_permits: Arc<Semaphore>,
}

/// The key of a response: everything that it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResponseKey {
    /// The version and the snapshots in the response.
    pub representation: Representation,
    /// The digest of the file-access configuration in the response, if it contains one.
    pub delegation: Option<ConfigDigest>,
}

/// A cached response.
#[derive(Debug, Clone)]
pub struct CachedResponse {
    body: Bytes,
    coding: Coding,
    tag: Option<ETag>,
}

impl ResponseCache {
    /// Creates an empty cache within the bounds of these settings.
    pub fn new(settings: &Settings) -> Self {
        let bytes_max = settings.response_cache_bytes();
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            entries: ByteCache::new(bytes_max, TYPICAL_BYTES),
            compression_bytes_min: settings.compression_bytes_min,
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            compression_permits: Arc::new(Semaphore::new((cores / 2).max(1))),
        }
    }

    /// Removes all responses.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// Returns the cached response in one of these codings. If only the uncompressed response is
    /// cached, returns that. Counts a hit or a miss.
    pub fn get(&self, key: ResponseKey, codings: PreferredCodings) -> Option<CachedResponse> {
        let PreferredCodings { inline, chunked } = codings;
        let peek = |coding| self.entries.peek(&(key, coding));
        let hit = peek(inline)
            .or_else(|| (chunked != inline).then(|| peek(chunked)).flatten())
            .or_else(|| (inline != Coding::Identity).then(|| peek(Coding::Identity)).flatten());
        self.entries.count(hit.is_some());
        hit
    }

    /// Returns a cached response. Compresses it first if it is long and cached uncompressed.
    pub async fn respond(
        &self,
        key: ResponseKey,
        cached: CachedResponse,
        codings: PreferredCodings,
    ) -> Response {
        let coding = codings.inline;
        if cached.coding == Coding::Identity && self.should_compress(cached.body.len(), coding) {
            let body = cached.body.clone().into();
            let rendered = RenderedResponse { body, tag: cached.tag.clone() };
            if let Some(compressed) = self.compress(key, coding, &rendered).await {
                return compressed.into_response();
            }
        }
        cached.into_response()
    }

    /// Returns a new response, compressed if it is long, and caches it.
    pub async fn respond_rendered(
        &self,
        key: ResponseKey,
        rendered: RenderedResponse,
        codings: PreferredCodings,
    ) -> Response {
        let (length, coding) = (rendered.body.bytes(), codings.for_body(&rendered.body));
        let is_secret = rendered.tag.is_none();
        if length > self.bytes_max {
            return with_cache_headers(self.respond_uncached(rendered, codings).await, is_secret);
        }
        if self.should_compress(length, coding)
            && let Some(compressed) = self.compress(key, coding, &rendered).await
        {
            return compressed.into_response();
        }
        if length > UNCOMPRESSED_ENTRY_BYTES_MAX {
            return with_cache_headers(rendered.into_response(), is_secret);
        }
        let coding = Coding::Identity;
        let body = concat(coding.encode(&rendered.body));
        let cached = CachedResponse { body, coding, tag: rendered.tag };
        self.evict_predecessor(key);
        self.entries.insert((key, coding), cached.clone(), cached.bytes());
        cached.into_response()
    }

    /// Returns a new response without caching it. Compresses it if it is long and has chunks,
    /// because these are compressed only once.
    pub async fn respond_uncached(
        &self,
        rendered: RenderedResponse,
        codings: PreferredCodings,
    ) -> Response {
        let (coding, body) = (codings.chunked, &rendered.body);
        if body.bytes() < self.compression_bytes_min || !body.document.has_chunks() {
            return rendered.into_response();
        }
        let compressed = match coding {
            Coding::Gzip => self.encode(coding, body).await,
            Coding::Identity | Coding::Zstd => None,
        };
        let Some(parts) = compressed else { return with_vary(rendered.into_response()) };
        let tag = rendered.tag.map(ETag::weak);
        with_vary(with_coding(response_from_parts(parts, tag.as_ref()), coding))
    }

    /// Statistics of the cache.
    pub fn usage(&self) -> CacheUsage {
        self.entries.usage()
    }

    /// Whether a response of this length is compressed for a client that accepts this coding, and
    /// cached.
    fn should_compress(&self, bytes: usize, coding: Coding) -> bool {
        let lengths = self.compression_bytes_min..=self.bytes_max;
        coding != Coding::Identity && lengths.contains(&bytes)
    }

    /// Returns the compressed response and caches it. Returns `None` while too many compressions
    /// are running.
    async fn compress(
        &self,
        key: ResponseKey,
        coding: Coding,
        rendered: &RenderedResponse,
    ) -> Option<CachedResponse> {
        let entry = async {
            let body = concat(self.encode(coding, &rendered.body).await.ok_or(())?);
            self.evict_predecessor(key);
            let cached = CachedResponse { body, coding, tag: rendered.tag.clone().map(ETag::weak) };
            let bytes = cached.bytes();
            Ok::<_, ()>((cached, bytes))
        };
        // Concurrent requests for the same entry wait for one compression.
        self.entries.get_or_insert(&(key, coding), entry).await.ok()
    }

    /// Returns the parts of a compressed body. Returns `None` while too many compressions are
    /// running.
    async fn encode(&self, coding: Coding, body: &PlainBody) -> Option<Vec<Bytes>> {
        let is_short = coding.bytes_to_compress(body) <= INLINE_BYTES_MAX;
        if is_short && body.document.has_chunks() {
            return Some(coding.encode(body));
        }
        let permit = Arc::clone(&self.compression_permits).try_acquire_owned().ok()?;
        if is_short {
            return Some(coding.encode(body));
        }
        let body = body.clone();
        // The compression does not end with its request, so it keeps the permit.
        let encode = move || {
            let _permit = permit;
            coding.encode(&body)
        };
        tokio::task::spawn_blocking(encode).await.ok()
    }

    /// Evicts the previous version, because no further request needs it.
    fn evict_predecessor(&self, key: ResponseKey) {
        let representation = key.representation;
        let Some(previous) = representation.version.version.checked_sub(1) else { return };
        let version = ReadVersion { version: previous, ..representation.version };
        for coding in Coding::ALL {
            let representation = Representation { version, ..representation };
            self.entries.remove(&(ResponseKey { representation, ..key }, coding));
        }
    }
}

impl CachedResponse {
    /// Bytes of the entry in the cache.
    fn bytes(&self) -> usize {
        self.body.len() + ENTRY_BYTES
    }

    fn into_response(self) -> Response {
        let response = tagged_json(self.body.into(), self.tag.as_ref());
        with_cache_headers(with_coding(response, self.coding), self.tag.is_none())
    }
}

/// Returns the parts as one buffer.
fn concat(parts: Vec<Bytes>) -> Bytes {
    match <[Bytes; 1]>::try_from(parts) {
        Ok([only]) => only,
        Err(parts) => parts.concat().into(),
    }
}

/// Adds the `Content-Encoding` header if the body is compressed.
fn with_coding(mut response: Response, coding: Coding) -> Response {
    if let Some(coding) = coding.header() {
        response.headers_mut().insert(header::CONTENT_ENCODING, coding);
    }
    response
}

/// Adds the `Vary` header, and `Cache-Control: no-store` if the response contains a secret.
fn with_cache_headers(response: Response, is_secret: bool) -> Response {
    let response = with_vary(response);
    if is_secret { (NO_STORE, response).into_response() } else { response }
}

/// Adds `Vary: Accept-Encoding`, for caches between server and client.
pub fn with_vary(mut response: Response) -> Response {
    let value = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, value);
    response
}
