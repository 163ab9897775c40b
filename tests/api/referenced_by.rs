//! Reads through views: the query parameter `referenced-by` and the context attribute of policies.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::{create_table, set_property};
use crate::support::view::create_view;

/// Analysts may load the views in `reports`, and read through them what these views need. They may
/// not load `sales.orders` by itself.
const POLICIES: &str = r#"
@id("browse") permit (principal in Role::"analyst", action == Action::"ReadConfig",
    resource == Warehouse::"default");
@id("reports") permit (principal in Role::"analyst", action in [Action::"Browse", Action::"Load"],
    resource in Namespace::"default/reports");
@id("inner") permit (principal in Role::"analyst", action == Action::"Load",
    resource == View::"default/private/inner")
when { context has referenced_by
    && context.referenced_by.contains(View::"default/reports/outer") };
@id("orders") permit (principal in Role::"analyst", action in [Action::"Load", Action::"ReadData"],
    resource == Table::"default/sales/orders")
when { context has referenced_by && context.referenced_by.containsAny(
    [View::"default/reports/eu, 1", View::"default/private/inner"]) };
"#;

const ORDERS: &str = "/v1/namespaces/sales/tables/orders";
/// The view `eu, 1` as the Java client of Iceberg 1.12 encodes it.
const THROUGH_EU: &str = "referenced-by=reports%1Feu%2C%201";

async fn with_views() -> (TestApp, String) {
    let app = TestApp::with_policies(POLICIES, |_| {}).await;
    for namespace in ["sales", "reports", "private"] {
        app.create_namespace(&[namespace]).await;
    }
    app.post("/v1/namespaces/sales/tables", create_table("orders")).await.expect(200);
    for (namespace, view) in
        [("reports", "eu, 1"), ("reports", "outer"), ("reports", "other"), ("private", "inner")]
    {
        let path = format!("/v1/namespaces/{namespace}/views");
        app.post(&path, create_view(view)).await.expect(200);
    }
    let analyst = app.key_with_role("analyst").await;
    (app, analyst)
}

#[tokio::test]
async fn table_is_loaded_through_a_view_that_policies_name() {
    let (app, analyst) = with_views().await;
    app.get_as(&analyst, ORDERS).await.expect_error(404, "NoSuchTableException");
    let through = format!("{ORDERS}?{THROUGH_EU}");
    let loaded = app.get_as(&analyst, &through).await.expect(200);
    assert_eq!(loaded.body["metadata"]["format-version"], 2);
    // A cached response is not a right.
    app.get_as(&analyst, &through).await.expect(200);
    app.get_as(&analyst, ORDERS).await.expect(404);
    let credentials = format!("{ORDERS}/credentials");
    app.get_as(&analyst, &credentials).await.expect(404);
    app.get_as(&analyst, &format!("{credentials}?{THROUGH_EU}")).await.expect(200);
    let none = app.key_with_role("none").await;
    app.get_as(&none, &through).await.expect(403);
}

#[tokio::test]
async fn views_of_a_chain_are_checked_in_order() {
    let (app, analyst) = with_views().await;
    let inner = "/v1/namespaces/private/views/inner";
    app.get_as(&analyst, inner).await.expect(404);
    app.get_as(&analyst, &format!("{inner}?referenced-by=reports%1Fouter")).await.expect(200);
    for (chain, status) in [
        ("reports%1Fouter,private%1Finner", 200),
        ("reports%1Fouter%2Cprivate%1Finner", 404),
        // The caller may not load `inner` by itself.
        ("private%1Finner", 404),
        ("private%1Finner,reports%1Fouter", 404),
        ("reports%1Fouter", 404),
        ("reports%1Fother", 404),
        ("reports%1Fabsent,reports%1Fouter,private%1Finner", 404),
        ("", 404),
    ] {
        let response = app.get_as(&analyst, &format!("{ORDERS}?referenced-by={chain}")).await;
        assert_eq!(response.status.as_u16(), status, "{chain}: {}", response.body);
    }
}

#[tokio::test]
async fn client_plans_scans_through_views() {
    let (app, analyst) = with_views().await;
    let server = set_property("slateberg.scan-planning-mode", "server");
    app.commit("sales", "orders", vec![], vec![server]).await.expect(200);
    let own = app.get(ORDERS).await.expect(200);
    assert_eq!(own.body["config"]["scan-planning-mode"], "server");
    let loaded = app.get_as(&analyst, &format!("{ORDERS}?{THROUGH_EU}")).await.expect(200);
    assert_eq!(loaded.body["config"]["scan-planning-mode"], "client");
    assert_ne!(loaded.header("etag"), own.header("etag"));
}

#[tokio::test]
async fn invalid_chains_are_rejected() {
    let (app, analyst) = with_views().await;
    for chain in ["view", "reports%1Feu,", ",", "reports%1Feu,%FF%1Fv"] {
        let path = format!("{ORDERS}?referenced-by={chain}");
        app.get_as(&analyst, &path).await.expect_error(400, "BadRequestException");
    }
    let long = vec!["reports%1Fouter"; 33].join(",");
    let path = format!("{ORDERS}?referenced-by={long}");
    app.get_as(&analyst, &path).await.expect_error(400, "IllegalArgumentException");
}

#[tokio::test]
async fn decision_is_explained_for_reads_through_views() {
    let (app, analyst) = with_views().await;
    let explain = async |views: Value| {
        let request = json!({
            "action": "Load",
            "resource": "table:default/sales/orders",
            "context": { "referenced-by": views },
        });
        let body = &request;
        let path = "/management/v1/authorize";
        app.request_as(&analyst, axum::http::Method::POST, path, body).await
    };
    let allowed = explain(json!(["view:default/private/inner"])).await.expect(200).body;
    assert_eq!(
        (&allowed["decision"], &allowed["policies"][0]["id"]),
        (&json!("allow"), &json!("orders"))
    );
    let denied = explain(json!(["view:default/reports/other"])).await.expect(200).body;
    assert_eq!(denied["decision"], "deny");
    explain(json!(["table:default/sales/orders"])).await.expect(400);
}
