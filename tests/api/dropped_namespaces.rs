//! Dropped namespaces: how they are restored with everything that was dropped with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};

use crate::recursive_drop::OWNERS;
use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::fsck::assert_sound;
use crate::support::function::{FUNCTIONS, function};
use crate::support::served_app::ServedApp;
use crate::support::table::create_table;
use crate::support::view::create_view;

const DROP: &str = "/management/v1/namespaces/drop";
const DROPPED: &str = "/management/v1/dropped";
const UNDROP: &str = "/management/v1/dropped/undrop";
const WEEK_SECONDS: u64 = 7 * 24 * 60 * 60;

/// Everything in the namespace `a`.
const CONTENTS: [&str; 6] = [
    "namespace:default/a",
    "namespace:default/a/b",
    "table:default/a/t",
    "view:default/a/v",
    "table:default/a/b/t",
    "function:default/a/b/f",
];

/// Creates the namespaces `a` and `a.b` with two tables, a view and a function.
async fn populate(app: &TestApp) {
    let properties = json!({ "owner": "etl" });
    let a = json!({ "namespace": ["a"], "properties": properties });
    app.post("/v1/default/namespaces", a).await.expect(200);
    let b = json!({ "namespace": ["a", "b"] });
    app.post("/v1/default/namespaces", b).await.expect(200);
    for namespace in ["a", "a%1Fb"] {
        let path = format!("/v1/default/namespaces/{namespace}/tables");
        app.post(&path, create_table("t")).await.expect(200);
    }
    app.post("/v1/default/namespaces/a/views", create_view("v")).await.expect(200);
    app.post(FUNCTIONS, function("function:default/a/b/f", "x + 1")).await.expect(201);
}

async fn drop_recursively(app: &TestApp, resource: &str) -> TestResponse {
    app.post(DROP, json!({ "resource": resource, "dry-run": false })).await
}

async fn undrop(app: &TestApp, resource: &str) -> TestResponse {
    app.post(UNDROP, json!({ "resource": resource })).await
}

async fn dropped(app: &TestApp) -> Vec<Value> {
    app.get(DROPPED).await.expect(200).body["dropped"].as_array().expect("a list").clone()
}

async fn status_of(app: &TestApp, path: &str) -> u16 {
    app.request(Method::HEAD, path, &[], &Value::Null).await.status.as_u16()
}

/// Returns the status codes of the namespaces, tables, views and functions in `root`.
async fn statuses(app: &TestApp, root: &str) -> [u16; 6] {
    let path = |rest: &str| format!("/v1/default/namespaces/{root}{rest}");
    let function = app.get(&path("%1Fb/functions/f")).await.status.as_u16();
    [
        status_of(app, &path("")).await,
        status_of(app, &path("%1Fb")).await,
        status_of(app, &path("/tables/t")).await,
        status_of(app, &path("/views/v")).await,
        status_of(app, &path("%1Fb/tables/t")).await,
        function,
    ]
}

const EXISTS: [u16; 6] = [204, 204, 204, 204, 204, 200];
const ABSENT: [u16; 6] = [404; 6];

