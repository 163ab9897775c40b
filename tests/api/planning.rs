//! Scan planning: which files a client has to read.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::faults::{Fault, FaultStore, Verb};
use crate::support::scan_table::{Content, ScanFile, ScanTable, TABLE, data_file};
use crate::support::served_app::ServedApp;
use crate::support::table::{create_table, set_property};

const INVALID: &str = "IllegalArgumentException";
const VALIDATION: &str = "ValidationException";
const NO_PLAN: &str = "NoSuchPlanIdException";
const NO_TASK: &str = "NoSuchPlanTaskException";
const NOT_PLANNABLE: &str = "UnsupportedOperationException";

fn eq(column: &str, value: impl Into<Value>) -> Value {
    json!({ "type": "eq", "term": column, "value": value.into() })
}

fn and(left: Value, right: Value) -> Value {
    json!({ "type": "and", "left": left, "right": right })
}

/// A table with files of two regions, in one manifest each.
async fn two_regions() -> ScanTable {
    let mut table = ScanTable::new(2).await;
    let eu = [data_file("eu-1", "eu", (1, 10)), data_file("eu-2", "eu", (11, 20))];
    table.append(1, &eu).await;
    table.append(2, &[data_file("us-1", "us", (1, 20))]).await;
    table
}

impl ScanTable {
    async fn tasks(&self, plan_task: &str) -> TestResponse {
        self.app.post(&format!("{TABLE}/tasks"), json!({ "plan-task": plan_task })).await
    }

    async fn plan_id(&self, request: Value) -> String {
        let plan = self.plan(request).await.expect(200);
        plan.body["plan-id"].as_str().expect("a plan id").to_owned()
    }
}

#[tokio::test]
async fn plan_without_a_filter_has_all_files_with_their_fields() {
    let table = two_regions().await;
    let plan = table.plan(json!({})).await.expect(200).body;
    assert_eq!(table.names_of(&plan), ["eu-1", "eu-2", "us-1"]);
    assert_eq!(plan["status"], "completed");
    assert!(plan["plan-id"].is_string());
    for absent in ["plan-tasks", "delete-files", "storage-credentials"] {
        assert!(plan.get(absent).is_none(), "{absent}: {plan}");
    }
    let expected = json!({
        "data-file": {
            "spec-id": 0, "partition": ["eu", "1970-01-01"], "content": "data",
            "file-path": table.at("eu-1"), "file-format": "parquet",
            "file-size-in-bytes": 4096, "record-count": 10, "split-offsets": [4],
            "sort-order-id": 0,
        },
        "residual-filter": true,
    });
    assert_eq!(plan["file-scan-tasks"][0], expected);
}

#[tokio::test]
async fn statistics_are_sent_only_for_the_requested_columns() {
    let table = two_regions().await;
    let request = json!({ "stats-fields": ["id", "id", "nothing", "score"], "select": ["_file"] });
    let plan = table.plan(request).await.expect(200).body;
    let file = &plan["file-scan-tasks"][1]["data-file"];
    assert_eq!(file["value-counts"], json!({ "keys": [1], "values": [10] }));
    assert_eq!(file["null-value-counts"], json!({ "keys": [1], "values": [0] }));
    assert_eq!(file["lower-bounds"], json!({ "keys": [1], "values": ["0B00000000000000"] }));
    assert_eq!(file["upper-bounds"], json!({ "keys": [1], "values": ["1400000000000000"] }));
    assert!(file.get("nan-value-counts").is_none(), "{file}");
    let request = json!({ "stats-fields": ["ID"], "case-sensitive": false });
    let plan = table.plan(request).await.expect(200).body;
    assert!(plan["file-scan-tasks"][0]["data-file"].get("lower-bounds").is_some());
}

