//! Principals that may read those files in which their row filter permits every row.

use axum::http::Method;
use serde_json::{Value, json};
use slateberg_model::warehouse::Delegation;

use crate::support::app::TestApp;
use crate::support::scan_table::{Content, ScanFile, ScanTable, TABLE, data_file};
use crate::support::sts::TestSts;

/// Roles with row filters. The region is a partition value, and the ids are in the statistics.
const POLICIES: &str = r#"
@id("region")
@row_filter("{\"type\": \"eq\", \"term\": \"region\", \"value\": \"eu\"}")
permit (principal in Role::"region", action in Action::"Read", resource);
@id("region-files")
permit (principal in Role::"region", action == Action::"ReadPermittedFiles", resource);

@id("ids")
@row_filter("{\"type\": \"lt\", \"term\": \"id\", \"value\": 15}")
permit (principal in Role::"ids",
        action in [Action::"Read", Action::"ReadPermittedFiles"], resource);

@id("both")
@row_filter("{\"type\": \"and\",
    \"left\": {\"type\": \"eq\", \"term\": \"region\", \"value\": \"eu\"},
    \"right\": {\"type\": \"lt\", \"term\": \"id\", \"value\": 15}}")
permit (principal in Role::"both",
        action in [Action::"Read", Action::"ReadPermittedFiles"], resource);

@id("masking")
@row_filter("{\"type\": \"eq\", \"term\": \"region\", \"value\": \"eu\"}")
@column_mask("score: replace-with-null")
permit (principal in Role::"masking",
        action in [Action::"Read", Action::"ReadPermittedFiles"], resource);

@id("no-data")
@row_filter("{\"type\": \"eq\", \"term\": \"region\", \"value\": \"eu\"}")
permit (principal in Role::"no-data",
        action in [Action::"Browse", Action::"Load", Action::"ReadPermittedFiles"], resource);

@id("unnamed")
@row_filter("{\"type\": \"eq\", \"term\": \"region\", \"value\": \"eu\"}")
permit (principal in Role::"unnamed", action, resource);
"#;

async fn table_with(files: &[ScanFile]) -> ScanTable {
    let mut table = ScanTable::on(TestApp::with_policies(POLICIES, |_| {}).await, 3).await;
    table.append(1, files).await;
    table
}

/// Files of two regions. All rows of `eu-1` have ids below 15, and none of the others has.
async fn table() -> ScanTable {
    let files = [("eu-1", "eu", (1, 10)), ("eu-2", "eu", (21, 30)), ("us-1", "us", (31, 40))];
    table_with(&files.map(|(name, region, ids)| data_file(name, region, ids))).await
}

fn compare(comparison: &str, value: i64) -> Value {
    json!({ "type": comparison, "term": "id", "value": value })
}

#[tokio::test]
async fn plan_has_the_files_that_the_row_filter_permits_by_partition_or_statistics() {
    let table = table().await;
    assert_eq!(table.names_as("region", json!({})).await, ["eu-1", "eu-2"]);
    assert_eq!(table.names_as("ids", json!({})).await, ["eu-1"]);
    assert_eq!(table.names_as("both", json!({})).await, ["eu-1"]);
    assert_eq!(table.names(json!(true)).await, ["eu-1", "eu-2", "us-1"], "admins read all");
}

#[tokio::test]
async fn filter_of_the_client_prunes_permitted_files_and_is_the_only_residual() {
    let table = table().await;
    let request = json!({ "filter": compare("gt", 5), "stats-fields": ["id"] });
    let plan = table.plan_as("ids", request).await.expect(200).body;
    let task = &plan["file-scan-tasks"][0];
    assert_eq!(task["residual-filter"], compare("gt", 5));
    assert!(task["data-file"]["lower-bounds"].is_object(), "{task}");
    assert_eq!(table.names_as("region", json!({ "filter": compare("gt", 15) })).await, ["eu-2"]);
    assert_eq!(
        table.names_as("region", json!({ "filter": compare("gt", 30) })).await,
        [] as [&str; 0]
    );
}

#[tokio::test]
async fn snapshot_with_a_mixed_file_is_not_planned_whatever_the_filter_of_the_client() {
    let mut table = table().await;
    table.append(2, &[data_file("mixed", "eu", (11, 20))]).await;
    for filter in [json!(true), json!(false), compare("lt", 5), compare("gt", 35)] {
        let plan = table.plan_as("ids", json!({ "filter": filter })).await;
        let error = plan.expect_error(403, "ForbiddenException");
        assert!(error.message().contains("a file may contain"), "{}", error.message());
    }
    assert_eq!(table.names_as("region", json!({})).await, ["eu-1", "eu-2", "mixed"]);
    let before = json!({ "snapshot-id": 1 });
    let plan = table.plan_as("ids", before).await.expect(200).body;
    assert_eq!(table.names_of(&plan), ["eu-1"], "this snapshot has no mixed file");
}

#[tokio::test]
async fn delete_files_are_permitted_only_by_their_partition_or_as_deletion_vectors() {
    let deletes = |content| ScanFile { content, ..data_file("deletes", "eu", (1, 10)) };
    for (content, of_ids) in [
        (Content::Positions(None), 403),
        (Content::Ids, 403),
        (Content::Vector("eu-1".to_owned()), 200),
    ] {
        let mut table = table().await;
        let content = match content {
            Content::Vector(name) => Content::Vector(table.at(&name)),
            other => other,
        };
        table.commit(2, "delete", &[&[deletes(content.clone())]]).await;
        let plan = table.plan_as("region", json!({})).await.expect(200).body;
        assert_eq!(table.names_of(&plan), ["eu-1", "eu-2"]);
        assert_eq!(plan["delete-files"].as_array().map(Vec::len), Some(1), "{content:?}");
        table.plan_as("ids", json!({})).await.expect(of_ids);
    }
}

