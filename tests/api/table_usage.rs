//! Counts of the loads, scans and commits of tables.

use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::served_app::ServedApp;
use crate::support::table::{create_table, set_property};

const USAGE: &str = "/management/v1/tables/usage";
const TABLES: &str = "/v1/default/namespaces/sales/tables";

async fn with_tables(names: &[&str]) -> TestApp {
    let app = TestApp::new().await;
    create_tables(&app, names).await;
    app
}

async fn create_tables(app: &TestApp, names: &[&str]) {
    app.post("/v1/default/namespaces", json!({ "namespace": ["sales"] })).await.expect(200);
    for name in names {
        app.post(TABLES, create_table(name)).await.expect(200);
    }
}

async fn load(app: &TestApp, name: &str) {
    app.get(&format!("{TABLES}/{name}")).await.expect(200);
}

async fn commit(app: &TestApp, name: &str) {
    let body = json!({ "requirements": [], "updates": [set_property("a", "b")] });
    app.post(&format!("{TABLES}/{name}"), body).await.expect(200);
}

async fn usage(app: &TestApp, name: &str) -> Value {
    let listed = app.get(&format!("{USAGE}?resource=table:default/sales/{name}")).await;
    listed.expect(200).body["tables"][0].clone()
}

fn counts(usage: &Value) -> (u64, u64, u64) {
    let count = |member: &str| usage[member].as_u64().expect("a count");
    (count("loads"), count("scans"), count("commits"))
}

fn names(listed: TestResponse) -> Vec<String> {
    let body = listed.expect(200).body;
    let tables = body["tables"].as_array().expect("tables").iter();
    let name = |it: &Value| it["resource"].as_str().expect("a resource").to_owned();
    tables.map(|it| name(it).replace("table:default/sales/", "")).collect()
}

#[tokio::test]
async fn loads_scans_and_commits_are_counted_across_restarts() {
    let app = with_tables(&["orders"]).await;
    let unused = usage(&app, "orders").await;
    assert_eq!(counts(&unused), (0, 0, 0));
    assert_eq!((&unused["since-ms"], &unused["last-read-at-ms"]), (&Value::Null, &Value::Null));
    // The second load gets a cached response.
    load(&app, "orders").await;
    load(&app, "orders").await;
    commit(&app, "orders").await;
    app.post(&format!("{TABLES}/orders/plan"), json!({})).await.expect(200);
    let transaction = json!({ "table-changes": [{
        "identifier": { "namespace": ["sales"], "name": "orders" }, "requirements": [],
        "updates": [set_property("c", "d")] }] });
    app.post("/v1/default/transactions/commit", transaction).await.expect(204);
    let used = usage(&app, "orders").await;
    assert_eq!(counts(&used), (2, 1, 2));
    assert!(used["last-commit-at-ms"].as_i64() >= used["since-ms"].as_i64());
    let app = app.restart().await;
    assert_eq!(usage(&app, "orders").await, used);
    load(&app, "orders").await;
    assert_eq!(counts(&usage(&app, "orders").await), (3, 1, 2));
    let rename = |from: &str, to: &str| {
        let ident = |name: &str| json!({ "namespace": ["sales"], "name": name });
        json!({ "source": ident(from), "destination": ident(to) })
    };
    app.post("/v1/default/tables/rename", rename("orders", "sold")).await.expect(204);
    let app = app.restart().await;
    assert_eq!(counts(&usage(&app, "sold").await), (3, 1, 2));
    // A new table with the name has its own counts.
    app.delete(&format!("{TABLES}/sold")).await.expect(204);
    app.post(TABLES, create_table("sold")).await.expect(200);
    assert_eq!(counts(&usage(&app, "sold").await), (0, 0, 0));
    let app = app.restart().await;
    assert_eq!(counts(&usage(&app, "sold").await), (0, 0, 0));
}

