//! Background jobs: the files that they delete and retain, and how they are listed, started and
//! cancelled.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use slateberg_config::Settings;

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::avro::{manifest, manifest_list};
use crate::support::bucket::{bucket, store_url};
use crate::support::clock::HandClock;
use crate::support::fsck::assert_sound;
use crate::support::table::{append, create_table, set_property};
use crate::support::table_with_files::{ALL, TableWithFiles};

const JOBS: &str = "/management/v1/jobs";
const TABLE: &str = "/v1/namespaces/ns/tables/t";
const PURGE: &str = "/v1/namespaces/ns/tables/t?purgeRequested=true";

/// Allows files of any age to be orphans, and tables to overlap.
fn any_age(settings: &mut Settings) {
    settings.catalog.orphan_age_seconds_min = 0;
    settings.catalog.overlapping_locations = true;
}

/// A table with files, in a catalog in which files of any age can be orphans.
pub(crate) async fn filled() -> TableWithFiles {
    let app = TestApp::with_settings(any_age).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    TableWithFiles::of(app).await
}

/// Waits until existing files are older than new ones: buckets have a time resolution of one
/// second.
async fn let_files_age() {
    let ms = if store_url().is_some() { 1100 } else { 5 };
    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
}

/// Returns the request for a search for the orphans of the table `ns.TABLE`.
pub(crate) fn orphans_of(table: &str, dry_run: bool) -> Value {
    json!({
        "kind": "orphan-removal", "resource": format!("table:default/ns/{table}"),
        "dry-run": dry_run, "older-than-seconds": 0,
    })
}

async fn jobs(app: &TestApp) -> Vec<Value> {
    app.get(JOBS).await.expect(200).body["jobs"].as_array().expect("a list").clone()
}

pub(crate) async fn only_job(app: &TestApp) -> Value {
    let jobs = jobs(app).await;
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    jobs.into_iter().next().expect("there is one")
}

pub(crate) async fn get_job(app: &TestApp, id: &Value) -> Value {
    app.get(&format!("{JOBS}/{}", id.as_str().expect("an id"))).await.expect(200).body
}

async fn cancel(app: &TestApp, id: &Value) -> TestResponse {
    let path = format!("{JOBS}/{}/cancel", id.as_str().expect("an id"));
    app.request(Method::POST, &path, &[], &Value::Null).await
}

/// Registers the state of `ns.t` as `ns.NAME` too.
pub(crate) async fn register(app: &TestApp, name: &str) -> TestResponse {
    let loaded = app.get(TABLE).await.expect(200);
    let body = json!({ "name": name, "metadata-location": loaded.body["metadata-location"] });
    app.post("/v1/namespaces/ns/register", body).await.expect(200)
}

#[tokio::test]
async fn purge_job_reports_its_progress() {
    let table = TableWithFiles::new().await;
    assert!(jobs(&table.app).await.is_empty());
    table.app.delete(PURGE).await.expect(204);
    let job = only_job(&table.app).await;
    assert_eq!((&job["kind"], &job["state"]), (&json!("purge"), &json!("waiting")));
    assert_eq!(job["resource"], "table:default/ns/t");
    assert_eq!(job["files"], json!({ "done": 0, "total": null, "kept": 0, "bytes": null }));
    assert_eq!((&job["started-at-ms"], &job["ended-at-ms"]), (&Value::Null, &Value::Null));
    assert_eq!(table.run().await, 1);
    let job = only_job(&table.app).await;
    assert_eq!(job["state"], "done", "{job}");
    // The table has nine files: three data files, one of them outside of the warehouse, a manifest,
    // its manifest list, a statistics file and three metadata files.
    assert_eq!(job["files"], json!({ "done": 8, "total": 9, "kept": 1, "bytes": null }));
    assert_eq!(job["warning"], Value::Null);
    assert!(job["started-at-ms"].as_i64() >= job["created-at-ms"].as_i64());
    assert!(job["ended-at-ms"].as_i64() >= job["started-at-ms"].as_i64());
    assert_eq!(get_job(&table.app, &job["id"]).await, job, "a purge has no list of files");
    let metrics = table.app.get("/metrics").await.body;
    let metrics = metrics.as_str().expect("a text").to_owned();
    assert!(metrics.contains("slateberg_jobs_total{result=\"done\"} 1"), "{metrics}");
    assert!(metrics.contains("slateberg_job_files_deleted_total 8"), "{metrics}");
    let app = table.app.restart().await;
    assert_eq!(only_job(&app).await, job, "the job survives the restart");
    assert_sound(app.bucket).await;
}

