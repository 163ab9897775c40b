//! Checkpoints of a whole catalog, and their restore.

mod cli;
pub(crate) mod clones;

use std::sync::Arc;

use axum::http::Method;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::{Value, json};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::progress::Progress;
use slateberg_config::Settings;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::offline_writer::{
    OfflineError, OfflineWriter, RestoreTarget, Restored, export_lines,
};
use slateberg_runtime::preview::preview;

use super::encryption::encrypted;
use super::labels::update as update_labels;
use crate::support::app::{TestApp, memory_settings};
use crate::support::fsck::assert_sound;
use crate::support::offline::{dependencies, restore};
use crate::support::table::{append, create_table, set_property};

const PATH: &str = "/management/v1/checkpoints";
const TABLE: &str = "/v1/namespaces/ns/tables/t";

/// Creates a checkpoint with this name.
pub(super) async fn keep(app: &TestApp, name: &str) {
    app.post(PATH, json!({ "name": name })).await.expect(201);
}

/// Restores a catalog to a checkpoint and starts it again.
pub(super) async fn restored(app: TestApp, to: &str) -> (TestApp, Restored) {
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    let settings = Settings::clone(&app.app.runtime.settings);
    let done = restore(&app.bucket, &settings, to).await.expect("it is restored");
    (app.restart_closed().await, done)
}

/// Imports the export of a catalog into a new one. Returns the exported and the new catalog.
pub(super) async fn exported_and_imported(app: TestApp) -> (TestApp, TestApp) {
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    let (settings, mut lines) = (Settings::clone(&app.app.runtime.settings), Vec::new());
    let silent = Progress::default();
    let exported =
        export_lines(&settings, &dependencies(&app.bucket), None, &mut lines, &silent).await;
    exported.expect("it is exported");
    let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let other =
        OfflineWriter::open_or_create(&settings, &dependencies(&bucket)).await.expect("it opens");
    other.import(|| Ok(lines.as_slice()), None, &silent).await.expect("it is imported");
    other.close().await.expect("it closes");
    (app.restart_closed().await, TestApp::with(bucket, settings).await)
}

/// Returns the state that clients see. It does not contain `ETag`s, because a restored table has a
/// new version.
async fn visible_state(app: &TestApp) -> Value {
    app.visible_state("/v1").await
}

/// Returns a catalog with resources of every kind.
async fn app_with_content() -> TestApp {
    let app = TestApp::secured().await;
    app.create_namespace(&["ns"]).await;
    app.create_namespace(&["ns", "below"]).await;
    for table in ["t", "dropped", "purged", "renamed"] {
        app.create_table("ns", table).await;
    }
    app.create_view("ns", "v").await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    let policy = r#"@id("a") permit (principal, action in Action::"Browse", resource);"#;
    app.post("/management/v1/policies", json!({ "text": policy })).await.expect(201);
    for resource in ["table:default/ns/t", "table:default/ns/dropped", "view:default/ns/v"] {
        let labels = json!({ "resource": resource, "set": { "domain": "sales" } });
        update_labels(&app, labels).await.expect(200);
    }
    grant(&app, "role:kept").await;
    app
}

async fn grant(app: &TestApp, to: &str) {
    let grant = json!({ "template": "read", "grantee": to, "resource": "namespace:default/ns" });
    app.post("/management/v1/grants", grant).await.expect(201);
}

/// Returns the grants, and the policies in force.
async fn book(app: &TestApp) -> (Value, Value) {
    let grants = app.get("/management/v1/grants").await.expect(200).body;
    let policies = app.get("/management/v1/policies?page_size=1000").await.expect(200).body;
    (grants["grants"].clone(), policies["policies"].clone())
}