#[tokio::test]
async fn files_are_pruned_by_partition_and_by_statistics() {
    let table = two_regions().await;
    assert_eq!(table.names(eq("region", "us")).await, ["us-1"]);
    assert_eq!(table.names(eq("id", 15)).await, ["eu-2", "us-1"]);
    assert_eq!(table.names(and(eq("region", "eu"), eq("id", 15))).await, ["eu-2"]);
    assert_eq!(table.names(eq("region", "asia")).await, [] as [&str; 0]);
    assert_eq!(table.names(json!(false)).await, [] as [&str; 0]);
    let later = json!({ "type": "gt", "term": "ts", "value": "1970-01-02T00:00:00+00:00" });
    assert_eq!(table.names(later).await, [] as [&str; 0]);
    let insensitive = json!({ "filter": eq("REGION", "us"), "case-sensitive": false });
    let plan = table.plan(insensitive).await.expect(200);
    assert_eq!(table.names_of(&plan.body), ["us-1"]);
}

#[tokio::test]
async fn residual_filter_has_only_what_the_partition_does_not_decide() {
    let table = two_regions().await;
    let filter = and(eq("region", "eu"), eq("id", 15));
    let plan = table.plan(json!({ "filter": filter })).await.expect(200).body;
    assert_eq!(plan["file-scan-tasks"][0]["residual-filter"], eq("id", 15));
    let plan = table.plan(json!({ "filter": eq("region", "eu") })).await.expect(200).body;
    assert_eq!(plan["file-scan-tasks"][0]["residual-filter"], json!(true));
    let literal = json!({ "filter": { "type": "literal", "value": true } });
    let plan = table.plan(literal).await.expect(200).body;
    assert_eq!(plan["file-scan-tasks"][2]["residual-filter"], json!(true));
}

#[tokio::test]
async fn deleted_files_are_left_out_and_existing_ones_remain() {
    let mut table = ScanTable::new(2).await;
    let deleted = ScanFile { status: 2, ..data_file("gone", "eu", (1, 1)) };
    let existing =
        ScanFile { status: 0, sequence_number: Some(1), ..data_file("old", "eu", (1, 1)) };
    table.append(1, &[existing, deleted, data_file("new", "eu", (1, 1))]).await;
    assert_eq!(table.names(json!(true)).await, ["old", "new"]);
}

#[tokio::test]
async fn delete_files_are_listed_once_and_referenced_by_position() {
    let mut table = two_regions().await;
    let eu_1 = table.at("eu-1");
    let deletes = [
        ScanFile { content: Content::Ids, ..data_file("by-id", "eu", (12, 12)) },
        ScanFile { content: Content::Positions(None), ..data_file("in-us", "us", (1, 1)) },
        ScanFile { content: Content::Positions(Some(eu_1)), ..data_file("in-1", "eu", (1, 1)) },
        ScanFile { content: Content::Ids, ..data_file("unused", "asia", (1, 1)) },
    ];
    table.commit(3, "overwrite", &[&deletes, &[data_file("eu-3", "eu", (12, 12))]]).await;
    let plan = table.plan(json!({})).await.expect(200).body;
    assert_eq!(table.names_of(&plan), ["eu-1", "eu-2", "us-1", "eu-3"]);
    let listed = plan["delete-files"].as_array().expect("delete files");
    let names: Vec<_> = listed.iter().map(|file| file["file-path"].as_str()).collect();
    assert_eq!(
        names,
        ["in-1", "by-id", "in-us"]
            .map(|name| Some(table.at(name)))
            .iter()
            .map(|name| name.as_deref())
            .collect::<Vec<_>>()
    );
    assert_eq!(listed[0]["content"], "position-deletes");
    assert_eq!(listed[1]["content"], "equality-deletes");
    assert_eq!(listed[1]["equality-ids"], json!([1]));
    assert!(listed[0].get("lower-bounds").is_none());
    let references = |at: usize| plan["file-scan-tasks"][at]["delete-file-references"].clone();
    assert_eq!(references(0), json!([0]), "the ids of the equality deletes are others");
    assert_eq!(references(1), json!([1]));
    assert_eq!(references(2), json!([2]));
    assert_eq!(references(3), Value::Null, "it is as new as the deletes");
    let plan = table.plan(json!({ "filter": eq("region", "us") })).await.expect(200).body;
    assert_eq!(plan["delete-files"].as_array().map(Vec::len), Some(1), "{plan}");
}

