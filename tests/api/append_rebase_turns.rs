//! Turns: on a table with many appends, a commit that cannot be rebased succeeds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::app::{TestApp, TestResponse};
use crate::support::appends::{LoadedTable, PreparedAppend};
use crate::support::iceberg_writer::Manifests;
use crate::support::table::set_property;

const CONFLICT: &str = "CommitFailedException";
/// Time after which a commit that does not wait has ended.
const SHORT: Duration = Duration::from_millis(100);

/// Returns a catalog with holds of at most this duration, and a delete for a state of the table
/// that two appends have changed since. The second of them was rebased.
async fn with_delete(hold_ms: u64) -> (Arc<TestApp>, PreparedAppend) {
    let app = TestApp::with_settings(|settings| {
        settings.catalog.append_rebase = serde_json::from_value(json!("all")).expect("valid");
        settings.catalog.append_rebase_turn_ms = hold_ms;
    })
    .await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let all = vec![set_property("slateberg.append-rebase", "all")];
    app.commit("ns", "t", vec![], all).await.expect(200);
    commit_now(&app, 1, Manifests::Append).await.expect(200);
    let base = LoadedTable::load(&app).await;
    let delete = base.prepare(&app, 4, Manifests::Delete(1)).await;
    for id in [2, 3] {
        base.prepare(&app, id, Manifests::Append).await.commit(&app).await.expect(200);
    }
    (Arc::new(app), delete)
}

async fn commit_now(app: &TestApp, id: i64, does: Manifests) -> TestResponse {
    LoadedTable::load(app).await.prepare(app, id, does).await.commit(app).await
}

/// Sends a commit in the background.
fn sending(
    app: &Arc<TestApp>,
    commit: PreparedAppend,
) -> tokio::task::JoinHandle<(TestResponse, Duration)> {
    let app = Arc::clone(app);
    tokio::spawn(async move {
        let began = Instant::now();
        (commit.commit(&app).await, began.elapsed())
    })
}

#[tokio::test]
async fn appends_wait_while_a_delete_that_lost_against_appends_is_sent_again() {
    let (app, delete) = with_delete(10_000).await;
    delete.commit(&app).await.expect_error(409, CONFLICT);
    let loaded = LoadedTable::load(&app).await;
    let again = loaded.prepare(&app, 4, Manifests::Delete(1)).await;
    let append = loaded.prepare(&app, 5, Manifests::Append).await;
    let appending = sending(&app, append);
    tokio::time::sleep(SHORT).await;
    assert!(!appending.is_finished(), "the append waits");
    again.commit(&app).await.expect(200);
    let (refused, _) = appending.await.expect("no panic");
    refused.expect_error(409, CONFLICT);
    commit_now(&app, 5, Manifests::Append).await.expect(200);
}

#[tokio::test]
async fn delete_that_is_never_sent_again_delays_appends_by_the_hold_only() {
    let (app, delete) = with_delete(1000).await;
    delete.commit(&app).await.expect_error(409, CONFLICT);
    let loaded = LoadedTable::load(&app).await;
    let (held, waited) = {
        let append = loaded.prepare(&app, 5, Manifests::Append).await;
        sending(&app, append).await.expect("no panic")
    };
    held.expect(200);
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    let base = LoadedTable::load(&app).await;
    let (next, waited) = {
        let append = base.prepare(&app, 6, Manifests::Append).await;
        sending(&app, append).await.expect("no panic")
    };
    next.expect(200);
    assert!(waited < Duration::from_millis(1000), "the hold is over: {waited:?}");
}

#[tokio::test]
async fn nothing_is_held_before_the_load_or_if_turns_are_off() {
    for hold_ms in [0, 10_000] {
        let (app, delete) = with_delete(hold_ms).await;
        let base = LoadedTable::load(&app).await;
        let (before, after) = (
            base.prepare(&app, 5, Manifests::Append).await,
            base.prepare(&app, 6, Manifests::Append).await,
        );
        delete.commit(&app).await.expect_error(409, CONFLICT);
        before.commit(&app).await.expect(200);
        LoadedTable::load(&app).await;
        let appending = sending(&app, after);
        if hold_ms == 0 {
            let (appended, waited) = appending.await.expect("no panic");
            appended.expect(200);
            assert!(waited < Duration::from_secs(5), "{waited:?}");
        } else {
            tokio::time::sleep(SHORT).await;
            assert!(!appending.is_finished());
        }
    }
}

#[tokio::test]
async fn no_turn_begins_for_appends_or_after_other_changes() {
    // An append that cannot be rebased gets no turn, and neither does a delete that lost against
    // another delete.
    let (app, delete) = with_delete(10_000).await;
    let mut dependent = LoadedTable::load(&app).await.prepare(&app, 9, Manifests::Append).await;
    dependent.updates[0]["snapshot"]["summary"]["source-snapshot-id"] = "1".into();
    commit_now(&app, 5, Manifests::Append).await.expect(200);
    dependent.commit(&app).await.expect_error(409, CONFLICT);
    commit_now(&app, 6, Manifests::Append).await.expect(200);
    commit_now(&app, 7, Manifests::Delete(1)).await.expect(200);
    delete.commit(&app).await.expect_error(409, CONFLICT);
    let began = Instant::now();
    commit_now(&app, 8, Manifests::Append).await.expect(200);
    assert!(began.elapsed() < Duration::from_secs(5), "nothing is held");
}
