//! [`Tag`]: the ETag of a table's state. It depends on the version and on the caller's read access.

use axum::http::HeaderValue;
use uuid::Uuid;

use slateberg_catalog::ReadVersion;

/// The snapshots in a response (the query parameter `snapshots`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnapshotMode {
    /// All snapshots.
    All,
    /// Snapshots that a branch or tag points to.
    Refs,
}

impl SnapshotMode {
    fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Refs => "refs",
        }
    }
}

/// The version of a table as a caller may read it, and the selection of snapshots: everything that
/// a response depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shown {
    /// The timeline of the catalog, after a restore, import or clone. It distinguishes versions
    /// with equal numbers.
    pub timeline: Option<Uuid>,
    /// The version in the response.
    pub version: ReadVersion,
    /// The selection of snapshots.
    pub mode: SnapshotMode,
}

/// An ETag. It differs between all versions and snapshot modes. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(HeaderValue);

impl Tag {
    /// Creates the tag of a version. Callers with different read access get different tags.
    pub fn new(Shown { timeline, version, mode }: Shown) -> Self {
        let ReadVersion { id, version, rules } = version;
        let (id, word) = (id.simple(), mode.word());
        // Half of a random id suffices, because timelines are few.
        let timeline = timeline.map(|it| format!("{:016x}-", it.as_u64_pair().0));
        let timeline = timeline.as_deref().unwrap_or_default();
        let quoted = match rules {
            None => format!("\"{id}-{timeline}{version}-{word}\""),
            Some(rules) => format!("\"{id}-{timeline}{version}-{word}-{rules}\""),
        };
        Self(HeaderValue::try_from(quoted).expect("tags are made of hexadecimal and words"))
    }

    /// Returns the tag as a weak one, for a compressed body: a strong tag identifies the exact
    /// bytes. `If-None-Match` compares weakly, so that the weak tag matches, too.
    pub fn weak(self) -> Self {
        let weak = [b"W/", self.0.as_bytes()].concat();
        Self(HeaderValue::try_from(weak).expect("it was a value before"))
    }

    /// The header's value.
    pub fn value(&self) -> &HeaderValue {
        &self.0
    }

    /// The tag without quotes and weakness prefix.
    pub fn bare(&self) -> &str {
        self.0.to_str().unwrap_or_default().trim_start_matches("W/").trim_matches('"')
    }
}
