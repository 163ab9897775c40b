//! Tests of starting the server when its object store is unreachable, becomes reachable late, fails
//! during the start, or ignores conditional writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use slateberg::app::App;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::offline::OfflineCatalog;

use crate::scene::{Scene, TABLE, TIMEOUT, within};
use crate::support::app::{TestApp, bucket_opener, memory_settings};
use crate::support::bucket::bucket;
use crate::support::faults::{EVERYTHING, Fault, FaultStore, MANIFESTS, METADATA_FILES, Verb};
use crate::support::fsck::assert_sound;
use crate::support::table::set_property;

/// Starts the server on this bucket, and lets it wait for the bucket for at most `seconds`.
async fn start(faults: &Arc<FaultStore>, seconds: u64) -> Result<App, BuildError> {
    let mut settings: Settings = memory_settings();
    settings.state.start_seconds_max = seconds;
    let opener = bucket_opener(Arc::clone(faults) as Arc<dyn ObjectStore>);
    let starting = App::build(settings, Dependencies { opener, ..Dependencies::default() });
    within(TIMEOUT, "the start", starting).await
}

fn refusal(started: Result<App, BuildError>) -> BuildError {
    started.map(|_| ()).expect_err("it does not start")
}

/// Returns the files of probes in a bucket.
async fn probe_files(bucket: &Arc<dyn ObjectStore>) -> Vec<Path> {
    let all = bucket.list(None).map_ok(|object| object.location);
    let all: Vec<_> = all.try_collect().await.expect("it is listed");
    all.into_iter().filter(|path| path.as_ref().contains(".slateberg-")).collect()
}

#[tokio::test]
async fn start_deletes_its_probe_files() {
    let bucket = bucket();
    let faults = FaultStore::new(Arc::clone(&bucket));
    start(&faults, 5).await.expect("it starts");
    assert!(faults.count(Verb::Put, ".slateberg-probe-") > 0, "the start wrote no probe file");
    assert_eq!(probe_files(&bucket).await, []);
}

#[tokio::test]
async fn start_with_an_unavailable_store_fails_in_time() {
    for fault in [Fault::Fail, Fault::Hang, Fault::LoseResponse] {
        let faults = FaultStore::new(bucket());
        faults.inject(Verb::Any, EVERYTHING, fault.clone());
        let since = Instant::now();
        let rejection = refusal(start(&faults, 1).await);
        assert!(matches!(rejection, BuildError::Unreachable { .. }), "{fault:?}: {rejection}");
        let output_text = rejection.to_string();
        let expected =
            "no response from the object store at memory:///state within 1 s; last error: cannot";
        assert!(output_text.starts_with(expected), "{output_text}");
        assert!(since.elapsed() < Duration::from_secs(8), "{fault:?}: {:?}", since.elapsed());
        assert_eq!(faults.count(Verb::Any, MANIFESTS), 0, "the store was opened before its probe");
    }
}

#[tokio::test]
async fn start_waits_for_a_store_that_becomes_available() {
    for fault in [Fault::Fail, Fault::Hang, Fault::LoseResponse] {
        let bucket = bucket();
        let faults = FaultStore::new(Arc::clone(&bucket));
        faults.inject(Verb::Any, EVERYTHING, fault.clone());
        let (started, ()) = tokio::join!(start(&faults, 30), async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            faults.lift();
        });
        started.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(probe_files(&bucket).await, [], "{fault:?}");
    }
}

#[tokio::test]
async fn start_fails_if_the_store_stops_responding_while_opening() {
    let faults = FaultStore::new(bucket());
    faults.inject(Verb::Any, MANIFESTS, Fault::Hang);
    let (started, ()) = tokio::join!(start(&faults, 1), async {
        faults.wait_for_requests(Verb::Any, MANIFESTS, 1).await;
        faults.inject(Verb::Any, EVERYTHING, Fault::Hang);
    });
    let rejection = refusal(started);
    assert!(matches!(rejection, BuildError::Silent { .. }), "{rejection}");
}

/// The bucket responds, but manifests are unreadable. SlateDB would retry this forever.
#[tokio::test]
async fn start_with_failing_manifests_ends_with_the_last_error() {
    let faults = FaultStore::new(bucket());
    start(&faults, 5).await.expect("it starts").runtime.catalog.close().await.expect("it closes");
    faults.inject(Verb::Get, MANIFESTS, Fault::Fail);
    let rejection = refusal(start(&faults, 1).await);
    assert!(matches!(rejection, BuildError::Silent { .. }), "{rejection}");
    let output_text = rejection.to_string();
    assert!(
        output_text.contains("within 1 s; last error: cannot read state/manifest/"),
        "{output_text}"
    );
}