#[tokio::test]
async fn deletion_vectors_and_row_ids_are_sent_for_format_version_3() {
    let mut table = ScanTable::new(3).await;
    let files = [data_file("eu-1", "eu", (1, 10)), data_file("eu-2", "eu", (1, 10))];
    table.append(1, &files).await;
    let vector = Content::Vector(table.at("eu-2"));
    let vector = ScanFile { content: vector, ..data_file("dv.puffin", "eu", (1, 1)) };
    table.commit(2, "overwrite", &[&[vector]]).await;
    let plan = table.plan(json!({})).await.expect(200).body;
    let id = |at: usize| plan["file-scan-tasks"][at]["data-file"]["first-row-id"].clone();
    assert_eq!([id(0), id(1)], [json!(0), json!(10)]);
    let vector = &plan["delete-files"][0];
    assert_eq!(vector["file-format"], "puffin");
    assert_eq!(vector["referenced-data-file"], table.at("eu-2"));
    assert_eq!(
        (&vector["content-offset"], &vector["content-size-in-bytes"]),
        (&json!(4), &json!(44))
    );
    assert!(plan["file-scan-tasks"][0].get("delete-file-references").is_none());
    assert_eq!(plan["file-scan-tasks"][1]["delete-file-references"], json!([0]));
}

#[tokio::test]
async fn earlier_snapshots_and_ranges_are_scanned() {
    let mut table = two_regions().await;
    table.commit(3, "overwrite", &[&[data_file("eu-3", "eu", (1, 1))]]).await;
    table.append(4, &[data_file("eu-4", "eu", (1, 1))]).await;
    let names = async |request: Value| table.names_of(&table.plan(request).await.expect(200).body);
    assert_eq!(names(json!({ "snapshot-id": 1 })).await, ["eu-1", "eu-2"]);
    let range =
        |start: i64, end: i64| json!({ "start-snapshot-id": start, "end-snapshot-id": end });
    assert_eq!(names(range(1, 2)).await, ["us-1"]);
    assert_eq!(names(range(1, 4)).await, ["us-1", "eu-4"], "only appends");
    for (request, message) in [
        (json!({ "snapshot-id": 9 }), "Cannot find snapshot with ID 9"),
        (range(2, 1), "Starting snapshot (exclusive) 2 is not a parent ancestor of end snapshot 1"),
        (
            json!({ "start-snapshot-id": 1 }),
            "Invalid incremental scan: startSnapshotId and endSnapshotId is required",
        ),
        (
            json!({ "end-snapshot-id": 1 }),
            "Invalid incremental scan: startSnapshotId and endSnapshotId is required",
        ),
        (
            json!({ "snapshot-id": 1, "start-snapshot-id": 1 }),
            "Invalid scan: cannot provide both snapshotId and startSnapshotId/endSnapshotId",
        ),
        (json!({ "min-rows-requested": -1 }), "Invalid scan: min-rows-requested is negative"),
    ] {
        let error = table.plan(request.clone()).await.expect_error(400, INVALID);
        assert_eq!(error.message(), message, "{request}");
    }
}

#[tokio::test]
async fn table_without_a_snapshot_has_an_empty_plan() {
    let table = ScanTable::new(2).await;
    let plan = table.plan(json!({})).await.expect(200).body;
    assert_eq!((&plan["status"], &plan["file-scan-tasks"]), (&json!("completed"), &json!([])));
    table
        .app
        .get(&format!("{TABLE}/plan/{}", plan["plan-id"].as_str().expect("an id")))
        .await
        .expect(200);
}

