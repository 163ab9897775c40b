//! The search for tables, views, namespaces and functions by their names.

use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::function::{FUNCTIONS, function};
use crate::support::served_app::ServedApp;
use crate::support::table::create_table;
use crate::support::view::create_view;

const SEARCH: &str = "/management/v1/search";
const TABLES: &str = "/v1/default/namespaces/sales/tables";
const INVALID: &str = "IllegalArgumentException";

async fn search(app: &TestApp, parameters: &str) -> TestResponse {
    app.get(&format!("{SEARCH}?{parameters}")).await
}

fn resources(response: &Value) -> Vec<&str> {
    let hits = response["hits"].as_array().expect("hits");
    hits.iter().map(|hit| hit["resource"].as_str().expect("a resource")).collect()
}

#[track_caller]
fn assert_found(response: TestResponse, expected: &[&str]) {
    assert_eq!(resources(&response.expect(200).body), expected);
}

/// Creates the namespace `sales` with these tables.
async fn with_tables(names: &[&str]) -> TestApp {
    let app = TestApp::new().await;
    app.post("/v1/default/namespaces", json!({ "namespace": ["sales"] })).await.expect(200);
    for name in names {
        app.post(TABLES, create_table(name)).await.expect(200);
    }
    app
}

#[tokio::test]
async fn better_matches_come_first() {
    let app =
        with_tables(&["reorders", "daily_orders", "orders_2025", "ORDERS", "customers"]).await;
    let found = search(&app, "q=Orders").await.expect(200).body;
    let expected = [
        "table:default/sales/ORDERS",
        "table:default/sales/orders_2025",
        "table:default/sales/daily_orders",
        "table:default/sales/reorders",
    ];
    assert_eq!(resources(&found), expected);
    let hit = json!({
        "resource": "table:default/sales/ORDERS", "kind": "table", "warehouse": "default",
        "namespace": ["sales"], "name": "ORDERS", "match": "exact",
        "matched-in": "names",
    });
    assert_eq!(found["hits"][0], hit);
    assert_eq!(found["next-page-token"], Value::Null);
    assert_found(search(&app, "q=sales.orders").await, &expected);
    assert_found(search(&app, "q=daily+ord").await, &["table:default/sales/daily_orders"]);
    assert_found(search(&app, "q=sales").await, &["namespace:default/sales"]);
    assert_found(search(&app, "q=absent").await, &[]);
}

#[tokio::test]
async fn kinds_and_warehouse_limit_the_hits() {
    let app = with_tables(&["orders"]).await;
    app.post("/v1/default/namespaces", json!({ "namespace": ["sales", "orders"] }))
        .await
        .expect(200);
    app.post("/v1/default/namespaces/sales/views", create_view("orders_v")).await.expect(200);
    let name = "function:default/sales/orders_f";
    let created = app.post(FUNCTIONS, function(name, "x + 1")).await;
    assert!(created.status.is_success(), "{}", created.body);
    let all = [
        "namespace:default/sales/orders",
        "table:default/sales/orders",
        "function:default/sales/orders_f",
        "view:default/sales/orders_v",
    ];
    assert_found(search(&app, "q=orders").await, &all);
    assert_found(search(&app, "q=orders&warehouse=default").await, &all);
    assert_found(search(&app, "q=orders&kind=view").await, &all[3..]);
    assert_found(search(&app, "q=orders&kind=table&kind=function").await, &all[1..3]);
    let missing = search(&app, "q=orders&warehouse=absent").await;
    missing.expect_error(404, "NoSuchWarehouseException");
}

#[tokio::test]
async fn change_is_found_directly_after_its_response() {
    let app = with_tables(&[]).await;
    assert_found(search(&app, "q=orders").await, &[]);
    for round in 0..20 {
        app.post(TABLES, create_table("orders")).await.expect(200);
        assert_found(search(&app, "q=orders").await, &["table:default/sales/orders"]);
        let ident = |name: &str| json!({ "namespace": ["sales"], "name": name });
        let rename = json!({ "source": ident("orders"), "destination": ident("Reorders") });
        app.post("/v1/default/tables/rename", rename).await.expect(204);
        assert_found(search(&app, "q=orders").await, &["table:default/sales/Reorders"]);
        let purge = if round % 2 == 0 { "" } else { "?purgeRequested=true" };
        app.delete(&format!("{TABLES}/Reorders{purge}")).await.expect(204);
        assert_found(search(&app, "q=orders").await, &[]);
    }
    app.delete("/v1/default/namespaces/sales").await.expect(204);
    assert_found(search(&app, "q=sales").await, &[]);
}

#[tokio::test]
async fn transaction_and_recursive_drop_change_the_hits() {
    let app = with_tables(&["orders", "items"]).await;
    app.post("/v1/default/namespaces/sales/views", create_view("items_v")).await.expect(200);
    assert_found(search(&app, "q=sales+items&kind=view").await, &["view:default/sales/items_v"]);
    let mut staged = create_table("items_staged");
    staged["stage-create"] = json!(true);
    app.post(TABLES, staged).await.expect(200);
    assert_found(search(&app, "q=items_staged").await, &[]);
    let drop = json!({ "resource": "namespace:default/sales", "dry-run": false });
    app.post("/management/v1/namespaces/drop", drop).await.expect(200);
    for words in ["sales", "orders", "items"] {
        assert_found(search(&app, &format!("q={words}")).await, &[]);
    }
}

