//! Locations of warehouses. They must not overlap with other warehouses or with the state of the
//! catalog. Local ones must be below configured directories. Unusable locations are rejected.

use std::path::Path;
use std::sync::Arc;

use axum::http::Method;
use object_store::ObjectStore;
use serde_json::json;
use slateberg::app::App;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;

use super::{LAKE, WAREHOUSES, at, lake};
use crate::support::app::{TestApp, memory_settings};
use crate::support::bucket::bucket;
use crate::support::faults::{Fault, FaultStore, Verb};
use crate::support::table::create_table;

#[tokio::test]
async fn overlapping_warehouse_locations_are_rejected() {
    let app = TestApp::secured().await;
    let mut first = lake();
    first["storage"]["allowed-locations"] = json!(["memory:///shared/a"]);
    app.post(WAREHOUSES, first).await.expect(201);
    for location in [
        "memory:///lake",
        "memory:///lake/",
        "memory:///lake/inside",
        "memory:///shared",
        "memory:///shared/a/b",
        "memory:///warehouse/x",
        "memory:///",
    ] {
        let response = app.post(WAREHOUSES, at("w", location)).await;
        response.clone().expect_error(400, "IllegalArgumentException");
        assert!(response.message().starts_with("Cannot use location '"), "{}", response.message());
        let mut allowed = at("w", "memory:///w");
        allowed["storage"]["allowed-locations"] = json!([location]);
        app.post(WAREHOUSES, allowed).await.expect_error(400, "IllegalArgumentException");
    }
    let response = app.post(WAREHOUSES, at("w", "memory:///lake/x")).await;
    let message =
        "Cannot use location 'memory:///lake/x': it overlaps with that of the warehouse lake";
    assert_eq!(response.message(), message);
    // The state of the catalog is not allowed either.
    for location in ["memory:///state", "memory:///state/wal"] {
        let response = app.post(WAREHOUSES, at("w", location)).await;
        assert!(response.message().ends_with("the catalog's own state is there"), "{location}");
    }
    // The message does not name a warehouse that the caller may not see.
    let forbid = "@id(\"f\") forbid (principal, action == Action::\"ReadConfig\", resource == Warehouse::\"lake\");";
    app.put_policy("f", forbid).await.expect(200);
    let response = app.post(WAREHOUSES, at("w", "memory:///lake/x")).await;
    assert!(response.message().ends_with("that of another warehouse"), "{}", response.message());
    app.post(WAREHOUSES, at("w", "memory:///lakes")).await.expect(201);
}

#[tokio::test]
async fn location_that_fails_its_probe_is_rejected_with_the_failure() {
    let bucket = bucket();
    let faults = FaultStore::new(Arc::clone(&bucket));
    let mut settings = memory_settings();
    settings.catalog.warehouse_probe_seconds_max = 1;
    let app = TestApp::with(Arc::clone(&faults) as Arc<dyn ObjectStore>, settings).await;
    let probe = ".slateberg-probe-";
    for (verb, fault, output_text) in [
        (Verb::Put, Fault::Fail, "cannot write a probe file: "),
        (Verb::Put, Fault::Hang, "cannot write a probe file: no response within 1.0 s"),
        (Verb::Get, Fault::Fail, "cannot read a probe file: "),
        (Verb::Delete, Fault::Fail, "cannot delete a probe file: "),
    ] {
        faults.inject(verb, probe, fault);
        let response = app.post(WAREHOUSES, lake()).await;
        response.clone().expect_error(400, "IllegalArgumentException");
        let text = format!("Cannot use location 'memory:///lake': {output_text}");
        assert!(response.message().starts_with(&text), "{}", response.message());
        app.get(LAKE).await.expect_error(404, "NoSuchWarehouseException");
        faults.lift();
    }
    // The failure is not recorded for the `Idempotency-Key`, because a retry may succeed.
    let key = [("Idempotency-Key", "0190a6a3-5f6f-7c3e-8a77-2b6f6f0a3c12")];
    faults.inject(Verb::Put, probe, Fault::Fail);
    app.request(Method::POST, WAREHOUSES, &key, &lake()).await.expect(400);
    faults.lift();
    app.request(Method::POST, WAREHOUSES, &key, &lake()).await.expect(201);
    // A changed storage is probed too. If the probe fails, the whole change is rejected.
    faults.inject(Verb::Put, probe, Fault::Fail);
    let change = json!({ "storage": { "allowed-locations": ["memory:///more"] } });
    app.put(LAKE, change).await.expect_error(400, "IllegalArgumentException");
    assert_eq!(app.get(LAKE).await.expect(200).body["version"], 1);
    let change = json!({ "storage": {}, "client-defaults": { "a": "b" } });
    assert_eq!(app.put(LAKE, change).await.expect(200).body["version"], 2);
}

/// A catalog on a directory, opened in the same way as by a server.
async fn local(directory: &Path, change: impl FnOnce(&mut Settings)) -> TestApp {
    let mut settings = Settings { data_dir: directory.join("data"), ..Settings::default() };
    settings.authn.insecure_no_auth = true;
    change(&mut settings);
    TestApp::of(App::build(settings, Dependencies::default()).await.expect("the catalog opens"))
}

fn url(directory: &Path) -> String {
    format!("file://{}", directory.display())
}

