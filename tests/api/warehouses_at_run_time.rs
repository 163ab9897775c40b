//! Warehouses that are created, changed and deleted at run time.

mod cli;
mod locations;
mod races;
mod secrets;
mod starts;

use axum::http::Method;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::fsck::assert_sound;
use crate::support::table::{create_table, set_property};

const WAREHOUSES: &str = "/management/v1/warehouses";
const LAKE: &str = "/management/v1/warehouses/lake";

/// Returns the request that creates the warehouse `lake`.
fn lake() -> Value {
    at("lake", "memory:///lake")
}

fn at(name: &str, location: &str) -> Value {
    json!({ "name": name, "storage": { "location": location } })
}

impl TestApp {
    async fn put(&self, path: &str, body: Value) -> TestResponse {
        self.request(Method::PUT, path, &[], &body).await
    }

    /// Returns the names of the warehouses that a key sees.
    async fn warehouses_of(&self, key: &str) -> Vec<String> {
        let listed = self.get_as(key, WAREHOUSES).await.expect(200).body;
        let all = listed["warehouses"].as_array().expect("a list");
        all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    }
}

#[tokio::test]
async fn warehouse_has_its_own_retention_of_dropped_tables() {
    let app = TestApp::new().await;
    let mut requested = lake();
    requested["dropped-kept-seconds"] = json!(0);
    let created = app.post(WAREHOUSES, requested.clone()).await.expect(201).body;
    assert_eq!(created["dropped-kept-seconds"], 0);
    app.post("/v1/lake/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    let dropped = async |kept: u64| {
        app.post("/v1/lake/namespaces/ns/tables", create_table("t")).await.expect(200);
        app.delete("/v1/lake/namespaces/ns/tables/t").await.expect(204);
        let listed = app.get("/management/v1/dropped").await.expect(200).body;
        let listed = listed["dropped"].as_array().expect("a list").clone();
        for it in &listed {
            let [from, until] = ["dropped-at-ms", "expires-at-ms"].map(|key| it[key].as_u64());
            assert_eq!(until.expect("a time") - from.expect("a time"), kept * 1000);
        }
        listed.len()
    };
    assert_eq!(dropped(0).await, 0, "nothing is retained");
    let storage = requested["storage"].clone();
    for (kept, listed) in [(json!(86400), 1), (Value::Null, 2)] {
        let update = json!({ "storage": storage, "dropped-kept-seconds": kept });
        let updated = app.put(LAKE, update).await.expect(200).body;
        assert_eq!(updated["dropped-kept-seconds"], kept);
        assert_eq!(dropped(kept.as_u64().unwrap_or(7 * 86400)).await, listed);
    }
    let negative = json!({ "storage": storage, "dropped-kept-seconds": -1 });
    app.put(LAKE, negative).await.expect(400);
}

