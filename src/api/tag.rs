//! [`Tag`]: the ETag of a table's state, which its version tells, and what whoever asks may read of it.

use axum::http::HeaderValue;
use uuid::Uuid;

use slateberg_catalog::ReadVersion;

/// Which snapshots an answer holds (the query parameter `snapshots`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnapshotMode {
    /// Every one.
    All,
    /// Those that a branch or tag points to.
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

/// A version of a table, as whoever asks may read it, and the way in which it is shown: everything that an
/// answer depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shown {
    /// What tells versions from those that were counted elsewhere, if any were.
    pub timeline: Option<Uuid>,
    /// What is shown.
    pub version: ReadVersion,
    /// How.
    pub mode: SnapshotMode,
}

/// An ETag: differs with every version and every way to show it. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(HeaderValue);

impl Tag {
    /// The tag of a version. It holds for whoever may read as much of it, and for nobody else.
    pub fn new(Shown { timeline, version, mode }: Shown) -> Self {
        let ReadVersion { id, version, rules } = version;
        let (id, word) = (id.simple(), mode.word());
        // Half of a random id is enough: timelines are few.
        let timeline = timeline.map(|it| format!("{:016x}-", it.as_u64_pair().0));
        let timeline = timeline.as_deref().unwrap_or_default();
        let quoted = match rules {
            None => format!("\"{id}-{timeline}{version}-{word}\""),
            Some(rules) => format!("\"{id}-{timeline}{version}-{word}-{rules}\""),
        };
        Self(HeaderValue::try_from(quoted).expect("tags are made of hexadecimal and words"))
    }

    /// The same as a weak tag, for a body that was compressed. A strong one would say that its bytes are
    /// those of the body as it is. The weak one is worth no less, since `If-None-Match` compares weakly.
    pub fn weak(self) -> Self {
        let weak = [b"W/", self.0.as_bytes()].concat();
        Self(HeaderValue::try_from(weak).expect("it was a value before"))
    }

    /// The header's value.
    pub fn value(&self) -> &HeaderValue {
        &self.0
    }

    /// What stands between the quotes.
    pub fn bare(&self) -> &str {
        self.0.to_str().unwrap_or_default().trim_start_matches("W/").trim_matches('"')
    }
}