#[tokio::test]
async fn local_warehouse_outside_the_permitted_directories_is_rejected() {
    let directory = tempfile::tempdir().expect("there is room");
    let root = directory.path().canonicalize().expect("it is there");
    let (data, room) = (root.join("data"), root.join("room"));
    std::fs::create_dir_all(&room).expect("it can be made");
    let app = local(&root, |settings| {
        settings.catalog.local_warehouse_dirs = vec![room.clone()];
    })
    .await;
    std::fs::create_dir_all(root.join("secret")).expect("it can be made");
    std::fs::create_dir_all(data.join("warehouse")).expect("it can be made");
    std::os::unix::fs::symlink(root.join("secret"), data.join("warehouse/link")).expect("a link");
    std::os::unix::fs::symlink(&room, data.join("warehouse/room")).expect("a link");
    for location in [
        "file:///etc".to_owned(),
        "file:///".to_owned(),
        url(&data),
        url(&data.join("warehouse")),
        url(&data.join("state")),
        url(&data.join("warehouse/link")),
        url(&data.join("warehouse/link/below")),
        url(&data.join("warehouse/room/x")),
        url(&root.join("secret")),
        url(&root.join("roomy")),
        url(&room),
        url(&data.join("warehouse/../state")),
        url(&data.join("warehouse/%2e%2e/state")),
        format!("file:{}", data.join("warehouse/x").display()),
        format!("file://host{}", data.join("warehouse/x").display()),
        data.join("warehouse/x").display().to_string(),
        "memory:///x".to_owned(),
        "http://169.254.169.254/latest".to_owned(),
        "https://example.com/x".to_owned(),
        "s3://user@bucket/x".to_owned(),
        "s3://".to_owned(),
        "hdfs://host/x".to_owned(),
    ] {
        let response = app.post(WAREHOUSES, at("w", &location)).await;
        assert_eq!(response.status, 400, "{location}: {}", response.body);
        let mut allowed = at("w", &url(&room.join("w")));
        allowed["storage"]["allowed-locations"] = json!([location]);
        let response = app.post(WAREHOUSES, allowed).await;
        assert_eq!(response.status, 400, "allowed {location}: {}", response.body);
    }
    for location in ["/tmp/x", "file:///tmp/x", "file:/tmp/x"] {
        let response = app.post(WAREHOUSES, at("w", location)).await;
        let rule = "below 'warehouse' in the data directory, or below a directory of \
                    catalog.local_warehouse_dirs";
        assert!(response.message().contains(rule), "{location}: {}", response.message());
    }
    assert!(std::fs::read_dir(root.join("secret")).expect("it is there").next().is_none());
    for (name, location) in [("one", data.join("warehouse/one")), ("two", room.join("a/two"))] {
        app.post(WAREHOUSES, at(name, &url(&location))).await.expect(201);
        assert!(std::fs::read_dir(&location).expect("it is there").next().is_none(), "no probe");
        app.post(&format!("/v1/{name}/namespaces"), json!({ "namespace": ["ns"] }))
            .await
            .expect(200);
        let tables = format!("/v1/{name}/namespaces/ns/tables");
        app.post(&tables, create_table("t")).await.expect(200);
    }
    app.app.runtime.catalog.close().await.expect("it closes");
    drop(app);

    // A warehouse outside of the allowed directories is not served. All other warehouses are
    // served.
    let app = local(&root, |_| {}).await;
    app.get("/v1/one/namespaces/ns/tables/t").await.expect(200);
    app.get("/v1/two/namespaces/ns/tables/t").await.expect_error(503, "SlowDownException");
    let two = app.get("/management/v1/warehouses/two").await.expect(200).body;
    assert_eq!(two["status"], "unavailable");
    assert!(two["problem"].as_str().expect("a reason").contains("local_warehouse_dirs"), "{two}");
}

#[tokio::test]
async fn symbolic_link_created_later_does_not_widen_a_warehouse() {
    let directory = tempfile::tempdir().expect("there is room");
    let root = directory.path().canonicalize().expect("it is there");
    let app = local(&root, |_| {}).await;
    let place = root.join("data/warehouse/one");
    app.post(WAREHOUSES, at("one", &url(&place))).await.expect(201);
    app.app.runtime.catalog.close().await.expect("it closes");
    drop(app);
    std::fs::remove_dir(&place).expect("it is empty");
    std::os::unix::fs::symlink("/etc", &place).expect("a link");
    let app = local(&root, |_| {}).await;
    app.get("/v1/one/namespaces").await.expect_error(503, "SlowDownException");
}

#[tokio::test]
async fn bucket_that_does_not_respond_is_rejected_in_time() {
    let directory = tempfile::tempdir().expect("there is room");
    let app = local(directory.path(), |settings| {
        settings.catalog.warehouse_probe_seconds_max = 1;
    })
    .await;
    // A port without a listener, because it was released.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = port.local_addr().expect("an address").port();
    let mut requested = at("lake", "s3://bucket/lake");
    requested["storage"]["options"] = json!({
        "aws_endpoint": format!("http://127.0.0.1:{port}"), "aws_allow_http": "true",
        "aws_skip_signature": "true", "aws_region": "eu-central-1",
    });
    let response = app.post(WAREHOUSES, requested.clone()).await;
    let text = "Cannot use location 's3://bucket/lake': cannot write a probe file: ";
    assert_eq!(response.error().0, 400);
    assert!(response.message().starts_with(text), "{}", response.message());
    // Options that the library rejects are reported with its reason.
    requested["storage"]["options"]["aws_checksum_algorithm"] = json!("nonsense");
    let response = app.post(WAREHOUSES, requested).await;
    assert!(
        response.message().starts_with("cannot open s3://bucket/lake"),
        "{}",
        response.message()
    );
    app.get(LAKE).await.expect_error(404, "NoSuchWarehouseException");
}
