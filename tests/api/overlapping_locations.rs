//! Locations that overlap with those of other tables, views and namespaces, or with the state of
//! the catalog.

use std::path::Path;
use std::sync::Arc;

use axum::http::Method;
use futures::future::join_all;
use serde_json::{Value, json};
use slateberg::app::App;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;

use crate::support::app::{TestApp, TestResponse};
use crate::support::avro::{manifest, manifest_list};
use crate::support::fsck::assert_sound;
use crate::support::table::{append, create_table, creating_updates, set_property};
use crate::support::view::create_view;

const TABLES: &str = "/v1/namespaces/ns/tables";
const JOBS: &str = "/management/v1/jobs";

fn at(name: &str, location: &str) -> Value {
    let mut body = create_table(name);
    body["location"] = json!(location);
    body
}

fn set_location(location: &str) -> Value {
    json!({ "action": "set-location", "location": location })
}

fn commit(updates: Value) -> Value {
    json!({ "requirements": [], "updates": updates })
}

/// The requests that can set the location of a table or view.
fn requests(location: &str) -> Vec<(&'static str, Value)> {
    let mut staged = at("x", location);
    staged["stage-create"] = json!(true);
    let mut with_path = create_table("x");
    with_path["properties"] = json!({ "write.data.path": location });
    let mut view = create_view("x");
    view["location"] = json!(location);
    let created = [creating_updates(), vec![set_location(location)]].concat();
    let created = json!({ "requirements": [{ "type": "assert-create" }], "updates": created });
    let mut in_transaction = commit(json!([set_location(location)]));
    in_transaction["identifier"] = json!({ "namespace": ["ns"], "name": "mine" });
    let mut all = vec![
        (TABLES, at("x", location)),
        (TABLES, staged),
        (TABLES, with_path),
        ("/v1/namespaces/ns/views", view),
        ("/v1/namespaces/ns/tables/x", created),
        ("/v1/namespaces/ns/tables/mine", commit(json!([set_location(location)]))),
        ("/v1/namespaces/ns/views/mine_too", commit(json!([set_location(location)]))),
        ("/v1/transactions/commit", json!({ "table-changes": [in_transaction] })),
    ];
    for key in [
        "write.data.path",
        "write.metadata.path",
        "write.object-storage.path",
        "write.folder-storage.path",
    ] {
        let update = commit(json!([set_property(key, location)]));
        all.push(("/v1/namespaces/ns/tables/mine", update));
    }
    all
}

/// A catalog with two namespaces, and in `hidden` a table and a view with locations of their own.
async fn scene() -> TestApp {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    app.create_namespace(&["hidden"]).await;
    app.create_table("ns", "mine").await;
    app.create_view("ns", "mine_too").await;
    let table = at("secret", "memory:///warehouse/place/table");
    app.post("/v1/namespaces/hidden/tables", table).await.expect(200);
    let mut view = create_view("secret_view");
    view["location"] = json!("memory:///warehouse/place/view");
    app.post("/v1/namespaces/hidden/views", view).await.expect(200);
    app
}

