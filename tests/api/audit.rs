//! The audit log: one line for each change and each denial, without secrets.

use std::path::Path;

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::{create_table, set_property};

const TABLE: &str = "/v1/default/namespaces/ns/tables/t";

async fn audited(directory: &Path) -> TestApp {
    TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.audit.to = slateberg_telemetry::settings::AuditTo::File;
        settings.audit.file = directory.join("audit.jsonl");
    })
    .await
}

fn lines(directory: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("audit.jsonl")).expect("there is a log");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// Returns the members of a line that do not differ between runs.
fn about(line: &Value, members: &[&str]) -> Value {
    members
        .iter()
        .map(|name| ((*name).to_owned(), line[*name].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test]
async fn audit_of_a_change_contains_principal_action_and_deciding_policies() {
    let directory = tempfile::tempdir().expect("there is room");
    let app = audited(directory.path()).await;
    let (id, key) = app.make_key(json!({ "name": "etl", "roles": ["writer"] })).await;
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("x-request-id", "req-7")];
    let send = async |path: &str, body: Value| {
        app.request(Method::POST, path, &headers, &body).await.expect(200)
    };
    send("/v1/default/namespaces", json!({ "namespace": ["ns"] })).await;
    send("/v1/default/namespaces/ns/tables", create_table("t")).await;
    let change = json!({ "requirements": [], "updates": [set_property("password", "hunter2")] });
    let response = send(TABLE, change.clone()).await;
    assert_eq!(response.header("x-request-id"), "req-7");
    // A change without effect is not logged.
    send(TABLE, change).await;

    let lines = lines(directory.path());
    let last = lines.last().expect("there are some");
    let members = [
        "event",
        "outcome",
        "action",
        "principal",
        "principal-name",
        "method",
        "request-id",
        "name",
        "policies",
    ];
    assert_eq!(
        about(last, &members),
        json!({
            "event": "change", "outcome": "done", "action": "commit_table", "principal": id,
            "principal-name": "etl",
            "method": "api-key", "request-id": "req-7", "name": "ns.t",
            "policies": ["role-writer"],
        })
    );
    assert_eq!((&last["version-before"], &last["version-after"]), (&json!(1), &json!(2)));
    let actions: Vec<_> = lines.iter().map(|line| line["action"].clone()).collect();
    assert_eq!(
        json!(actions[actions.len() - 3..]),
        json!(["create_namespace", "create_table", "commit_table"])
    );
    let all = std::fs::read_to_string(directory.path().join("audit.jsonl")).expect("it is there");
    assert!(!all.contains("hunter2") && !all.contains(&key), "nothing secret: {all}");
}

#[tokio::test]
async fn audit_of_a_denial_records_whether_it_was_hidden() {
    let directory = tempfile::tempdir().expect("there is room");
    let app = audited(directory.path()).await;
    app.post("/v1/default/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    app.post("/v1/default/namespaces/ns/tables", create_table("t")).await.expect(200);
    let (id, reader) = app.make_key(json!({ "name": "r", "roles": ["reader"] })).await;
    let (browser_id, browser) = app.make_key(json!({ "name": "b" })).await;
    let grantee = format!("service-account:{browser_id}");
    let grant =
        json!({ "template": "browse", "grantee": grantee, "resource": "warehouse:default" });
    app.post("/management/v1/grants", grant).await.expect(201);
    let before = lines(directory.path()).len();
    app.request_as(&reader, Method::DELETE, TABLE, &Value::Null).await.expect(403);
    app.get_as(&browser, TABLE).await.expect(404);
    app.get_as("sb_nonsense", TABLE).await.expect(401);
    let key = json!({ "name": "mine", "roles": ["admin"] });
    app.request_as(&reader, Method::POST, "/management/v1/api-keys", &key).await.expect(403);

    let lines = lines(directory.path()).split_off(before);
    let members = ["event", "answer", "action", "resource", "policies"];
    assert_eq!(
        about(&lines[0], &members),
        json!({
            "event": "denial", "answer": "forbidden", "action": "Drop",
            "resource": "Table::\"default/ns/t\"", "policies": [],
        })
    );
    assert_eq!((&lines[0]["principal"], &lines[0]["method"]), (&json!(id), &json!("api-key")));
    assert_eq!(
        about(&lines[1], &members),
        json!({
            "event": "denial", "answer": "hidden", "action": "Load",
            "resource": "Table::\"default/ns/t\"", "policies": [],
        })
    );
    assert_eq!(lines[2]["event"], "refused-credential");
    assert!(!lines[2].to_string().contains("nonsense"), "{}", lines[2]);
    assert_eq!(
        about(&lines[3], &members),
        json!({
            "event": "denial", "answer": "forbidden", "action": "ManageKeys",
            "resource": "Catalog::\"catalog\"", "policies": [],
        })
    );
    assert_eq!(lines.len(), 4);
}

#[tokio::test]
async fn request_id_is_safe_for_a_log() {
    let app = TestApp::new().await;
    let id = async |sent: &str| {
        let headers = [("x-request-id", sent)];
        let response = app.request(Method::GET, "/v1/config", &headers, &Value::Null).await;
        response.header("x-request-id").to_owned()
    };
    assert_eq!(id("abc-1").await, "abc-1");
    for unfit in ["", "a b", &"x".repeat(129)] {
        let ours = id(unfit).await;
        assert!(ours.len() > 32 && ours != unfit, "{ours}");
    }
}

#[tokio::test]
async fn audit_file_that_cannot_be_written_fails_the_start() {
    let directory = tempfile::tempdir().expect("there is room");
    let mut settings = crate::support::app::memory_settings();
    settings.audit.to = slateberg_telemetry::settings::AuditTo::File;
    settings.audit.file = directory.path().to_owned();
    let opened = slateberg::app::App::build(
        settings,
        slateberg_runtime::dependencies::Dependencies::default(),
    )
    .await;
    let error = opened.err().expect("it does not start").to_string();
    assert!(error.starts_with("audit.file: "), "{error}");
}

#[tokio::test]
async fn audit_log_reopens_its_file_after_it_was_moved() {
    let directory = tempfile::tempdir().expect("there is room");
    let app = audited(directory.path()).await;
    app.get_as("sb_nonsense", TABLE).await.expect(401);
    let (log, old) = (directory.path().join("audit.jsonl"), directory.path().join("old.jsonl"));
    std::fs::rename(&log, &old).expect("it can be moved");
    app.get_as("sb_nonsense", TABLE).await.expect(401);
    app.app.runtime.catalog.access().reopen_audit().expect("there is room for a new file");
    app.get_as("sb_nonsense", TABLE).await.expect(401);
    let lines = |path: &Path| std::fs::read_to_string(path).expect("it is there").lines().count();
    // The first of the three lines is that of the admin key's creation.
    assert_eq!((lines(&old), lines(&log)), (3, 1));
}
