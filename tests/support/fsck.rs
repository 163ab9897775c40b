//! Checking a whole catalog on a bucket, as `slateberg fsck` does it.

use std::sync::Arc;

use object_store::ObjectStore;
use slateberg::app::build::{OfflineCatalog, Seams};
use slateberg::objects::metadata_file;
use slateberg::store::fsck::walk;

use super::app::{bucket_opener, memory_settings};

/// Everything that is wrong with the catalog on this bucket, in words.
pub async fn findings(bucket: Arc<dyn ObjectStore>) -> Vec<String> {
    let seams = Seams { opener: bucket_opener(bucket), ..Seams::default() };
    let catalog = OfflineCatalog::open(&memory_settings(), &seams).await.expect("fsck opens");
    let mut report = walk(&catalog.store).await.expect("fsck walks");
    for published in std::mem::take(&mut report.published) {
        let location = &published.metadata_location;
        let (warehouse, text) = (published.warehouse, &published.document.text);
        match metadata_file::holds(&catalog.objects, warehouse, location, text).await {
            Ok(true) => {}
            Ok(false) => report.broken.push(format!("{location} differs from its record")),
            Err(error) => report.broken.push(format!("{location}: {error}")),
        }
    }
    report.broken
}

/// Asserts that nothing is wrong with the catalog on this bucket.
pub async fn assert_sound(bucket: Arc<dyn ObjectStore>) {
    let findings = findings(bucket).await;
    assert!(findings.is_empty(), "{findings:#?}");
}
