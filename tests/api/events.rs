//! `POST /v1/{prefix}/events`: the change feed in the form of the proposed specification.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use slateberg_base::clock::Clock;

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::table::{append, set_property};
use crate::support::view::create_view;

const EVENTS: &str = "/v1/events";
const ENDPOINT: &str = "POST /v1/{prefix}/events";

async fn app() -> TestApp {
    TestApp::with_settings(|settings| settings.catalog.events = true).await
}

/// Returns the response to a request for events.
async fn query(app: &TestApp, body: Value) -> Value {
    app.post(EVENTS, body).await.expect(200).body
}

fn events(response: &Value) -> &Vec<Value> {
    response["events"].as_array().expect("a list")
}

/// Returns the operation types of the events of a request.
async fn types(app: &TestApp, body: Value) -> Vec<String> {
    let response = query(app, body).await;
    let of = |event: &Value| event["operation"]["operation-type"].as_str().map(ToOwned::to_owned);
    events(&response).iter().map(|event| of(event).expect("a type")).collect()
}

async fn rename(app: &TestApp, kind: &str, from: &str, to: &str) {
    let ident = |name: &str| json!({ "namespace": ["ns"], "name": name });
    let body = json!({ "source": ident(from), "destination": ident(to) });
    app.post(&format!("/v1/{kind}/rename"), body).await.expect(204);
}

/// Makes one change of each kind.
async fn change_everything(app: &TestApp) {
    app.create_namespace(&["ns"]).await;
    let updates = json!({ "updates": { "a": "1" } });
    app.post("/v1/namespaces/ns/properties", updates).await.expect(200);
    app.create_table("ns", "t").await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    rename(app, "tables", "t", "u").await;
    app.delete("/v1/namespaces/ns/tables/u").await.expect(204);
    app.post("/v1/namespaces/ns/views", create_view("v")).await.expect(200);
    rename(app, "views", "v", "w").await;
    app.delete("/v1/namespaces/ns/views/w").await.expect(204);
    app.create_namespace(&["empty"]).await;
    app.delete("/v1/namespaces/empty").await.expect(204);
}

#[tokio::test]
async fn events_endpoint_exists_only_with_its_setting() {
    let off = TestApp::new().await;
    off.post(EVENTS, json!({})).await.expect_error(404, "NotFoundException");
    for (app, is_advertised) in [(off, false), (app().await, true)] {
        let config = app.get("/v1/config").await.expect(200).body;
        let endpoints = config["endpoints"].as_array().expect("a list");
        assert_eq!(endpoints.contains(&json!(ENDPOINT)), is_advertised);
    }
}

#[tokio::test]
async fn each_change_is_an_operation_of_the_specification() {
    let app = app().await;
    change_everything(&app).await;
    let all = query(&app, json!({})).await;
    let uuid = |at: usize, member: &str| {
        let uuid = events(&all)[at]["operation"][member].clone();
        assert!(uuid.is_string(), "{at}");
        uuid
    };
    let (table, view) = (uuid(2, "table-uuid"), uuid(6, "view-uuid"));
    let ident = |name: &str| json!({ "namespace": ["ns"], "name": name });
    let operations = [
        json!({ "operation-type": "create-namespace", "namespace": ["ns"] }),
        json!({ "operation-type": "update-namespace-properties", "namespace": ["ns"],
            "updated": [], "removed": [] }),
        json!({ "operation-type": "create-table", "identifier": ident("t"), "table-uuid": table,
            "updates": [] }),
        json!({ "operation-type": "update-table", "identifier": ident("t"), "table-uuid": table,
            "updates": [] }),
        json!({ "operation-type": "rename-table", "source": ident("t"),
            "destination": ident("u"), "table-uuid": table }),
        json!({ "operation-type": "drop-table", "identifier": ident("u"), "table-uuid": table,
            "purge": false }),
        json!({ "operation-type": "create-view", "identifier": ident("v"), "view-uuid": view,
            "updates": [] }),
        json!({ "operation-type": "rename-view", "source": ident("v"),
            "destination": ident("w"), "view-uuid": view }),
        json!({ "operation-type": "drop-view", "identifier": ident("w"), "view-uuid": view }),
        json!({ "operation-type": "create-namespace", "namespace": ["empty"] }),
        json!({ "operation-type": "drop-namespace", "namespace": ["empty"] }),
    ];
    let found = events(&all).iter().map(|event| {
        let mut operation = event["operation"].clone();
        operation.as_object_mut().expect("an object").remove("x-slateberg");
        operation
    });
    assert_eq!(found.collect::<Vec<_>>(), operations);
    let commit = &events(&all)[3];
    let known = &commit["operation"]["x-slateberg"];
    assert_eq!(known["snapshots"], json!({ "main": 1 }));
    assert_eq!(known["update-actions"], json!(["add-snapshot", "set-snapshot-ref"]));
    assert!(
        known["metadata-location"].is_string() && known["metadata-location-before"].is_string()
    );
    assert_eq!(commit["request-event-count"], 1);
    assert_eq!(commit["actor"]["id"], "anonymous");
    assert!(commit["timestamp-ms"].is_i64() && commit["request-id"].is_string(), "{commit}");
    let mut ids: Vec<_> = events(&all).iter().map(|event| event["event-id"].to_string()).collect();
    ids.dedup();
    assert_eq!(ids.len(), operations.len());
}

