//! A bucket that does not respond for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::scene::{Scene, TIMEOUT, within};
use crate::support::faults::{EVERYTHING, Fault, Verb};

/// Commits during and after an outage. Returns the acknowledged keys.
async fn commit_through(scene: &Scene, fault: Fault) -> BTreeSet<String> {
    let mut acknowledged = BTreeSet::new();
    scene.set("before").await.expect(200);
    acknowledged.insert("before".to_owned());
    scene.faults.inject(Verb::Any, EVERYTHING, fault);
    for attempt in 0..2 {
        let status = scene.set(&format!("during-{attempt}")).await.status.as_u16();
        assert!([500, 503].contains(&status), "a commit during the outage returned {status}");
    }
    scene.faults.lift();
    within(TIMEOUT, "recovery", async {
        loop {
            let answer = scene.set("after").await;
            if answer.status == 200 {
                return;
            }
            assert_eq!(
                answer.status, 503,
                "the commit returned neither 200 nor 503 after the outage had ended: {}",
                answer.body
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    acknowledged.insert("after".to_owned());
    acknowledged
}

async fn assert_survives(fault: Fault) {
    let scene = Scene::new().await;
    let acknowledged = commit_through(&scene, fault).await;
    scene.app.get("/ready").await.expect(200);
    let properties: BTreeSet<_> = scene.properties().await.into_iter().collect();
    assert!(properties.is_superset(&acknowledged), "{properties:?} lacks an acknowledged commit");
    let kept: Vec<_> = properties.iter().map(String::as_str).collect();
    scene.assert_is(&kept).await;
    let next = scene.crash().await;
    next.assert_is(&kept).await;
}

#[tokio::test]
async fn server_survives_a_bucket_that_fails_every_request() {
    assert_survives(Fault::Fail).await;
}

#[tokio::test]
async fn server_survives_a_bucket_that_hangs_every_request() {
    assert_survives(Fault::Hang).await;
}

#[tokio::test]
async fn server_survives_a_bucket_that_loses_every_response() {
    assert_survives(Fault::LoseResponse).await;
}

#[tokio::test]
async fn cached_state_is_readable_during_an_outage() {
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.faults.inject(Verb::Any, EVERYTHING, Fault::Fail);
    assert_eq!(scene.properties().await, ["a"]);
    scene.faults.lift();
}