/// Changes resources of every kind.
async fn change(app: &TestApp) {
    app.commit("ns", "t", vec![], vec![set_property("later", "yes")]).await.expect(200);
    update_labels(app, json!({ "remove": ["domain"] })).await.expect(200);
    update_labels(app, json!({ "set": { "pii": "email" }, "column": "data" })).await.expect(200);
    app.delete("/v1/namespaces/ns/tables/dropped").await.expect(204);
    let dropped = app.get("/management/v1/dropped").await.expect(200).body;
    let id = dropped["dropped"][0]["id"].as_str().expect("an id").to_owned();
    app.delete(&format!("/management/v1/dropped/{id}?purge=true")).await.expect(204);
    app.delete("/v1/namespaces/ns/tables/purged?purgeRequested=true").await.expect(204);
    let rename = json!({
        "source": { "namespace": ["ns"], "name": "renamed" },
        "destination": { "namespace": ["ns", "below"], "name": "other" },
    });
    app.post("/v1/tables/rename", rename).await.expect(204);
    app.delete("/v1/namespaces/ns/views/v").await.expect(204);
    app.create_namespace(&["new"]).await;
    app.create_table("new", "t").await;
    let properties = json!({ "removals": [], "updates": { "color": "red" } });
    app.post("/v1/namespaces/ns/properties", properties).await.expect(200);
    app.delete("/management/v1/policies/a").await.expect(200);
    grant(app, "role:later").await;
}

#[tokio::test]
async fn restore_returns_the_whole_state_and_can_be_undone() {
    let app = app_with_content().await;
    keep(&app, "before").await;
    let (before, book_before) = (visible_state(&app).await, book(&app).await);
    change(&app).await;
    let (after, book_after) = (visible_state(&app).await, book(&app).await);
    assert_ne!(before, after);

    let (app, done) = restored(app, "before").await;
    assert_eq!(visible_state(&app).await, before);
    assert_eq!(book(&app).await, book_before);
    let found = done.summary;
    assert_eq!((found.tables.restored, found.tables.changed, found.tables.removed), (2, 2, 1));
    assert_eq!(
        (found.views.restored, found.namespaces.removed, found.namespaces.changed),
        (1, 1, 1)
    );
    assert_eq!((found.policies.restored, found.grants.removed, found.purged), (1, 1, 2));
    assert_sound(Arc::clone(&app.bucket)).await;

    let undo = done.undo.name.expect("it has a name");
    let (app, done) = restored(app, &undo).await;
    assert_eq!(visible_state(&app).await, after);
    assert_eq!(book(&app).await, book_after);
    assert_eq!(done.summary.purged, 0);
    let again = done.undo.name.expect("it has a name");
    let (app, _) = restored(app, &again).await;
    assert_eq!(visible_state(&app).await, before);
    // The restored catalog works normally.
    app.commit("ns", "t", vec![], vec![set_property("more", "yes")]).await.expect(200);
    app.post("/v1/namespaces/ns/tables", create_table("fresh")).await.expect(200);
}

#[tokio::test]
async fn watch_cannot_resume_after_a_restore() {
    let app = TestApp::secured().await;
    keep(&app, "before").await;
    let begin = app.get("/management/v1/watch").await.expect(200).body;
    let resume =
        format!("/management/v1/watch?wait=0&after={}", begin["next"].as_str().expect("it"));
    app.get(&resume).await.expect(200);
    let (app, _) = restored(app, "before").await;
    app.get(&resume).await.expect_error(410, "GoneException");
    let page = app.get("/management/v1/watch?after=oldest&type=catalog").await.expect(200).body;
    let last = page["events"].as_array().and_then(|all| all.last()).expect("an event");
    assert_eq!((&last["type"], &last["action"]), (&json!("catalog.changed"), &json!("restore")));
}

