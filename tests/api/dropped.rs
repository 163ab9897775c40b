//! Dropped tables and views: how long they are retained, who sees them, and how they are restored.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use slateberg_config::Settings;

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::fsck::assert_sound;
use crate::support::table::{append, create_table, set_property};
use crate::support::table_with_files::{ALL, TableWithFiles};
use crate::support::view::create_view;

const DROPPED: &str = "/management/v1/dropped";
const UNDROP: &str = "/management/v1/dropped/undrop";
const TABLE: &str = "/v1/namespaces/ns/tables/t";
const PURGE: &str = "/v1/namespaces/ns/tables/t?purgeRequested=true";
const WEEK_SECONDS: i64 = 7 * 24 * 60 * 60;

async fn dropped(app: &TestApp) -> Vec<Value> {
    app.get(DROPPED).await.expect(200).body["dropped"].as_array().expect("a list").clone()
}

async fn undrop(app: &TestApp, resource: &str) -> TestResponse {
    app.post(UNDROP, json!({ "resource": resource })).await
}

async fn expire(app: &TestApp) -> usize {
    app.app.runtime.catalog.maintenance().expire().await.expect("records expire")
}

/// Returns a catalog with a table, and the key of an owner, who may `Purge` but not `PurgeNow`.
async fn with_owner() -> (TestApp, String) {
    let app = TestApp::with_policies(
        r#"@id("owner") permit (principal in Role::"owner", action in [Action::"Read", Action::"Own"], resource);"#,
        |settings| settings.catalog.overlapping_locations = true,
    )
    .await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let owner = app.key_with_role("owner").await;
    (app, owner)
}

async fn send(app: &TestApp, credential: &str, method: Method, path: &str) -> TestResponse {
    app.request_as(credential, method, path, &Value::Null).await
}

#[tokio::test]
async fn oldest_dropped_tables_end_their_retention_beyond_the_maximum() {
    let app = TestApp::with_settings(|settings| settings.catalog.dropped_kept_max = 2).await;
    app.create_namespace(&["ns"]).await;
    for _ in 0..4 {
        app.create_table("ns", "t").await;
        app.delete(TABLE).await.expect(204);
    }
    assert_eq!(expire(&app).await, 2);
    assert_eq!(dropped(&app).await.len(), 2);
    assert_eq!(expire(&app).await, 0);
}

#[tokio::test]
async fn undrop_restores_a_table_with_its_history_and_version() {
    let app = TestApp::with_table().await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    let before = app.get(TABLE).await.expect(200);
    app.delete(TABLE).await.expect(204);
    app.get(TABLE).await.expect_error(404, "NoSuchTableException");
    assert_eq!(app.get("/v1/namespaces/ns/tables").await.body["identifiers"], json!([]));
    let listed = dropped(&app).await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["resource"], "table:default/ns/t");
    assert_eq!(listed[0]["metadata-location"], before.body["metadata-location"]);
    assert_eq!(listed[0]["purge"], false);
    let retention = |name: &str| listed[0][name].as_i64().expect("a time");
    assert_eq!(retention("expires-at-ms") - retention("dropped-at-ms"), WEEK_SECONDS * 1000);

    let restored = undrop(&app, "table:default/ns/t").await.expect(200).body;
    assert_eq!(restored["resource"], "table:default/ns/t");
    assert_eq!(restored["id"], listed[0]["id"]);
    let after = app.get(TABLE).await.expect(200);
    assert_eq!((after.header("etag"), &after.body), (before.header("etag"), &before.body));
    assert!(dropped(&app).await.is_empty());
    app.commit("ns", "t", vec![], append(2, Some(1), 2)).await.expect(200);
    undrop(&app, "table:default/ns/t").await.expect_error(404, "NotFoundException");
}

