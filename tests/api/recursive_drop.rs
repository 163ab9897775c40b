//! Drops of a namespace with everything in it.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::function::{FUNCTIONS, function};
use crate::support::served_app::ServedApp;
use crate::support::table::create_table;
use crate::support::view::create_view;

const DROP: &str = "/management/v1/namespaces/drop";
/// The role `partial` may do everything in the namespace `a`, except with one table.
pub(crate) const OWNERS: &str = r#"
@id("owner") permit (principal in Role::"owner", action, resource in Namespace::"default/a");
@id("partial") permit (principal in Role::"partial", action, resource in Namespace::"default/a")
unless { resource == Table::"default/a/b/t" };
"#;
const INVALID: &str = "IllegalArgumentException";

/// Creates the namespaces `a`, `a.b` and `c`. `a` contains a table and a view, and each of the
/// others contains a table.
async fn populate(app: &TestApp) {
    for levels in [json!(["a"]), json!(["a", "b"]), json!(["c"])] {
        app.post("/v1/default/namespaces", json!({ "namespace": levels })).await.expect(200);
    }
    for namespace in ["a", "a%1Fb", "c"] {
        let path = format!("/v1/default/namespaces/{namespace}/tables");
        app.post(&path, create_table("t")).await.expect(200);
    }
    app.post("/v1/default/namespaces/a/views", create_view("v")).await.expect(200);
}

async fn drop_a(app: &TestApp, dry_run: bool) -> TestResponse {
    app.post(DROP, json!({ "resource": "namespace:default/a", "dry-run": dry_run })).await
}

async fn status_of(app: &TestApp, path: &str) -> u16 {
    app.request(Method::HEAD, path, &[], &Value::Null).await.status.as_u16()
}

/// Returns the contents of the namespace `a`.
fn tree() -> Value {
    json!({
        "namespaces": ["namespace:default/a", "namespace:default/a/b"],
        "tables": ["table:default/a/t", "table:default/a/b/t"],
        "views": ["view:default/a/v"],
        "functions": [],
        "protected": [],
    })
}

#[tokio::test]
async fn dry_run_lists_everything_and_drops_nothing() {
    let app = TestApp::new().await;
    populate(&app).await;
    assert_eq!(drop_a(&app, true).await.expect(200).body, tree());
    let default = app.post(DROP, json!({ "resource": "namespace:default/a" })).await;
    assert_eq!(default.expect(200).body, tree(), "a dry run is the default");
    assert_eq!(status_of(&app, "/v1/default/namespaces/a%1Fb/tables/t").await, 204);
}

#[tokio::test]
async fn function_is_dropped_with_its_namespace_unless_it_is_protected() {
    let app = TestApp::new().await;
    populate(&app).await;
    let name = "function:default/a/b/f";
    app.post(FUNCTIONS, function(name, "x + 1")).await.expect(201);
    let protected = app.post("/management/v1/protections", json!({ "resource": name })).await;
    let id = protected.expect(200).body["id"].as_str().expect("an id").to_owned();
    let listed = drop_a(&app, true).await.expect(200).body;
    assert_eq!((&listed["functions"], &listed["protected"]), (&json!([name]), &json!([name])));
    drop_a(&app, false).await.expect_error(409, "ConflictException");
    app.delete(&format!("/management/v1/protections/{id}")).await.expect(204);
    assert_eq!(drop_a(&app, false).await.expect(200).body["functions"], json!([name]));
    assert_eq!(status_of(&app, "/v1/default/namespaces/a").await, 404);
}

#[tokio::test]
async fn drop_removes_everything_in_one_group_of_changes() {
    let app = TestApp::new().await;
    populate(&app).await;
    assert_eq!(drop_a(&app, false).await.expect(200).body, tree());
    for path in ["a", "a%1Fb", "a/tables/t", "a/views/v"] {
        assert_eq!(status_of(&app, &format!("/v1/default/namespaces/{path}")).await, 404);
    }
    assert_eq!(status_of(&app, "/v1/default/namespaces/c/tables/t").await, 204);
    let events = app.get("/management/v1/watch?after=oldest&wait=0").await.expect(200).body;
    let events = events["events"].as_array().expect("events").clone();
    let types: Vec<_> = events.iter().rev().take(5).map(|it| it["type"].clone()).collect();
    let expected = [
        "namespace.dropped",
        "namespace.dropped",
        "view.dropped",
        "table.dropped",
        "table.dropped",
    ];
    assert_eq!(types.len(), expected.len());
    for kind in expected {
        let count = |all: Vec<&str>| all.into_iter().filter(|it| *it == kind).count();
        let types = types.iter().filter_map(Value::as_str).collect();
        assert_eq!(count(types), count(expected.to_vec()), "{kind}");
    }
    assert_eq!(types[0], "namespace.dropped", "the namespace itself is dropped last");
    let positions = events.iter().rev().take(5).filter(|it| it["position"].is_string());
    assert_eq!(positions.count(), 1, "the changes belong to one transaction");
    // The name is free again.
    let namespace = json!({ "namespace": ["a"] });
    app.post("/v1/default/namespaces", namespace).await.expect(200);
}

