//! [`Answers`]: whole answers to `loadTable`, ready to be sent.
//!
//! A version of a table is answered the same way for ever, so that nothing here can be out of date: who
//! asks for an answer has just been told by the catalog that its version is the current one.

use axum::body::Bytes;
use axum::response::Response;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use uuid::Uuid;

use super::respond::tagged_json;
use super::tag::{SnapshotMode, Tag};
use crate::telemetry::cache::{CacheRequests, CacheUsage};

/// A version of a table, and the way in which it is shown.
pub type Shown = (Uuid, u64, SnapshotMode);

/// Bytes that an entry takes beside its body.
const ENTRY_BYTES: usize = 512;
/// Bytes of an answer, as the cache expects it.
const TYPICAL_BYTES: u64 = 16 << 10;

/// Answers that were given lately, bounded in bytes.
pub struct Answers {
    kept: Cache<Shown, Answer, Weight>,
    requests: CacheRequests,
}

/// An answer that is ready.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its body.
    pub body: Bytes,
    /// Its tag.
    pub tag: Tag,
}

impl Answer {
    /// The response.
    pub fn into_response(self) -> Response {
        tagged_json(self.body.into(), Some(&self.tag))
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Shown, Answer> for Weight {
    fn weight(&self, _shown: &Shown, answer: &Answer) -> u64 {
        (answer.body.len() + ENTRY_BYTES) as u64
    }
}

impl Answers {
    /// At most so many bytes of answers.
    pub fn new(bytes_max: u64) -> Self {
        let entries = usize::try_from(bytes_max / TYPICAL_BYTES).unwrap_or(usize::MAX);
        let kept = Cache::with_weighter(entries.max(16), bytes_max, Weight);
        Self { kept, requests: CacheRequests::default() }
    }

    /// An answer, if it is kept.
    pub fn get(&self, shown: &Shown) -> Option<Answer> {
        let found = self.kept.get(shown);
        self.requests.count(found.is_some());
        found
    }

    /// Keeps an answer. That of the version before will not be asked for any more.
    pub fn keep(&self, shown: Shown, answer: Answer) {
        let (id, version, mode) = shown;
        self.kept.remove(&(id, version.saturating_sub(1), mode));
        self.kept.insert(shown, answer);
    }

    /// How they are used.
    pub fn usage(&self) -> CacheUsage {
        self.requests.usage(self.kept.weight())
    }
}
