//! The host in a request.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::raw_connection::RawConnection;
use crate::support::served_app::ServedApp;

#[tokio::test]
async fn a_request_without_exactly_one_valid_host_is_answered_400() {
    let server = ServedApp::start(TestApp::secured().await).await;
    for headers in [
        "",
        "host: a\r\nhost: a\r\n",
        "host: a\r\nhost: b\r\n",
        "host:\r\n",
        "host: a b\r\n",
        "host: user@a\r\n",
        "host: a:port\r\n",
    ] {
        for path in ["/health", "/v1/namespaces"] {
            let mut connection = RawConnection::connect(&server).await;
            connection.send(format!("GET {path} HTTP/1.1\r\n{headers}\r\n")).await;
            let (status, head) = connection.read_response().await;
            assert_eq!(status, 400, "{path} {headers:?}: {head}");
            assert!(head.contains("content-type: application/json"), "{head}");
        }
    }
    for request in [
        "GET /health HTTP/1.0\r\n\r\n",
        "GET /health HTTP/1.1\r\nhost: a.example.com:8181\r\n\r\n",
        "GET http://a/health HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let mut connection = RawConnection::connect(&server).await;
        connection.send(request).await;
        assert_eq!(connection.read_response().await.0, 200, "{request:?}");
    }
    let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    let answer = client.get(format!("{}/health", server.uri)).send().await;
    assert_eq!(answer.expect("it answers").status(), 200);
}

/// Returns the statuses for a page whose name resolves to the server (DNS rebinding).
async fn statuses(app: &TestApp, host: &str) -> [u16; 2] {
    let origin = format!("http://{host}");
    let headers = [("host", host), ("origin", origin.as_str()), ("sec-fetch-site", "same-origin")];
    let read = app.request(Method::GET, "/v1/namespaces", &headers, &Value::Null).await;
    let name = host.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let body = json!({ "namespace": [name] });
    let write = app.request(Method::POST, "/v1/namespaces", &headers, &body).await;
    for answer in [&read, &write] {
        let is_refused = answer.status == 403;
        assert_eq!(is_refused, answer.message().contains("server.host_names"), "{}", answer.body);
    }
    [read.status.as_u16(), write.status.as_u16()]
}

#[tokio::test]
async fn without_authentication_only_addresses_and_configured_names_are_the_servers_own() {
    let app = TestApp::with_settings(|settings| {
        settings.server.host_names = vec!["catalog.example.com".to_owned()];
    })
    .await;
    for own in [
        "127.0.0.1:8181",
        "192.0.2.1",
        "[::1]:8181",
        "localhost:8181",
        "lake.localhost",
        "Catalog.Example.com:8181",
    ] {
        assert_eq!(statuses(&app, own).await, [200, 200], "{own}");
    }
    for other in ["evil.example:8181", "localhost.evil.example", "127.0.0.1.evil.example"] {
        assert_eq!(statuses(&app, other).await, [403, 403], "{other}");
    }
    // Probes and scrapes may use any host name.
    for path in ["/", "/health", "/ready", "/metrics"] {
        let headers = [("host", "slateberg.catalog.svc:8181")];
        app.request(Method::GET, path, &headers, &Value::Null).await.expect(200);
    }
    let any = TestApp::with_settings(|settings| {
        settings.server.host_names = vec!["*".to_owned()];
    });
    assert_eq!(statuses(&any.await, "evil.example").await, [200, 200]);
}

#[tokio::test]
async fn with_authentication_every_host_name_is_accepted() {
    let app = TestApp::secured().await;
    assert_eq!(statuses(&app, "catalog.example.com:8181").await, [200, 200]);
}

#[tokio::test]
async fn a_body_in_a_content_encoding_that_is_not_supported_is_answered_415() {
    let app = TestApp::secured().await;
    let body = json!({ "namespace": ["a"] });
    for (method, path) in [
        (Method::POST, "/v1/namespaces"),
        (Method::POST, "/management/v1/api-keys"),
        (Method::DELETE, "/v1/namespaces/a"),
    ] {
        let headers = [("content-encoding", "gzip")];
        let answer = app.request(method, path, &headers, &body).await;
        assert_eq!(answer.error().0, 415, "{}", answer.body);
        assert!(answer.is_error_model(), "{}", answer.body);
        assert_eq!(answer.header("accept-encoding"), "identity");
    }
    let as_it_is = [("content-encoding", "identity")];
    app.request(Method::POST, "/v1/namespaces", &as_it_is, &body).await.expect(200);
}
