//! Records of the use of tables and views.

use serde::{Deserialize, Serialize};

/// Counts of the uses of a table or view, and its last uses. The counts are approximate,
/// because the server writes them once a minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRecord {
    /// Time of the first counted use.
    pub since_ms: i64,
    /// Number of loads.
    #[serde(default)]
    pub loads: u64,
    /// Number of planned scans.
    #[serde(default)]
    pub scans: u64,
    /// Number of commits.
    #[serde(default)]
    pub commits: u64,
    /// The last load or planned scan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read: Option<LastUse>,
    /// The last commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit: Option<LastUse>,
}

/// A use of a table or view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastUse {
    /// Time of the use.
    pub at_ms: i64,
    /// Id of the principal.
    pub principal: String,
    /// Name of the principal, because the id of an API key does not contain the name of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl UsageRecord {
    /// Adds later uses.
    pub fn add(&mut self, later: Self) {
        self.loads = self.loads.saturating_add(later.loads);
        self.scans = self.scans.saturating_add(later.scans);
        self.commits = self.commits.saturating_add(later.commits);
        self.last_read = later.last_read.or(self.last_read.take());
        self.last_commit = later.last_commit.or(self.last_commit.take());
    }

    /// Returns the number of loads and planned scans.
    pub fn reads(&self) -> u64 {
        self.loads.saturating_add(self.scans)
    }
}