#[tokio::test]
async fn purge_job_reports_its_total_from_manifest_lists_at_the_start() {
    use apache_avro::types::Value as Avro;
    let table = TableWithFiles::new().await;
    let list = {
        let schema = apache_avro::Schema::parse_str(
            r#"{"type":"record","name":"manifest_file","fields":[
                {"name":"manifest_path","type":"string"},
                {"name":"added_files_count","type":"int"},
                {"name":"existing_files_count","type":"int"},
                {"name":"deleted_files_count","type":"int"}]}"#,
        );
        let schema = schema.expect("a schema");
        let mut writer = apache_avro::Writer::new(&schema, Vec::new());
        let entry = Avro::Record(vec![
            ("manifest_path".into(), Avro::String(table.at("metadata/m1.avro"))),
            ("added_files_count".into(), Avro::Int(2)),
            ("existing_files_count".into(), Avro::Int(1)),
            ("deleted_files_count".into(), Avro::Int(0)),
        ]);
        writer.append(entry).expect("an entry");
        writer.into_inner().expect("a file")
    };
    table.app.put_file(&table.at("metadata/snap-1.avro"), list).await;
    table.app.delete(PURGE).await.expect(204);
    table.run().await;
    let job = only_job(&table.app).await;
    assert_eq!(job["files"], json!({ "done": 8, "total": 9, "kept": 1, "bytes": null }));
}

#[tokio::test]
async fn completed_jobs_are_removed_after_their_retention_and_beyond_the_maximum() {
    let clock = Arc::new(HandClock::default());
    let mut settings = memory_settings();
    settings.catalog.jobs_kept_seconds = 100;
    settings.catalog.jobs_kept_max = 2;
    let app = TestApp::with_clock(bucket(), settings, Arc::<HandClock>::clone(&clock)).await;
    app.create_namespace(&["ns"]).await;
    for _ in 0..3 {
        app.create_table("ns", "t").await;
        app.delete(PURGE).await.expect(204);
        app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
    }
    let all = jobs(&app).await;
    assert_eq!(all.len(), 3);
    app.app.runtime.catalog.maintenance().expire().await.expect("it expires");
    assert_eq!(jobs(&app).await, all[1..], "the oldest job exceeds the maximum");
    clock.advance_seconds(99);
    app.app.runtime.catalog.maintenance().expire().await.expect("it expires");
    assert_eq!(jobs(&app).await.len(), 2);
    clock.advance_seconds(2);
    app.app.runtime.catalog.maintenance().expire().await.expect("it expires");
    assert!(jobs(&app).await.is_empty());
}

#[tokio::test]
async fn jobs_are_paginated() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    for number in 0..5 {
        app.create_table("ns", "t").await;
        app.delete(PURGE).await.expect(204);
        if number < 2 {
            app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
        }
    }
    let all = jobs(&app).await;
    let states: Vec<_> = all.iter().map(|job| job["state"].as_str().expect("a state")).collect();
    assert_eq!(states, ["waiting", "waiting", "waiting", "done", "done"]);
    let paged = app.pages(JOBS, "jobs", 2).await;
    assert_eq!(paged, all);
    app.get(&format!("{JOBS}?pageToken=nonsense")).await.expect(400);
}

#[tokio::test]
async fn purge_keeps_files_that_another_registration_references() {
    let table = TableWithFiles::new().await;
    let second = register(&table.app, "second").await;
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ALL, "the second table references all files");
    assert_eq!(table.metadata_files().await, 3);
    let again = table.app.get("/v1/namespaces/ns/tables/second").await.expect(200);
    assert_eq!(again.body["metadata"], second.body["metadata"]);
    table.app.delete("/v1/namespaces/ns/tables/second?purgeRequested=true").await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ["stranger"]);
    assert_eq!(table.metadata_files().await, 0);
}