/// Slow progress is not a failure: opening may take longer than the time within which the store
/// must respond, for example to read the log of a busy hour.
#[tokio::test]
async fn slow_opening_is_not_aborted() {
    let faults = FaultStore::new(bucket());
    faults.inject(Verb::Any, MANIFESTS, Fault::Hang);
    let (started, ()) = tokio::join!(start(&faults, 1), async {
        faults.wait_for_requests(Verb::Any, MANIFESTS, 1).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        faults.lift();
    });
    started.expect("it starts");
}

#[tokio::test]
async fn store_that_overwrites_existing_objects_is_rejected() {
    let bucket = bucket();
    let faults = FaultStore::new(Arc::clone(&bucket));
    faults.inject(Verb::Put, EVERYTHING, Fault::IgnoreCondition);
    let rejection = refusal(start(&faults, 30).await);
    assert!(matches!(rejection, BuildError::Unfit { .. }), "{rejection}");
    assert!(rejection.to_string().contains("put-if-absent"), "{rejection}");
    assert_eq!(probe_files(&bucket).await, []);
}

#[tokio::test]
async fn store_that_ignores_etags_is_rejected() {
    let bucket = bucket();
    let faults = FaultStore::new(Arc::clone(&bucket));
    // The first two puts of the probe test put-if-absent, the later ones test If-Match.
    let probe = async {
        faults.wait_for_requests(Verb::Put, ".slateberg-probe-", 2).await;
        faults.inject(Verb::Put, ".slateberg-probe-", Fault::IgnoreCondition);
    };
    faults.inject(Verb::Get, ".slateberg-probe-", Fault::Delay(20..40));
    let (started, ()) = tokio::join!(start(&faults, 30), probe);
    let rejection = refusal(started);
    assert!(matches!(rejection, BuildError::Unfit { .. }), "{rejection}");
    assert!(rejection.to_string().contains("If-Match"), "{rejection}");
    assert_eq!(probe_files(&bucket).await, []);
}

#[tokio::test]
async fn fsck_of_an_unreachable_state_fails() {
    let faults = FaultStore::new(bucket());
    start(&faults, 5).await.expect("it starts").runtime.catalog.close().await.expect("it closes");
    faults.inject(Verb::Any, EVERYTHING, Fault::Hang);
    let mut settings = memory_settings();
    settings.state.start_seconds_max = 1;
    let opener = bucket_opener(Arc::clone(&faults) as Arc<dyn ObjectStore>);
    let dependencies = Dependencies { opener, ..Dependencies::default() };
    let opened = within(TIMEOUT, "fsck", OfflineCatalog::open(&settings, &dependencies)).await;
    let error = opened.map(|_| ()).expect_err("it gives up");
    assert!(matches!(error, BuildError::Silent { .. }), "{error}");
}

/// A commit is incomplete when the process dies, and the warehouse is unavailable at the next
/// start.
#[tokio::test]
async fn start_waits_for_an_unavailable_warehouse_only_for_a_limited_time() {
    let scene = Scene::new().await;
    scene.app.create_table("ns", "other").await;
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    let unknown = scene.set("left").await;
    assert_eq!(unknown.status.as_u16(), 500, "{}", unknown.body);
    scene.faults.kill();

    let faults = FaultStore::new(Arc::clone(&scene.bucket));
    faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    let mut settings = memory_settings();
    settings.state.start_seconds_max = 1;
    settings.catalog.commit_deadline_ms = 300;
    let opened = TestApp::with(Arc::clone(&faults) as Arc<dyn ObjectStore>, settings);
    let app = within(TIMEOUT, "starting", opened).await;
    // Requests that do not need the metadata file of the incomplete commit are served; all other
    // requests get 503.
    app.get("/v1/namespaces/ns/tables/other").await.expect(200);
    app.get(TABLE).await.expect_error(503, "SlowDownException");
    app.commit("ns", "t", vec![], vec![set_property("late", "late")]).await.expect(503);

    faults.lift();
    let landed = async {
        while app.get(TABLE).await.status.as_u16() != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(TIMEOUT, "the incomplete commit", landed).await;
    let properties = app.get(TABLE).await.body["metadata"]["properties"].clone();
    assert_eq!(properties["left"], "left", "{properties}");
    app.app.runtime.catalog.close().await.expect("it closes");
    assert_sound(Arc::clone(&scene.bucket)).await;
}
