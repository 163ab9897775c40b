//! [`Answers`]: whole answers to `loadTable`, ready to be sent.
//!
//! A version of a table is answered the same way for ever to all who may read as much of it, so that nothing
//! here can be out of date: who asks for an answer has just been told by the catalog that its version is the
//! current one, and what policies say of reading it.
//!
//! Long answers are compressed for clients that want it: once for each version and coding, however many
//! ask. That takes CPU from everybody else, so that only a part of the cores does it at a time, and who
//! comes meanwhile with another table is answered without.

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

/// Bytes that an entry takes beside its body.
const ENTRY_BYTES: usize = 512;
/// Bytes of an answer, as the cache expects it.
const TYPICAL_BYTES: u64 = 16 << 10;
/// Up to so many bytes are compressed where they are: it takes less than a millisecond.
const COMPRESSED_AT_ONCE_BYTES_MAX: usize = 64 << 10;
/// Answers up to so many bytes are kept as they are, in one piece.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Answers that were given lately, bounded in bytes.
pub struct Answers {
    kept: ByteCache<(AnswerKey, Coding), Answer>,
    compression_bytes_min: usize,
    bytes_max: usize,
    compressing: Semaphore,
}

/// Everything that an answer depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnswerKey {
    /// What is shown.
    pub shown: Shown,
    /// What is told of how to get at files, by its content; none if nothing is told.
    pub files: Option<FilesKey>,
}

/// An answer that is ready.
#[derive(Debug, Clone)]
pub struct Answer {
    body: Bytes,
    coding: Coding,
    tag: Option<Tag>,
}

impl Answers {
    /// None yet, within the bounds of these settings.
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

    /// An answer, if it is kept: in this coding, or as it is.
    pub fn get(&self, key: AnswerKey, coding: Coding) -> Option<Answer> {
        let coded = (coding != Coding::Identity).then(|| self.kept.peek(&(key, coding))).flatten();
        let found = coded.or_else(|| self.kept.peek(&(key, Coding::Identity)));
        self.kept.count(found.is_some());
        found
    }

    /// The response with an answer that was kept, compressed in this coding if it is long.
    pub async fn respond(&self, key: AnswerKey, answer: Answer, coding: Coding) -> Response {
        if answer.coding == Coding::Identity && self.is_compressed(answer.body.len(), coding) {
            let fresh = Fresh { parts: vec![answer.body.clone()], tag: answer.tag.clone() };
            if let Some(compressed) = self.compressed(key, coding, &fresh).await {
                return compressed.into_response();
            }
        }
        answer.into_response()
    }

    /// The response with an answer that was just made, compressed in this coding if it is long; and keeps it
    /// for the next.
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

    /// How they are used.
    pub fn usage(&self) -> CacheUsage {
        self.kept.usage()
    }

    /// Whether an answer of so many bytes is compressed for who asks for this coding. One that is too long to
    /// be kept would be compressed anew each time.
    fn is_compressed(&self, bytes: usize, coding: Coding) -> bool {
        let lengths = self.compression_bytes_min..=self.bytes_max;
        coding != Coding::Identity && lengths.contains(&bytes)
    }

    /// The answer in this coding, which becomes one that is kept; none while too many others are being
    /// compressed.
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
        // Whoever asks for the same meanwhile waits for it.
        self.kept.get_or_insert(&(key, coding), make).await.ok()
    }

    /// That of the version before will not be asked for any more.
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
    /// The bytes that it takes in the cache.
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

/// Says on what the answer depends, and whether nobody may keep it.
fn finished(response: Response, is_secret: bool) -> Response {
    let response = with_vary(response);
    if is_secret { (NO_STORE, response).into_response() } else { response }
}

/// Says that the answer depends on what the client takes, for whoever keeps it on its way.
pub fn with_vary(mut response: Response) -> Response {
    let value = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, value);
    response
}