/// Fills the warehouse `lake` with a namespace, a table and a commit.
async fn fill(app: &TestApp) {
    app.post("/v1/lake/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    app.post("/v1/lake/namespaces/ns/tables", create_table("t")).await.expect(200);
    let change = json!({ "requirements": [], "updates": [set_property("a", "1")] });
    app.post("/v1/lake/namespaces/ns/tables/t", change).await.expect(200);
}

#[tokio::test]
async fn created_warehouse_is_usable_before_and_after_a_restart() {
    let app = TestApp::secured().await;
    app.get("/v1/lake/namespaces").await.expect_error(404, "NoSuchWarehouseException");
    let mut requested = lake();
    requested["client-defaults"] = json!({ "s3.region": "eu" });
    requested["client-overrides"] = json!({ "rest-page-size": "7" });
    requested["storage"]["allowed-locations"] = json!(["memory:///shared/"]);
    let response_body = app.post(WAREHOUSES, requested).await.expect(201).body;
    assert_eq!(
        json!([
            response_body["name"],
            response_body["source"],
            response_body["status"],
            response_body["default"]
        ]),
        json!(["lake", "api", "open", false])
    );
    let storage = json!({
        "location": "memory:///lake", "allowed-locations": ["memory:///shared"], "options": {},
        "credentials": null,
        "access": {
            "delegation": [], "role-arn": null, "external-id": null, "sts-endpoint": null,
            "credentials-seconds": 3600,
        },
    });
    assert_eq!((&response_body["storage"], &response_body["version"]), (&storage, &json!(1)));
    assert_eq!(app.get(LAKE).await.expect(200).body, response_body);
    // The probe leaves no files.
    let files: Vec<_> = app.objects().await;
    assert!(!files.iter().any(|file| file.contains("probe")), "{files:?}");

    let config = app.get("/v1/config?warehouse=lake").await.expect(200).body;
    assert_eq!(config["overrides"], json!({ "prefix": "lake", "rest-page-size": "7" }));
    assert_eq!(config["defaults"], json!({ "s3.region": "eu" }));
    fill(&app).await;
    let shared = json!({ "name": "s", "location": "memory:///shared/s", "schema": create_table("s")["schema"] });
    app.post("/v1/lake/namespaces/ns/tables", shared).await.expect(200);
    let before = app.visible_state("/v1/lake").await;
    assert_eq!(app.visible_state("/v1").await, json!({}));

    let app = app.restart().await;
    assert_eq!(app.get(LAKE).await.expect(200).body, response_body);
    assert_eq!(app.visible_state("/v1/lake").await, before);
    fill_more(&app).await;
    assert_sound(app.bucket.clone()).await;
}

/// Commits once more, which writes a file.
async fn fill_more(app: &TestApp) {
    let change = json!({ "requirements": [], "updates": [set_property("b", "2")] });
    let response = app.post("/v1/lake/namespaces/ns/tables/t", change).await.expect(200).body;
    let file = response["metadata-location"].as_str().expect("a location");
    let path = Path::from(file.strip_prefix("memory:///").expect("it is in memory"));
    app.bucket.get(&path).await.expect("the file is there");
}

#[tokio::test]
async fn update_keeps_the_location_and_applies_immediately() {
    let app = TestApp::secured().await;
    app.post(WAREHOUSES, lake()).await.expect(201);
    app.post("/v1/lake/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    let table = json!({
        "name": "s", "location": "memory:///shared/s", "schema": create_table("s")["schema"],
    });
    let tables = "/v1/lake/namespaces/ns/tables";
    app.post(tables, table.clone()).await.expect_error(400, "IllegalArgumentException");
    let change = json!({
        "storage": { "allowed-locations": ["memory:///shared"] },
        "client-defaults": { "a": "b" }, "expected-version": 1,
    });
    let changed = app.put(LAKE, change.clone()).await.expect(200).body;
    assert_eq!(changed["version"], 2);
    app.post(tables, table).await.expect(200);
    // A request without effect creates no version, and one with an outdated version is rejected.
    let mut same = change.clone();
    same["expected-version"] = json!(2);
    assert_eq!(app.put(LAKE, same).await.expect(200).body, changed);
    let late = app.put(LAKE, change).await;
    let message = "Expected version 1 of warehouse lake, but it is at 2";
    assert_eq!(late.error(), (409, "CommitFailedException", message));
    // A change replaces all properties.
    let bare = json!({ "storage": { "location": "memory:///lake/" } });
    let bare = app.put(LAKE, bare).await.expect(200).body;
    assert_eq!((&bare["version"], &bare["client-defaults"]), (&json!(3), &json!({})));
    assert_eq!(bare["storage"]["allowed-locations"], json!([]));

    let moved = app.put(LAKE, json!({ "storage": { "location": "memory:///elsewhere" } })).await;
    moved.expect_error(400, "IllegalArgumentException");
    app.put(LAKE, json!({ "client-defaults": {} })).await.expect(400);
    let absent = app.put("/management/v1/warehouses/nope", json!({ "storage": {} })).await;
    absent.expect_error(404, "NoSuchWarehouseException");
}

#[tokio::test]
async fn only_an_empty_warehouse_is_deleted_and_its_name_gets_a_new_id() {
    let app = TestApp::secured().await;
    let first = app.post(WAREHOUSES, lake()).await.expect(201).body;
    fill(&app).await;
    app.post("/v1/lake/namespaces/ns/tables", create_table("u")).await.expect(200);
    let loaded = app.get("/v1/lake/namespaces/ns/tables/t").await.expect(200);
    let response = app.delete(LAKE).await;
    let message = "Warehouse lake is not empty: it contains namespaces";
    assert_eq!(response.error(), (409, "WarehouseNotEmptyException", message));
    let unregister = "/v1/lake/namespaces/ns/tables/u/unregister";
    app.post(unregister, Value::Null).await.expect(200);
    app.delete("/v1/lake/namespaces/ns/tables/t?purgeRequested=true").await.expect(204);
    app.delete("/v1/lake/namespaces/ns").await.expect(204);
    // The job that deletes the files of the purged table still needs the warehouse.
    let response = app.delete(LAKE).await;
    let message = "Warehouse lake is not empty: it contains files that are still to be deleted";
    assert_eq!(response.error(), (409, "WarehouseNotEmptyException", message));
    app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
    app.delete(LAKE).await.expect(204);
    for path in [LAKE, "/v1/lake/namespaces", "/v1/config?warehouse=lake"] {
        app.get(path).await.expect_error(404, "NoSuchWarehouseException");
    }
    app.delete(LAKE).await.expect_error(404, "NoSuchWarehouseException");

    let second = app.post(WAREHOUSES, lake()).await.expect(201).body;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(app.visible_state("/v1/lake").await, json!({}));
    fill(&app).await;
    let again = app.get("/v1/lake/namespaces/ns/tables/t").await.expect(200);
    assert_ne!(loaded.body["metadata"]["table-uuid"], again.body["metadata"]["table-uuid"]);
    assert_ne!(loaded.header("etag"), again.header("etag"));
    let app = app.restart().await;
    app.get("/v1/lake/namespaces/ns/tables/t").await.expect(200);
    assert_sound(app.bucket.clone()).await;
}