#[tokio::test]
async fn invalid_filter_is_rejected() {
    let table = two_regions().await;
    let deep = (0..100).fold(json!(true), |inner, _| json!({ "type": "not", "child": inner }));
    for filter in [
        Value::Null,
        json!("id"),
        json!({ "type": "eq", "term": "id" }),
        json!({ "type": "nothing" }),
        eq("id", "text"),
        json!({ "type": "is-nan", "term": "id" }),
        deep,
    ] {
        let response = table.plan(json!({ "filter": filter })).await;
        assert_eq!(response.status, 400, "{filter}: {}", response.body);
        assert!(response.is_error_model());
    }
    let error = table.plan(json!({ "filter": eq("other", 1) })).await.expect_error(400, VALIDATION);
    assert!(
        error.message().starts_with("Cannot find field 'other' in struct"),
        "{}",
        error.message()
    );
    for body in [json!([]), json!({ "select": "id" }), json!({ "snapshot-id": "1" })] {
        assert_eq!(table.plan(body).await.status, 400);
    }
}

#[tokio::test]
async fn unknown_table_is_reported() {
    let table = two_regions().await;
    let other = TABLE.replace("tables/t", "tables/other");
    for (method, path) in [
        (Method::POST, format!("{other}/plan")),
        (Method::GET, format!("{other}/plan/AQ")),
        (Method::DELETE, format!("{other}/plan/AQ")),
        (Method::POST, format!("{other}/tasks")),
    ] {
        let body = json!({ "plan-task": "AQ" });
        let response = table.app.request(method, &path, &[], &body).await;
        response.expect_error(404, "NoSuchTableException");
    }
}

#[tokio::test]
async fn result_of_a_plan_is_available_until_it_is_cancelled() {
    let table = two_regions().await;
    let id = table.plan_id(json!({ "filter": eq("region", "us") })).await;
    let other = table.plan_id(json!({ "filter": eq("region", "us") })).await;
    assert_ne!(id, other, "each plan has its own id");
    let path = format!("{TABLE}/plan/{id}");
    let result = table.app.get(&path).await.expect(200).body;
    assert_eq!(table.names_of(&result), ["us-1"]);
    assert!(result.get("plan-id").is_none(), "{result}");
    let credentials = format!("{TABLE}/credentials?planId={id}");
    table.app.get(&credentials).await.expect(200);
    table.app.delete(&path).await.expect(204);
    assert_eq!(table.app.get(&path).await.expect(200).body, json!({ "status": "cancelled" }));
    table.app.delete(&path).await.expect(204);
    table.app.get(&format!("{TABLE}/plan/{other}")).await.expect(200);
}

#[tokio::test]
async fn plan_contains_the_snapshot_that_was_current() {
    let mut table = two_regions().await;
    let id = table.plan_id(json!({})).await;
    table.append(3, &[data_file("new", "eu", (1, 1))]).await;
    let result = table.app.get(&format!("{TABLE}/plan/{id}")).await.expect(200).body;
    assert_eq!(table.names_of(&result), ["eu-1", "eu-2", "us-1"]);
}

#[tokio::test]
async fn forged_tokens_do_not_exist() {
    let table = two_regions().await;
    let id = table.plan_id(json!({ "filter": eq("region", "us") })).await;
    let truncated = &id[..id.len() - 8];
    for id in ["AQ", "%20", "x", truncated, &"A".repeat(4000)] {
        let path = format!("{TABLE}/plan/{id}");
        table.app.get(&path).await.expect_error(404, NO_PLAN);
        table.tasks(id).await.expect_error(404, NO_TASK);
    }
    table.app.delete(&format!("{TABLE}/plan/AQ")).await.expect_error(404, NO_PLAN);
    table.tasks(&id).await.expect_error(404, NO_TASK);
    table.app.create_table("ns", "other").await;
    let other = TABLE.replace("tables/t", "tables/other");
    table.app.get(&format!("{other}/plan/{id}")).await.expect_error(404, NO_PLAN);
}