#[tokio::test]
async fn purge_keeps_files_that_a_registration_with_a_changed_location_references() {
    let table = TableWithFiles::new().await;
    register(&table.app, "second").await;
    let moved = json!({ "action": "set-location", "location": "memory:///warehouse/elsewhere" });
    table.app.commit("ns", "second", vec![], vec![moved]).await.expect(200);
    // The first table gets a snapshot that the second table does not have.
    let own = table.at("metadata/snap-2.avro");
    let (own_manifest, own_file) = (table.at("metadata/m2.avro"), table.at("data/own.parquet"));
    table.app.put_file(&own_manifest, manifest(&[&own_file])).await;
    table.app.put_file(&own, manifest_list(&[&own_manifest, &table.at("metadata/m1.avro")])).await;
    table.app.put_file(&own_file, "content").await;
    let mut updates = append(2, Some(1), 2);
    updates[0]["snapshot"]["manifest-list"] = json!(own);
    table.app.commit("ns", "t", vec![], updates).await.expect(200);
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ALL, "only its own files are deleted");
}

#[tokio::test]
async fn a_purge_keeps_every_file_at_another_tables_location() {
    let table = TableWithFiles::new().await;
    let other = table.app.create_table("ns", "other").await;
    let location = other.body["metadata"]["location"].as_str().expect("a location").to_owned();
    let place = |name: &str| format!("{location}/{name}");
    let (theirs, uncommitted) = (place("data/theirs.parquet"), place("data/uncommitted.parquet"));
    let (list, one) = (place("metadata/snap.avro"), place("metadata/m.avro"));
    table.app.put_file(&one, manifest(&[&theirs])).await;
    table.app.put_file(&list, manifest_list(&[&one])).await;
    let mut updates = append(7, None, 1);
    updates[0]["snapshot"]["manifest-list"] = json!(list);
    table.app.commit("ns", "other", vec![], updates).await.expect(200);
    for file in [&theirs, &uncommitted] {
        table.app.put_file(file, "content").await;
    }
    // Adds both files of the other table to the manifest of the first table.
    let files = [table.at("data/1.parquet"), theirs.clone(), uncommitted.clone()];
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    table.app.put_file(&table.at("metadata/m1.avro"), manifest(&files)).await;
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert!(table.app.file(&theirs).await.is_some(), "the other table references the file");
    assert!(table.app.file(&uncommitted).await.is_some(), "a writer may still commit the file");
    assert_eq!(
        table.remaining_files().await,
        ["data/2.parquet", "stranger"],
        "the manifest no longer references data/2.parquet"
    );
}

