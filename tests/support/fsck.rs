//! Check of a whole catalog on a bucket, as by `slateberg fsck`.

use std::sync::Arc;

use object_store::ObjectStore;
use slateberg_base::progress::Progress;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::fsck::fsck;

use super::app::{bucket_opener, memory_settings};

/// Returns all problems of the catalog on this bucket, as text.
pub async fn findings(bucket: Arc<dyn ObjectStore>) -> Vec<String> {
    let dependencies = Dependencies { opener: bucket_opener(bucket), ..Dependencies::default() };
    let report =
        fsck(&memory_settings(), &dependencies, &Progress::default()).await.expect("fsck runs");
    assert!(report.records.is_some() || !report.damaged_files.is_empty(), "no record was checked");
    report.findings()
}

/// Asserts that the catalog on this bucket has no problems.
pub async fn assert_sound(bucket: Arc<dyn ObjectStore>) {
    let findings = findings(bucket).await;
    assert!(findings.is_empty(), "{findings:#?}");
}