/// A table with one manifest of this number of files.
async fn many_files(count: usize) -> ScanTable {
    let mut table = ScanTable::new(2).await;
    let file = |number: usize| {
        let id = i64::try_from(number).expect("they are few");
        data_file(&format!("f{number:05}"), "eu", (id, id))
    };
    let files: Vec<_> = (0..count).map(file).collect();
    table.append(1, &files).await;
    table
}

#[tokio::test]
async fn large_scan_is_divided_into_plan_tasks_that_survive_a_restart() {
    let table = many_files(40_000).await;
    let plan = table.plan(json!({})).await.expect(200).body;
    let mut names = table.names_of(&plan);
    let tasks: Vec<_> = plan["plan-tasks"].as_array().expect("plan tasks").clone();
    assert_eq!((names.len(), tasks.len()), (8000, 4));
    let table = table.restart().await;
    for task in &tasks {
        let task = task.as_str().expect("a text");
        let first = table.tasks(task).await.expect(200).body;
        let second = table.tasks(task).await.expect(200).body;
        assert_eq!(first, second);
        assert!(first.get("plan-tasks").is_none() && first.get("delete-files").is_none());
        let tasks = first["file-scan-tasks"].as_array().expect("tasks");
        let path = |task: &Value| task["data-file"]["file-path"].as_str().map(ToOwned::to_owned);
        names.extend(tasks.iter().map(|task| path(task).expect("a path")));
    }
    let numbers: Vec<_> = names.iter().map(|name| &name[name.len() - 5..]).collect();
    assert!(numbers.is_sorted() && numbers.len() == 40_000, "{}", numbers.len());
    table.app.delete(TABLE).await.expect(204);
    let task = tasks[0].as_str().expect("a text");
    table.tasks(task).await.expect_error(404, "NoSuchTableException");
}

#[tokio::test]
async fn selective_scan_of_cached_manifests_has_no_plan_tasks() {
    let table = many_files(20_000).await;
    let filter = json!({ "filter": eq("id", 19_000) });
    let cold = table.plan(filter.clone()).await.expect(200).body;
    assert_eq!(table.names_of(&cold), ["f19000"], "all ranges are in one manifest");
    assert!(cold.get("plan-tasks").is_none());
    let enough = json!({ "min-rows-requested": 15 });
    let plan = table.plan(enough).await.expect(200).body;
    assert!(plan.get("plan-tasks").is_none(), "the first files have enough rows");
}

#[tokio::test]
async fn long_filter_is_stored_and_its_plan_tasks_end_with_the_server() {
    let table = many_files(10_000).await;
    let values: Vec<_> = (0..9_999).collect();
    let request = json!({ "filter": { "type": "in", "term": "id", "values": values } });
    let plan = table.plan(request).await.expect(200).body;
    let task = plan["plan-tasks"][0].as_str().expect("plan tasks").to_owned();
    assert!(task.len() < 300, "{task}");
    let files = table.tasks(&task).await.expect(200).body;
    assert!(!files["file-scan-tasks"].as_array().expect("tasks").is_empty());
    let table = table.restart().await;
    table.tasks(&task).await.expect_error(404, NO_TASK);
}

#[tokio::test]
async fn manifests_of_other_tables_are_not_read() {
    let mut table = two_regions().await;
    let app = &table.app;
    let foreign = "memory:///warehouse/ns/other/m.avro";
    app.put_file(foreign, "secret").await;
    let list = table.snapshot(3, "append", "memory:///warehouse/ns/other/list.avro");
    table.commit_snapshot(list).await.expect(200);
    table.plan(json!({})).await.expect_error(406, NOT_PLANNABLE);
    let mut table = two_regions().await;
    table.write_manifest(3, &[data_file("new", "eu", (1, 1))]).await;
    table.set("manifest_path", apache_avro::types::Value::String(foreign.to_owned()));
    table.commit_list(3, "append").await;
    let error = table.plan(json!({ "filter": eq("region", "us") })).await;
    let error = error.expect_error(406, NOT_PLANNABLE);
    assert!(
        error.message().contains("outside of the table's own locations"),
        "{}",
        error.message()
    );
}