#[tokio::test]
async fn restore_brings_dropped_tables_back_with_their_metadata_files() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let path = |table: &str| format!("/v1/namespaces/ns/tables/{table}");
    let (dropped, undrop) = ("/management/v1/dropped", "/management/v1/dropped/undrop");
    let request = |table: &str| json!({ "resource": format!("table:default/ns/{table}") });
    for table in ["t", "purged", "live"] {
        app.create_table("ns", table).await;
    }
    let file = app.get(&path("purged")).await.body["metadata-location"].clone();
    let file = file.as_str().expect("a location").to_owned();
    for table in ["t", "purged"] {
        app.delete(&path(table)).await.expect(204);
    }
    keep(&app, "before").await;
    app.post(undrop, request("t")).await.expect(200);
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let after = app.get(TABLE).await.expect(200).header("etag").to_owned();
    app.delete(&path("live")).await.expect(204);
    let listed = app.get(dropped).await.expect(200).body["dropped"].clone();
    let listed = listed.as_array().expect("a list").iter();
    let purged = listed.into_iter().find(|it| it["resource"] == "table:default/ns/purged");
    let id = purged.expect("it is listed")["id"].as_str().expect("an id").to_owned();
    app.delete(&format!("{dropped}/{id}?purge=true")).await.expect(204);
    app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
    assert!(app.file(&file).await.is_none(), "the purge deleted the metadata file");

    let (app, _) = restored(app, "before").await;
    app.get(&path("live")).await.expect(200);
    app.get(TABLE).await.expect(404);
    for table in ["t", "purged"] {
        app.post(undrop, request(table)).await.expect(200);
        let metadata = app.get(&path(table)).await.expect(200).body["metadata"].clone();
        assert_eq!(metadata["properties"]["a"], Value::Null);
    }
    assert!(app.file(&file).await.is_some(), "the start wrote the metadata file again");
    app.commit("ns", "t", vec![], vec![set_property("a", "2")]).await.expect(200);
    assert_ne!(app.get(TABLE).await.expect(200).header("etag"), after);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn version_numbers_are_not_reused_after_a_restore() {
    let app = app_with_content().await;
    keep(&app, "before").await;
    let tag = async |app: &TestApp| app.get(TABLE).await.expect(200).header("etag").to_owned();
    let before = tag(&app).await;
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let between = tag(&app).await;
    let (app, _) = restored(app, "before").await;
    let after = tag(&app).await;
    app.commit("ns", "t", vec![], vec![set_property("a", "2")]).await.expect(200);
    let last = tag(&app).await;
    let all = std::collections::BTreeSet::from([&before, &between, &after, &last]);
    assert_eq!(all.len(), 4, "{all:?}");

    // The restored table also gets a new version if it was changed and then dropped after the
    // checkpoint.
    let app = app_with_content().await;
    keep(&app, "before").await;
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let between = tag(&app).await;
    app.delete(TABLE).await.expect(204);
    let (app, _) = restored(app, "before").await;
    app.commit("ns", "t", vec![], vec![set_property("a", "2")]).await.expect(200);
    assert_ne!(tag(&app).await, between);
}

/// Commits a property with this value, and returns the `ETag` of the table afterwards.
async fn tag_after(app: &TestApp, value: &str) -> String {
    app.commit("ns", "t", vec![], vec![set_property("a", value)]).await.expect(200);
    app.get(TABLE).await.expect(200).header("etag").to_owned()
}

#[tokio::test]
async fn version_numbers_are_not_reused_after_a_restore_without_change_log_entries() {
    let app = TestApp::with_settings(|settings| settings.catalog.change_log_entries_max = 1).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    keep(&app, "before").await;
    let mut tags = vec![tag_after(&app, "1").await, tag_after(&app, "2").await];
    app.delete(TABLE).await.expect(204);
    app.create_namespace(&["later"]).await;
    app.app.runtime.catalog.maintenance().expire().await.expect("the change log is trimmed");
    let (app, _) = restored(app, "before").await;
    for value in ["3", "4", "5"] {
        let tag = tag_after(&app, value).await;
        assert!(!tags.contains(&tag), "{tag} is among {tags:?}");
        tags.push(tag);
    }
}

#[tokio::test]
async fn imported_catalog_has_its_own_etags() {
    let app = TestApp::with_table().await;
    let before = tag_after(&app, "0").await;
    let (app, other) = exported_and_imported(app).await;
    assert_eq!(app.get(TABLE).await.expect(200).header("etag"), before, "an export changes no tag");
    let mut tags = vec![before];
    for app in [&app, &other] {
        for value in ["1", "2"] {
            let tag = tag_after(app, value).await;
            assert!(!tags.contains(&tag), "{tag} is among {tags:?}");
            tags.push(tag);
        }
    }
    let last = tags.pop().expect("there are some");
    let known = [("If-None-Match", last.as_str())];
    let other = other.restart().await;
    other.request(Method::GET, TABLE, &known, &Value::Null).await.expect(304);
    app.request(Method::GET, TABLE, &known, &Value::Null).await.expect(200);
}

