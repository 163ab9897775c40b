//! Attempts to bypass policies.

use axum::http::{HeaderMap, Method};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::metrics_report::scan_report;
use crate::support::path;
use crate::support::table::{append, create_table, set_property};
use crate::support::view::create_view;

const SALES: &str = "/v1/default/namespaces/sales";
/// An `Idempotency-Key`.
const ONCE: &str = "0190b6ad-1c2d-7000-8000-000000000001";
const HR: &str = "/v1/default/namespaces/hr";

/// In `sales`, role `team` has the permissions of a writer, and role `appender` may append to
/// tables. Role `team` may also see that `hr` exists.
const POLICIES: &str = r#"
@id("team") permit (
  principal in Role::"team",
  action in [Action::"Read", Action::"Write"],
  resource in Namespace::"default/sales"
);
@id("appender") permit (
  principal in Role::"appender",
  action in [Action::"Load", Action::"CommitData"],
  resource in Namespace::"default/sales"
);
@id("way-in") permit (principal, action in Action::"Browse", resource == Warehouse::"default");
@id("hr-is-there") permit (
  principal in Role::"team",
  action == Action::"DescribeNamespace",
  resource == Namespace::"default/hr"
);
@id("frozen") forbid (
  principal in Role::"team",
  action in Action::"Commit",
  resource
) when { resource.hasTag("frozen") };
@id("secret") forbid (
  principal in Role::"team",
  action == Action::"Load",
  resource is Table
) when { resource.hasTag("secret") };
"#;

async fn app() -> TestApp {
    let app = TestApp::with_policies(POLICIES, |_| {}).await;
    for namespace in ["sales", "hr"] {
        app.post("/v1/default/namespaces", json!({ "namespace": [namespace] })).await.expect(200);
    }
    for namespace in [SALES, HR] {
        app.post(&format!("{namespace}/tables"), create_table("t")).await.expect(200);
    }
    app
}

fn changing(namespace: &str, updates: Vec<Value>) -> Value {
    json!({
        "identifier": { "namespace": [namespace], "name": "t" },
        "requirements": [], "updates": updates,
    })
}

async fn post_as(app: &TestApp, key: &str, path: &str, body: Value) -> TestResponse {
    app.request_as(key, Method::POST, path, &body).await
}

async fn metadata(app: &TestApp, namespace: &str) -> Value {
    app.get(&format!("{namespace}/tables/t")).await.expect(200).body["metadata"].clone()
}

#[tokio::test]
async fn commit_needs_the_permission_of_each_of_its_updates() {
    let app = app().await;
    let key = app.key_with_role("appender").await;
    let table = format!("{SALES}/tables/t");
    let commit = async |updates: Vec<Value>| {
        let body = json!({ "requirements": [], "updates": updates });
        post_as(&app, &key, &table, body).await
    };
    commit(append(1, None, 1)).await.expect(200);
    let before = metadata(&app, SALES).await;
    let strong = [
        set_property("a", "b"),
        json!({ "action": "set-location", "location": "memory:///warehouse/elsewhere" }),
        json!({ "action": "set-current-schema", "schema-id": 0 }),
        json!({ "action": "remove-snapshot-ref", "ref-name": "main" }),
        json!({ "action": "set-snapshot-ref", "ref-name": "audit", "type": "branch", "snapshot-id": 2 }),
        json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1 }),
        json!({
            "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2,
            "max-snapshot-age-ms": 1,
        }),
    ];
    for update in strong {
        for smuggled in [0, 2] {
            let mut updates = append(2, Some(1), 2);
            updates.insert(smuggled, update.clone());
            commit(updates).await.expect_error(403, "ForbiddenException");
        }
    }
    // The commit moves a branch, and removes the new snapshot of the branch.
    let mut updates = append(2, Some(1), 2);
    updates.push(json!({ "action": "remove-snapshots", "snapshot-ids": [2] }));
    commit(updates).await.expect_error(403, "ForbiddenException");
    assert_eq!(metadata(&app, SALES).await, before, "a rejected commit changed the table");
    commit(append(2, Some(1), 2)).await.expect(200);
}

