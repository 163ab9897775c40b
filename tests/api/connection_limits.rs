//! Limits for connections: their number, endless headers, clients that do not read responses, and
//! idle connections.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::support::app::TestApp;
use crate::support::raw_connection::RawConnection;
use crate::support::served_app::{ServedApp, serve_both_ports};

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n";

/// A server that requires credentials, with these deadlines in seconds.
async fn server(header_seconds_max: u64, idle_seconds_max: u64) -> ServedApp {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.header_seconds_max = header_seconds_max;
        settings.server.idle_seconds_max = idle_seconds_max;
    });
    ServedApp::start(app.await).await
}

/// Returns a number in `/metrics`, by its name and labels.
async fn measured(app: &TestApp, series: &str) -> u64 {
    let page = app.get("/metrics").await.expect(200);
    let page = page.body.as_str().expect("text").to_owned();
    let value = page.lines().find_map(|line| line.strip_prefix(series));
    value.unwrap_or_else(|| panic!("no {series} in {page}")).trim().parse().expect("a number")
}

fn closed(reason: &str) -> String {
    format!("slateberg_connections_closed_total{{port=\"clients\",reason=\"{reason}\"}}")
}

#[tokio::test]
async fn a_connection_whose_request_header_does_not_end_in_time_is_closed() {
    let server = server(1, 600).await;
    let half = format!("GET /health HTTP/1.1\r\nhost: x\r\nx-long: {}", "a".repeat(60_000));
    let mut silent = RawConnection::connect(&server).await;
    let mut partial = RawConnection::connect(&server).await;
    partial.send(&half).await;
    // Sends only a part of the HTTP/2 preface, from which the server cannot determine the HTTP
    // version.
    let mut undecided = RawConnection::connect(&server).await;
    undecided.send("PRI * HT").await;
    let mut second = RawConnection::connect(&server).await;
    second.send(HEALTH).await;
    assert_eq!(second.read_response().await.0, 200);
    second.send(&half).await;
    for connection in [&mut silent, &mut partial, &mut undecided, &mut second] {
        assert_eq!(connection.read_until_closed().await, b"");
    }
    assert_eq!(measured(&server.app, &closed("header")).await, 4);
}

#[tokio::test]
async fn a_request_header_of_64_kib_is_answered_431() {
    let server = server(600, 600).await;
    let mut connection = RawConnection::connect(&server).await;
    let short = format!("GET /health HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "a".repeat(60 << 10));
    connection.send(short).await;
    assert_eq!(connection.read_response().await.0, 200);
    for begin in ["GET /health HTTP/1.1\r\nhost: x\r\nx: ", "GET /"] {
        // The request has exactly the maximum length. If it were longer, the server would not read
        // all bytes, and the connection would be reset.
        let mut long = begin.to_owned();
        long.push_str(&"a".repeat((64 << 10) - begin.len()));
        let mut connection = RawConnection::connect(&server).await;
        connection.send(long).await;
        assert_eq!(connection.read_response().await.0, 431, "{begin}");
    }
}

#[tokio::test]
async fn a_connection_without_a_further_request_is_closed_after_the_idle_time() {
    let server = server(600, 1).await;
    let mut old = RawConnection::connect(&server).await;
    old.send(HEALTH).await;
    assert_eq!(old.read_response().await.0, 200);
    assert_eq!(old.read_until_closed().await, b"");
    let new = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    let url = format!("{}/health", server.uri);
    assert_eq!(new.get(&url).send().await.expect("it answers").status(), 200);
    let both_are_closed = async {
        while measured(&server.app, &closed("idle")).await < 2 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(30), both_are_closed).await.expect("HTTP/2 has an idle time");
    assert_eq!(new.get(&url).send().await.expect("a new connection").status(), 200);
}

#[tokio::test]
async fn a_request_that_takes_longer_than_header_and_idle_time_is_answered() {
    let server = server(1, 1).await;
    let mut connection = RawConnection::connect(&server).await;
    let body = r#"{"namespace":["slow"]}"#;
    let credential = server.app.credential();
    connection
        .send(format!(
            "POST /v1/namespaces HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {credential}\r\n\
         content-length: {}\r\n\r\n",
            body.len()
        ))
        .await;
    for part in [&body[..5], &body[5..10], &body[10..15], &body[15..]] {
        sleep(Duration::from_millis(900)).await;
        connection.send(part).await;
    }
    assert_eq!(connection.read_response().await.0, 200);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_responses_is_disconnected() {
    let server = server(600, 1).await;
    let mut connection = RawConnection::connect(&server).await;
    let mut sent = 0;
    // The responses exceed the socket buffers of client and server.
    let request = "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";
    while sent < 4000 && timeout(Duration::from_millis(500), connection.send(request)).await.is_ok()
    {
        sent += 1;
    }
    let is_closed = async {
        while measured(&server.app, &closed("stalled")).await == 0 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(30), is_closed).await.expect("the server gives up");
}

/// Waits until this many connections of clients are open.
async fn wait_for_open(app: &TestApp, count: u64) {
    let waiting = async {
        while measured(app, "slateberg_connections{port=\"clients\"}").await != count {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), waiting).await.expect("this many connections in time");
}

#[tokio::test]
async fn connections_beyond_the_maximum_wait_while_operators_are_answered() {
    let mut app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.connections_max = 3;
        settings.server.management.listen = Some(([127, 0, 0, 1], 0).into());
    })
    .await;
    let (_stop, stopping) = watch::channel(false);
    let routers = app.app.routers();
    let operators = routers.operators.expect("operators have routes of their own");
    // The test requests metrics directly from the router, without a connection.
    app.router = operators.clone();
    let uris = serve_both_ports(&app, (routers.clients, operators), &stopping).await;
    let mut strangers = Vec::new();
    for _ in 0..3 {
        strangers.push(RawConnection::connect_to_uri(&uris[0]).await);
    }
    wait_for_open(&app, 3).await;
    let mut fourth = RawConnection::connect_to_uri(&uris[0]).await;
    fourth.send(HEALTH).await;
    for _ in 0..10 {
        let mut operator = RawConnection::connect_to_uri(&uris[1]).await;
        operator.send(HEALTH).await;
        assert_eq!(operator.read_response().await.0, 200);
    }
    assert_eq!(measured(&app, "slateberg_connections{port=\"clients\"}").await, 3);
    assert_eq!(measured(&app, "slateberg_connections_limit{port=\"clients\"}").await, 3);
    assert_eq!(measured(&app, "slateberg_connections_waits_total{port=\"clients\"}").await, 1);
    strangers.pop();
    assert_eq!(fourth.read_response().await.0, 200, "another connection was closed");
}