async fn fsck(app: TestApp) {
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn undrop_restores_a_namespace_with_everything_that_was_dropped_with_it() {
    let app = TestApp::new().await;
    populate(&app).await;
    let table = "/v1/default/namespaces/a%1Fb/tables/t";
    let (before, namespace) = (app.get(table).await, app.get("/v1/default/namespaces/a").await);
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    assert_eq!(statuses(&app, "a").await, ABSENT);
    let listed = dropped(&app).await;
    let names: BTreeSet<_> = listed.iter().filter_map(|it| it["resource"].as_str()).collect();
    assert_eq!(names, CONTENTS.into_iter().filter(|it| !it.starts_with("function")).collect());
    assert_eq!(listed[0]["location"], Value::Null);

    let restored = undrop(&app, "namespace:default/a").await.expect(200).body;
    assert_eq!(restored["resource"], "namespace:default/a");
    assert_eq!(restored["metadata-location"], Value::Null);
    assert_eq!(restored["restored"], json!(CONTENTS));
    assert_eq!(statuses(&app, "a").await, EXISTS);
    let after = app.get(table).await.expect(200);
    assert_eq!((after.header("etag"), &after.body), (before.header("etag"), &before.body));
    assert_eq!(app.get("/v1/default/namespaces/a").await.body, namespace.body);
    assert!(dropped(&app).await.is_empty());
    undrop(&app, "namespace:default/a").await.expect_error(404, "NotFoundException");
    fsck(app).await;
}

#[tokio::test]
async fn dropped_namespace_survives_a_restart_and_is_sound() {
    let app = TestApp::new().await;
    populate(&app).await;
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    let listed = dropped(&app).await;
    let app = app.restart_closed().await;
    assert_eq!(dropped(&app).await, listed);
    let app = {
        let bucket = Arc::clone(&app.bucket);
        app.app.runtime.catalog.close().await.expect("the catalog closes");
        assert_sound(Arc::clone(&bucket)).await;
        TestApp::on(bucket).await
    };
    undrop(&app, "namespace:default/a").await.expect(200);
    assert_eq!(statuses(&app, "a").await, EXISTS);
}

#[tokio::test]
async fn undrop_does_not_restore_what_was_dropped_before_the_namespace() {
    let app = TestApp::new().await;
    populate(&app).await;
    app.delete("/v1/default/namespaces/a/tables/t").await.expect(204);
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    undrop(&app, "namespace:default/a").await.expect(200);
    assert_eq!(statuses(&app, "a").await, [204, 204, 404, 204, 204, 200]);
    undrop(&app, "table:default/a/t").await.expect(200);
    assert_eq!(statuses(&app, "a").await, EXISTS);
}

#[tokio::test]
async fn empty_namespace_can_be_restored_with_its_properties() {
    let app = TestApp::new().await;
    let body = json!({ "namespace": ["a"], "properties": { "k": "v" } });
    app.post("/v1/default/namespaces", body).await.expect(200);
    app.delete("/v1/default/namespaces/a").await.expect(204);
    undrop(&app, "namespace:default/a").await.expect(200);
    let loaded = app.get("/v1/default/namespaces/a").await.expect(200).body;
    assert_eq!(loaded["properties"]["k"], "v");
}

#[tokio::test]
async fn undrop_of_a_namespace_fails_if_its_name_is_taken_or_its_parent_is_gone() {
    let app = TestApp::new().await;
    populate(&app).await;
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    for inside in ["namespace:default/a/b", "table:default/a/b/t"] {
        let rejected = undrop(&app, inside).await;
        let message = rejected.message().to_owned();
        rejected.expect_error(409, "ConflictException");
        assert!(message.contains("slateberg undrop namespace:default/a)"), "{message}");
    }
    let namespace = json!({ "namespace": ["a"] });
    app.post("/v1/default/namespaces", namespace).await.expect(200);
    undrop(&app, "namespace:default/a").await.expect_error(409, "AlreadyExistsException");
    assert_eq!(dropped(&app).await.len(), 5, "nothing was restored");
    // A new namespace with the name of the parent can contain the inner namespace.
    let restored = undrop(&app, "namespace:default/a/b").await.expect(200).body;
    assert_eq!(restored["restored"], json!([CONTENTS[1], CONTENTS[4], CONTENTS[5]]));
    assert_eq!(statuses(&app, "a").await, [204, 204, 404, 404, 204, 200]);
    fsck(app).await;
}

#[tokio::test]
async fn namespace_is_restored_under_another_name() {
    let app = TestApp::new().await;
    populate(&app).await;
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    let renamed = |new: &str| json!({ "resource": "namespace:default/a", "new-name": new });
    for (new, status) in [
        ("namespace:other/z", 400),
        ("table:default/a/z", 400),
        ("namespace:default/missing/z", 404),
        ("namespace:default/z", 200),
    ] {
        app.post(UNDROP, renamed(new)).await.expect(status);
    }
    assert_eq!(statuses(&app, "a").await, ABSENT);
    assert_eq!(statuses(&app, "z").await, EXISTS);
    let found = app.get("/management/v1/search?q=t").await.expect(200).body;
    assert!(found.to_string().contains("default/z/b/t"), "{found}");
    fsck(app).await;
}

#[tokio::test]
async fn last_dropped_namespace_is_restored_unless_the_request_has_an_id() {
    let clock = Arc::new(HandClock::default());
    let app =
        TestApp::with_clock(bucket(), memory_settings(), Arc::<HandClock>::clone(&clock)).await;
    for number in ["1", "2"] {
        let body = json!({ "namespace": ["a"], "properties": { "n": number } });
        app.post("/v1/default/namespaces", body).await.expect(200);
        app.delete("/v1/default/namespaces/a").await.expect(204);
        clock.advance_seconds(1);
    }
    let mut listed = dropped(&app).await;
    listed.sort_by_key(|it| it["dropped-at-ms"].as_i64());
    let number = async || {
        app.get("/v1/default/namespaces/a").await.expect(200).body["properties"]["n"].clone()
    };
    undrop(&app, "namespace:default/a").await.expect(200);
    assert_eq!(number().await, "2");
    app.delete("/v1/default/namespaces/a").await.expect(204);
    let first = json!({ "resource": "namespace:default/a", "id": listed[0]["id"] });
    app.post(UNDROP, first).await.expect(200);
    assert_eq!(number().await, "1");
}

#[tokio::test]
async fn occupied_location_prevents_the_whole_undrop_and_is_named() {
    let app = TestApp::new().await;
    populate(&app).await;
    app.post("/v1/default/namespaces", json!({ "namespace": ["c"] })).await.expect(200);
    let at = |name: &str| {
        let mut table = create_table(name);
        table["location"] = json!("memory:///warehouse/shared");
        table
    };
    app.post("/v1/default/namespaces/a%1Fb/tables", at("s")).await.expect(200);
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    app.post("/v1/default/namespaces/c/tables", at("other")).await.expect(200);
    let rejected = undrop(&app, "namespace:default/a").await;
    let message = rejected.message().to_owned();
    rejected.expect_error(409, "ConflictException");
    assert!(message.contains("locations of table:default/a/b/s overlap"), "{message}");
    assert_eq!(statuses(&app, "a").await, ABSENT);
    app.delete("/v1/default/namespaces/c/tables/other").await.expect(204);
    undrop(&app, "namespace:default/a").await.expect(200);
    assert_eq!(statuses(&app, "a").await, EXISTS);
}

#[tokio::test]
async fn caller_needs_undrop_on_everything_and_learns_no_hidden_names() {
    let app = TestApp::with_policies(OWNERS, |_| {}).await;
    populate(&app).await;
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    let body = json!({ "resource": "namespace:default/a" });
    for (role, status) in [("partial", 403), ("reader", 403), ("nobody", 404)] {
        let key = app.key_with_role(role).await;
        let rejected = app.request_as(&key, Method::POST, UNDROP, &body).await;
        assert!(!rejected.message().contains("a/b"), "{role}: {}", rejected.message());
        rejected.expect(status);
    }
    let key = app.key_with_role("owner").await;
    let elsewhere = json!({ "resource": "namespace:default/a", "new-name": "namespace:default/z" });
    app.request_as(&key, Method::POST, UNDROP, &elsewhere).await.expect(403);
    app.request_as(&key, Method::POST, UNDROP, &body).await.expect(200);
    assert_eq!(statuses(&app, "a").await, EXISTS);
}

#[tokio::test]
async fn changes_of_an_undrop_are_one_group_and_a_fold_of_the_events_equals_the_listing() {
    let app = TestApp::new().await;
    populate(&app).await;
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    undrop(&app, "namespace:default/a").await.expect(200);
    let events = app.get("/management/v1/watch?after=oldest&wait=0").await.expect(200).body;
    let events = events["events"].as_array().expect("events");
    let group = &events[events.len() - CONTENTS.len()..];
    let types: Vec<_> = group.iter().filter_map(|it| it["type"].as_str()).collect();
    let expected = [
        "namespace.undropped",
        "namespace.undropped",
        "table.undropped",
        "view.undropped",
        "table.undropped",
        "function.undropped",
    ];
    assert_eq!(types, expected);
    let positions = group.iter().filter(|it| it["position"].is_string()).count();
    assert_eq!(positions, 1, "the changes belong to one transaction");
    let mut names = BTreeSet::new();
    for event in events {
        let (kind, change) =
            event["type"].as_str().and_then(|it| it.split_once('.')).expect("a type");
        let name = (
            kind,
            event["resource"]["namespace"].to_string(),
            event["resource"]["name"].to_string(),
        );
        match change {
            "created" | "undropped" => assert!(names.insert(name), "{event}"),
            "dropped" => assert!(names.remove(&name), "{event}"),
            _ => {}
        }
    }
    assert_eq!(names.len(), CONTENTS.len());
}

#[tokio::test]
async fn retention_of_a_namespace_ends_with_a_delete_or_after_a_week() {
    let clock = Arc::new(HandClock::default());
    let app =
        TestApp::with_clock(bucket(), memory_settings(), Arc::<HandClock>::clone(&clock)).await;
    populate(&app).await;
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    let listed = dropped(&app).await;
    let inner = listed.iter().find(|it| it["resource"] == CONTENTS[1]).expect("it is listed");
    let path = format!("{DROPPED}/{}", inner["id"].as_str().expect("an id"));
    app.delete(&format!("{path}?purge=true")).await.expect(400);
    app.delete(&path).await.expect(204);
    app.delete(&path).await.expect(404);
    assert_eq!(dropped(&app).await.len(), 4);
    clock.advance_seconds(WEEK_SECONDS);
    undrop(&app, "namespace:default/a").await.expect_error(404, "NotFoundException");
    let removed = app.app.runtime.catalog.maintenance().expire().await.expect("records expire");
    assert_eq!(removed, 4);
    assert!(dropped(&app).await.is_empty());
    fsck(app).await;
}

#[tokio::test]
async fn dropped_namespaces_are_listed_in_pages() {
    let app = TestApp::new().await;
    for number in 0..5 {
        let namespace = json!({ "namespace": [format!("n{number}")] });
        app.post("/v1/default/namespaces", namespace).await.expect(200);
        let path = format!("/v1/default/namespaces/n{number}/tables");
        app.post(&path, create_table("t")).await.expect(200);
        drop_recursively(&app, &format!("namespace:default/n{number}")).await.expect(200);
    }
    let paged = app.pages(DROPPED, "dropped", 3).await;
    let names: BTreeSet<_> = paged.iter().map(|it| it["resource"].to_string()).collect();
    assert_eq!(names.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_is_restored_on_the_command_line() {
    let app = TestApp::new().await;
    populate(&app).await;
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    let served = ServedApp::start(app).await;
    let output = served.run(&["undrop", "namespace:default/a"]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "restored namespace:default/a with 5 resources in it\n");
}

/// Drops and restores as many tables as one transaction may contain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_with_thousands_of_tables_is_restored_in_one_transaction() {
    const TABLES: usize = 4999;
    let app = TestApp::new().await;
    app.post("/v1/default/namespaces", json!({ "namespace": ["a"] })).await.expect(200);
    let app = Arc::new(app);
    let workers = (0..16).map(|worker| {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            for number in (worker..TABLES).step_by(16) {
                let table = create_table(&format!("t{number}"));
                app.post("/v1/default/namespaces/a/tables", table).await.expect(200);
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.expect("no panic");
    }
    drop_recursively(&app, "namespace:default/a").await.expect(200);
    let restored = undrop(&app, "namespace:default/a").await.expect(200).body;
    assert_eq!(restored["restored"].as_array().expect("a list").len(), TABLES + 1);
    assert_eq!(status_of(&app, "/v1/default/namespaces/a/tables/t4998").await, 204);
    assert!(dropped(&app).await.is_empty());
}
