//! Every member responds to every request.

use std::sync::Arc;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::member::{TIMEOUT, TestMember, member_settings, writer_and_standby};
use crate::support::bucket::bucket;
use crate::support::table::create_table;

#[tokio::test]
async fn standby_forwards_reads_and_changes_to_the_writer() {
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let standby = TestMember::start(&bucket, "b").await;
    assert_eq!(standby.ready().await, "standby");
    assert_eq!(standby.create_namespace("ns").await, 200);
    assert_eq!(standby.create_namespace("ns").await, 409);
    assert_eq!(standby.set_property("ns", "k", "v").await, 200);
    for member in [&writer, &standby] {
        assert_eq!(member.properties("ns").await, json!({ "k": "v" }));
    }
    let (status, _) = standby.request(Method::HEAD, "/v1/namespaces/ns", None).await;
    assert_eq!(status, 204);
    let (status, body) = standby.request(Method::GET, "/v1/no-such-route", None).await;
    assert_eq!(status, 404, "{body}");
    let (status, server) = standby.request(Method::GET, "/management/v1/server", None).await;
    assert_eq!(status, 200, "{server}");
}

#[tokio::test]
async fn labels_set_through_a_standby_are_shown_by_all_members_and_by_the_next_writer() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    assert_eq!(standby.create_namespace("ns").await, 200);
    for (path, body) in [
        ("/v1/namespaces/ns/tables", create_table("t")),
        ("/management/v1/labels", json!({ "resource": "table:default/ns/t", "set": { "a": "b" } })),
    ] {
        let (status, response) = standby.request(Method::POST, path, Some(&body)).await;
        assert_eq!(status, 200, "{response}");
    }
    let check = async |member: &TestMember| {
        let path = "/v1/namespaces/ns/tables/t";
        let (status, loaded) = member.request(Method::GET, path, None).await;
        assert_eq!(status, 200, "{loaded}");
        assert_eq!(loaded["labels"]["object-labels"], json!({ "a": "b" }));
    };
    check(&writer).await;
    check(&standby).await;
    writer.stop().await;
    standby.wait_for_role("writer").await;
    check(&standby).await;
}

#[tokio::test]
async fn members_report_their_role() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    let (_, ready) = standby.request(Method::GET, "/ready", None).await;
    assert_eq!(ready, json!({ "status": "ready", "role": "standby", "writer": "a" }));
    for (member, role) in [(&writer, "writer"), (&standby, "standby")] {
        let metrics = member.send(Method::GET, "/metrics", None).await.expect("it responds");
        let metrics = metrics.text().await.expect("a body");
        let line = format!("slateberg_cluster_role{{role=\"{role}\"}} 1");
        assert!(metrics.contains(&line), "{role}: {metrics}");
        assert!(metrics.contains("slateberg_cluster_term 1"), "{metrics}");
        let (status, health) = member.request(Method::GET, "/health", None).await;
        assert_eq!((status, health), (200, json!({ "status": "ok" })));
    }
}

#[tokio::test]
async fn standby_observes_the_requests_that_it_forwards() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    let client = reqwest::Client::new();
    let get = async |id: Option<&str>| {
        let request = client.get(format!("{}/management/v1/whoami", standby.uri));
        let request = match id {
            Some(id) => request.header("x-request-id", id),
            None => request,
        };
        let response = request.send().await.expect("it responds");
        assert_eq!(response.status(), 200);
        response.headers()["x-request-id"].to_str().expect("it is text").to_owned()
    };
    assert_eq!(get(Some("my-request")).await, "my-request");
    assert_ne!(get(None).await, get(None).await, "each request gets an id of its own");
    for member in [&standby, &writer] {
        let metrics = member.send(Method::GET, "/metrics", None).await.expect("it responds");
        let metrics = metrics.text().await.expect("a body");
        let counted = metrics.lines().any(|line| {
            line.starts_with("http_server_request_duration_seconds_count")
                && line.contains("http_route=\"/management/v1/whoami\"")
                && line.contains("http_response_status_code=\"200\"")
                && line.ends_with(" 3")
        });
        assert!(counted, "{metrics}");
    }
}

#[tokio::test]
async fn writer_checks_the_host_that_the_client_named() {
    let bucket = bucket();
    let mut settings = member_settings("a");
    settings.server.host_names = vec!["lake.example.com".to_owned()];
    let (_writer, standby) = writer_and_standby(&bucket, settings).await;
    let client = reqwest::Client::new();
    let status = async |host: &str| {
        let request = client.get(format!("{}/management/v1/whoami", standby.uri));
        let request = request.header("host", host);
        request.send().await.expect("it responds").status().as_u16()
    };
    assert_eq!(status("lake.example.com").await, 200);
    assert_eq!(status("evil.example.com").await, 403);
}

#[tokio::test]
async fn client_cannot_forge_the_headers_of_a_forwarded_request() {
    let bucket = bucket();
    let (_writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    let client = reqwest::Client::new();
    let response = client
        .get(format!("{}/v1/namespaces", standby.uri))
        .header("slateberg-forwarded-for", "not an address")
        .header("slateberg-forwarded-certificate", "%%%")
        .send()
        .await
        .expect("it responds");
    assert_eq!(response.status().as_u16(), 200, "the standby replaces these headers");
}

#[tokio::test]
async fn watches_through_a_standby_block_no_other_request() {
    let bucket = bucket();
    let mut settings = member_settings("a");
    settings.server.watchers_per_principal_max = 1_000;
    let (_writer, standby) = writer_and_standby(&bucket, settings).await;
    let client = reqwest::Client::new();
    let mut watches = Vec::new();
    for _ in 0..250 {
        let watch = client.get(format!("{}/management/v1/watch", standby.uri));
        let watch = watch.header("accept", "text/event-stream").send().await;
        let watch = watch.expect("it responds");
        assert_eq!(watch.status().as_u16(), 200);
        watches.push(watch);
    }
    let creating = tokio::time::timeout(TIMEOUT, standby.create_namespace("ns"));
    assert_eq!(creating.await.expect("it is not blocked"), 200);
}

#[tokio::test]
async fn request_target_that_the_writer_would_see_changed_is_rejected() {
    let bucket = bucket();
    let (_writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    let address = standby.uri.trim_start_matches("http://");
    let path = "/management/v1/policies/%2e%2e/api-keys";
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(address).await.expect("the port is open");
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("it responds");
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
}

#[tokio::test]
async fn many_concurrent_requests_are_forwarded() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    let standby = Arc::new(standby);
    let changes = (0..100).map(|number| {
        let standby = Arc::clone(&standby);
        tokio::spawn(async move { standby.create_namespace(&format!("ns{number}")).await })
    });
    for change in changes.collect::<Vec<_>>() {
        assert_eq!(change.await.expect("no panic"), 200);
    }
    let (_, listed) = writer.request(Method::GET, "/v1/namespaces", None).await;
    assert_eq!(listed["namespaces"].as_array().map(Vec::len), Some(100));
}