#[tokio::test]
async fn plan_tasks_and_results_of_others_contain_only_permitted_files() {
    let table = table().await;
    let plan = table.plan(json!({})).await.expect(200).body;
    let id = plan["plan-id"].as_str().expect("an id");
    let key = table.app.key_with_role("ids").await;
    let result = table.app.get_as(&key, &format!("{TABLE}/plan/{id}")).await.expect(200).body;
    assert_eq!(table.names_of(&result), ["eu-1"]);
}

#[tokio::test]
async fn plans_that_would_disclose_other_files_are_rejected() {
    let mut table = table().await;
    table.append(2, &[data_file("eu-3", "eu", (1, 10))]).await;
    for role in ["masking", "no-data", "unnamed"] {
        table.plan_as(role, json!({})).await.expect_error(403, "ForbiddenException");
    }
    let appends = json!({ "start-snapshot-id": 1, "end-snapshot-id": 2 });
    table.plan_as("region", appends).await.expect_error(403, "ForbiddenException");
    let explained = json!({ "resource": "table:default/ns/t" });
    let path = "/management/v1/scans/explain";
    table.post_as("region", path, explained).await.expect_error(403, "ForbiddenException");
    let key = table.app.key_with_role("region").await;
    let health = "/management/v1/tables/health?resource=table:default/ns/t";
    table.app.get_as(&key, health).await.expect_error(403, "ForbiddenException");
}

#[tokio::test]
async fn load_says_that_the_server_plans() {
    let table = table().await;
    let load = async |role: &str| {
        let key = table.app.key_with_role(role).await;
        table.app.get_as(&key, TABLE).await.expect(200)
    };
    let (reader, unnamed) = (load("region").await, load("unnamed").await);
    assert_eq!(reader.body["config"], json!({ "scan-planning-mode": "server" }));
    assert_eq!(unnamed.body["config"], json!({}));
    assert_ne!(reader.header("etag"), unnamed.header("etag"));
    assert!(reader.body["read-restrictions"]["required-row-filter"].is_object());
}

#[tokio::test]
async fn requests_are_signed_only_if_they_read_a_permitted_file() {
    let sts = TestSts::start().await;
    let app = sts.lake(&[Delegation::VendedCredentials, Delegation::RemoteSigning], POLICIES).await;
    let mut table = ScanTable::on(app, 3).await;
    let files = [
        data_file("data/eu-1", "eu", (1, 10)),
        data_file("data/mixed", "eu", (11, 20)),
        data_file("data/us-1", "us", (31, 40)),
    ];
    table.append(1, &files).await;
    let vector = Content::Vector(table.at("data/eu-1"));
    let vector = ScanFile { content: vector, ..data_file("data/vector", "eu", (1, 10)) };
    let positions = Content::Positions(Some(table.at("data/us-1")));
    let positions = ScanFile { content: positions, ..data_file("data/positions", "us", (1, 10)) };
    table.commit(2, "delete", &[&[vector, positions]]).await;
    let key = table.app.key_with_role("ids").await;
    let wanted = [
        ("x-iceberg-access-delegation", "vended-credentials"),
        ("authorization", &*format!("Bearer {key}")),
    ];
    let loaded = table.app.request(Method::GET, TABLE, &wanted, &Value::Null).await.expect(200);
    assert_eq!(loaded.body["config"]["s3.remote-signing-enabled"], "true");
    assert!(loaded.body["config"].get("s3.access-key-id").is_none(), "{}", loaded.body);
    assert!(loaded.body.get("storage-credentials").is_none(), "{}", loaded.body);
    table
        .app
        .get_as(&key, &format!("{TABLE}/credentials"))
        .await
        .expect_error(403, "ForbiddenException");
    let directory = table.location.replace("s3://", "");
    let sign = async |method: &str, path: &str| {
        let request = json!({ "method": method, "region": "eu-central-1", "headers": {},
            "uri": format!("http://127.0.0.1:9/{path}") });
        table.post_as("ids", &format!("{TABLE}/sign"), request).await.status
    };
    for name in ["data/eu-1", "data/vector", "data%2Feu-1"] {
        for method in ["GET", "HEAD"] {
            assert_eq!(sign(method, &format!("{directory}/{name}")).await, 200, "{name}");
        }
    }
    let list = table.at("metadata/snap-2.avro").replace("s3://", "");
    let manifest = table.at("metadata/m1.avro").replace("s3://", "");
    let metadata = loaded.body["metadata-location"].as_str().expect("it has one");
    for path in [
        &format!("{directory}/data/mixed"),
        &format!("{directory}/data/us-1"),
        &format!("{directory}/data/positions"),
        &format!("{directory}/data/eu-1/"),
        &format!("{directory}/data//eu-1"),
        &format!("{directory}/data/eu-1%2F..%2Fus-1"),
        &format!("{directory}/data/eu-1%252F"),
        &format!("{directory}-2/data/eu-1"),
        &list,
        &manifest,
        &metadata.replace("s3://", ""),
    ] {
        assert_ne!(sign("GET", path).await, 200, "{path}");
    }
    let permitted = format!("{directory}/data/eu-1");
    for method in ["PUT", "DELETE", "POST"] {
        assert_eq!(sign(method, &permitted).await, 403, "{method}");
    }
    let listing = format!("lake?list-type=2&prefix={directory}/");
    assert_eq!(sign("GET", &listing).await, 403);
}
