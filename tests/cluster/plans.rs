//! Standbys plan scans themselves.

use reqwest::Method;
use serde_json::{Value, json};

use crate::member::{TestMember, member_settings};
use crate::support::app::TestApp;
use crate::support::bucket::bucket;
use crate::support::scan_table::{ScanTable, TABLE, data_file};

const READS: &str = "slateberg_cluster_replica_reads_total";
/// Number of data files, in manifests of ten thousand. A plan contains only the first ones, and plan
/// tasks for the others.
const FILES: usize = 20_000;

/// Starts a writer and a standby with a replica, on a catalog with a table of many files.
async fn members_with_a_large_table() -> (TestMember, TestMember) {
    let bucket = bucket();
    let mut table = ScanTable::on(TestApp::on(bucket.clone()).await, 2).await;
    let names: Vec<_> = (0..FILES).map(|number| format!("f{number}")).collect();
    let file = |(number, name): (usize, &String)| {
        let id = i64::try_from(number).expect("it is small");
        data_file(name, "eu", (id, id))
    };
    let files: Vec<_> = names.iter().enumerate().map(file).collect();
    for (id, files) in (1..).zip(files.chunks(10_000)) {
        table.append(id, files).await;
    }
    table.app.app.runtime.catalog.close().await.expect("the catalog closes");
    let writer = TestMember::start_with(&bucket, member_settings("a")).await;
    writer.wait_for_role("writer").await;
    let standby = TestMember::start(&bucket, "b").await;
    standby.wait_for_replica().await;
    (writer, standby)
}

async fn post(member: &TestMember, path: &str, body: &Value) -> Value {
    let (status, body) = member.request(Method::POST, &format!("{TABLE}/{path}"), Some(body)).await;
    assert_eq!(status, 200, "{body}");
    body
}

fn files(body: &Value) -> usize {
    body["file-scan-tasks"].as_array().map_or(0, Vec::len)
}

/// Returns the number of files of a plan, with those of all its plan tasks.
async fn all_files(member: &TestMember, plan: &Value) -> usize {
    let mut count = files(plan);
    for task in plan["plan-tasks"].as_array().into_iter().flatten() {
        count += files(&post(member, "tasks", &json!({ "plan-task": task })).await);
    }
    count
}

#[tokio::test]
async fn standby_plans_scans_itself_and_all_members_accept_its_plan_tasks() {
    let (writer, standby) = members_with_a_large_table().await;
    let reads = standby.metric(READS).await;
    let plan = post(&standby, "plan", &json!({})).await;
    assert!(files(&plan) < FILES, "the plan has plan tasks");
    assert_eq!(all_files(&standby, &plan).await, FILES);
    assert_eq!(all_files(&writer, &plan).await, FILES);
    let id = plan["plan-id"].as_str().expect("a plan id");
    let (status, result) = standby.request(Method::GET, &format!("{TABLE}/plan/{id}"), None).await;
    assert_eq!((status, files(&result)), (200, files(&plan)), "{result}");
    let (status, _) = standby.request(Method::DELETE, &format!("{TABLE}/plan/{id}"), None).await;
    assert_eq!(status, 204);
    let requests = 3 + plan["plan-tasks"].as_array().map_or(0, Vec::len);
    assert_eq!(standby.metric(READS).await - reads, requests as u64);

    let plan = post(&writer, "plan", &json!({})).await;
    assert_eq!(all_files(&standby, &plan).await, FILES);
}

#[tokio::test]
async fn writer_keeps_the_long_requests_of_plans() {
    let (_writer, standby) = members_with_a_large_table().await;
    let ids: Vec<_> = (0..1_000).map(|id| id * 2).collect();
    let filter = json!({ "type": "in", "term": "id", "values": ids });
    let reads = standby.metric(READS).await;
    let plan = post(&standby, "plan", &json!({ "filter": filter, "stats-fields": ["id"] })).await;
    assert_eq!(all_files(&standby, &plan).await, 1_000);
    let id = plan["plan-id"].as_str().expect("a plan id");
    let (status, result) = standby.request(Method::GET, &format!("{TABLE}/plan/{id}"), None).await;
    assert_eq!((status, files(&result)), (200, files(&plan)), "{result}");
    assert_eq!(standby.metric(READS).await, reads, "the writer executes these requests");
}
