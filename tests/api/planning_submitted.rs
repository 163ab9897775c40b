//! Scan plans that take longer than a request waits.

use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::faults::{Fault, FaultStore, Verb};
use crate::support::scan_table::{ScanTable, TABLE, data_file};

/// Number of files whose evaluation takes longer than the server waits.
const MANY: usize = 8000;

/// A table with this number of files, on a server that does not wait for plans. The first read of
/// the manifest list takes some time.
async fn impatient(files: usize) -> (Arc<FaultStore>, ScanTable) {
    let bucket = FaultStore::new(Arc::new(InMemory::new()));
    let mut settings = memory_settings();
    settings.catalog.plan_wait_ms = 0;
    let app = TestApp::with(Arc::clone(&bucket) as Arc<dyn ObjectStore>, settings).await;
    let mut table = ScanTable::on(app, 2).await;
    let files = (0..files).map(|number| data_file(&format!("f{number:05}"), "eu", (1, 10)));
    table.append(1, &files.collect::<Vec<_>>()).await;
    bucket.inject(Verb::Get, "snap-1.avro", Fault::Delay(200..201));
    (bucket, table)
}

/// Submits a plan. Returns the path of its result.
async fn submit(table: &ScanTable) -> String {
    let filter = json!({ "type": "lt", "term": "id", "value": 5 });
    let submitted = table.plan(json!({ "filter": filter })).await.expect(200).body;
    assert_eq!(submitted["status"], "submitted", "{submitted}");
    format!("{TABLE}/plan/{}", submitted["plan-id"].as_str().expect("an id"))
}

/// Asks for a plan until it is no longer submitted.
async fn ended(table: &ScanTable, path: &str) -> TestResponse {
    let ended = async {
        loop {
            let response = table.app.get(path).await;
            if response.body["status"] != "submitted" {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), ended).await.expect("the plan ends")
}

async fn assert_complete(table: &ScanTable, path: &str, files: usize) {
    let result: Value = ended(table, path).await.expect(200).body;
    assert_eq!(result["status"], "completed");
    assert_eq!(table.names_of(&result).len(), files);
}

#[tokio::test]
async fn plan_that_always_takes_longer_than_a_request_waits_completes() {
    let (_bucket, table) = impatient(MANY).await;
    let path = submit(&table).await;
    assert_complete(&table, &path, MANY).await;
    // The plan id stays valid. The server plans the request again.
    assert_eq!(table.app.get(&path).await.expect(200).body, json!({ "status": "submitted" }));
    assert_complete(&table, &path, MANY).await;
}

#[tokio::test]
async fn submitted_plan_completes_after_a_restart() {
    let (_bucket, table) = impatient(2).await;
    let path = submit(&table).await;
    let table = table.restart().await;
    assert_complete(&table, &path, 2).await;
}

#[tokio::test]
async fn error_of_a_submitted_plan_is_its_result() {
    let (bucket, table) = impatient(2).await;
    bucket.inject(Verb::Get, "m1.avro", Fault::Fail);
    let path = submit(&table).await;
    assert_eq!(ended(&table, &path).await.status, 503);
    bucket.lift();
    assert_complete(&table, &path, 2).await;
}

#[tokio::test]
async fn cancelled_plan_stays_cancelled() {
    let (bucket, table) = impatient(2).await;
    let path = submit(&table).await;
    table.app.delete(&path).await.expect(204);
    bucket.lift();
    assert_eq!(ended(&table, &path).await.expect(200).body, json!({ "status": "cancelled" }));
}