#[tokio::test]
async fn metadata_files_that_another_registration_needs_are_not_cleaned_up() {
    let app = TestApp::with_overlapping_tables().await;
    let keep_one = json!({ "action": "set-properties", "updates": {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1" } });
    let body = app.get(TABLE).await.expect(200).body;
    let first = body["metadata-location"].as_str().expect("a location").to_owned();
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    // Registers a second table, which has the first metadata file in its metadata log.
    register(&app, "second").await;
    app.commit("ns", "t", vec![], vec![keep_one]).await.expect(200);
    let waiting = only_job(&app).await;
    assert_eq!(waiting["kind"], "metadata-clean-up");
    assert_eq!(waiting["resource"], "warehouse:default");
    assert_eq!(app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run"), 1);
    assert!(app.file(&first).await.is_some(), "the second table has the file in its metadata log");
    assert!(jobs(&app).await.is_empty(), "small jobs are not kept");
    let unregister = "/v1/namespaces/ns/tables/second/unregister";
    app.post(unregister, Value::Null).await.expect(200);
    for value in ["2", "3"] {
        app.commit("ns", "t", vec![], vec![set_property("a", value)]).await.expect(200);
    }
    assert_eq!(app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run"), 2);
    let loaded = app.get(TABLE).await.expect(200);
    let location = loaded.body["metadata"]["location"].as_str().expect("a location");
    assert_eq!(app.files(location).await.len(), 3, "the first file, and the two that are kept");
}

#[tokio::test]
async fn metadata_log_with_files_of_other_tables_deletes_none_of_them() {
    let table = TableWithFiles::new().await;
    let app = &table.app;
    let response_body = app.create_table("ns", "mine").await.body;
    let location = response_body["metadata"]["location"].as_str().expect("a location").to_owned();
    let own = |name: &str| format!("{location}/{name}");
    let (old, data) = (own("metadata/old.metadata.json"), own("data/1.parquet"));
    let theirs = table.at("metadata/unknown.metadata.json");
    for file in [&old, &data, &theirs] {
        app.put_file(file, "content").await;
    }
    let named = ["data/1.parquet", "data/2.parquet", "metadata/m1.avro", "stranger"];
    let named = named.map(|file| table.at(file));
    let mut metadata = response_body["metadata"].clone();
    let time = metadata["last-updated-ms"].clone();
    let entry = |file| json!({ "metadata-file": file, "timestamp-ms": time });
    let log: Vec<_> = [&old, &data, &theirs].into_iter().chain(&named).map(entry).collect();
    metadata["metadata-log"] = json!(log);
    metadata["properties"] = json!({
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    });
    let file = own("metadata/00001-x.metadata.json");
    app.put_file(&file, metadata.to_string()).await;
    app.delete("/v1/namespaces/ns/tables/mine").await.expect(204);
    let body = json!({ "name": "mine", "metadata-location": file });
    app.post("/v1/namespaces/ns/register", body).await.expect(200);
    app.commit("ns", "mine", vec![], vec![set_property("a", "1")]).await.expect(200);
    assert_eq!(table.run().await, 1);
    assert!(app.file(&old).await.is_none(), "a file of the table itself is deleted");
    for file in [&data, &theirs] {
        assert!(app.file(file).await.is_some(), "{file} is gone");
    }
    assert_eq!(table.remaining_files().await, ALL);
}

#[tokio::test]
async fn a_cancelled_purge_deletes_nothing_more() {
    let table = TableWithFiles::new().await;
    table.app.delete(PURGE).await.expect(204);
    let job = only_job(&table.app).await;
    let cancelled = cancel(&table.app, &job["id"]).await.expect(200).body;
    assert_eq!((&cancelled["id"], &cancelled["state"]), (&job["id"], &json!("cancelled")));
    assert_eq!(table.run().await, 0);
    assert_eq!(table.remaining_files().await, ALL);
    assert_eq!(get_job(&table.app, &job["id"]).await, cancelled);
    cancel(&table.app, &job["id"]).await.expect_error(409, "ConflictException");
    assert_sound(table.app.bucket).await;
}

#[tokio::test]
async fn repeated_cancellation_with_an_idempotency_key_gets_the_same_response() {
    let table = TableWithFiles::new().await;
    table.app.delete(PURGE).await.expect(204);
    let job = only_job(&table.app).await;
    let path = format!("{JOBS}/{}/cancel", job["id"].as_str().expect("an id"));
    let key = [("idempotency-key", "0190b6ad-0000-7000-8000-000000000001")];
    let first = table.app.request(Method::POST, &path, &key, &Value::Null).await.expect(200);
    let again = table.app.request(Method::POST, &path, &key, &Value::Null).await.expect(200);
    assert_eq!(first.body, again.body);
}

#[tokio::test]
async fn unknown_job_returns_404() {
    let app = TestApp::new().await;
    for id in ["0190b6ad-0000-7000-8000-000000000000", "nonsense", "%20"] {
        app.get(&format!("{JOBS}/{id}")).await.expect_error(404, "NotFoundException");
        let path = format!("{JOBS}/{id}/cancel");
        let response = app.request(Method::POST, &path, &[], &Value::Null).await;
        response.expect_error(404, "NotFoundException");
    }
}

#[tokio::test]
async fn orphan_removal_deletes_exactly_what_its_dry_run_lists() {
    let table = filled().await;
    let app = &table.app;
    // Files at this location that a second registration references are not orphans either.
    register(app, "second").await;
    let (list, one, theirs) =
        (table.at("metadata/s2.avro"), table.at("metadata/m2.avro"), table.at("data/theirs"));
    app.put_file(&one, manifest(&[&theirs])).await;
    app.put_file(&list, manifest_list(&[&one])).await;
    app.put_file(&theirs, "content").await;
    let mut updates = append(2, Some(1), 2);
    updates[0]["snapshot"]["manifest-list"] = json!(list);
    app.commit("ns", "second", vec![], updates).await.expect(200);
    let metadata_files = table.metadata_files().await;
    let lost = table.at("metadata/00007-0190b6ad-0000-7000-8000-000000000000.metadata.json");
    let orphans = [table.at("data/p=a%2Fb/lost.parquet"), lost, table.at("stranger")];
    let hidden = [".hidden", "_temporary/1/part", "metadata/version-hint.text"];
    for file in &orphans {
        app.put_file(file, "0123456789").await;
    }
    for file in hidden {
        app.put_file(&table.at(file), "content").await;
    }
    app.put_file(&table.at("data/_p=1/lost.parquet"), "0123456789").await;
    let mut orphans = orphans.to_vec();
    orphans.push(table.at("data/_p=1/lost.parquet"));
    orphans.sort();

    let_files_age().await;
    let before = app.files(&table.location).await;
    let started = app.post(JOBS, orphans_of("t", true)).await.expect(202).body;
    assert_eq!((&started["state"], &started["dry-run"]), (&json!("waiting"), &json!(true)));
    app.post(JOBS, orphans_of("t", false)).await.expect_error(409, "ConflictException");
    assert_eq!(table.run().await, 1);
    let told = get_job(app, &started["id"]).await;
    assert_eq!(told["state"], "done", "{told}");
    let mut found: Vec<_> = told["found"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| it.as_str().expect("a text"))
        .collect();
    found.sort_unstable();
    assert_eq!(found, orphans);
    assert_eq!(told["files"], json!({ "done": 4, "total": 4, "kept": 0, "bytes": 40 }));
    assert_eq!(app.files(&table.location).await, before, "a dry run deletes nothing");
    assert!(only_job(app).await.get("found").is_none(), "the listing of jobs omits found files");

    let started = app.post(JOBS, orphans_of("t", false)).await.expect(202).body;
    assert_eq!(table.run().await, 1);
    let told = get_job(app, &started["id"]).await;
    assert_eq!((&told["state"], &told["files"]["done"]), (&json!("done"), &json!(4)), "{told}");
    let left: Vec<_> = before.into_iter().filter(|file| !orphans.contains(file)).collect();
    assert_eq!(app.files(&table.location).await, left);
    assert_eq!(table.metadata_files().await, metadata_files);
    for name in ["t", "second"] {
        app.get(&format!("/v1/namespaces/ns/tables/{name}")).await.expect(200);
    }
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn recent_file_is_not_an_orphan() {
    let table = filled().await;
    // The files were just written, so they are younger than an hour by the clock of the store.
    let mut requested = orphans_of("t", false);
    requested["older-than-seconds"] = json!(3600);
    table.app.post(JOBS, requested).await.expect(202);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ALL);
    let job = only_job(&table.app).await;
    assert_eq!((&job["state"], &job["files"]["done"]), (&json!("done"), &json!(0)), "{job}");
}

#[tokio::test]
async fn orphan_removal_fails_and_deletes_nothing_if_a_manifest_is_unreadable() {
    let table = filled().await;
    table.app.put_file(&table.at("metadata/m1.avro"), "no Avro").await;
    let started = table.app.post(JOBS, orphans_of("t", false)).await.expect(202).body;
    assert_eq!(table.run().await, 1);
    let job = get_job(&table.app, &started["id"]).await;
    assert_eq!(job["state"], "failed", "{job}");
    let error = job["last-error"].as_str().expect("a text");
    assert!(error.starts_with("cannot determine which files are needed"), "{error}");
    assert_eq!(table.remaining_files().await, ALL);
}

#[tokio::test]
async fn purge_completes_next_to_an_unreadable_table() {
    let table = TableWithFiles::new().await;
    register(&table.app, "second").await;
    table.app.put_file(&table.at("metadata/m1.avro"), "no Avro").await;
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1, "the purge is not retried forever");
    let job = only_job(&table.app).await;
    assert_eq!(job["state"], "failed", "{job}");
    let error = job["last-error"].as_str().expect("a text");
    assert!(error.starts_with("cannot determine which files are needed"), "{error}");
    assert_eq!(table.remaining_files().await, ALL);
}

#[tokio::test]
async fn orphan_removal_of_a_dropped_table_fails() {
    let table = filled().await;
    let started = table.app.post(JOBS, orphans_of("t", false)).await.expect(202).body;
    table.app.delete(TABLE).await.expect(204);
    assert_eq!(table.run().await, 1);
    let job = get_job(&table.app, &started["id"]).await;
    assert_eq!(job["state"], "failed");
    assert_eq!(job["last-error"], "the table is no longer in the catalog");
    assert_eq!(table.remaining_files().await, ALL);
}

#[tokio::test]
async fn invalid_orphan_removal_is_rejected() {
    let app = TestApp::with_table().await;
    for (change, status) in [
        (json!({ "kind": "purge" }), 400),
        (json!({ "resource": "table:default/ns/nothing" }), 404),
        (json!({ "resource": "table:nothing/ns/t" }), 404),
        (json!({ "resource": "namespace:default/ns" }), 400),
        (json!({ "resource": "t" }), 400),
        (json!({ "older-than-seconds": 86_399 }), 400),
        (json!({ "older-than-seconds": -1 }), 400),
        (json!({ "dry-run": "no" }), 400),
        (json!({ "surprise": true }), 400),
    ] {
        let mut body = orphans_of("t", false);
        body["older-than-seconds"] = json!(86_400);
        for (name, value) in change.as_object().expect("members") {
            body[name] = value.clone();
        }
        let response = app.post_rejected(JOBS, body).await;
        assert_eq!(response.status, StatusCode::from_u16(status).expect("a status"), "{change}");
    }
    let mut body = orphans_of("t", true);
    body.as_object_mut().expect("members").remove("older-than-seconds");
    body.as_object_mut().expect("members").remove("dry-run");
    let started = app.post(JOBS, body).await.expect(202).body;
    assert_eq!(
        (&started["dry-run"], &started["older-than-seconds"]),
        (&json!(true), &json!(259_200))
    );
}

#[tokio::test]
async fn orphan_removal_is_rejected_for_a_table_at_the_warehouse_location() {
    let app = TestApp::with_settings(any_age).await;
    app.create_namespace(&["ns"]).await;
    let mut body = create_table("t");
    body["location"] = json!("memory:///warehouse");
    app.post("/v1/namespaces/ns/tables", body).await.expect(200);
    let response = app.post_rejected(JOBS, orphans_of("t", false)).await;
    assert!(
        response.message().contains("is the location of the warehouse"),
        "{}",
        response.message()
    );
}

#[tokio::test]
async fn jobs_are_visible_to_principals_who_may_purge_or_manage_them() {
    let policies = r#"
        @id("owner")
        permit (principal in Role::"owner", action in [Action::"Read", Action::"Own"],
                resource in Namespace::"default/ns");
        @id("operator")
        permit (principal in Role::"operator", action == Action::"ManageJobs",
                resource == Warehouse::"default");
    "#;
    let app = TestApp::with_policies(policies, any_age).await;
    for namespace in ["ns", "hr"] {
        app.create_namespace(&[namespace]).await;
        app.create_table(namespace, "t").await;
        app.delete(&format!("/v1/namespaces/{namespace}/tables/t?purgeRequested=true"))
            .await
            .expect(204);
    }
    let all = jobs(&app).await;
    let [ns, hr] = &all[..] else { panic!("{all:#?}") };
    let mut keys = Vec::new();
    for (role, sees) in
        [("owner", vec![ns]), ("operator", vec![ns, hr]), ("writer", vec![]), ("auditor", vec![])]
    {
        let key = app.key_with_role(role).await;
        let listed = app.get_as(&key, JOBS).await.expect(200).body;
        let listed: Vec<_> = listed["jobs"].as_array().expect("a list").iter().collect();
        assert_eq!(listed, sees, "{role}");
        for job in [ns, hr] {
            let path = format!("{JOBS}/{}", job["id"].as_str().expect("an id"));
            let status = if sees.contains(&job) { 200 } else { 404 };
            app.get_as(&key, &path).await.expect(status);
            if status == 404 {
                let path = format!("{path}/cancel");
                let response = app.request_as(&key, Method::POST, &path, &Value::Null).await;
                response.expect_error(404, "NotFoundException");
            }
        }
        keys.push(key);
    }
    for (key, job) in [(&keys[0], ns), (&keys[1], hr)] {
        let path = format!("{JOBS}/{}/cancel", job["id"].as_str().expect("an id"));
        app.request_as(key, Method::POST, &path, &Value::Null).await.expect(200);
    }
    // A principal that only manages jobs may not delete files of tables.
    app.create_table("ns", "t").await;
    let start = |key: String| {
        let app = &app;
        async move { app.request_as(&key, Method::POST, JOBS, &orphans_of("t", true)).await }
    };
    start(keys[1].clone()).await.expect(404);
    start(keys[2].clone()).await.expect(403);
    start(keys[0].clone()).await.expect(202);
}
