//! Converts explanations of scans from requests and to responses.

use slateberg_catalog::planning::{ScanReport, ScanRequest};
use slateberg_management::scans::{ExplainScanRequest, ScanExplanation};
use slateberg_model::scan::SnapshotSelection;

/// Returns the name of the table in a request, and the scan.
pub fn scan_to_explain(request: ExplainScanRequest) -> (String, ScanRequest) {
    let scan = ScanRequest {
        snapshots: SnapshotSelection {
            snapshot_id: request.snapshot_id,
            start_snapshot_id: request.start_snapshot_id,
            end_snapshot_id: request.end_snapshot_id,
        },
        filter: request.filter.map(|filter| filter.to_string()),
        case_sensitive: request.case_sensitive.unwrap_or(true),
        ..ScanRequest::default()
    };
    (request.resource, scan)
}

/// Returns the explanation of a scan.
pub fn scan_explanation(report: &ScanReport) -> ScanExplanation {
    ScanExplanation {
        files: report.files,
        bytes: report.bytes,
        rows: report.rows,
        delete_files: report.delete_files,
        delete_bytes: report.delete_bytes,
        manifests: report.manifests,
        manifests_pruned: report.manifests_pruned,
        delete_manifests: report.delete_manifests,
        files_pruned_by_partition: report.pruned.by_partition,
        files_pruned_by_statistics: report.pruned.by_statistics,
    }
}
