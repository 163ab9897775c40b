//! Records of the metrics reports that clients sent.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The newest metrics reports of a table, the oldest of them first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsReportsRecord {
    /// The reports.
    pub reports: VecDeque<MetricsReport>,
}

/// A metrics report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsReport {
    /// Time at which the server received the report.
    pub at_ms: i64,
    /// Id of the principal that sent it.
    pub principal: String,
    /// Name of the principal, because the id of an API key does not contain the name of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The report as the client sent it: the specification's `ReportMetricsRequest`.
    pub report: Value,
}

impl MetricsReportsRecord {
    /// Adds later reports, and keeps the newest `kept_max`.
    pub fn add(&mut self, later: Self, kept_max: usize) {
        self.reports.extend(later.reports);
        let excess = self.reports.len().saturating_sub(kept_max);
        self.reports.drain(..excess);
    }
}
