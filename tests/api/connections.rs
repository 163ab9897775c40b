//! Reused connections: a rejected request does not affect the next one.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::support::app::TestApp;
use crate::support::raw_connection::RawConnection;
use crate::support::served_app::ServedApp;

async fn server() -> ServedApp {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.body_bytes_max = 10_000;
    });
    ServedApp::start(app.await).await
}

#[tokio::test]
async fn connection_is_reusable_after_a_request_rejected_before_its_body() {
    let server = server().await;
    let mut connection = RawConnection::connect(&server).await;
    for _ in 0..3 {
        connection.post("/v1/namespaces", 5_000).await;
        let (status, head) = connection.read_response().await;
        assert_eq!(status, 401, "{head}");
        assert!(!head.contains("connection: close"), "{head}");
    }
    // Other layers reject the next two requests: the route of the first does not exist, and the
    // body of the second is too long.
    let credential = format!("authorization: Bearer {}\r\n", server.app.credential());
    for (path, length, refused) in [("/nothing", 5_000, 404), ("/v1/namespaces", 20_000, 413)] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n");
        connection.send(format!("{head}{credential}\r\n")).await;
        sleep(Duration::from_millis(100)).await;
        connection.send(" ".repeat(length)).await;
        assert_eq!(connection.read_response().await.0, refused);
    }
    connection.send(format!("GET /v1/config HTTP/1.1\r\nhost: x\r\n{credential}\r\n")).await;
    assert_eq!(connection.read_response().await.0, 200);
}

#[tokio::test]
async fn rejected_request_with_a_long_or_endless_body_closes_the_connection() {
    let server = server().await;
    let head = "POST /v1/namespaces HTTP/1.1\r\nhost: x\r\n";
    for rest in ["content-length: 2000000\r\n\r\n", "content-length: 5000\r\n\r\nslow"] {
        let mut connection = RawConnection::connect(&server).await;
        connection.send(format!("{head}{rest}")).await;
        let (status, head) = connection.read_response().await;
        assert_eq!(status, 401);
        assert!(head.contains("connection: close"), "{head}");
    }
    // A client that sends `Expect: 100-continue` gets the rejection before it has sent the body.
    let mut connection = RawConnection::connect(&server).await;
    connection.send(format!("{head}content-length: 5000\r\nexpect: 100-continue\r\n\r\n")).await;
    assert_eq!(connection.read_response().await.0, 401);
}

/// A server for bodies of 1 MiB, with memory for two at a time.
async fn server_with_little_body_memory(seconds: u64) -> ServedApp {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.body_bytes_max = 1 << 20;
        settings.server.bodies_bytes_max = 2 << 20;
        settings.server.requests_in_flight_max = 100;
        settings.server.body_seconds_max = seconds;
    });
    ServedApp::start(app.await).await
}

/// Sends requests whose bodies never arrive, each on a connection of its own.
async fn silent(server: &ServedApp, count: usize, head: &str) -> Vec<RawConnection> {
    let mut wires = Vec::new();
    for _ in 0..count {
        let mut connection = RawConnection::connect(server).await;
        connection
            .send(format!("{head} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n"))
            .await;
        connection.send(format!("authorization: Bearer {}\r\n\r\n", server.app.credential())).await;
        wires.push(connection);
    }
    sleep(Duration::from_millis(300)).await;
    wires
}

async fn create(server: &ServedApp, name: &str) -> u16 {
    let credential = server.app.credential().to_owned();
    let body = serde_json::json!({ "namespace": [name], "ignored": "x".repeat(900 << 10) });
    let request = server.post("/v1/namespaces").bearer_auth(credential).json(&body);
    request.send().await.expect("it answers").status().as_u16()
}

#[tokio::test]
async fn unauthenticated_requests_with_pending_bodies_do_not_block_others() {
    let server = server_with_little_body_memory(600).await;
    let strangers = silent(&server, 200, "POST /v1/oauth/tokens").await;
    assert_eq!(create(&server, "a").await, 200);
    // The server waits for only a few of the bodies, and rejects the other requests with 503.
    sleep(Duration::from_secs(4)).await;
    let mut rejection = 0;
    for mut connection in strangers {
        if let Ok((status, _)) =
            timeout(Duration::from_millis(20), connection.read_response()).await
        {
            assert_eq!(status, 503);
            rejection += 1;
        }
    }
    assert!((180..200).contains(&rejection), "{rejection}");
}

#[tokio::test]
async fn body_that_does_not_arrive_in_time_is_rejected() {
    let server = server_with_little_body_memory(2).await;
    // The body of a deletion is read although it is ignored.
    let mut silent = silent(&server, 2, "DELETE /v1/namespaces/a").await;
    assert_eq!(create(&server, "a").await, 503, "pending bodies occupy all body memory");
    for connection in &mut silent {
        let (status, head) = connection.read_response().await;
        assert_eq!(status, 408, "{head}");
        assert!(head.contains("connection: close"), "{head}");
    }
    assert_eq!(create(&server, "a").await, 200);
}
