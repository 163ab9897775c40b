//! Metrics reports in requests and responses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use slateberg_catalog::metrics_reports::TableReports;
use slateberg_management::tables::{MetricsReport, MetricsReportList};

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics`: a `ScanReport` or a
/// `CommitReport` of the specification. The members that both require are required here too.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReportMetricsRequest {
    /// `scan-report` or `commit-report`.
    pub report_type: String,
    table_name: String,
    snapshot_id: i64,
    metrics: BTreeMap<String, Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<Filter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_id: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    projected_field_ids: Option<Vec<i32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    projected_field_names: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_number: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a boolean or an expression")]
enum Filter {
    Constant(bool),
    Expression {
        #[serde(rename = "type")]
        operator: String,
        #[serde(flatten)]
        others: Map<String, Value>,
    },
}

/// Converts the kept reports of a table.
pub fn reports_list(table: TableReports) -> MetricsReportList {
    let reports = table.reports.into_iter().map(|it| MetricsReport {
        received_at_ms: it.at_ms,
        reported_by: it.principal,
        reported_by_name: it.name,
        report: it.report,
    });
    MetricsReportList { resource: table.resource, reports: reports.collect() }
}
