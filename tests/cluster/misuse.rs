//! Mistakes of operators, and connections of processes that are not members.

use std::sync::Arc;

use object_store::ObjectStoreExt;
use object_store::path::Path;
use reqwest::Method;
use serde_json::json;
use slateberg::app::App;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;

use crate::member::{TestMember, member_settings, within, writer_record};
use crate::support::app::{bucket_opener, memory_settings};
use crate::support::bucket::bucket;

#[tokio::test]
async fn server_outside_of_the_cluster_is_rejected_while_the_writer_runs() {
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let open = async || {
        let opener = bucket_opener(Arc::clone(&bucket));
        let dependencies = Dependencies { opener, ..Dependencies::default() };
        App::build(memory_settings(), dependencies).await
    };
    let rejection = open().await.err().expect("the writer runs");
    assert!(
        matches!(&rejection, BuildError::InCluster { writer, .. } if writer == "a"),
        "{rejection}"
    );
    assert!(rejection.to_string().contains("Stop all members of the cluster first"), "{rejection}");
    assert_eq!(writer.create_namespace("ns").await, 200, "the writer was not fenced");
    drop(writer);
    let app = open().await.expect("the writer has crashed");
    app.runtime.catalog.close().await.expect("it closes");
}

#[tokio::test]
async fn record_of_a_newer_version_is_not_replaced() {
    let bucket = bucket();
    let path = Path::from("state/cluster/writer.json");
    let newer = br#"{ "format": 99 }"#;
    bucket.put(&path, newer.to_vec().into()).await.expect("it is written");
    let member = TestMember::start(&bucket, "a").await;
    tokio::time::sleep(crate::member::LEASE * 2).await;
    let response = member.send(Method::GET, "/ready", None).await.expect("it responds");
    assert_eq!(response.status().as_u16(), 503);
    let content = bucket.get(&path).await.expect("it exists").bytes().await.expect("it is read");
    assert_eq!(content.as_ref(), newer);
}

#[tokio::test]
async fn port_for_members_rejects_other_processes() {
    let bucket = bucket();
    let writer = TestMember::start_with(&bucket, member_settings("a")).await;
    writer.wait_for_role("writer").await;
    let record = writer_record(&bucket).await;
    let url = record["peer"]["url"].as_str().expect("a URL");
    let client =
        reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().expect("a client");
    let rejection = client.get(format!("{url}/v1/namespaces")).send().await;
    assert!(rejection.is_err(), "a client without the certificate of a member: {rejection:?}");
    within("the rejection is counted", async || {
        let response = writer.send(Method::GET, "/metrics", None).await.ok()?;
        let metrics = response.text().await.ok()?;
        let name = "\nslateberg_cluster_rejected_connections_total";
        (metrics.contains(name) && !metrics.contains(&format!("{name} 0"))).then_some(())
    })
    .await;
}

#[tokio::test]
async fn member_with_other_settings_than_the_writer_is_named() {
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let mut settings = member_settings("b");
    settings.catalog.dropped_kept_seconds += 1;
    let standby = TestMember::start_with(&bucket, settings).await;
    standby.wait_for_role("standby").await;
    for (member, different) in [(&writer, 0), (&standby, 1)] {
        let metrics = member.send(Method::GET, "/metrics", None).await.expect("it responds");
        let metrics = metrics.text().await.expect("a body");
        let line = format!("slateberg_cluster_settings_different {different}");
        assert!(metrics.lines().any(|it| it == line), "{metrics}");
    }
    let (_, status) = standby.request(Method::GET, "/management/v1/cluster", None).await;
    let members = status["members"].as_array().expect("members").iter();
    let different: Vec<_> = members.map(|it| (&it["name"], &it["different-settings"])).collect();
    assert_eq!(different, [(&json!("a"), &json!([])), (&json!("b"), &json!(["catalog"]))]);
}