#[tokio::test]
async fn encrypted_manifest_is_left_to_the_client() {
    use apache_avro::types::Value as Avro;
    let mut table = ScanTable::new(2).await;
    table.write_manifest(1, &[data_file("new", "eu", (1, 1))]).await;
    table.set("key_metadata", Avro::Union(1, Box::new(Avro::Bytes(vec![1]))));
    table.commit_list(1, "append").await;
    table.plan(json!({})).await.expect_error(406, NOT_PLANNABLE);
}

#[tokio::test]
async fn damaged_table_is_reported_with_the_name_of_the_file() {
    let mut table = two_regions().await;
    let manifest = table.at("metadata/m2.avro");
    table.app.put_file(&manifest, "Obj").await;
    for _ in 0..2 {
        let error = table.plan(json!({})).await.expect_error(400, VALIDATION);
        assert!(error.message().contains("metadata/m2.avro"), "{}", error.message());
    }
    assert_eq!(table.names(eq("region", "eu")).await, ["eu-1", "eu-2"], "it is not needed");
    let missing = table.snapshot(3, "append", &table.at("metadata/none.avro"));
    table.commit_snapshot(missing).await.expect(200);
    table.plan(json!({})).await.expect_error(400, VALIDATION);
}

/// Permissions in addition to those of the default roles.
const POLICIES: &str = r#"
@id("looks")
permit (principal in Role::"looks", action in [Action::"Browse", Action::"Load"], resource);
@id("part")
@row_filter("{\"type\": \"eq\", \"term\": \"id\", \"value\": 1}")
permit (principal in Role::"part", action in [Action::"Browse", Action::"Load"], resource);
@id("part-data")
permit (principal in Role::"part", action in [Action::"ReadConfig", Action::"ReadData"], resource);
"#;

#[tokio::test]
async fn only_readers_of_all_rows_get_plans_and_tasks() {
    let app = TestApp::with_policies(POLICIES, |_| {}).await;
    let mut table = ScanTable::on(app, 2).await;
    table.append(1, &[data_file("eu-1", "eu", (1, 10))]).await;
    let id = table.plan_id(json!({})).await;
    for (role, status) in [("reader", 200), ("looks", 403), ("part", 403), ("nobody", 403)] {
        let key = table.app.key_with_role(role).await;
        let plan = json!({ "filter": eq("id", 1) });
        for (method, path, body) in [
            (Method::POST, format!("{TABLE}/plan"), plan),
            (Method::GET, format!("{TABLE}/plan/{id}"), Value::Null),
            (Method::POST, format!("{TABLE}/tasks"), json!({ "plan-task": id })),
            (Method::DELETE, format!("{TABLE}/plan/{id}"), Value::Null),
        ] {
            let expected = match (status, &method, path.ends_with("tasks")) {
                (200, _, true) => 404,
                (200, method, _) if *method == Method::DELETE => 204,
                _ => status,
            };
            let response = table.app.request_as(&key, method.clone(), &path, &body).await;
            assert_eq!(response.status, expected, "{role} {method}: {}", response.body);
        }
    }
}

