//! Starts on an object store that is missing, late, lost, or unsafe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use slateberg::app::App;
use slateberg_config::Settings;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::offline::OfflineCatalog;
use slateberg_runtime::seams::Seams;

use crate::scene::{PATIENCE, Scene, TABLE, within};
use crate::support::app::{TestApp, bucket_opener, memory_settings};
use crate::support::bucket::bucket;
use crate::support::faults::{EVERYTHING, Fault, FaultStore, MANIFESTS, METADATA_FILES, Verb};
use crate::support::fsck::assert_sound;
use crate::support::table::set_property;

/// Starts on this bucket, and waits for it at most `seconds`.
async fn start(faults: &Arc<FaultStore>, seconds: u64) -> Result<App, BuildError> {
    let mut settings: Settings = memory_settings();
    settings.state.start_seconds_max = seconds;
    let opener = bucket_opener(Arc::clone(faults) as Arc<dyn ObjectStore>);
    let starting = App::build(settings, Seams { opener, ..Seams::default() });
    within(PATIENCE, "starting", starting).await
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
async fn a_start_leaves_no_probe_behind() {
    let bucket = bucket();
    let faults = FaultStore::new(Arc::clone(&bucket));
    start(&faults, 5).await.expect("it starts");
    assert!(faults.count(Verb::Put, ".slateberg-probe-") > 0, "it was tried out");
    assert_eq!(probe_files(&bucket).await, []);
}

#[tokio::test]
async fn a_store_that_is_down_ends_the_start_in_time() {
    for fault in [Fault::Fail, Fault::Hang, Fault::LoseAnswer] {
        let faults = FaultStore::new(bucket());
        faults.inject(Verb::Any, EVERYTHING, fault.clone());
        let since = Instant::now();
        let refused = refusal(start(&faults, 1).await);
        assert!(matches!(refused, BuildError::Unreachable { .. }), "{fault:?}: {refused}");
        let said = refused.to_string();
        let expected =
            "no answer from the object store at memory:///state within 1 s; last error: cannot";
        assert!(said.starts_with(expected), "{said}");
        assert!(since.elapsed() < Duration::from_secs(8), "{fault:?}: {:?}", since.elapsed());
        assert_eq!(faults.count(Verb::Any, MANIFESTS), 0, "the store was left alone");
    }
}

#[tokio::test]
async fn a_store_that_comes_up_late_is_waited_for() {
    for fault in [Fault::Fail, Fault::Hang, Fault::LoseAnswer] {
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
async fn a_store_that_falls_silent_while_it_is_opened_ends_the_start() {
    let faults = FaultStore::new(bucket());
    faults.inject(Verb::Any, MANIFESTS, Fault::Hang);
    let (started, ()) = tokio::join!(start(&faults, 1), async {
        faults.arrived(Verb::Any, MANIFESTS, 1).await;
        faults.inject(Verb::Any, EVERYTHING, Fault::Hang);
    });
    let refused = refusal(started);
    assert!(matches!(refused, BuildError::Silent { .. }), "{refused}");
}

/// The bucket responds, but objects of one kind are unreadable: SlateDB would retry this forever.
#[tokio::test]
async fn a_start_whose_store_answers_and_whose_manifests_fail_ends_with_the_last_error() {
    let faults = FaultStore::new(bucket());
    start(&faults, 5).await.expect("it starts").runtime.catalog.close().await.expect("it closes");
    faults.inject(Verb::Get, MANIFESTS, Fault::Fail);
    let refused = refusal(start(&faults, 1).await);
    assert!(matches!(refused, BuildError::Silent { .. }), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("within 1 s; last error: cannot read state/manifest/"), "{said}");
}

/// Slow progress is not a failure: reading the log of a busy hour takes longer than the store may
/// be silent.
#[tokio::test]
async fn an_opening_that_takes_long_is_not_given_up() {
    let faults = FaultStore::new(bucket());
    faults.inject(Verb::Any, MANIFESTS, Fault::Hang);
    let (started, ()) = tokio::join!(start(&faults, 1), async {
        faults.arrived(Verb::Any, MANIFESTS, 1).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        faults.lift();
    });
    started.expect("it starts");
}

#[tokio::test]
async fn a_store_that_overwrites_what_is_there_is_refused() {
    let bucket = bucket();
    let faults = FaultStore::new(Arc::clone(&bucket));
    faults.inject(Verb::Put, EVERYTHING, Fault::IgnoreCondition);
    let refused = refusal(start(&faults, 30).await);
    assert!(matches!(refused, BuildError::Unfit { .. }), "{refused}");
    assert!(refused.to_string().contains("put-if-absent"), "{refused}");
    assert_eq!(probe_files(&bucket).await, []);
}

#[tokio::test]
async fn a_store_that_ignores_the_tag_of_an_object_is_refused() {
    let bucket = bucket();
    let faults = FaultStore::new(Arc::clone(&bucket));
    // The first two puts check for existing objects.
    let probe = async {
        faults.arrived(Verb::Put, ".slateberg-probe-", 2).await;
        faults.inject(Verb::Put, ".slateberg-probe-", Fault::IgnoreCondition);
    };
    faults.inject(Verb::Get, ".slateberg-probe-", Fault::Delay(20..40));
    let (started, ()) = tokio::join!(start(&faults, 30), probe);
    let refused = refusal(started);
    assert!(matches!(refused, BuildError::Unfit { .. }), "{refused}");
    assert!(refused.to_string().contains("If-Match"), "{refused}");
    assert_eq!(probe_files(&bucket).await, []);
}

#[tokio::test]
async fn a_state_that_fsck_cannot_reach_is_no_sound_one() {
    let faults = FaultStore::new(bucket());
    start(&faults, 5).await.expect("it starts").runtime.catalog.close().await.expect("it closes");
    faults.inject(Verb::Any, EVERYTHING, Fault::Hang);
    let mut settings = memory_settings();
    settings.state.start_seconds_max = 1;
    let opener = bucket_opener(Arc::clone(&faults) as Arc<dyn ObjectStore>);
    let seams = Seams { opener, ..Seams::default() };
    let opened = within(PATIENCE, "fsck", OfflineCatalog::open(&settings, &seams)).await;
    let refused = opened.map(|_| ()).expect_err("it gives up");
    assert!(matches!(refused, BuildError::Silent { .. }), "{refused}");
}

/// A commit that is incomplete when the process dies, and a warehouse that is down at the next
/// start.
#[tokio::test]
async fn a_warehouse_that_is_down_is_not_waited_for_for_ever() {
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
    let app = within(PATIENCE, "starting", opened).await;
    // Requests that do not need the file are served; the others get 503.
    app.get("/v1/namespaces/ns/tables/other").await.expect(200);
    app.get(TABLE).await.expect_error(503, "SlowDownException");
    app.commit("ns", "t", vec![], vec![set_property("late", "late")]).await.expect(503);

    faults.lift();
    let landed = async {
        while app.get(TABLE).await.status.as_u16() != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(PATIENCE, "landing", landed).await;
    let properties = app.get(TABLE).await.body["metadata"]["properties"].clone();
    assert_eq!(properties["left"], "left", "{properties}");
    app.app.runtime.catalog.close().await.expect("it closes");
    assert_sound(Arc::clone(&scene.bucket)).await;
}
