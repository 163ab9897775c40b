//! Policy files that change at run time: either all of them apply or none.

use std::path::Path;

use serde_json::json;
use slateberg_authz::bundled::default_policies;
use slateberg_runtime::tasks::policy_files::PolicyFiles;

use crate::support::app::TestApp;

const KEYS: &str = "/management/v1/api-keys";

/// Writes the default policies and this additional one.
fn write(directory: &Path, more: &str) {
    for file in default_policies() {
        let name = Path::new(&file.name).file_name().expect("a name").to_owned();
        std::fs::write(directory.join(name), file.text).expect("it can be written");
    }
    std::fs::write(directory.join("more.cedar"), more).expect("it can be written");
}

async fn app_with(directory: &Path) -> (TestApp, PolicyFiles) {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.authz.policy_paths = vec![directory.to_owned()];
    })
    .await;
    let files = PolicyFiles::of(&app.app.runtime).expect("there are files");
    (app, files)
}

/// Returns the value of a series in `/metrics`.
async fn measured(app: &TestApp, series: &str) -> u64 {
    let metrics = app.get("/metrics").await.expect(200).body;
    let text = metrics.as_str().expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.expect("it is measured").parse().expect("a number")
}

async fn reloads(app: &TestApp, result: &str) -> u64 {
    measured(app, &format!("slateberg_policy_reloads_total{{result=\"{result}\"}}")).await
}

/// Returns 1 if the files are in force, or 0 if they were rejected.
async fn last_successful(app: &TestApp) -> u64 {
    measured(app, "slateberg_policy_last_reload_successful").await
}

#[tokio::test]
async fn changed_policy_files_apply_to_the_next_request() {
    let directory = tempfile::tempdir().expect("there is room");
    write(directory.path(), "");
    let (app, mut files) = app_with(directory.path()).await;
    let (id, key) = app.make_key(json!({ "name": "lister" })).await;
    app.get_as(&key, KEYS).await.expect(403);
    files.look().await;
    assert_eq!(reloads(&app, "in_force").await, 0, "unchanged files are not reloaded");

    let lets = format!(
        "@id(\"lister\") permit (principal == ServiceAccount::\"{id}\", action == \
         Action::\"ReadKeys\", resource);"
    );
    write(directory.path(), &lets);
    app.get_as(&key, KEYS).await.expect(403);
    files.look().await;
    app.get_as(&key, KEYS).await.expect(200);
    assert_eq!(reloads(&app, "in_force").await, 1);
    let response_body = app.get("/management/v1/policies/lister").await.expect(200).body;
    let from = response_body["from"].as_str().expect("a place");
    assert!(response_body["origin"] == "file" && from.ends_with("more.cedar:1"), "{response_body}");

    std::fs::remove_file(directory.path().join("more.cedar")).expect("it was there");
    files.look().await;
    app.get_as(&key, KEYS).await.expect(403);
}

#[tokio::test]
async fn invalid_policy_files_change_nothing() {
    let directory = tempfile::tempdir().expect("there is room");
    let mine = "@id(\"mine\") permit (principal == User::\"x\", action, resource);";
    write(directory.path(), mine);
    let (app, mut files) = app_with(directory.path()).await;
    let stored = "@id(\"stored\") permit (principal == User::\"x\", action, resource);";
    app.put_policy("stored", stored).await.expect(200);
    let granted =
        json!({ "template": "read", "grantee": "role:r", "resource": "warehouse:default" });
    app.post("/management/v1/grants", granted).await.expect(201);
    let before = app.get("/management/v1/policies").await.expect(200).body;
    assert_eq!(last_successful(&app).await, 1);

    for (refused, broken) in (1..).zip([
        "@id(\"mine\") permit (principal",
        "@id(\"mine\") permit (principal, action == Action::\"Fly\", resource);",
        // A policy that was created at run time has the same id.
        stored,
    ]) {
        write(directory.path(), broken);
        files.look().await;
        files.look().await;
        assert_eq!(app.get("/management/v1/policies").await.body, before, "{broken}");
        assert_eq!(reloads(&app, "refused").await, refused, "a rejection is counted once");
        assert_eq!(last_successful(&app).await, 0, "{broken}");
    }
    // Restores the original file.
    write(directory.path(), mine);
    files.look().await;
    assert_eq!(last_successful(&app).await, 1);
    // An empty file of grant templates is rejected, because the existing grants need their
    // template.
    let grants = directory.path().join("grants.cedar");
    std::fs::write(&grants, "").expect("it can be written");
    files.look().await;
    std::fs::remove_dir_all(directory.path()).expect("it was there");
    files.look().await;
    assert_eq!(last_successful(&app).await, 0);
    assert_eq!(app.get("/management/v1/policies").await.body, before);
    assert_eq!(reloads(&app, "in_force").await, 0);
    // A policy from the API is combined with the files in force, not with the rejected ones.
    let other = stored.replace("stored", "other");
    app.put_policy("other", &other).await.expect(200);
}

#[tokio::test]
async fn server_without_policy_files_watches_none() {
    let app = TestApp::secured().await;
    assert!(PolicyFiles::of(&app.app.runtime).is_none());
}
