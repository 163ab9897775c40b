//! [`ResponseCache`]: cache of complete `loadTable` responses.
//!
//! The response for one version of a table never changes for callers with the same read access, so
//! no entry can become stale. Before each lookup, the catalog has confirmed the current version and
//! evaluated the policies for reading it.
//!
//! Long responses are compressed for clients that accept it, once per version and coding.
//! Compression takes CPU from other requests, so it uses only a part of the cores. While these
//! cores are busy, responses are sent uncompressed.

use std::num::NonZero;

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use super::coding::Coding;
use super::delegation::ConfigDigest;
use super::etag::{ETag, Representation};
use super::respond::{NO_STORE, RenderedResponse, response_from_parts, tagged_json};
use slateberg_catalog::ReadVersion;
use slateberg_config::server::Settings;
use slateberg_telemetry::cache::{ByteCache, CacheUsage};

/// Bytes of an entry in addition to its body.
const ENTRY_BYTES: usize = 512;
/// Expected bytes of a response, to size the cache.
const TYPICAL_BYTES: u64 = 16 << 10;
/// Responses of at most this size are compressed on the current thread, because that takes less
/// than a millisecond.
const INLINE_COMPRESSION_BYTES_MAX: usize = 64 << 10;
/// Maximum size of a response that is cached uncompressed, as one buffer.
const UNCOMPRESSED_ENTRY_BYTES_MAX: usize = 1 << 20;

/// Recent responses, bounded in bytes.
pub struct ResponseCache {
    entries: ByteCache<(ResponseKey, Coding), CachedResponse>,
    compression_bytes_min: usize,
    bytes_max: usize,
    compression_permits: Semaphore,
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
            compression_permits: Semaphore::new((cores / 2).max(1)),
        }
    }

    /// Returns the cached response in this coding. If only the uncompressed response is cached,
    /// returns that. Counts a hit or a miss.
    pub fn get(&self, key: ResponseKey, coding: Coding) -> Option<CachedResponse> {
        let coded =
            (coding != Coding::Identity).then(|| self.entries.peek(&(key, coding))).flatten();
        let hit = coded.or_else(|| self.entries.peek(&(key, Coding::Identity)));
        self.entries.count(hit.is_some());
        hit
    }

    /// Returns a cached response. Compresses it first if it is long and cached uncompressed.
    pub async fn respond(
        &self,
        key: ResponseKey,
        cached: CachedResponse,
        coding: Coding,
    ) -> Response {
        if cached.coding == Coding::Identity && self.should_compress(cached.body.len(), coding) {
            let rendered =
                RenderedResponse { parts: vec![cached.body.clone()], tag: cached.tag.clone() };
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
        coding: Coding,
    ) -> Response {
        let length = rendered.len();
        if self.should_compress(length, coding)
            && let Some(compressed) = self.compress(key, coding, &rendered).await
        {
            return compressed.into_response();
        }
        let RenderedResponse { parts, tag } = rendered;
        if length > UNCOMPRESSED_ENTRY_BYTES_MAX {
            return with_cache_headers(response_from_parts(parts, tag.as_ref()), tag.is_none());
        }
        let coding = Coding::Identity;
        let cached = CachedResponse { body: coding.encode(&parts), coding, tag };
        self.evict_predecessor(key);
        self.entries.insert((key, coding), cached.clone(), cached.bytes());
        cached.into_response()
    }

    /// Statistics of the cache.
    pub fn usage(&self) -> CacheUsage {
        self.entries.usage()
    }

    /// Whether a response of this length is compressed for a client that accepts this coding. A
    /// response that is too long to be cached is not compressed, because each request would have to
    /// compress it again.
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
            let permit = self.compression_permits.try_acquire().map_err(|_| ())?;
            let parts = rendered.parts.clone();
            let body = match rendered.len() {
                ..=INLINE_COMPRESSION_BYTES_MAX => coding.encode(&parts),
                _ => tokio::task::spawn_blocking(move || coding.encode(&parts))
                    .await
                    .map_err(|_| ())?,
            };
            drop(permit);
            self.evict_predecessor(key);
            let cached = CachedResponse { body, coding, tag: rendered.tag.clone().map(ETag::weak) };
            let bytes = cached.bytes();
            Ok::<_, ()>((cached, bytes))
        };
        // Concurrent requests for the same entry wait for one compression.
        self.entries.get_or_insert(&(key, coding), entry).await.ok()
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
        let mut response = tagged_json(self.body.into(), self.tag.as_ref());
        if let Some(coding) = self.coding.header() {
            response.headers_mut().insert(header::CONTENT_ENCODING, coding);
        }
        with_cache_headers(response, self.tag.is_none())
    }
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