#[tokio::test]
async fn dropped_tables_and_views_survive_a_restart() {
    let app = TestApp::with_table().await;
    app.post("/v1/namespaces/ns/views", create_view("v")).await.expect(200);
    app.delete(TABLE).await.expect(204);
    app.delete("/v1/namespaces/ns/views/v").await.expect(204);
    let listed = dropped(&app).await;
    assert_eq!(listed.len(), 2);
    let app = app.restart().await;
    assert_eq!(dropped(&app).await, listed);
    undrop(&app, "view:default/ns/v").await.expect(200);
    app.get("/v1/namespaces/ns/views/v").await.expect(200);
    undrop(&app, "table:default/ns/t").await.expect(200);
    app.delete(TABLE).await.expect(204);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn undrop_without_an_id_restores_the_table_that_was_dropped_last() {
    let clock = Arc::new(HandClock::default());
    let app =
        TestApp::with_clock(bucket(), memory_settings(), Arc::<HandClock>::clone(&clock)).await;
    app.create_namespace(&["ns"]).await;
    for number in ["1", "2", "3"] {
        app.create_table("ns", "t").await;
        app.commit("ns", "t", vec![], vec![set_property("n", number)]).await.expect(200);
        app.delete(TABLE).await.expect(204);
        clock.advance_seconds(1);
    }
    undrop(&app, "table:default/ns/t").await.expect(200);
    let number = async || app.get(TABLE).await.body["metadata"]["properties"]["n"].clone();
    assert_eq!(number().await, "3");
    app.delete(TABLE).await.expect(204);
    let mut listed = dropped(&app).await;
    listed.sort_by_key(|it| it["dropped-at-ms"].as_i64());
    let oldest = json!({ "resource": "table:default/ns/t", "id": listed[0]["id"] });
    app.post(UNDROP, oldest).await.expect(200);
    assert_eq!(number().await, "1");
}

#[tokio::test]
async fn undrop_onto_a_taken_name_fails_unless_it_has_a_new_name() {
    let app = TestApp::with_table().await;
    app.delete(TABLE).await.expect(204);
    app.post("/v1/namespaces/ns/views", create_view("t")).await.expect(200);
    undrop(&app, "table:default/ns/t").await.expect_error(409, "AlreadyExistsException");
    let renamed = |new: &str| json!({ "resource": "table:default/ns/t", "new-name": new });
    for (new, status) in [
        ("view:default/ns/u", 400),
        ("table:other/ns/u", 400),
        ("table:default/u", 400),
        ("namespace:default/ns", 400),
        ("table:default/missing/u", 404),
        ("table:default/ns/u", 200),
    ] {
        app.post(UNDROP, renamed(new)).await.expect(status);
    }
    app.get("/v1/namespaces/ns/tables/u").await.expect(200);
    for missing in ["table:default/ns/t", "table:none/ns/t", "view:default/ns/x"] {
        undrop(&app, missing).await.expect_error(404, "NotFoundException");
    }
    undrop(&app, "warehouse:default").await.expect_error(400, "IllegalArgumentException");
}

#[tokio::test]
async fn dropped_table_outlives_its_namespace() {
    let app = TestApp::with_table().await;
    app.delete(TABLE).await.expect(204);
    app.delete("/v1/namespaces/ns").await.expect(204);
    undrop(&app, "table:default/ns/t").await.expect_error(409, "ConflictException");
    app.create_namespace(&["ns"]).await;
    undrop(&app, "table:default/ns/t").await.expect(200);
    app.get(TABLE).await.expect(200);
}

#[tokio::test]
async fn location_of_a_dropped_table_is_free_and_an_undrop_beside_its_new_owner_is_rejected() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let create = |name: &str| {
        let mut body = create_table(name);
        body["location"] = json!("memory:///warehouse/shared");
        body
    };
    app.post("/v1/namespaces/ns/tables", create("t")).await.expect(200);
    app.delete(TABLE).await.expect(204);
    app.post("/v1/namespaces/ns/tables", create("u")).await.expect(200);
    let refused = undrop(&app, "table:default/ns/t").await;
    assert!(refused.message().contains("memory:///warehouse/shared"), "{}", refused.message());
    refused.expect_error(409, "ConflictException");
    app.delete("/v1/namespaces/ns/tables/u").await.expect(204);
    undrop(&app, "table:default/ns/t").await.expect(200);
    app.post("/v1/namespaces/ns/tables", create("v")).await.expect(400);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn retention_ends_after_the_configured_time() {
    let clock = Arc::new(HandClock::default());
    let mut settings = memory_settings();
    settings.catalog.dropped_kept_seconds = 100;
    let app = TestApp::with_clock(bucket(), settings, Arc::<HandClock>::clone(&clock)).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    app.delete(TABLE).await.expect(204);
    clock.advance_seconds(99);
    expire(&app).await;
    assert_eq!(dropped(&app).await.len(), 1);
    clock.advance_seconds(1);
    expire(&app).await;
    assert!(dropped(&app).await.is_empty());
    undrop(&app, "table:default/ns/t").await.expect_error(404, "NotFoundException");
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn drop_is_final_without_a_retention() {
    let app = TestApp::with_settings(|settings: &mut Settings| {
        settings.catalog.dropped_kept_seconds = 0;
    })
    .await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    app.delete(TABLE).await.expect(204);
    assert!(dropped(&app).await.is_empty());
    undrop(&app, "table:default/ns/t").await.expect_error(404, "NotFoundException");
}

#[tokio::test]
async fn purge_by_an_owner_deletes_the_files_only_after_the_retention() {
    let (app, owner) = with_owner().await;
    let table = TableWithFiles::of(app).await;
    send(&table.app, &owner, Method::DELETE, PURGE).await.expect(204);
    assert_eq!(table.run().await, 0, "there is no job yet");
    assert_eq!(dropped(&table.app).await[0]["purge"], true);
    undrop(&table.app, "table:default/ns/t").await.expect(200);
    assert_eq!(table.remaining_files().await, ALL);
    send(&table.app, &owner, Method::DELETE, PURGE).await.expect(204);
    let id = dropped(&table.app).await[0]["id"].as_str().expect("an id").to_owned();
    let now = format!("{DROPPED}/{id}?purge=true");
    send(&table.app, &owner, Method::DELETE, &now).await.expect_error(403, "ForbiddenException");
    table.app.delete(&now).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ["stranger"]);
    table.app.delete(&now).await.expect_error(404, "NotFoundException");
}

#[tokio::test]
async fn expired_purge_deletes_the_files_and_the_metadata() {
    let (app, owner) = with_owner().await;
    let table = TableWithFiles::of(app).await;
    send(&table.app, &owner, Method::DELETE, PURGE).await.expect(204);
    let TableWithFiles { app, location } = table;
    let mut settings = Settings::clone(&app.app.runtime.settings);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    settings.catalog.dropped_kept_seconds = 0;
    (settings.authn.insecure_no_auth, settings.authz.policy_paths) = (true, Vec::new());
    let reopened = TestApp::with(Arc::clone(&app.bucket), settings).await;
    let table = TableWithFiles { app: reopened, location };
    expire(&table.app).await;
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ["stranger"]);
    table.app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&table.app.bucket)).await;
}