#[tokio::test]
async fn restore_rewrites_a_deleted_metadata_file() {
    let app = app_with_content().await;
    let purged = app.get("/v1/namespaces/ns/tables/purged").await.expect(200).body;
    let location = purged["metadata-location"].as_str().expect("a file").to_owned();
    keep(&app, "before").await;
    app.delete("/v1/namespaces/ns/tables/purged?purgeRequested=true").await.expect(204);
    assert_eq!(app.app.runtime.catalog.jobs().run_jobs().await.expect("it runs"), 1);
    assert_eq!(app.file(&location).await, None);
    let (app, done) = restored(app, "before").await;
    assert_eq!(done.summary.purged, 1);
    assert!(app.file(&location).await.is_some());
    assert_eq!(app.get("/v1/namespaces/ns/tables/purged").await.expect(200).body, purged);
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn restore_deletes_no_files() {
    // The purge job is in the checkpoint and in the state before the restore. It must not run after
    // the catalog is restored to either of these states.
    let app = app_with_content().await;
    let purged = app.get("/v1/namespaces/ns/tables/purged").await.expect(200).body;
    let location = purged["metadata-location"].as_str().expect("a file").to_owned();
    app.delete("/v1/namespaces/ns/tables/purged?purgeRequested=true").await.expect(204);
    keep(&app, "before").await;
    let register = json!({ "name": "again", "metadata-location": location });
    app.post("/v1/namespaces/ns/register", register).await.expect(200);
    let (app, done) = restored(app, "before").await;
    assert_eq!(app.app.runtime.catalog.jobs().run_jobs().await.expect("it runs"), 0);
    assert!(app.file(&location).await.is_some());
    let undo = done.undo.name.expect("it has a name");
    let (app, _) = restored(app, &undo).await;
    assert_eq!(app.app.runtime.catalog.jobs().run_jobs().await.expect("it runs"), 0);
    app.get("/v1/namespaces/ns/tables/again").await.expect(200);
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn restore_keeps_api_keys() {
    let app = app_with_content().await;
    let (revoked, revoked_key) = app.make_key(json!({ "name": "old", "roles": ["admin"] })).await;
    keep(&app, "before").await;
    app.delete(&format!("/management/v1/api-keys/{revoked}")).await.expect(204);
    let (_, made_key) = app.make_key(json!({ "name": "new", "roles": ["admin"] })).await;
    let (app, _) = restored(app, "before").await;
    app.get_as(&revoked_key, "/v1/namespaces").await.expect(401);
    app.get_as(&made_key, "/v1/namespaces").await.expect(200);
}

#[tokio::test]
async fn restore_discards_later_idempotency_records() {
    let app = app_with_content().await;
    keep(&app, "before").await;
    let body = json!({ "namespace": ["again"] });
    let key = [("idempotency-key", "0190b6ad-aaaa-7000-8000-000000000001")];
    let create = async |app: &TestApp| {
        app.request(Method::POST, "/v1/namespaces", &key, &body).await.expect(200)
    };
    create(&app).await;
    let (app, _) = restored(app, "before").await;
    app.get("/v1/namespaces/again").await.expect(404);
    create(&app).await;
    app.get("/v1/namespaces/again").await.expect(200);
}

#[tokio::test]
async fn time_selects_the_newest_checkpoint_before_it() {
    let app = app_with_content().await;
    keep(&app, "first").await;
    // Checkpoints have a time resolution of one second.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let after_first = slateberg_base::rfc3339::format(SystemClock.now_ms());
    app.create_namespace(&["second"]).await;
    keep(&app, "second").await;
    app.app.runtime.catalog.close().await.expect("it closes");
    let (bucket, settings) = (&app.bucket, Settings::clone(&app.app.runtime.settings));
    let found = async |to: &str| {
        let (found, told) = preview(
            &settings,
            &dependencies(bucket),
            &RestoreTarget::parse(to),
            &Progress::default(),
        )
        .await?;
        Ok::<_, OfflineError>((found.name.expect("a name"), told.namespaces.removed))
    };
    assert_eq!(found(&after_first).await.expect("one"), ("first".to_owned(), 1));
    assert_eq!(found("2100-01-01T00:00:00Z").await.expect("one"), ("second".to_owned(), 0));
    let early = found("2001-01-01T00:00:00Z").await.expect_err("there is none").to_string();
    assert!(early.contains("there is no checkpoint at or before 2001-01-01"), "{early}");
    let unknown = found("nothing").await.expect_err("there is none").to_string();
    assert_eq!(unknown, "there is no checkpoint 'nothing'");
}

#[tokio::test]
async fn encrypted_catalog_is_restored() {
    let (app, _file) = encrypted().await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    keep(&app, "before").await;
    let before = visible_state(&app).await;
    app.post("/management/v1/encryption/rotate", json!({})).await.expect(200);
    app.delete(TABLE).await.expect(204);
    app.create_namespace(&["later"]).await;
    let (app, _) = restored(app, "before").await;
    assert_eq!(visible_state(&app).await, before);
}

#[tokio::test]
async fn checkpoint_names_are_unique_and_checkpoints_expire() {
    let app = TestApp::secured().await;
    keep(&app, "mine").await;
    let taken = app.post(PATH, json!({ "name": "mine" })).await;
    assert_eq!(taken.error(), (409, "AlreadyExistsException", "Checkpoint already exists: mine"));
    let body = json!({ "name": "brief", "lifetime-seconds": 3600 });
    let brief = app.post(PATH, body).await.expect(201).body;
    let lived = brief["expires-at-ms"].as_i64().expect("a time")
        - brief["created-at-ms"].as_i64().expect("a time");
    // The lifetime may be shorter than requested, because the two times are read one after the
    // other and the store may be slow.
    assert!((3_000_000..=3_600_000).contains(&lived), "{lived}");
    let unnamed = app.post(PATH, json!({})).await.expect(201).body;
    assert_eq!(unnamed["name"], Value::Null);
    let id = unnamed["id"].as_str().expect("an id");
    assert_eq!(app.get(&format!("{PATH}/{id}")).await.expect(200).body, unnamed);
    app.delete(&format!("{PATH}/{id}")).await.expect(204);
    app.get(&format!("{PATH}/{id}")).await.expect_error(404, "NotFoundException");
    app.delete(&format!("{PATH}/mine")).await.expect(204);
    keep(&app, "mine").await;
    for wrong in ["", "..", "a/b", "a b", "0190b6ad-0000-7000-8000-000000000000"] {
        app.post(PATH, json!({ "name": wrong }))
            .await
            .expect_error(400, "IllegalArgumentException");
    }
}

#[tokio::test]
async fn repeated_request_creates_no_second_checkpoint() {
    let app = TestApp::secured().await;
    let key = [("idempotency-key", "0190b6ad-bbbb-7000-8000-000000000001")];
    let body = json!({ "name": "once" });
    let make = async || app.request(Method::POST, PATH, &key, &body).await.expect(201);
    let (first, second) = (make().await, make().await);
    assert_eq!(first.body, second.body);
    let listed = app.get(PATH).await.expect(200).body;
    assert_eq!(listed["checkpoints"].as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn opening_a_data_directory_without_a_catalog_creates_none() {
    let directory = tempfile::tempdir().expect("there is room");
    let mut settings = memory_settings();
    settings.state.url = String::new();
    settings.data_dir = directory.path().join("nowhere");
    let error = OfflineWriter::open(&settings, &Dependencies::default()).await.err();
    let error = error.expect("it is refused").to_string();
    assert!(error.contains("no catalog in"), "{error}");
    assert!(!settings.data_dir.exists());
}
