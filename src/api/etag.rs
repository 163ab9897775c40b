//! [`ETag`]: the ETag of a table's state. It depends on the version and on the caller's read
//! access.

use axum::http::HeaderValue;
use uuid::Uuid;

use super::scan_planning_mode::ScanPlanningMode;
use slateberg_catalog::{Enforcement, ReadVersion};

/// The snapshots in a response (the query parameter `snapshots`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnapshotMode {
    /// All snapshots.
    All,
    /// Snapshots that a branch or tag points to.
    Refs,
}

impl SnapshotMode {
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Refs => "refs",
        }
    }
}

/// Everything that determines a response: the version of a table, the caller's read access to it,
/// and the selection of snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Representation {
    /// The timeline of the catalog, if the catalog was restored, imported or cloned. Versions
    /// before and after such a change can have the same number. The timeline distinguishes them.
    pub timeline: Option<Uuid>,
    /// The version in the response.
    pub version: ReadVersion,
    /// The selection of snapshots.
    pub mode: SnapshotMode,
    /// The mode of scan planning that the warehouse prescribes. A change of the warehouse changes it
    /// without a new version of the table.
    pub planning: Option<ScanPlanningMode>,
}

/// An ETag. Different versions and snapshot modes have different tags. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ETag(HeaderValue);

impl ETag {
    /// Creates the tag of a version. Callers with different read access get different tags.
    pub fn new(Representation { timeline, version, mode, planning }: Representation) -> Self {
        let ReadVersion { id, version, rules, labels } = version;
        let (id, name) = (id.simple(), mode.name());
        // Half of a random id suffices, because timelines are few.
        let timeline = timeline.map(|it| format!("{:016x}-", it.as_u64_pair().0));
        let timeline = timeline.as_deref().unwrap_or_default();
        let planning = planning.map(|mode| format!("-{}", mode.tag())).unwrap_or_default();
        // Half of a random revision suffices, because a table has few of them.
        let labels = labels.map(|it| format!("-labels-{:016x}", it.as_u64_pair().1));
        let planning = planning + labels.as_deref().unwrap_or_default();
        let quoted = match rules {
            None => format!("\"{id}-{timeline}{version}-{name}{planning}\""),
            Some((rules, Enforcement::NoFiles)) => {
                format!("\"{id}-{timeline}{version}-{name}{planning}-{rules}\"")
            }
            Some((rules, Enforcement::PermittedFiles)) => {
                format!("\"{id}-{timeline}{version}-{name}{planning}-{rules}-files\"")
            }
            Some((rules, Enforcement::TrustedEngine)) => {
                format!("\"{id}-{timeline}{version}-{name}{planning}-{rules}-engine\"")
            }
        };
        Self(HeaderValue::try_from(quoted).expect("a tag consists of printable characters"))
    }

    /// Returns the weak form of the tag, for a compressed body: a strong tag would identify the
    /// exact bytes. `If-None-Match` compares weakly, so the weak tag matches, too.
    pub fn weak(self) -> Self {
        let weak = [b"W/", self.0.as_bytes()].concat();
        Self(HeaderValue::try_from(weak).expect("the strong tag is a valid value"))
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