#[tokio::test]
async fn filters_select_events_that_match_all_of_them() {
    let app = app().await;
    change_everything(&app).await;
    let table = query(&app, json!({ "operation-types": ["create-table"] })).await;
    let uuid = &events(&table)[0]["operation"]["table-uuid"];
    for (filter, expected) in [
        (
            json!({ "operation-types": ["drop-table", "drop-view", "x-own"] }),
            vec!["drop-table", "drop-view"],
        ),
        (
            json!({ "object-types": ["namespace"], "operation-types": ["drop-namespace"] }),
            vec!["drop-namespace"],
        ),
        (json!({ "object-types": ["view"] }), vec!["create-view", "rename-view", "drop-view"]),
        (json!({ "catalog-objects-by-name": [["ns", "u"]] }), vec!["rename-table", "drop-table"]),
        (
            json!({ "catalog-objects-by-name": [["empty"], ["none"]] }),
            vec!["create-namespace", "drop-namespace"],
        ),
        (json!({ "catalog-objects-by-name": [["n"]] }), vec![]),
        (
            json!({ "catalog-objects-by-uuid": [uuid] }),
            vec!["create-table", "update-table", "rename-table", "drop-table"],
        ),
        (
            json!({ "catalog-objects-by-uuid": [uuid], "catalog-objects-by-name": [["ns", "t"]] }),
            vec!["create-table", "update-table", "rename-table"],
        ),
        (json!({ "catalog-objects-by-uuid": [] }), vec![]),
    ] {
        assert_eq!(types(&app, filter.clone()).await, expected, "{filter}");
    }
}

#[tokio::test]
async fn pages_contain_each_event_once_and_continue_after_the_last_one() {
    let app = app().await;
    change_everything(&app).await;
    let all = query(&app, json!({})).await;
    let (mut token, mut read) = (None, Vec::new());
    loop {
        let page = query(&app, json!({ "page-size": 2, "continuation-token": token })).await;
        token = Some(page["continuation-token"].clone());
        if events(&page).is_empty() {
            break;
        }
        assert!(events(&page).len() <= 2);
        read.extend(events(&page).clone());
    }
    assert_eq!(&read, events(&all));
    app.create_namespace(&["later"]).await;
    let body = json!({ "continuation-token": token });
    assert_eq!(types(&app, body).await, ["create-namespace"]);
}

#[tokio::test]
async fn transaction_is_one_request_with_several_events() {
    let app = app().await;
    app.create_namespace(&["ns"]).await;
    for name in ["a", "b"] {
        app.create_table("ns", name).await;
    }
    let change = |name: &str| {
        json!({ "identifier": { "namespace": ["ns"], "name": name }, "requirements": [],
            "updates": [set_property("a", "1")] })
    };
    let body = json!({ "table-changes": [change("a"), change("b")] });
    app.post("/v1/transactions/commit", body).await.expect(204);
    let filter = json!({ "operation-types": ["update-table"], "page-size": 1 });
    let response = query(&app, filter).await;
    let [first, second] = &events(&response)[..] else { panic!("{response}") };
    assert_eq!(first["request-id"], second["request-id"]);
    assert_ne!(first["event-id"], second["event-id"]);
    assert_eq!(
        (&first["request-event-count"], &second["request-event-count"]),
        (&json!(2), &json!(2))
    );
}

