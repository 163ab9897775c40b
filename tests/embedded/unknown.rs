//! A commit with an unknown outcome reports it, and is not retried.

use std::sync::Arc;

use iceberg::{Catalog, ErrorKind};
use slateberg_embedded::{Error, cause};

use crate::support::app::memory_settings;
use crate::support::bucket::bucket;
use crate::support::embedded::{builder_on, make_table, set_property, with_any_files};
use crate::support::faults::{Fault, FaultStore, LOG, METADATA_FILES, Verb};

#[tokio::test]
async fn hanging_commit_is_unknown_and_visible_once_durable() {
    let faults = FaultStore::new(bucket());
    let mut settings = memory_settings();
    settings.catalog.commit_deadline_ms = 300;
    let bucket: Arc<dyn object_store::ObjectStore> = Arc::<FaultStore>::clone(&faults);
    let opened = builder_on(bucket, settings).open().await.expect("it opens");
    let catalog = with_any_files(&opened);
    let t = make_table(&catalog).await;
    for (part, key) in [(LOG, "a"), (METADATA_FILES, "b")] {
        faults.inject(Verb::Put, part, Fault::Hang);
        let error = set_property(&catalog, &t, (key, "1")).await.expect_err("it hangs");
        assert_eq!((error.kind(), error.retryable()), (ErrorKind::Unexpected, false), "{error}");
        assert!(matches!(cause(&error), Some(Error::CommitStateUnknown { .. })), "{error}");
        faults.lift();
        let landed = async {
            loop {
                let loaded = catalog.load_table(&t).await;
                if loaded.is_ok_and(|table| table.metadata().properties().contains_key(key)) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let at_most = std::time::Duration::from_secs(30);
        tokio::time::timeout(at_most, landed).await.expect("the accepted commit completes");
    }
    opened.close().await.expect("it closes");
}