#[tokio::test]
async fn unread_tables_come_first_and_pages_contain_each_table_once() {
    let app = with_tables(&["a", "b", "c", "d"]).await;
    load(&app, "b").await;
    let app = app.restart().await;
    for _ in 0..3 {
        load(&app, "d").await;
    }
    commit(&app, "a").await;
    let unread_first = app.get(&format!("{USAGE}?warehouse=default")).await;
    let mut unread_first = names(unread_first);
    unread_first[..2].sort();
    assert_eq!(unread_first, ["a", "c", "b", "d"]);
    let most_read = app.get(&format!("{USAGE}?warehouse=default&sort=most-read")).await;
    assert_eq!(names(most_read)[..2], ["d", "b"]);
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("{USAGE}?warehouse=default&pageSize=1&pageToken={token}");
        let page = app.get(&path).await;
        let next = page.body["next-page-token"].as_str().map(str::to_owned);
        found.extend(names(page));
        match next {
            Some(next) => token = next,
            None => break,
        }
    }
    found[..2].sort();
    assert_eq!(found, ["a", "c", "b", "d"]);
}

const POLICIES: &str = r#"
@id("reader") permit (principal in Role::"reader",
    action in [Action::"ReadConfig", Action::"List", Action::"DescribeNamespace", Action::"Load"],
    resource) when { true };
@id("secret") forbid (principal in Role::"reader", action == Action::"Load",
    resource == Table::"default/sales/secret");
@id("auditor") permit (principal in Role::"auditor",
    action in [Action::"ReadConfig", Action::"List", Action::"DescribeNamespace", Action::"Load",
        Action::"ReadHistory"], resource);
"#;

#[tokio::test]
async fn caller_sees_tables_that_it_may_load_and_readers_with_read_history() {
    let app = TestApp::with_policies(POLICIES, |_| {}).await;
    create_tables(&app, &["orders", "secret"]).await;
    let (reader, auditor) = (app.key_with_role("reader").await, app.key_with_role("auditor").await);
    app.get_as(&reader, &format!("{TABLES}/orders")).await.expect(200);
    let all = format!("{USAGE}?warehouse=default");
    let one = format!("{USAGE}?resource=table:default/sales/orders");
    for path in [&all, &one] {
        let listed = app.get_as(&reader, path).await.expect(200).body;
        assert_eq!(listed["tables"].as_array().expect("tables").len(), 1);
        assert_eq!(counts(&listed["tables"][0]).0, 1);
        assert_eq!(listed["tables"][0].get("last-read-by"), None);
    }
    let listed = app.get_as(&auditor, &one).await.expect(200).body;
    assert_eq!(listed["tables"][0]["last-read-by-name"], "reader");
    assert_eq!(names(app.get_as(&auditor, &all).await).len(), 2);
    let secret = format!("{USAGE}?resource=table:default/sales/secret");
    app.get_as(&reader, &secret).await.expect_error(404, "NoSuchTableException");
    let none = app.key_with_role("none").await;
    app.get_as(&none, &all).await.expect(404);
    app.get_as("", &all).await.expect(401);
}

#[tokio::test]
async fn invalid_parameters_are_rejected() {
    let app = with_tables(&["orders"]).await;
    for (parameters, status) in [
        ("", 400),
        ("?resource=table:default/sales/orders&warehouse=default", 400),
        ("?warehouse=default&sort=name", 400),
        ("?warehouse=default&pageSize=0", 400),
        ("?warehouse=default&pageToken=x", 400),
        ("?resource=orders", 400),
        ("?resource=namespace:default/sales", 400),
        ("?resource=table:default/sales/absent", 404),
        ("?warehouse=absent", 404),
    ] {
        let response = app.get(&format!("{USAGE}{parameters}")).await;
        assert_eq!(response.status.as_u16(), status, "{parameters}: {}", response.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_line_prints_the_use_of_tables() {
    let app = with_tables(&["orders", "items"]).await;
    load(&app, "orders").await;
    let served = ServedApp::start(app).await;
    let text = served.stdout_of(&["table", "usage"]).await;
    let rows: Vec<_> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let words: Vec<Vec<_>> = rows;
    assert_eq!(words[1][..5], ["table:default/sales/items", "0", "0", "0", "never"]);
    assert_eq!(words[2][..4], ["table:default/sales/orders", "1", "0", "0"]);
    let one =
        served.stdout_of(&["table", "usage", "default/sales/orders", "--output", "json"]).await;
    let one: Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!(counts(&one["tables"][0]), (1, 0, 0));
}