#[tokio::test]
async fn events_begin_at_the_requested_time() {
    let clock = Arc::new(HandClock::default());
    let mut settings = memory_settings();
    settings.catalog.events = true;
    let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
    let app = TestApp::with_clock(bucket(), settings, shared).await;
    let mut times = Vec::new();
    for number in 0..8 {
        times.push(clock.now_ms());
        app.create_namespace(&[&format!("n{number}")]).await;
        clock.advance_seconds(10);
    }
    for (since_ms, count) in
        [(0, 8), (times[0], 8), (times[3], 5), (times[3] + 1, 4), (times[7], 1), (times[7] + 1, 0)]
    {
        let body = json!({ "since-timestamp-ms": since_ms });
        assert_eq!(types(&app, body).await.len(), count, "{since_ms}");
    }
}

#[tokio::test]
async fn invalid_requests_for_events_are_rejected() {
    let app = app().await;
    for body in [
        json!({ "page-size": 0 }),
        json!({ "page-size": -1 }),
        json!({ "page-size": "many" }),
        json!({ "operation-types": ["create-everything"] }),
        json!({ "object-types": ["warehouse"] }),
        json!({ "catalog-objects-by-name": ["ns"] }),
        json!({ "catalog-objects-by-uuid": ["t"] }),
        json!({ "custom-filters": { "a": "b" } }),
        json!({ "continuation-token": "oldest." }),
        json!([]),
    ] {
        let response = app.post(EVENTS, body.clone()).await;
        assert_eq!(response.status, 400, "{body}: {}", response.body);
    }
    app.post(EVENTS, json!({ "page-size": 1_000_000_000 })).await.expect(200);
    app.post("/v1/none/events", json!({})).await.expect(404);
}

async fn query_as(app: &TestApp, key: &str, body: Value) -> TestResponse {
    app.request_as(key, Method::POST, EVENTS, &body).await
}

#[tokio::test]
async fn caller_gets_only_events_about_what_it_may_see() {
    let app = TestApp::with_policies(
        r#"@id("config") permit (principal in Role::"analyst", action == Action::"ReadConfig", resource);
           @id("sales") permit (principal in Role::"analyst", action in Action::"Read",
               resource in Namespace::"default/sales");
           @id("watch") permit (principal in Role::"analyst", action == Action::"Watch", resource);"#,
        |settings| settings.catalog.events = true,
    )
    .await;
    let (analyst, other) = (app.key_with_role("analyst").await, app.key_with_role("x").await);
    for namespace in ["sales", "hr"] {
        app.create_namespace(&[namespace]).await;
        app.create_table(namespace, "t").await;
    }
    let seen = query_as(&app, &analyst, json!({})).await.expect(200).body;
    let names: Vec<_> = events(&seen).iter().map(|event| event["operation"].clone()).collect();
    assert_eq!(names.len(), 2, "{seen}");
    assert!(names.iter().all(|operation| operation.to_string().contains("sales")), "{seen}");
    for event in events(&seen) {
        assert_eq!(event["actor"], Value::Null, "the author is hidden: {event}");
        assert_eq!(event["request-event-count"], 1);
    }
    let all = query_as(&app, app.credential(), json!({})).await.expect(200).body;
    assert_eq!(events(&all)[0]["event-id"], events(&seen)[0]["event-id"]);
    assert_ne!(events(&all)[0]["request-id"], events(&seen)[0]["request-id"]);
    assert!(events(&all)[0]["actor"]["id"].is_string());
    query_as(&app, &other, json!({})).await.expect(403);
    // After a change of policies, the caller lists again.
    let grant = json!({ "template": "read", "grantee": "role:analyst",
        "resource": "namespace:default/hr" });
    app.post("/management/v1/grants", grant).await.expect(201);
    let body = json!({ "continuation-token": seen["continuation-token"] });
    let resync = query_as(&app, &analyst, body).await.expect(200).body;
    assert_eq!(events(&resync)[0]["operation"], json!({ "operation-type": "x-resync" }));
}

#[tokio::test]
async fn token_is_gone_after_its_changes_left_the_log_or_in_another_catalog() {
    let app = TestApp::with_settings(|settings| {
        settings.catalog.events = true;
        settings.catalog.change_log_entries_max = 3;
    })
    .await;
    app.create_namespace(&["n"]).await;
    let token = query(&app, json!({})).await["continuation-token"].clone();
    for number in 0..6 {
        app.create_namespace(&[&format!("n{number}")]).await;
    }
    app.app.runtime.catalog.maintenance().expire().await.expect("it expires");
    let app = app.restart().await;
    let body = json!({ "continuation-token": token });
    app.post(EVENTS, body.clone()).await.expect_error(410, "GoneException");
    assert_eq!(types(&app, json!({})).await.len(), 3);
    let other = self::app().await;
    other.post(EVENTS, body).await.expect_error(410, "GoneException");
}
