//! Converts requests that expire snapshots, and converts the expired snapshots to the form of
//! responses.

use slateberg_catalog as catalog;
use slateberg_management::snapshots::{ExpireSnapshotsRequest, ExpiredSnapshot, SnapshotExpiry};
use slateberg_model::expiry::ExpiryRequest;

use crate::api::error::ApiError;

/// Converts a request that expires snapshots.
pub fn expiry_request(
    request: ExpireSnapshotsRequest,
) -> Result<catalog::SnapshotExpiry, ApiError> {
    let ExpireSnapshotsRequest { resource, dry_run, older_than_seconds, retain_last } = request;
    if retain_last == Some(0) {
        return Err(ApiError::bad_request(
            "Invalid retain-last: expected at least 1, got 0: the newest snapshot of a branch is its state",
        ));
    }
    let older_than_ms = older_than_seconds.map(|seconds| seconds.saturating_mul(1000));
    let older_than_ms = older_than_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let retain_last = retain_last.and_then(|number| usize::try_from(number).ok());
    let retention = ExpiryRequest { older_than_ms, retain_last };
    Ok(catalog::SnapshotExpiry { resource, retention, dry_run })
}

/// Converts the expired snapshots.
pub fn snapshot_expiry(expired: catalog::ExpiredSnapshots) -> SnapshotExpiry {
    let catalog::ExpiredSnapshots { snapshots, refs, remaining, job } = expired;
    let snapshots = snapshots
        .into_iter()
        .map(|it| ExpiredSnapshot { snapshot_id: it.id, timestamp_ms: it.timestamp_ms });
    let job = job.map(|id| id.to_string());
    SnapshotExpiry { snapshots: snapshots.collect(), refs, remaining, job }
}