#[tokio::test]
async fn names_are_found_after_a_restart() {
    let app = with_tables(&["orders", "old_orders"]).await;
    assert_eq!(resources(&search(&app, "q=orders").await.body).len(), 2);
    app.delete(&format!("{TABLES}/old_orders")).await.expect(204);
    let app = app.restart().await;
    assert_found(search(&app, "q=orders").await, &["table:default/sales/orders"]);
}

#[tokio::test]
async fn case_is_ignored_in_every_script() {
    let app = with_tables(&["Größe", "Straße", "ИМЯ", "表_Αθήνας"]).await;
    for (query, name) in [
        ("gr%C3%96SSE", None),
        ("GR%C3%96%C3%9FE", Some("Größe")),
        ("STRASSE", Some("Straße")),
        ("%D0%B8%D0%BC%D1%8F", Some("ИМЯ")),
        ("%CE%91%CE%98%CE%89%CE%9D%CE%91%CE%A3", Some("表_Αθήνας")),
        ("%E8%A1%A8", Some("表_Αθήνας")),
    ] {
        let expected = name.or(Some("Größe").filter(|_| query.ends_with("SSE")));
        let expected = expected.map(|name| format!("table:default/sales/{name}"));
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        assert_found(search(&app, &format!("q={query}")).await, &expected);
    }
}

#[tokio::test]
async fn pages_contain_each_hit_once() {
    let names: Vec<_> = (0..25).map(|number| format!("Orders_{number:02}")).collect();
    let app = with_tables(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let found = app.pages(&format!("{SEARCH}?q=orders"), "hits", 7).await;
    let found: Vec<_> = found.iter().map(|hit| hit["name"].as_str().expect("a name")).collect();
    assert_eq!(found, names);
    let other = search(&app, "q=orders&pageSize=7").await.body;
    let other = other["next-page-token"].as_str().expect("a token");
    let moved = search(&app, &format!("q=order&pageSize=7&pageToken={other}")).await;
    moved.expect_error(400, INVALID);
}

#[tokio::test]
async fn invalid_parameters_are_rejected() {
    let app = with_tables(&["orders"]).await;
    let long = "a".repeat(257);
    for (parameters, message) in [
        ("q=", "it is empty"),
        ("q=%20%09", "it is empty"),
        (&*format!("q={long}"), "at most 256 are allowed"),
        ("q=a+b+c+d+e+f+g+h+i", "at most 8 are allowed"),
        ("q=orders&kind=tables", "Invalid kind 'tables'"),
        ("q=orders&kind=", "Invalid kind ''"),
        ("q=orders&pageToken=%21", "Invalid page token"),
        ("q=orders&pageToken=AgAAAAB7fQ", "Invalid page token"),
    ] {
        let rejected = search(&app, parameters).await.expect_error(400, INVALID);
        assert!(rejected.message().contains(message), "{parameters}: {}", rejected.message());
    }
    let size = search(&app, "q=orders&pageSize=0").await;
    size.expect_error(400, "BadRequestException");
    let missing = search(&app, "query=orders").await;
    missing.expect_error(400, "BadRequestException");
    assert_found(search(&app, "q=orders").await, &["table:default/sales/orders"]);
}

const READERS: &str = r#"
@id("sales") permit (principal in Role::"sales",
    action in [Action::"ReadConfig", Action::"List", Action::"DescribeNamespace", Action::"Load"],
    resource) when { true };
@id("secret") forbid (principal in Role::"sales", action == Action::"List",
    resource in Namespace::"default/hr");
@id("secret-table") forbid (principal in Role::"sales", action == Action::"Load",
    resource == Table::"default/sales/orders_secret");
@id("unlisted") permit (principal in Role::"loader", action == Action::"Load", resource);
"#;

#[tokio::test]
async fn caller_finds_only_what_a_listing_shows() {
    let app = TestApp::with_policies(READERS, |_| {}).await;
    for namespace in ["sales", "hr"] {
        let body = json!({ "namespace": [namespace] });
        app.post("/v1/default/namespaces", body).await.expect(200);
        for table in ["orders", "orders_secret"] {
            let path = format!("/v1/default/namespaces/{namespace}/tables");
            app.post(&path, create_table(table)).await.expect(200);
        }
    }
    let path = format!("{SEARCH}?q=orders&pageSize=1");
    let sales = app.key_with_role("sales").await;
    let found = app.get_as(&sales, &path).await.expect(200).body;
    assert_eq!(resources(&found), ["table:default/sales/orders"]);
    // A token would reveal that there are further, hidden hits.
    assert_eq!(found["next-page-token"], Value::Null);
    let nothing = json!({ "hits": [], "next-page-token": null, "includes-latest-changes": true });
    let loader = app.key_with_role("loader").await;
    assert_eq!(app.get_as(&loader, &path).await.expect(200).body, nothing);
    assert_eq!(resources(&search(&app, "q=orders").await.body).len(), 4);
    app.get_as("", &path).await.expect(401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_line_prints_hits() {
    let app = with_tables(&["orders", "Orders_2025"]).await;
    let served = ServedApp::start(app).await;
    let text = served.stdout_of(&["search", "sales", "orders", "--limit", "1"]).await;
    assert_eq!(
        text,
        "RESOURCE                    MATCH\ntable:default/sales/orders  exact\nThere are more hits. \
         Add words, or raise --limit\n"
    );
    let found =
        served.stdout_of(&["search", "orders", "--kind", "table", "--output", "json"]).await;
    let found: Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!(resources(&found).len(), 2);
}
