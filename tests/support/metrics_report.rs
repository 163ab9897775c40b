//! Metrics reports of clients.

use serde_json::{Value, json};

/// Returns a report of a scan by the Java client.
pub fn scan_report() -> Value {
    json!({
        "report-type": "scan-report",
        "table-name": "ns.t",
        "snapshot-id": 1,
        "filter": true,
        "schema-id": 0,
        "projected-field-ids": [1],
        "projected-field-names": ["id"],
        "metrics": { "total-planning-duration":
            { "count": 1, "time-unit": "nanoseconds", "total-duration": 7 } },
        "metadata": {},
    })
}

/// Returns a report of a commit by the Java client.
pub fn commit_report() -> Value {
    json!({
        "report-type": "commit-report",
        "table-name": "ns.t",
        "snapshot-id": 1,
        "sequence-number": 1,
        "operation": "append",
        "metrics": { "attempts": { "unit": "count", "value": 1 } },
    })
}