#[tokio::test]
async fn configured_warehouse_is_readable_and_not_changeable() {
    let app = TestApp::secured().await;
    let path = "/management/v1/warehouses/default";
    let response_body = app.get(path).await.expect(200).body;
    assert_eq!(
        (&response_body["source"], &response_body["default"]),
        (&json!("configuration"), &json!(true))
    );
    assert_eq!(response_body["version"], Value::Null);
    let message = "Cannot change warehouse default: it belongs to the configuration";
    let response = app.delete(path).await;
    assert_eq!(response.error(), (409, "ConflictException", message));
    let response = app.put(path, json!({ "storage": {} })).await;
    assert_eq!(response.error(), (409, "ConflictException", message));
    let response = app.post(WAREHOUSES, at("default", "memory:///other")).await;
    let message = "Warehouse already exists: default";
    assert_eq!(response.error(), (409, "AlreadyExistsException", message));
}

#[tokio::test]
async fn invalid_warehouse_is_rejected_and_leaves_nothing() {
    let app = TestApp::with_settings(|settings| settings.catalog.warehouses_max = 3).await;
    app.post(WAREHOUSES, lake()).await.expect(201);
    let with = |member: &str, value: Value| {
        let mut body = at("w", "memory:///w");
        body["storage"][member] = value;
        body
    };
    let client = |key: &str| {
        let mut body = at("w", "memory:///w");
        body["client-defaults"] = json!({ key: "hunter2" });
        body
    };
    for (body, status) in [
        (json!({}), 400),
        (json!({ "name": "w" }), 400),
        (json!({ "name": "w", "storage": {} }), 400),
        (json!({ "name": "w", "storage": { "location": "memory:///w" }, "more": 1 }), 400),
        (with("secret", json!("x")), 400),
        (with("allowed-locations", json!(["nonsense"])), 400),
        (with("allowed-locations", json!("memory:///x")), 400),
        (with("allowed-locations", json!(vec!["memory:///x"; 101])), 400),
        (with("options", json!({ "aws_region": "eu" })), 400),
        (with("options", json!({ "k": "x".repeat(70_000) })), 400),
        (with("credentials", json!("nope")), 400),
        (client("s3.secret-access-key"), 400),
        (client("uri"), 400),
        (at("config", "memory:///w"), 400),
        (at("a/b", "memory:///w"), 400),
        (at("", "memory:///w"), 400),
        (at("w", "w"), 400),
        (at("w", "memory:///w/../x"), 400),
        (at("lake", "memory:///w"), 409),
    ] {
        let response = app.post_rejected(WAREHOUSES, body.clone()).await;
        assert_eq!(response.status, status, "{body}: {}", response.body);
        assert!(!response.body.to_string().contains("hunter2"), "{}", response.body);
    }
    app.post(WAREHOUSES, at("third", "memory:///third")).await.expect(201);
    let message = "There are 3 warehouses already";
    let response = app.post_rejected(WAREHOUSES, at("w", "memory:///w")).await;
    assert_eq!(response.error(), (422, "UnprocessableEntityException", message));
}