#[tokio::test]
async fn endpoints_of_scan_planning_are_advertised() {
    let app = TestApp::new().await;
    let config = app.get("/v1/config").await.expect(200).body;
    let endpoints = config["endpoints"].as_array().expect("a list");
    let table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}";
    for endpoint in [
        format!("POST {table}/plan"),
        format!("GET {table}/plan/{{plan-id}}"),
        format!("DELETE {table}/plan/{{plan-id}}"),
        format!("POST {table}/tasks"),
    ] {
        assert!(endpoints.contains(&json!(endpoint)), "{endpoint}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scan_is_explained_on_the_command_line() {
    let mut table = two_regions().await;
    let deletes = ScanFile { content: Content::Ids, ..data_file("by-id", "us", (1, 1)) };
    table.commit(3, "overwrite", &[&[deletes]]).await;
    let explain = "/management/v1/scans/explain";
    let request = |filter: Value| json!({ "resource": "table:default/ns/t", "filter": filter });
    let filter = and(eq("region", "us"), eq("id", 1));
    let explained = table.app.post(explain, request(filter)).await.expect(200).body;
    let expected = json!({
        "files": 1, "bytes": 4096, "rows": 10, "delete-files": 1, "delete-bytes": 4096,
        "manifests": 2, "manifests-pruned": 1, "delete-manifests": 1,
        "files-pruned-by-partition": 0, "files-pruned-by-statistics": 0,
    });
    assert_eq!(explained, expected);
    let explained = table.app.post(explain, request(eq("id", 15))).await.expect(200).body;
    assert_eq!(explained["files-pruned-by-statistics"], 1);
    table.app.post(explain, request(eq("other", 1))).await.expect_error(400, VALIDATION);
    let view = json!({ "resource": "view:default/ns/t" });
    table.app.post(explain, view).await.expect_error(400, INVALID);

    let served = ServedApp::start(table.app).await;
    let plan = async |filter: &'static str| {
        served.run(&["plan", "default/ns/t", "--filter", filter]).await
    };
    let output = plan("region = 'eu' and id > 15").await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("files to read        1, 4.0 KiB"), "{text}");
    assert!(text.contains("2, 1 pruned by the filter on partitions"), "{text}");
    assert!(text.contains("2, 0 pruned by partition, 1 pruned by statistics"), "{text}");
    let output = plan("other = 1").await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("Cannot find field 'other'"));
}

#[tokio::test]
async fn load_returns_the_planning_mode_of_the_table_or_of_its_warehouse() {
    let mode = |response: &TestResponse| response.body["config"]["scan-planning-mode"].clone();
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let mut body = create_table("t");
    body["properties"] = json!({ "slateberg.scan-planning-mode": "server" });
    let created = app.post("/v1/namespaces/ns/tables", body).await.expect(200);
    assert_eq!(mode(&created), "server");
    let table = "/v1/namespaces/ns/tables/t";
    let first = app.get(table).await.expect(200);
    assert_eq!(mode(&first), "server");
    let set = |value: &str| vec![set_property("slateberg.scan-planning-mode", value)];
    app.commit("ns", "t", vec![], set("client")).await.expect(200);
    assert_eq!(mode(&app.get(table).await.expect(200)), "client");
    app.commit("ns", "t", vec![], set("unknown")).await.expect(200);
    assert_eq!(mode(&app.get(table).await.expect(200)), Value::Null);

    let warehouse = |overrides: Value| json!({ "storage": { "location": "memory:///lake" }, "client-overrides": overrides });
    let mut lake = warehouse(json!({}));
    lake["name"] = json!("lake");
    app.post("/management/v1/warehouses", lake).await.expect(201);
    app.post("/v1/lake/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    app.post("/v1/lake/namespaces/ns/tables", create_table("t")).await.expect(200);
    let table = "/v1/lake/namespaces/ns/tables/t";
    let before = app.get(table).await.expect(200);
    assert_eq!(mode(&before), Value::Null);
    let changed = warehouse(json!({ "scan-planning-mode": "server" }));
    app.request(Method::PUT, "/management/v1/warehouses/lake", &[], &changed).await.expect(200);
    let tag = before.header("etag").to_owned();
    let after = app.request(Method::GET, table, &[("If-None-Match", &tag)], &Value::Null).await;
    assert_eq!(mode(&after.expect(200)), "server");
}

#[tokio::test]
async fn clients_plan_scans_of_tables_that_the_server_cannot_plan() {
    let mode =
        |response: TestResponse| response.expect(200).body["config"]["scan-planning-mode"].clone();
    let by_server = set_property("slateberg.scan-planning-mode", "server");
    let mut table = ScanTable::new(2).await;
    table.append(1, &[data_file("a", "eu", (1, 10))]).await;
    table.app.commit("ns", "t", vec![], vec![by_server.clone()]).await.expect(200);
    assert_eq!(mode(table.app.get(TABLE).await), "server");
    let moved = json!({ "action": "set-location", "location": table.at("moved") });
    table.app.commit("ns", "t", vec![], vec![moved]).await.expect(200);
    assert_eq!(mode(table.app.get(TABLE).await), "client");
    table.plan(json!({})).await.expect_error(406, NOT_PLANNABLE);

    let app = TestApp::with_table().await;
    app.commit("ns", "t", vec![], vec![by_server]).await.expect(200);
    assert_eq!(mode(app.get(TABLE).await), "server");
    let upgrade = json!({ "action": "upgrade-format-version", "format-version": 4 });
    app.commit("ns", "t", vec![], vec![upgrade]).await.expect(200);
    assert_eq!(mode(app.get(TABLE).await), "client");
}

#[tokio::test]
async fn manifests_of_a_commit_are_cached_before_the_next_plan() {
    let mut table = ScanTable::new(2).await;
    table.append(1, &[data_file("a", "eu", (1, 10))]).await;
    let filter = json!({ "filter": eq("id", 5) });
    table.plan(filter.clone()).await.expect(200);
    table.append(2, &[data_file("b", "eu", (1, 10))]).await;
    let misses = async || {
        let metrics = table.app.get("/metrics").await.expect(200);
        let metrics = metrics.body.as_str().expect("a text").to_owned();
        let name = r#"slateberg_manifest_cache_requests_total{result="miss"}"#;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.expect("the metric").trim().parse::<u64>().expect("a number")
    };
    let after_the_plan = misses().await;
    // The list and the manifest of the commit.
    let warmed = async {
        while misses().await < after_the_plan + 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), warmed).await.expect("the server reads them");
    // A miss is counted before the manifest is read.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let plan = table.plan(filter).await.expect(200).body;
    assert_eq!(table.names_of(&plan), ["a", "b"]);
    assert_eq!(misses().await, after_the_plan + 2, "the plan read no further file");
}