#[tokio::test]
async fn purge_of_another_registration_keeps_the_files_of_a_dropped_table() {
    let table = TableWithFiles::new().await;
    let file = table.app.get(TABLE).await.body["metadata-location"].clone();
    table.app.delete(TABLE).await.expect(204);
    let twin = json!({ "name": "twin", "metadata-location": file });
    table.app.post("/v1/namespaces/ns/register", twin).await.expect(200);
    let purge = "/v1/namespaces/ns/tables/twin?purgeRequested=true";
    table.app.delete(purge).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ALL);
    undrop(&table.app, "table:default/ns/t").await.expect(200);
    table.app.get(TABLE).await.expect(200);
}

#[tokio::test]
async fn policy_on_a_property_applies_to_a_dropped_table() {
    let app = TestApp::with_policies(
        r#"@id("pii") forbid (principal in Role::"writer", action, resource is Table)
            when { resource.hasTag("pii") };"#,
        |_| {},
    )
    .await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    app.commit("ns", "t", vec![], vec![set_property("pii", "yes")]).await.expect(200);
    app.delete(TABLE).await.expect(204);
    // The policy matches the dropped table, but not the new table with the same name.
    app.create_table("ns", "t").await;
    let writer = app.key_with_role("writer").await;
    let listed = send(&app, &writer, Method::GET, DROPPED).await.expect(200);
    assert_eq!(listed.body["dropped"], json!([]));
    let request = json!({ "resource": "table:default/ns/t", "new-name": "table:default/ns/u" });
    let refused = app.request_as(&writer, Method::POST, UNDROP, &request).await;
    let missing = json!({ "resource": "table:default/ns/x", "new-name": "table:default/ns/u" });
    let missing = app.request_as(&writer, Method::POST, UNDROP, &missing).await;
    assert_eq!(refused.message().replace("ns/t", "ns/x"), missing.message());
    refused.expect_error(404, "NotFoundException");
    app.post(UNDROP, request).await.expect(200);
}

#[tokio::test]
async fn writer_restores_what_it_dropped_and_a_reader_sees_nothing() {
    let app = TestApp::secured().await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let (writer, reader) = (app.key_with_role("writer").await, app.key_with_role("reader").await);
    send(&app, &writer, Method::DELETE, TABLE).await.expect(204);
    let seen = send(&app, &reader, Method::GET, DROPPED).await.expect(200);
    assert_eq!(seen.body["dropped"], json!([]));
    let request = json!({ "resource": "table:default/ns/t" });
    // A reader, who could load the table before the drop, gets 403 and not 404.
    let denied = app.request_as(&reader, Method::POST, UNDROP, &request).await;
    denied.expect_error(403, "ForbiddenException");
    app.request_as(&writer, Method::POST, UNDROP, &request).await.expect(200);
}