#[tokio::test]
async fn transaction_with_a_forbidden_table_fails_and_reveals_nothing_about_the_others() {
    let app = app().await;
    let key = app.key_with_role("team").await;
    let commit = async |changes: Vec<Value>| {
        let body = json!({ "table-changes": changes });
        post_as(&app, &key, "/v1/default/transactions/commit", body).await
    };
    let fits = changing("sales", vec![set_property("a", "b")]);
    let mut fails = fits.clone();
    fails["requirements"] =
        json!([{ "type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7 }]);
    let forbidden = changing("hr", vec![set_property("a", "b")]);
    let (before, hr) = (metadata(&app, SALES).await, metadata(&app, HR).await);
    commit(vec![fails.clone()]).await.expect_error(409, "CommitFailedException");
    for changes in [
        vec![fits.clone(), forbidden.clone()],
        vec![forbidden.clone(), fits.clone()],
        vec![fails, forbidden],
    ] {
        commit(changes).await.expect_error(404, "NoSuchTableException");
    }
    assert_eq!((metadata(&app, SALES).await, metadata(&app, HR).await), (before, hr));
    commit(vec![fits]).await.expect(204);
}

#[tokio::test]
async fn rename_needs_write_permission_on_both_namespaces() {
    let app = app().await;
    let key = app.key_with_role("team").await;
    let rename = async |from: &str, to: &str| {
        let body = json!({
            "source": { "namespace": [from], "name": "t" },
            "destination": { "namespace": [to], "name": "u" },
        });
        post_as(&app, &key, "/v1/default/tables/rename", body).await
    };
    rename("sales", "hr").await.expect_error(403, "ForbiddenException");
    rename("hr", "sales").await.expect_error(404, "NoSuchTableException");
    rename("sales", "nowhere").await.expect_error(404, "NoSuchNamespaceException");
    app.get(&format!("{SALES}/tables/t")).await.expect(200);
    app.get(&format!("{HR}/tables/t")).await.expect(200);
    rename("sales", "sales").await.expect(204);
}

/// Requests for the table `TABLE` in the namespace `SPACE`, with the table's metadata in `FILE`.
/// These names are placeholders.
fn requests() -> Vec<(Method, &'static str, Value)> {
    let rename = json!({
        "source": { "namespace": ["SPACE"], "name": "TABLE" },
        "destination": { "namespace": ["SPACE"], "name": "renamed" },
    });
    let change = json!({
        "identifier": { "namespace": ["SPACE"], "name": "TABLE" },
        "requirements": [], "updates": [set_property("a", "b")],
    });
    let stale = json!({ "type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7 });
    let table = "/v1/default/namespaces/SPACE/tables/TABLE";
    vec![
        (Method::GET, table, Value::Null),
        (Method::HEAD, table, Value::Null),
        (Method::DELETE, table, Value::Null),
        (Method::POST, table, json!({ "requirements": [], "updates": [] })),
        (Method::POST, table, json!({ "requirements": [stale], "updates": [] })),
        (
            Method::DELETE,
            "/v1/default/namespaces/SPACE/tables/TABLE?purgeRequested=true",
            Value::Null,
        ),
        (Method::POST, "/v1/default/namespaces/SPACE/tables/TABLE/unregister", Value::Null),
        (Method::POST, "/v1/default/namespaces/SPACE/tables/TABLE/metrics", scan_report()),
        (Method::POST, "/v1/default/tables/rename", rename),
        (Method::POST, "/v1/default/transactions/commit", json!({ "table-changes": [change] })),
        (Method::GET, "/v1/default/namespaces/SPACE/views/TABLE", Value::Null),
        (Method::GET, "/v1/default/namespaces/SPACE", Value::Null),
        (Method::HEAD, "/v1/default/namespaces/SPACE", Value::Null),
        (Method::DELETE, "/v1/default/namespaces/SPACE", Value::Null),
        (Method::GET, "/v1/default/namespaces/SPACE/tables", Value::Null),
        (Method::GET, "/v1/default/namespaces?parent=SPACE", Value::Null),
        (Method::POST, "/v1/default/namespaces", json!({ "namespace": ["SPACE", "new"] })),
        (
            Method::POST,
            "/v1/default/namespaces/SPACE/properties",
            json!({ "updates": { "a": "b" } }),
        ),
        (Method::POST, "/v1/default/namespaces/SPACE/tables", create_table("TABLE")),
        (Method::POST, "/v1/default/namespaces/SPACE/views", create_view("TABLE")),
        (
            Method::POST,
            "/v1/default/namespaces/SPACE/register",
            json!({ "name": "TABLE", "metadata-location": "FILE", "overwrite": true }),
        ),
    ]
}

/// Returns the responses to all requests, with the names replaced by their placeholders.
async fn answers(app: &TestApp, key: &str, names: [(&str, &str); 3]) -> Vec<String> {
    let fill =
        |text: &str| names.iter().fold(text.to_owned(), |text, (is, name)| text.replace(is, name));
    let mut all = Vec::new();
    for (method, path, body) in requests() {
        let body = serde_json::from_str(&fill(&body.to_string())).expect("it is still JSON");
        let response = app.request_as(key, method.clone(), &fill(path), &body).await;
        let message = response.body.to_string();
        let [(space, hr), (table, t), _] = names;
        let message = message.replace(&format!(" {hr}"), space).replace(&format!(".{t}\""), table);
        let message = message.replace(&format!("/{t}\\"), table);
        all.push(format!(
            "{method} {path}: {} {:?} {message}",
            response.status,
            plain(&response.headers)
        ));
    }
    all
}

#[tokio::test]
async fn hidden_resource_gets_the_same_response_as_a_missing_one() {
    let app = app().await;
    let table = app.get(&format!("{HR}/tables/t")).await;
    let file = table.body["metadata-location"].as_str().expect("a file");
    let names = |space, table| [("SPACE", space), ("TABLE", table), ("FILE", file)];
    // A principal that sees nothing of the namespace `hr`.
    let nobody = app.key_with_role("nobody").await;
    let absent = answers(&app, &nobody, names("xx", "t")).await;
    assert_eq!(answers(&app, &nobody, names("hr", "t")).await, absent);
    assert_eq!(answers(&app, &nobody, names("hr", "u")).await, absent);
    // A principal that sees that the namespace `hr` exists, but not its contents.
    let team = app.key_with_role("team").await;
    let absent = answers(&app, &team, names("hr", "x")).await;
    for (there, absent) in answers(&app, &team, names("hr", "t")).await.iter().zip(absent) {
        assert_eq!(*there, absent);
    }

    let (bearer, etag) = (format!("Bearer {team}"), table.header("etag"));
    let headers = [("authorization", bearer.as_str()), ("if-none-match", etag)];
    let response =
        app.request(Method::GET, &format!("{HR}/tables/t"), &headers, &Value::Null).await;
    response.expect_error(404, "NoSuchTableException");
    app.get(&format!("{HR}/tables/t")).await.expect(200);
}

/// Returns the headers without dates.
fn plain(headers: &HeaderMap) -> Vec<String> {
    headers
        .iter()
        .filter(|(name, _)| *name != "date" && *name != "x-request-id")
        .map(|pair| format!("{pair:?}"))
        .collect()
}

#[tokio::test]
async fn policy_for_a_namespace_does_not_apply_to_similar_spellings() {
    let app = app().await;
    let key = app.key_with_role("team").await;
    let beside: [&[&str]; 9] = [
        &["sales/eu"],
        &["sales%2Feu"],
        &["sales.eu"],
        &["Sales"],
        &["sales "],
        &["hr", "sales"],
        &["default/sales"],
        &["*"],
        &["sales\"]"],
    ];
    for levels in beside {
        app.post("/v1/default/namespaces", json!({ "namespace": levels })).await.expect(200);
        let tables = format!("/v1/default/namespaces/{}/tables", path::namespace(levels));
        app.post(&tables, create_table("t")).await.expect(200);
        app.get_as(&key, &format!("{tables}/t")).await.expect(404);
        post_as(&app, &key, &tables, create_table("u")).await.expect(404);
    }
    let inside = json!({ "namespace": ["sales", "eu"] });
    post_as(&app, &key, "/v1/default/namespaces", inside).await.expect(200);
    for name in ["../hr", "x/../../hr/t", "%2e%2e"] {
        let created =
            post_as(&app, &key, &format!("{SALES}/tables"), create_table(name)).await.expect(200);
        let location =
            created.body["metadata"]["location"].as_str().expect("a location").to_owned();
        assert!(!location.contains("/hr/"), "{location}");
    }
}

#[tokio::test]
async fn commits_waiting_for_a_table_fail_once_policies_forbid_them() {
    let app = app().await;
    let key = app.key_with_role("team").await;
    let table = format!("{SALES}/tables/t");
    let commit = async |number: usize| {
        let name = if number == 20 { "frozen".to_owned() } else { format!("p{number}") };
        let body = json!({ "requirements": [], "updates": [set_property(&name, "yes")] });
        let response = post_as(&app, &key, &table, body).await;
        (name, response.status.as_u16())
    };
    let ended = join_all((0..40).map(commit)).await;
    let properties = metadata(&app, SALES).await["properties"].clone();
    for (name, status) in &ended {
        match status {
            200 => assert_eq!(properties[name], "yes", "{name}"),
            403 => assert_eq!(properties[name], Value::Null, "{name}"),
            other => panic!("{name}: {other}"),
        }
    }
    assert_eq!(properties["frozen"], "yes");
    assert_eq!(commit(99).await.1, 403);
    // The principal that froze the table may not thaw it.
    let thaw = json!({ "action": "remove-properties", "removals": ["frozen"] });
    let thaw = json!({ "requirements": [], "updates": [thaw] });
    post_as(&app, &key, &table, thaw.clone()).await.expect_error(403, "ForbiddenException");
    app.post(&table, thaw).await.expect(200);
    assert_eq!(commit(99).await.1, 200);
}

#[tokio::test]
async fn idempotent_response_is_not_replayed_after_its_permission_is_lost() {
    let app = app().await;
    let key = app.key_with_role("team").await;
    let (bearer, once) = (format!("Bearer {key}"), ONCE);
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", once)];
    let path = format!("{SALES}/tables/t");
    let body = json!({ "requirements": [], "updates": [set_property("a", "b")] });
    let commit = async || app.request(Method::POST, &path, &headers, &body).await;
    commit().await.expect(200);
    commit().await.expect(200);
    let secret = json!({ "requirements": [], "updates": [set_property("secret", "yes")] });
    app.post(&path, secret).await.expect(200);
    commit().await.expect_error(404, "NoSuchTableException");
}

#[tokio::test]
async fn denied_request_can_be_retried_with_its_idempotency_key() {
    let app = app().await;
    let key = app.key_with_role("team").await;
    let (bearer, once) = (format!("Bearer {key}"), ONCE);
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", once)];
    let path = format!("{SALES}/tables/t");
    let properties = async |update: Value| {
        let body = json!({ "requirements": [], "updates": [update] });
        app.post(&path, body).await.expect(200);
    };
    let body = json!({ "requirements": [], "updates": [set_property("a", "b")] });
    let commit = async || app.request(Method::POST, &path, &headers, &body).await;
    properties(set_property("frozen", "yes")).await;
    commit().await.expect_error(403, "ForbiddenException");
    properties(json!({ "action": "remove-properties", "removals": ["frozen"] })).await;
    commit().await.expect(200);
}
