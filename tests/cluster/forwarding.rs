//! Every member responds to every request.

use std::sync::Arc;

use reqwest::Method;
use serde_json::json;

use crate::member::TestMember;
use crate::support::bucket::bucket;

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
async fn members_report_their_role() {
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let standby = TestMember::start(&bucket, "b").await;
    standby.wait_for_role("standby").await;
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
async fn writer_checks_the_host_that_the_client_named() {
    let bucket = bucket();
    let mut settings = crate::member::member_settings("a");
    settings.server.host_names = vec!["lake.example.com".to_owned()];
    let writer = TestMember::start_with(&bucket, settings).await;
    writer.wait_for_role("writer").await;
    let standby = TestMember::start(&bucket, "b").await;
    standby.wait_for_role("standby").await;
    let client = reqwest::Client::new();
    let status = async |host: &str| {
        let request = client.get(format!("{}/v1/namespaces", standby.uri)).header("host", host);
        request.send().await.expect("it responds").status().as_u16()
    };
    assert_eq!(status("lake.example.com").await, 200);
    assert_eq!(status("evil.example.com").await, 403);
}

#[tokio::test]
async fn client_cannot_forge_the_headers_of_a_forwarded_request() {
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let standby = TestMember::start(&bucket, "b").await;
    standby.wait_for_role("standby").await;
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
async fn many_concurrent_requests_are_forwarded() {
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let standby = Arc::new(TestMember::start(&bucket, "b").await);
    standby.wait_for_role("standby").await;
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