#[tokio::test]
async fn warehouse_with_dropped_tables_cannot_be_deleted() {
    let app = TestApp::new().await;
    let lake = json!({ "name": "lake", "storage": { "location": "memory:///lake" } });
    app.post("/management/v1/warehouses", lake).await.expect(201);
    app.post("/v1/lake/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    app.post("/v1/lake/namespaces/ns/tables", create_table("t")).await.expect(200);
    app.delete("/v1/lake/namespaces/ns/tables/t").await.expect(204);
    app.delete("/v1/lake/namespaces/ns").await.expect(204);
    let lake = "/management/v1/warehouses/lake";
    app.delete(lake).await.expect_error(409, "WarehouseNotEmptyException");
    let listed = dropped(&app).await;
    let table = listed.iter().find(|it| it["resource"] == "table:lake/ns/t").expect("it is listed");
    let id = table["id"].as_str().expect("an id");
    app.delete(&format!("{DROPPED}/{id}")).await.expect(204);
    // The deletion of the warehouse also deletes its dropped namespaces.
    app.delete(lake).await.expect(204);
    assert!(dropped(&app).await.is_empty());
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn undrop_with_an_idempotency_key_is_executed_once() {
    let app = TestApp::with_table().await;
    app.delete(TABLE).await.expect(204);
    let headers = [("idempotency-key", "0197a000-0000-7000-8000-000000000001")];
    let body = json!({ "resource": "table:default/ns/t" });
    let first = app.request(Method::POST, UNDROP, &headers, &body).await.expect(200);
    let second = app.request(Method::POST, UNDROP, &headers, &body).await.expect(200);
    assert_eq!(first.body, second.body);
}

#[tokio::test]
async fn dropped_tables_are_paginated() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    for number in 0..5 {
        let name = format!("t{number}");
        app.create_table("ns", &name).await;
        app.delete(&format!("/v1/namespaces/ns/tables/{name}")).await.expect(204);
    }
    let all = dropped(&app).await;
    let paged = app.pages(DROPPED, "dropped", 2).await;
    assert_eq!(paged, all);
    app.get(&format!("{DROPPED}?pageSize=0")).await.expect(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_undrops_restore_a_table_once() {
    let app = Arc::new(TestApp::with_table().await);
    for _ in 0..20 {
        app.delete(TABLE).await.expect(204);
        let racers: Vec<_> = (0..8)
            .map(|_| {
                let app = Arc::clone(&app);
                tokio::spawn(async move { undrop(&app, "table:default/ns/t").await.status })
            })
            .collect();
        let mut statuses = Vec::new();
        for racer in racers {
            statuses.push(racer.await.expect("no panic").as_u16());
        }
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 200 | 404)), "{statuses:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn table_that_is_restored_when_its_retention_ends_is_complete() {
    let clock = Arc::new(HandClock::default());
    let mut settings = memory_settings();
    settings.catalog.dropped_kept_seconds = 100;
    let app = TestApp::with_clock(bucket(), settings, Arc::<HandClock>::clone(&clock)).await;
    app.create_namespace(&["ns"]).await;
    let app = Arc::new(app);
    for round in 0..40 {
        let name = format!("t{round}");
        let path = format!("/v1/namespaces/ns/tables/{name}");
        app.create_table("ns", &name).await;
        app.delete(&path).await.expect(204);
        clock.advance_seconds(101);
        let expiring = {
            let app = Arc::clone(&app);
            tokio::spawn(async move { expire(&app).await })
        };
        let answer = undrop(&app, &format!("table:default/ns/{name}")).await;
        expiring.await.expect("no panic");
        let loaded = app.get(&path).await;
        assert_eq!(answer.status, loaded.status, "round {round}: {}", answer.body);
    }
    assert!(dropped(&app).await.is_empty());
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn acknowledged_commits_of_a_table_survive_its_drops_and_undrops() {
    const COMMITS: usize = 60;
    let app = Arc::new(TestApp::with_table().await);
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let app = Arc::clone(&app);
            tokio::spawn(async move {
                let mut done = 0;
                while done < COMMITS {
                    let set = set_property(&format!("{writer}-{done}"), "yes");
                    match app.commit("ns", "t", vec![], vec![set]).await.status.as_u16() {
                        200 => done += 1,
                        404 => tokio::task::yield_now().await,
                        status => panic!("unexpected status {status}"),
                    }
                }
            })
        })
        .collect();
    let mut drops = 0;
    while writers.iter().any(|writer| !writer.is_finished()) {
        app.delete(TABLE).await.expect(204);
        undrop(&app, "table:default/ns/t").await.expect(200);
        drops += 1;
    }
    for writer in writers {
        writer.await.expect("no panic");
    }
    assert!(drops > 2, "too few drops");
    let loaded = app.get(TABLE).await.expect(200);
    let properties = loaded.body["metadata"]["properties"].as_object().expect("an object");
    let set = properties.values().filter(|value| **value == "yes").count();
    assert_eq!(set, 3 * COMMITS);
}