#[tokio::test]
async fn hidden_warehouse_gets_the_same_response_as_a_missing_one() {
    let app = TestApp::secured().await;
    app.post(WAREHOUSES, lake()).await.expect(201);
    let (id, bound) = app
        .make_key(json!({
            "name": "b", "roles": ["admin"], "warehouses": ["default"],
        }))
        .await;
    let reader = app.key_with_role("reader").await;
    let (_, nobody) = app.make_key(json!({ "name": "n" })).await;
    assert_eq!(app.warehouses_of(app.credential()).await, ["default", "lake"]);
    assert_eq!(app.warehouses_of(&reader).await, ["default", "lake"]);
    assert_eq!(app.warehouses_of(&bound).await, ["default"]);
    assert!(app.warehouses_of(&nobody).await.is_empty());
    let body = json!({ "storage": {} });
    for (key, status) in [(&bound, 404), (&nobody, 403)] {
        for (method, body) in
            [(Method::GET, &Value::Null), (Method::PUT, &body), (Method::DELETE, &Value::Null)]
        {
            let hidden = app.request_as(key, method.clone(), LAKE, body).await;
            let absent = app.request_as(key, method, &LAKE.replace("lake", "lakf"), body).await;
            assert_eq!(hidden.status, status);
            let text = hidden.body.to_string().replace("lake", "lakf");
            assert_eq!(text, absent.body.to_string());
        }
        // Callers that may not create a warehouse do not learn that its name exists.
        for name in ["lake", "new"] {
            let requested = at(name, "memory:///new");
            let rejection = app.request_as(key, Method::POST, WAREHOUSES, &requested).await;
            rejection.expect_error(403, "ForbiddenException");
        }
    }
    // A change of a visible warehouse is forbidden, without disclosing the location.
    for (method, body) in [(Method::PUT, &body), (Method::DELETE, &Value::Null)] {
        let rejection = app.request_as(&reader, method, LAKE, body).await;
        let message = "Not allowed: ManageWarehouse on Warehouse::\"lake\"";
        assert_eq!(rejection.error(), (403, "ForbiddenException", message));
    }
    let seen = app.get_as(&reader, LAKE).await.expect(200).body;
    assert_eq!(seen.get("storage"), None);
    assert!(!seen.to_string().contains("memory:"), "{seen}");
    // A key with a limit is bound to the name of a warehouse, even if the warehouse is created
    // later.
    let forbid = format!(
        "@id(\"f\") forbid (principal == ServiceAccount::\"{id}\", action == Action::\"ReadConfig\", resource);"
    );
    app.put_policy("f", &forbid).await.expect(200);
    assert!(app.warehouses_of(&bound).await.is_empty());
}

#[tokio::test]
async fn warehouses_are_paginated() {
    let app = TestApp::secured().await;
    for number in 0..5 {
        let message = at(&format!("w{number}"), &format!("memory:///w{number}"));
        app.post(WAREHOUSES, message).await.expect(201);
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("{WAREHOUSES}?pageSize=2&pageToken={token}");
        let page = app.get(&path).await.expect(200).body;
        seen.extend(page["warehouses"].as_array().expect("a list").clone());
        match page["next-page-token"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(json!(seen), app.get(WAREHOUSES).await.body["warehouses"]);
    assert_eq!(seen.len(), 6);
}

#[tokio::test]
async fn repeated_create_and_delete_with_an_idempotency_key_are_applied_once() {
    let app = TestApp::secured().await;
    let send = async |method: Method, path: &str, key: &str, body: &Value| {
        let key = format!("0190a6a3-5f6f-7c3e-8a77-2b6f6f0a3c{key}");
        app.request(method, path, &[("Idempotency-Key", &key)], body).await
    };
    let response_body = send(Method::POST, WAREHOUSES, "01", &lake()).await.expect(201).body;
    assert_eq!(send(Method::POST, WAREHOUSES, "01", &lake()).await.expect(201).body, response_body);
    let other = send(Method::POST, WAREHOUSES, "01", &at("x", "memory:///x")).await;
    other.expect_error(422, "UnprocessableEntityException");
    for _ in 0..2 {
        send(Method::DELETE, LAKE, "02", &Value::Null).await.expect(204);
    }
    send(Method::DELETE, LAKE, "03", &Value::Null).await.expect(404);
    let again = send(Method::POST, WAREHOUSES, "04", &lake()).await.expect(201).body;
    assert_ne!(again["id"], response_body["id"]);
    send(Method::DELETE, LAKE, "02", &Value::Null).await.expect(204);
    app.get(LAKE).await.expect(200);
}

#[tokio::test]
async fn changes_and_denials_are_audited() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("audit.jsonl");
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.audit.to = slateberg_telemetry::settings::AuditTo::File;
        settings.audit.file.clone_from(&file);
    })
    .await;
    let reader = app.key_with_role("reader").await;
    let response_body = app.post(WAREHOUSES, lake()).await.expect(201).body;
    let change = json!({ "storage": {}, "client-defaults": { "a": "hunter2" } });
    app.put(LAKE, change.clone()).await.expect(200);
    app.put(LAKE, change).await.expect(200);
    app.request_as(&reader, Method::DELETE, LAKE, &Value::Null).await.expect(403);
    app.delete(LAKE).await.expect(204);
    let text = std::fs::read_to_string(&file).expect("there is a log");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let found: Vec<_> = lines
        .iter()
        .filter(|line| line["subject"] == response_body["id"] || line["event"] == "denial")
        .map(|line| {
            let versions = (line["version-before"].as_u64(), line["version-after"].as_u64());
            (line["action"].as_str().expect("an action"), versions)
        })
        .collect();
    assert_eq!(
        found,
        [
            ("create_warehouse", (None, Some(1))),
            ("update_warehouse", (Some(1), Some(2))),
            ("ManageWarehouse", (None, None)),
            ("delete_warehouse", (Some(2), None)),
        ]
    );
    assert!(lines.iter().any(|line| line["name"] == "lake" && line["policies"][0] == "role-admin"));
    assert!(!text.contains("hunter2"), "{text}");
}