#[tokio::test]
async fn slow_plan_is_submitted_and_its_result_can_be_fetched() {
    let bucket = FaultStore::new(Arc::new(InMemory::new()));
    let mut settings = memory_settings();
    settings.catalog.plan_wait_ms = 50;
    let app = TestApp::with(Arc::clone(&bucket) as Arc<dyn ObjectStore>, settings).await;
    let mut table = ScanTable::on(app, 2).await;
    table.append(1, &[data_file("a", "eu", (1, 10))]).await;
    bucket.inject(Verb::Get, "snap-1.avro", Fault::Hang);
    let submitted = table.plan(json!({ "filter": eq("id", 5) })).await.expect(200);
    assert_eq!(submitted.body["status"], "submitted");
    assert_eq!(submitted.header("retry-after"), "1");
    assert_eq!(submitted.body.as_object().expect("an object").len(), 2, "{}", submitted.body);
    let id = submitted.body["plan-id"].as_str().expect("an id");
    let result = format!("{TABLE}/plan/{id}");
    let waiting = table.app.get(&result).await.expect(200);
    assert_eq!(waiting.body, json!({ "status": "submitted" }));
    let pyiceberg = &[("User-Agent", "PyIceberg/0.12.0")];
    let path = format!("{TABLE}/plan");
    let body = json!({ "filter": eq("id", 5) });
    let patient = table.app.request(Method::POST, &path, pyiceberg, &body);
    let lifted = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        bucket.lift();
    };
    let (patient, ()) = tokio::join!(patient, lifted);
    assert_eq!(table.names_of(&patient.expect(200).body), ["a"]);
    let complete = table.app.get(&result).await.expect(200);
    assert_eq!(complete.body["status"], "completed");
    assert_eq!(table.names_of(&complete.body), ["a"]);
    assert_eq!(bucket.count(Verb::Get, "snap-1.avro"), 1, "the reads of the list were joined");
    table.app.delete(&result).await.expect(204);
    assert_eq!(table.app.get(&result).await.expect(200).body["status"], "cancelled");
}