#[tokio::test]
async fn dropped_table_is_restored_with_its_namespace_or_once_the_name_exists_again() {
    let app = TestApp::new().await;
    populate(&app).await;
    drop_a(&app, false).await.expect(200);
    let undrop = async |resource: &str| {
        app.post("/management/v1/dropped/undrop", json!({ "resource": resource })).await
    };
    let rejected = undrop("table:default/a/b/t").await;
    let message = rejected.message().to_owned();
    rejected.expect_error(409, "ConflictException");
    assert!(message.contains("slateberg undrop namespace:default/a)"), "{message}");
    for levels in [json!(["a"]), json!(["a", "b"])] {
        app.post("/v1/default/namespaces", json!({ "namespace": levels })).await.expect(200);
    }
    for resource in ["table:default/a/b/t", "table:default/a/t", "view:default/a/v"] {
        undrop(resource).await.expect(200);
    }
    assert_eq!(drop_a(&app, true).await.expect(200).body, tree());
}

#[tokio::test]
async fn protected_resource_prevents_the_whole_drop() {
    let app = TestApp::new().await;
    populate(&app).await;
    let resources = ["namespace:default/a/b", "view:default/a/v", "table:default/a/b/t"];
    for resource in resources {
        let protection = json!({ "resource": resource });
        let protected = app.post("/management/v1/protections", protection).await;
        let id = protected.expect(200).body["id"].as_str().expect("an id").to_owned();
        assert_eq!(drop_a(&app, true).await.expect(200).body["protected"], json!([resource]));
        let rejected = drop_a(&app, false).await;
        assert!(rejected.message().contains(resource), "{}", rejected.message());
        rejected.expect_error(409, "ConflictException");
        assert_eq!(status_of(&app, "/v1/default/namespaces/a/tables/t").await, 204);
        let path = format!("/management/v1/protections/{id}");
        app.delete(&path).await.expect(204);
    }
    drop_a(&app, false).await.expect(200);
}

#[tokio::test]
async fn caller_needs_permission_for_each_resource_and_learns_no_hidden_names() {
    let app = TestApp::with_policies(OWNERS, |_| {}).await;
    populate(&app).await;
    let body = |dry_run| json!({ "resource": "namespace:default/a", "dry-run": dry_run });
    for (role, status) in [("partial", 403), ("reader", 403), ("nobody", 404)] {
        let key = app.key_with_role(role).await;
        for dry_run in [true, false] {
            let rejected = app.request_as(&key, Method::POST, DROP, &body(dry_run)).await;
            assert!(!rejected.message().contains("a.b"), "{role}: {}", rejected.message());
            rejected.expect(status);
        }
    }
    let key = app.key_with_role("owner").await;
    app.request_as(&key, Method::POST, DROP, &body(false)).await.expect(200);
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let app = TestApp::new().await;
    populate(&app).await;
    for resource in ["", "a", "table:default/a/t", "warehouse:default", "catalog"] {
        let request = json!({ "resource": resource, "dry-run": false });
        app.post(DROP, request).await.expect_error(400, INVALID);
    }
    let absent = json!({ "resource": "namespace:default/none" });
    app.post(DROP, absent).await.expect_error(404, "NoSuchNamespaceException");
    let unknown = json!({ "resource": "namespace:default/a", "force": true });
    app.post(DROP, unknown).await.expect_error(400, "BadRequestException");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_creations_are_either_dropped_or_rejected() {
    let app = std::sync::Arc::new(TestApp::new().await);
    for round in 0..10 {
        app.post("/v1/default/namespaces", json!({ "namespace": ["a"] })).await.expect(200);
        let creations = (0..8).map(|number| {
            let app = std::sync::Arc::clone(&app);
            tokio::spawn(async move {
                let table = create_table(&format!("t{number}"));
                app.post("/v1/default/namespaces/a/tables", table).await.status.as_u16()
            })
        });
        let creations: Vec<_> = creations.collect();
        let dropped = drop_a(&app, false).await;
        let mut created = 0;
        for creation in creations {
            match creation.await.expect("no panic") {
                200 => created += 1,
                status => assert_eq!(status, 404),
            }
        }
        let tables = dropped.expect(200).body["tables"].as_array().expect("tables").len();
        assert_eq!(tables, created, "round {round}: no table is outside of a namespace");
        assert_eq!(status_of(&app, "/v1/default/namespaces/a").await, 404);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_is_dropped_on_the_command_line() {
    let app = TestApp::new().await;
    populate(&app).await;
    let namespace = json!({ "namespace": ["empty"] });
    app.post("/v1/default/namespaces", namespace).await.expect(200);
    let served = ServedApp::start(app).await;
    let run = async |arguments: &'static [&'static str]| {
        let output = served.run(arguments).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    let empty = run(&["namespace", "drop", "default/empty"]).await;
    assert_eq!(empty, (true, "dropped namespace:default/empty\n".to_owned()));
    let (success, text) = run(&["namespace", "drop", "default/a"]).await;
    assert!(!success && text.contains("not empty"), "{text}");
    let (success, text) = run(&["namespace", "drop", "namespace:default/a", "--recursive"]).await;
    assert!(
        success && text.starts_with("Would drop 2 namespaces, 2 tables, 1 view, 0 functions\n"),
        "{text}"
    );
    assert!(text.contains("table:default/a/b/t\n"), "{text}");
    let delete = &["namespace", "drop", "default/a", "--recursive", "--delete"];
    let dropped = run(delete).await;
    assert_eq!(dropped, (true, "Dropped 2 namespaces, 2 tables, 1 view, 0 functions\n".to_owned()));
    let (success, text) = run(&["namespace", "drop", "default", "--recursive"]).await;
    assert!(!success && text.contains("not a namespace"), "{text}");
}
