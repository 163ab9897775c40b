//! Commands on a stopped catalog in a test bucket.

use std::sync::Arc;

use object_store::ObjectStore;
use slateberg_base::progress::Progress;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::offline_writer::{OfflineError, OfflineWriter, RestoreTarget, Restored};

use super::app::bucket_opener;

/// Returns dependencies with which a catalog opens every URL in this bucket.
pub fn dependencies(bucket: &Arc<dyn ObjectStore>) -> Dependencies {
    Dependencies { opener: bucket_opener(Arc::clone(bucket)), ..Dependencies::default() }
}

/// Restores a stopped catalog to a checkpoint.
pub async fn restore(
    bucket: &Arc<dyn ObjectStore>,
    settings: &Settings,
    to: &str,
) -> Result<Restored, OfflineError> {
    let requested = RestoreTarget::parse(to);
    let catalog = OfflineWriter::open(settings, &dependencies(bucket)).await.expect("it opens");
    let restored = catalog.restore(&requested, &Progress::default()).await;
    catalog.close().await.expect("it closes");
    if let Ok(restored) = &restored {
        assert_eq!(restored.report.broken, Vec::<String>::new());
    }
    restored
}