#[tokio::test]
async fn location_equal_to_inside_or_around_that_of_another_table_or_view_is_rejected() {
    let app = scene().await;
    for location in [
        "memory:///warehouse/place/table",
        "memory:///warehouse/place/table/",
        "memory:///warehouse/place/table/data",
        "memory:///warehouse/place/view/inside",
        "memory:///warehouse/place",
        "memory:///warehouse/hidden",
        "memory:///warehouse/ns",
        "memory:///warehouse",
    ] {
        for (path, body) in requests(location) {
            let response = app.post_rejected(path, body.clone()).await;
            assert_eq!(
                (response.error().0, response.error().1),
                (400, "IllegalArgumentException"),
                "{path} {body}"
            );
            let message = response.message();
            assert!(message.starts_with("Cannot use location '"), "{path} {body}: {message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }
    for (number, (path, body)) in requests("memory:///warehouse/free/x").into_iter().enumerate() {
        let app = if number == 0 { &app } else { &scene().await };
        let status = app.post(path, body).await.status.as_u16();
        assert!(status == 200 || status == 204, "{path}: {status}");
    }
}

#[tokio::test]
async fn a_percent_encoded_spelling_of_a_taken_location_is_rejected() {
    let app = scene().await;
    for (name, location) in [
        ("decoded", "memory:///warehouse/spelled/a b"),
        ("encoded", "memory:///warehouse/spelled/c%20d"),
    ] {
        app.post("/v1/namespaces/hidden/tables", at(name, location)).await.expect(200);
    }
    for location in [
        "memory:///warehouse/spelled/a%20b",
        "memory:///warehouse/spelled/%61%20b",
        "memory:///warehouse/spelled/%61 b/inside",
        "memory:///warehouse/spelle%64",
        "memory:///warehouse/spelled/c d",
        "memory:///warehouse/spelled/c d/inside",
        "memory:///warehouse/spelled/%63%20d",
        "memory:///warehouse/place/%74able",
        "memory:///warehouse/hidde%6E",
    ] {
        for (path, body) in requests(location) {
            let rejected = app.post_rejected(path, body.clone()).await;
            assert_eq!(rejected.error().0, 400, "{path} {body}");
            let message = rejected.message();
            assert!(message.contains("overlaps"), "{path} {body}: {message}");
        }
    }
    // When a location becomes free, another table can use the location in its percent-encoded or
    // decoded form. The index keys of the location are removed from the store.
    app.delete("/v1/namespaces/hidden/tables/encoded").await.expect(204);
    app.post(TABLES, at("x", "memory:///warehouse/spelled/c d")).await.expect(200);
    app.delete("/v1/namespaces/hidden/tables/decoded").await.expect(204);
    app.post(TABLES, at("y", "memory:///warehouse/spelled/%61%20b")).await.expect(200);
    app.app.runtime.catalog.close().await.expect("it closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn registered_table_with_an_overlapping_location_is_rejected() {
    let app = scene().await;
    let loaded = app.get("/v1/namespaces/hidden/tables/secret").await.expect(200);
    let again = json!({ "name": "again", "metadata-location": loaded.body["metadata-location"] });
    let response = app.post_rejected("/v1/namespaces/ns/register", again).await;
    assert_eq!(response.error().0, 400);
    assert!(response.message().contains("overlaps"), "{}", response.message());
    let mut metadata = loaded.body["metadata"].clone();
    metadata["location"] = json!("memory:///warehouse/place/table/below");
    let file = "memory:///warehouse/elsewhere.metadata.json";
    app.put_file(file, metadata.to_string()).await;
    for body in [
        json!({ "name": "again", "metadata-location": file }),
        json!({ "name": "mine", "metadata-location": file, "overwrite": true }),
    ] {
        let response = app.post_rejected("/v1/namespaces/ns/register", body).await;
        assert!(response.message().contains("overlaps"), "{}", response.message());
    }
    // The location of a dropped table is free.
    app.delete("/v1/namespaces/hidden/tables/secret").await.expect(204);
    let body = json!({ "name": "again", "metadata-location": loaded.body["metadata-location"] });
    app.post("/v1/namespaces/ns/register", body).await.expect(200);
}

#[tokio::test]
async fn a_namespace_whose_location_is_that_of_a_table_gets_no_tables_there() {
    let app = scene().await;
    let body = json!({ "namespace": ["thief"],
                       "properties": { "location": "memory:///warehouse/place/table" } });
    app.post("/v1/namespaces", body).await.expect(200);
    app.post_rejected("/v1/namespaces/thief/tables", create_table("x")).await;
    app.create_namespace(&["honest"]).await;
    app.create_table("honest", "x").await;
}

#[tokio::test]
async fn of_concurrent_requests_for_overlapping_locations_one_succeeds() {
    let app = scene().await;
    for name in ["t0", "t1", "t2", "t3"] {
        app.create_table("ns", name).await;
    }
    for round in 0..8 {
        let root = format!("memory:///warehouse/race{round}");
        let location = |depth: usize| format!("{root}/a{}", "/a".repeat(depth));
        let creates = (0..6)
            .map(|depth| (TABLES.to_owned(), at(&format!("r{round}-{depth}"), &location(depth))));
        let moves = (0..4).map(|number| {
            let body = commit(json!([set_location(&location(6 + number))]));
            (format!("{TABLES}/t{number}"), body)
        });
        let requests = creates.chain(moves).map(|(path, body)| {
            let app = &app;
            async move { app.post(&path, body).await }
        });
        let responses = join_all(requests).await;
        let (done, refused): (Vec<_>, Vec<_>) =
            responses.iter().partition(|response| response.status.is_success());
        assert_eq!(done.len(), 1, "{responses:#?}");
        assert!(refused.iter().all(|response| response.status == 400), "{responses:#?}");
    }
}

#[tokio::test]
async fn tables_that_already_overlap_accept_commits() {
    let app = TestApp::with_overlapping_tables().await;
    app.post(TABLES, at("around", "memory:///warehouse/ns")).await.expect(200);
    app.post(TABLES, at("whole", "memory:///warehouse")).await.expect(200);
    app.post(TABLES, at("twin", "memory:///warehouse/ns/x")).await.expect(200);
    app.post(TABLES, at("other_twin", "memory:///warehouse/ns/x")).await.expect(200);
    app.app.runtime.catalog.close().await.expect("it closes");
    let app = TestApp::on(Arc::clone(&app.bucket)).await;
    for name in ["t", "around", "whole", "twin", "other_twin"] {
        app.get(&format!("{TABLES}/{name}")).await.expect(200);
        app.commit("ns", name, vec![], vec![set_property("a", "b")]).await.expect(200);
    }
    // A table at the root of the warehouse does not prevent the creation of others.
    app.create_namespace(&["free"]).await;
    app.create_table("free", "t").await;
    app.post_rejected(TABLES, at("third", "memory:///warehouse/ns/x")).await;
}

/// A catalog with the namespaces `a` and `b`, with or without overlapping tables, and a key that
/// owns `a` and sees nothing of `b`.
async fn tenants(overlapping: bool) -> (TestApp, String) {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.catalog.overlapping_locations = overlapping;
        settings.catalog.orphan_age_seconds_min = 0;
    })
    .await;
    for namespace in ["a", "b"] {
        app.create_namespace(&[namespace]).await;
        app.create_table(namespace, "t").await;
    }
    let (id, owner) = app.make_key(json!({ "name": "owner" })).await;
    let grant = json!({ "template": "own", "grantee": format!("service-account:{id}"),
                        "resource": "namespace:default/a" });
    app.post("/management/v1/grants", grant).await.expect(201);
    app.get_as(&owner, "/v1/namespaces/b").await.expect(404);
    (app, owner)
}

async fn register_as(app: &TestApp, key: &str, name: &str, file: &str) -> TestResponse {
    let body = json!({ "name": name, "metadata-location": file });
    app.request_as(key, Method::POST, "/v1/namespaces/a/register", &body).await
}

#[tokio::test]
async fn metadata_file_of_a_hidden_table_gets_the_same_response_as_a_missing_one() {
    for overlapping in [false, true] {
        let (app, owner) = tenants(overlapping).await;
        let loaded = app.get("/v1/namespaces/b/tables/t").await.expect(200).body;
        let location = loaded["metadata"]["location"].as_str().expect("a location");
        let current = loaded["metadata-location"].as_str().expect("a location").to_owned();
        let view = app.create_view("b", "v").await.body["metadata-location"].clone();
        let copy = "memory:///warehouse/copy.metadata.json".to_owned();
        app.put_file(&copy, loaded["metadata"].to_string()).await;
        let other = format!("{location}/metadata/other.txt");
        app.put_file(&other, "no metadata").await;
        for file in [
            current.clone(),
            other,
            copy,
            view.as_str().expect("a location").to_owned(),
            format!("{location}/metadata/missing.metadata.json"),
            "memory:///warehouse/missing.metadata.json".to_owned(),
        ] {
            let message = format!("Failed to open input stream for file: {file}");
            for kind in ["register", "register-view"] {
                let path = format!("/v1/namespaces/a/{kind}");
                let body = json!({ "name": "x", "metadata-location": file });
                let rejection = app.request_as(&owner, Method::POST, &path, &body).await;
                if kind == "register" || !file.ends_with("copy.metadata.json") {
                    assert_eq!(
                        rejection.error(),
                        (404, "NotFoundException", message.as_str()),
                        "{kind}"
                    );
                }
            }
            let body = json!({ "name": "t", "metadata-location": file, "overwrite": true });
            let path = "/v1/namespaces/a/register";
            let rejection = app.request_as(&owner, Method::POST, path, &body).await;
            assert_eq!(rejection.error(), (404, "NotFoundException", message.as_str()));
        }
        // If locations may overlap, an owner of a table may register this table's metadata again.
        // An administrator may register the metadata of any table.
        let own = app.get("/v1/namespaces/a/tables/t").await.expect(200).body;
        let own = own["metadata-location"].as_str().expect("a location").to_owned();
        let status = if overlapping { 200 } else { 400 };
        register_as(&app, &owner, "second", &own).await.expect(status);
        register_as(&app, app.credential(), "third", &current).await.expect(status);
    }
}

#[tokio::test]
async fn a_search_for_orphans_finds_no_file_at_the_location_of_another_table() {
    let (app, owner) = tenants(true).await;
    let theirs = app.get("/v1/namespaces/b/tables/t").await.expect(200).body;
    let theirs = theirs["metadata"]["location"].as_str().expect("a location").to_owned();
    let in_flight = format!("{theirs}/data/in-flight.parquet");
    let lost = "memory:///warehouse/b/lost.parquet".to_owned();
    for file in [&in_flight, &lost] {
        app.put_file(file, "content").await;
    }
    let create = async |name: &str, location: &str| {
        let path = "/v1/namespaces/a/tables";
        app.request_as(&owner, Method::POST, path, &at(name, location)).await.expect(200)
    };
    create("around", "memory:///warehouse/b").await;
    create("same", &theirs).await;
    create("inside", &format!("{theirs}/data")).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let orphans = |table: &str, dry_run: bool| {
        json!({ "kind": "orphan-removal", "resource": format!("table:default/a/{table}"),
                "dry-run": dry_run, "older-than-seconds": 0 })
    };
    for table in ["same", "inside"] {
        let rejection = app.request_as(&owner, Method::POST, JOBS, &orphans(table, true)).await;
        rejection.expect_error(409, "ConflictException");
    }
    for dry_run in [true, false] {
        let body = orphans("around", dry_run);
        let job = app.request_as(&owner, Method::POST, JOBS, &body).await.expect(202).body;
        app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
        let path = format!("{JOBS}/{}", job["id"].as_str().expect("an id"));
        let job = app.get(&path).await.expect(200).body;
        assert_eq!((&job["state"], &job["files"]["done"]), (&json!("done"), &json!(1)), "{job}");
        if dry_run {
            assert_eq!(job["found"], json!([lost]), "{job}");
        }
    }
    assert!(app.file(&in_flight).await.is_some(), "a writer may still commit the file");
    // A search for orphans of the table that has this location finds the file.
    let mut body = orphans("t", true);
    body["resource"] = json!("table:default/b/t");
    // Unregisters the table instead of dropping it, because a dropped table would still protect the
    // files at its location.
    app.post("/v1/namespaces/a/tables/inside/unregister", Value::Null).await.expect(200);
    let job = app.post(JOBS, body).await.expect(202).body;
    app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
    let path = format!("{JOBS}/{}", job["id"].as_str().expect("an id"));
    let job = app.get(&path).await.expect(200).body;
    let found = job["found"].as_array().expect("a list");
    assert!(found.contains(&json!(in_flight)), "{job}");
}

/// A catalog on a directory, opened in the same way as by a server.
async fn local(directory: &Path) -> TestApp {
    let mut settings = Settings { data_dir: directory.join("data"), ..Settings::default() };
    settings.authn.insecure_no_auth = true;
    settings.catalog.orphan_age_seconds_min = 0;
    TestApp::of(App::build(settings, Dependencies::default()).await.expect("the catalog opens"))
}

#[tokio::test]
async fn no_table_and_no_job_reaches_the_state_through_a_symbolic_link() {
    let directory = tempfile::tempdir().expect("there is room");
    let root = directory.path().canonicalize().expect("it exists");
    let app = local(&root).await;
    app.create_namespace(&["ns"]).await;
    let created = app.create_table("ns", "t").await.body;
    let location = created["metadata"]["location"].as_str().expect("a location").to_owned();
    let table = Path::new(location.strip_prefix("file://").expect("a local file")).to_owned();
    std::os::unix::fs::symlink(root.join("data/state"), table.join("link")).expect("a link");
    let state = |directory: &str| {
        let found = std::fs::read_dir(root.join("data/state").join(directory)).expect("it exists");
        let mut names: Vec<_> = found.map(|it| it.expect("it is read").file_name()).collect();
        names.sort();
        names
    };
    // The link cannot be the location of a table.
    for body in [
        at("x", &format!("{location}/link")),
        at("x", &format!("file://{}/data/warehouse/default/ns/x", root.display())),
    ] {
        let place = body["location"].as_str().expect("a location").to_owned();
        if !place.ends_with("link") {
            let path = Path::new(place.strip_prefix("file://").expect("a local file"));
            std::os::unix::fs::symlink(root.join("data"), path).expect("a link");
        }
        let response = app.post(TABLES, body).await.expect_error(400, "IllegalArgumentException");
        let message = response.message();
        assert!(message.contains("the catalog's own state is there"), "{message}");
    }
    // The link cannot lead a search for orphans, or a purge of forged metadata, to the state.
    let manifests = state("manifest");
    assert!(!manifests.is_empty());
    let forged = format!("{location}/link/manifest/{}", manifests[0].to_string_lossy());
    let (list, one) = (table.join("metadata/snap.avro"), table.join("metadata/m.avro"));
    std::fs::write(&one, manifest(&[&forged])).expect("it is written");
    let one = format!("file://{}", one.display());
    std::fs::write(&list, manifest_list(&[&one])).expect("it is written");
    let mut updates = append(1, None, 1);
    updates[0]["snapshot"]["manifest-list"] = json!(format!("file://{}", list.display()));
    app.commit("ns", "t", vec![], updates).await.expect(200);
    std::fs::write(table.join("lost"), "content").expect("it is written");
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let body = json!({ "kind": "orphan-removal", "resource": "table:default/ns/t",
                       "dry-run": true, "older-than-seconds": 0 });
    let job = app.post(JOBS, body).await.expect(202).body;
    app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
    let path = format!("{JOBS}/{}", job["id"].as_str().expect("an id"));
    let job = app.get(&path).await.expect(200).body;
    assert_eq!(job["found"], json!([format!("{location}/lost")]), "{job}");
    app.delete(&format!("{TABLES}/t?purgeRequested=true")).await.expect(204);
    app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
    assert!(manifests.iter().all(|name| state("manifest").contains(name)), "a manifest is gone");
}
