//! `GET /v1/config`, and whether it matches the routes of the server.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use slateberg_model::warehouse::Delegation;

use crate::support::app::{TestApp, TestResponse, WAREHOUSE};
use crate::support::function::{FUNCTIONS, function};
use crate::support::sts::TestSts;

/// Returns a route of the specification with its parameters replaced by names.
fn concrete(path: &str, prefix: &str) -> String {
    path.replace("/{prefix}", prefix)
        .replace("{namespace}", "ns")
        .replace("{table}", "t")
        .replace("{view}", "v")
        .replace("{function}", "f")
}

/// Returns the advertised methods, each with its path as in the specification.
async fn advertised(app: &TestApp) -> Vec<(Method, String)> {
    let config = app.get("/v1/config").await.expect(200);
    let endpoints = config.body["endpoints"].as_array().expect("a list");
    let endpoints = endpoints.iter().map(|endpoint| {
        let (method, path) = endpoint.as_str().and_then(|it| it.split_once(' ')).expect("a pair");
        (method.parse().expect("a method"), path.to_owned())
    });
    endpoints.collect()
}

fn is_routed(response: &TestResponse) -> bool {
    response.status != StatusCode::METHOD_NOT_ALLOWED
        && !response.message().starts_with("No route for request")
}

#[tokio::test]
async fn config_without_a_warehouse_is_that_of_the_default() {
    let app = TestApp::new().await;
    let config = app.get("/v1/config").await.expect(200);
    assert_eq!(config.header("content-type"), "application/json");
    assert_eq!(config.body["overrides"], json!({ "prefix": "default" }));
    assert_eq!(config.body["defaults"], json!({}));
    assert_eq!(config.body["idempotency-key-lifetime"], "PT1800S");
    for word in ["", "default", WAREHOUSE, "memory:///warehouse/"] {
        let named = app.get(&format!("/v1/config?warehouse={word}")).await.expect(200);
        assert_eq!(named.body, config.body, "{word}");
    }
}

#[tokio::test]
async fn config_of_an_unknown_warehouse_returns_404() {
    let app = TestApp::new().await;
    for word in ["nope", "memory:///other", "DEFAULT", "../default"] {
        let response = app.get(&format!("/v1/config?warehouse={word}")).await;
        let message = format!("Warehouse does not exist: {word}");
        assert_eq!(response.error(), (404, "NoSuchWarehouseException", message.as_str()));
    }
}

#[tokio::test]
async fn every_advertised_endpoint_is_served_with_and_without_a_prefix() {
    for prefix in ["", "/default"] {
        let app = TestApp::with_table_and_view().await;
        app.post(FUNCTIONS, function("function:default/ns/f", "x")).await.expect(201);
        let mut endpoints = advertised(&app).await;
        assert_eq!(endpoints.len(), 32);
        // Destructive routes come last, so that all others find the resources.
        endpoints.sort_by_key(|(method, path)| {
            (*method == Method::DELETE || path.ends_with("unregister"), path.len())
        });
        for (method, path) in endpoints {
            let path = concrete(&path, prefix);
            let response = app.request(method.clone(), &path, &[], &Value::Null).await;
            assert!(is_routed(&response), "{method} {path}: {}", response.body);
            // No plan has this id.
            if matches!(method, Method::GET | Method::HEAD) && !path.contains("/plan/") {
                assert!(response.status.is_success(), "{method} {path}: {}", response.status);
            }
        }
    }
}

#[tokio::test]
async fn every_served_endpoint_is_advertised() {
    let app = TestApp::with_table_and_view().await;
    let endpoints = advertised(&app).await;
    let mut paths: Vec<_> = endpoints.iter().map(|(_, path)| path).collect();
    paths.sort();
    paths.dedup();
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    for path in paths {
        let served = |method: &Method| endpoints.contains(&(method.clone(), path.clone()));
        for method in methods.map(|method| method.parse::<Method>().expect("a method")) {
            // A server that supports GET also supports HEAD.
            if served(&method) || (method == Method::HEAD && served(&Method::GET)) {
                continue;
            }
            for prefix in ["", "/default"] {
                let path = concrete(path, prefix);
                let response = app.request(method.clone(), &path, &[], &Value::Null).await;
                assert!(!is_routed(&response), "{method} {path}: {}", response.status);
                if method != Method::HEAD {
                    assert_eq!(response.error_type(), "UnsupportedOperationException");
                    assert!(response.is_error_model(), "{method} {path}");
                }
            }
        }
    }
}

#[tokio::test]
async fn all_operations_of_the_specification_are_announced_to_clients_of_a_signing_warehouse() {
    let specified = include_str!("specification.txt").lines().filter(|it| !it.starts_with('#'));
    let specified: BTreeSet<_> = specified.map(ToOwned::to_owned).collect();
    let sts = TestSts::start().await;
    let names = |all: Vec<(Method, String)>| {
        let name = |(method, path): (Method, String)| format!("{method} {path}");
        // Clients know these two operations without the list.
        let known = ["GET /v1/config", "POST /v1/oauth/tokens"].map(ToOwned::to_owned);
        all.into_iter().map(name).chain(known).collect::<BTreeSet<_>>()
    };
    let signing = sts.lake(&[Delegation::RemoteSigning], "").await;
    assert_eq!(names(advertised(&signing).await), specified);
    let vending = sts.lake(&[Delegation::VendedCredentials], "").await;
    let vending = names(advertised(&vending).await);
    let missing: Vec<_> = specified.difference(&vending).collect();
    assert_eq!(missing, ["POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign"]);
}

/// Routes of the specification that slateberg does not support.
#[tokio::test]
async fn unimplemented_endpoints_are_not_served() {
    let app = TestApp::with_table_and_view().await;
    let absent = [
        (Method::POST, "/v1/default/events".to_owned()),
        (Method::GET, "/v1/default/config".to_owned()),
        (Method::GET, "/v1/namespaces/".to_owned()),
    ];
    for (method, path) in absent {
        let response = app.request(method.clone(), &path, &[], &json!({})).await;
        let message = format!("No route for request: {method} {path}");
        assert_eq!(response.error(), (404, "NotFoundException", message.as_str()));
    }
    for path in ["/v2/config", "/v1", "/ui"] {
        let response = app.get(path).await;
        let message = format!("No route for request: GET {path}. GET / describes this server");
        assert_eq!(response.error(), (404, "NotFoundException", message.as_str()));
    }
}

#[tokio::test]
async fn health_and_ready_return_200() {
    let app = TestApp::new().await;
    assert_eq!(app.get("/health").await.expect(200).body, json!({ "status": "ok" }));
    let ready = app.get("/ready").await.expect(200);
    assert_eq!(ready.body, json!({ "status": "ready", "role": "writer" }));
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    app.get("/health").await.expect(200);
    let closed = app.get("/ready").await.expect_error(503, "SlowDownException");
    assert_eq!(closed.header("retry-after"), "1");
}
