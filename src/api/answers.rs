//! [`Answers`]: cache of complete `loadTable` responses.
//!
//! The response for one version of a table never changes for callers with the same read access, so
//! that no entry can become stale. For each lookup, the catalog has just confirmed the current
//! version and evaluated the policies for reading it.
//!
//! Long responses are compressed for clients that accept it, once per version and coding.
//! Compression takes CPU from other requests. It therefore uses only a part of the cores, and a
//! response is sent uncompressed while these are busy.

use std::num::NonZero;

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use super::coding::Coding;
use super::files::FilesKey;
use super::respond::{Fresh, NO_STORE, in_parts, tagged_json};
use super::tag::{Shown, Tag};
use slateberg_catalog::ReadVersion;
use slateberg_config::server::Settings;
use slateberg_telemetry::cache::{ByteCache, CacheUsage};

/// Bytes of an entry in addition to its body.
const ENTRY_BYTES: usize = 512;
/// Expected bytes of a response, to size the cache.
const TYPICAL_BYTES: u64 = 16 << 10;
/// Responses of at most this size are compressed on the current thread: it takes less than a
/// millisecond.
const COMPRESSED_AT_ONCE_BYTES_MAX: usize = 64 << 10;
/// Maximum size of a response that is cached uncompressed, as one buffer.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Recent responses, bounded in bytes.
pub struct Answers {
    kept: ByteCache<(AnswerKey, Coding), Answer>,
    compression_bytes_min: usize,
    bytes_max: usize,
    compressing: Semaphore,
}

/// The key of a response: everything that it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnswerKey {
    /// The version and the snapshots in the response.
    pub shown: Shown,
    /// The digest of the file-access configuration in the response, if it contains one.
    pub files: Option<FilesKey>,
}

/// A cached response.
#[derive(Debug, Clone)]
pub struct Answer {
    body: Bytes,
    coding: Coding,
    tag: Option<Tag>,
}

impl Answers {
    /// Creates an empty cache within the bounds of these settings.
    pub fn new(settings: &Settings) -> Self {
        let bytes_max = settings.answer_cache_bytes;
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            kept: ByteCache::new(bytes_max, TYPICAL_BYTES),
            compression_bytes_min: settings.compression_bytes_min,
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            compressing: Semaphore::new((cores / 2).max(1)),
        }
    }

    /// Looks up a response in this coding, or else uncompressed.
    pub fn get(&self, key: AnswerKey, coding: Coding) -> Option<Answer> {
        let coded = (coding != Coding::Identity).then(|| self.kept.peek(&(key, coding))).flatten();
        let found = coded.or_else(|| self.kept.peek(&(key, Coding::Identity)));
        self.kept.count(found.is_some());
        found
    }

    /// Responds with a cached answer. Compresses it first if it is long and cached uncompressed.
    pub async fn respond(&self, key: AnswerKey, answer: Answer, coding: Coding) -> Response {
        if answer.coding == Coding::Identity && self.is_compressed(answer.body.len(), coding) {
            let fresh = Fresh { parts: vec![answer.body.clone()], tag: answer.tag.clone() };
            if let Some(compressed) = self.compressed(key, coding, &fresh).await {
                return compressed.into_response();
            }
        }
        answer.into_response()
    }

    /// Responds with a new answer, compressed if it is long, and caches it.
    pub async fn respond_fresh(&self, key: AnswerKey, fresh: Fresh, coding: Coding) -> Response {
        let length = fresh.len();
        if self.is_compressed(length, coding)
            && let Some(compressed) = self.compressed(key, coding, &fresh).await
        {
            return compressed.into_response();
        }
        let Fresh { parts, tag } = fresh;
        if length > KEPT_BYTES_MAX {
            return finished(in_parts(parts, tag.as_ref()), tag.is_none());
        }
        let coding = Coding::Identity;
        let answer = Answer { body: coding.encode(&parts), coding, tag };
        self.forget_predecessor(key);
        self.kept.insert((key, coding), answer.clone(), answer.bytes());
        answer.into_response()
    }

    /// Statistics of the cache.
    pub fn usage(&self) -> CacheUsage {
        self.kept.usage()
    }

    /// Whether a response of this length is compressed for a client that accepts this coding. A
    /// response that is too long to be cached is not, because each request would compress it again.
    fn is_compressed(&self, bytes: usize, coding: Coding) -> bool {
        let lengths = self.compression_bytes_min..=self.bytes_max;
        coding != Coding::Identity && lengths.contains(&bytes)
    }

    /// Returns the compressed response and caches it. Returns `None` while too many compressions
    /// are running.
    async fn compressed(&self, key: AnswerKey, coding: Coding, fresh: &Fresh) -> Option<Answer> {
        let make = async {
            let room = self.compressing.try_acquire().map_err(|_| ())?;
            let parts = fresh.parts.clone();
            let body = match fresh.len() {
                ..=COMPRESSED_AT_ONCE_BYTES_MAX => coding.encode(&parts),
                _ => tokio::task::spawn_blocking(move || coding.encode(&parts))
                    .await
                    .map_err(|_| ())?,
            };
            drop(room);
            self.forget_predecessor(key);
            let answer = Answer { body, coding, tag: fresh.tag.clone().map(Tag::weak) };
            let bytes = answer.bytes();
            Ok::<_, ()>((answer, bytes))
        };
        // Concurrent requests for the same entry wait for one compression.
        self.kept.get_or_insert(&(key, coding), make).await.ok()
    }

    /// Evicts the previous version, which no further request needs.
    fn forget_predecessor(&self, key: AnswerKey) {
        let shown = key.shown;
        let Some(before) = shown.version.version.checked_sub(1) else { return };
        let version = ReadVersion { version: before, ..shown.version };
        for coding in Coding::ALL {
            let shown = Shown { version, ..shown };
            self.kept.remove(&(AnswerKey { shown, ..key }, coding));
        }
    }
}

impl Answer {
    /// Bytes of the entry in the cache.
    fn bytes(&self) -> usize {
        self.body.len() + ENTRY_BYTES
    }

    fn into_response(self) -> Response {
        let mut response = tagged_json(self.body.into(), self.tag.as_ref());
        if let Some(coding) = self.coding.header() {
            response.headers_mut().insert(header::CONTENT_ENCODING, coding);
        }
        finished(response, self.tag.is_none())
    }
}

/// Adds the `Vary` header, and `Cache-Control: no-store` if the response contains a secret.
fn finished(response: Response, is_secret: bool) -> Response {
    let response = with_vary(response);
    if is_secret { (NO_STORE, response).into_response() } else { response }
}

/// Adds `Vary: Accept-Encoding`, for caches between server and client.
pub fn with_vary(mut response: Response) -> Response {
    let value = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, value);
    response
}
