//! Scan planning for principals with read restrictions.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::scan_table::{ScanTable, TABLE, data_file};

/// Roles with a row filter. The file `mixed` of [`table`] also contains rows that the filter hides.
const POLICIES: &str = r#"
@id("engine")
@row_filter("{\"type\": \"lt\", \"term\": \"id\", \"value\": 15}")
permit (principal in Role::"engine", action in Action::"Read", resource);
@id("engine-trust")
permit (principal in Role::"engine", action == Action::"ReadRestricted", resource);

@id("masking")
@column_mask("id: mask-to-fixed-value")
permit (principal in Role::"masking", action in [Action::"Read", Action::"ReadRestricted"], resource);

@id("stale")
@row_filter("{\"type\": \"eq\", \"term\": \"gone\", \"value\": 1}")
permit (principal in Role::"stale", action in [Action::"Read", Action::"ReadRestricted"], resource);

@id("reader-of-part")
@row_filter("{\"type\": \"lt\", \"term\": \"id\", \"value\": 15}")
permit (principal in Role::"reader-of-part", action in Action::"Read", resource);

@id("all-actions")
@row_filter("{\"type\": \"lt\", \"term\": \"id\", \"value\": 15}")
permit (principal in Role::"all-actions", action, resource);

@id("no-data")
@row_filter("{\"type\": \"lt\", \"term\": \"id\", \"value\": 15}")
permit (principal in Role::"no-data", action in [Action::"Browse", Action::"Load", Action::"ReadRestricted"], resource);
"#;

/// A table with files below, across and above the limit of the row filters.
async fn table() -> ScanTable {
    let app = TestApp::with_policies(POLICIES, |_| {}).await;
    let mut table = ScanTable::on(app, 2).await;
    let files = [
        data_file("shown", "eu", (1, 10)),
        data_file("mixed", "eu", (11, 20)),
        data_file("hidden", "us", (21, 30)),
    ];
    table.append(1, &files).await;
    table
}

fn compare(comparison: &str, value: i64) -> Value {
    json!({ "type": comparison, "term": "id", "value": value })
}

#[tokio::test]
async fn plan_of_a_trusted_engine_has_the_files_and_the_residual_of_both_filters() {
    let table = table().await;
    let plan = table.plan_as("engine", json!({})).await.expect(200).body;
    assert_eq!(table.names_of(&plan), ["shown", "mixed"]);
    // The statistics prove that the row filter selects all rows of the first file.
    let residuals = [0, 1].map(|number| &plan["file-scan-tasks"][number]["residual-filter"]);
    assert_eq!((residuals[0], &residuals[1]["type"]), (&json!(true), &json!("lt")));
    let request = json!({ "filter": compare("gt", 11) });
    let plan = table.plan_as("engine", request).await.expect(200).body;
    assert_eq!(table.names_of(&plan), ["mixed"]);
    let residual = &plan["file-scan-tasks"][0]["residual-filter"];
    assert_eq!(residual["type"], "and", "{residual}");
    assert_eq!(residual["left"], compare("gt", 11));
    assert_eq!(residual["right"]["type"], "lt", "{residual}");
    assert_eq!(table.names(json!(true)).await, ["shown", "mixed", "hidden"], "admins read all");
}

#[tokio::test]
async fn plan_tasks_and_results_of_an_unrestricted_reader_follow_the_row_filter_of_the_caller() {
    let table = table().await;
    let plan = table.plan(json!({})).await.expect(200).body;
    let id = plan["plan-id"].as_str().expect("an id");
    let key = table.app.key_with_role("engine").await;
    let path = format!("{TABLE}/plan/{id}");
    let result = table.app.get_as(&key, &path).await.expect(200).body;
    assert_eq!(table.names_of(&result), ["shown", "mixed"]);
    let key = table.app.key_with_role("reader-of-part").await;
    table.app.get_as(&key, &path).await.expect_error(403, "ForbiddenException");
}

#[tokio::test]
async fn restricted_principals_without_the_action_by_name_get_no_plan() {
    let table = table().await;
    for role in ["reader-of-part", "all-actions", "no-data"] {
        for filter in [json!(true), compare("lt", 5), compare("gt", 25), json!(false)] {
            let plan = table.plan_as(role, json!({ "filter": filter })).await;
            plan.expect_error(403, "ForbiddenException");
        }
    }
}

#[tokio::test]
async fn predicates_on_masked_columns_prune_no_files_and_their_statistics_are_absent() {
    let table = table().await;
    let request = json!({ "filter": compare("eq", 0), "stats-fields": ["id"] });
    let plan = table.plan_as("masking", request).await.expect(200).body;
    assert_eq!(table.names_of(&plan), ["shown", "mixed", "hidden"]);
    for task in plan["file-scan-tasks"].as_array().expect("tasks") {
        assert_eq!(task["residual-filter"], compare("eq", 0));
        for statistics in ["lower-bounds", "upper-bounds", "value-counts", "null-value-counts"] {
            assert!(task["data-file"].get(statistics).is_none(), "{task}");
        }
    }
    let region = json!({ "type": "eq", "term": "region", "value": "us" });
    assert_eq!(table.names_as("masking", json!({ "filter": region })).await, ["hidden"]);
}

#[tokio::test]
async fn row_filter_that_does_not_fit_the_schema_shows_no_file() {
    let table = table().await;
    assert_eq!(table.names_as("stale", json!({})).await, [] as [&str; 0]);
}

#[tokio::test]
async fn scan_with_an_old_schema_is_rejected_if_a_column_of_the_row_filter_has_another_type() {
    let policies = POLICIES.replace("\\\"term\\\": \\\"id\\\"", "\\\"term\\\": \\\"size\\\"");
    let app = TestApp::with_policies(&policies, |_| {}).await;
    let mut table = ScanTable::on(app, 2).await;
    table.append(1, &[data_file("a", "eu", (1, 10))]).await;
    let fields = json!([
        { "id": 1, "name": "id", "required": true, "type": "long" },
        { "id": 2, "name": "region", "required": false, "type": "string" },
        { "id": 3, "name": "ts", "required": false, "type": "timestamptz" },
        { "id": 4, "name": "score", "required": false, "type": "double" },
        { "id": 5, "name": "size", "required": false, "type": "long" } ]);
    let updates = json!([
        { "action": "add-schema", "schema": { "type": "struct", "fields": fields } },
        { "action": "set-current-schema", "schema-id": -1 } ]);
    table.app.post(TABLE, json!({ "requirements": [], "updates": updates })).await.expect(200);
    assert_eq!(table.names_as("engine", json!({})).await, ["a"], "the current schema has it");
    let old = json!({ "snapshot-id": 1, "use-snapshot-schema": true });
    table.plan_as("engine", old).await.expect_error(403, "ForbiddenException");
}

#[tokio::test]
async fn only_trusted_engines_are_told_that_the_server_plans() {
    let table = table().await;
    let property = json!({ "action": "set-properties",
        "updates": { "slateberg.scan-planning-mode": "server" } });
    table.app.post(TABLE, json!({ "requirements": [], "updates": [property] })).await.expect(200);
    let load = async |role: &str| {
        let key = table.app.key_with_role(role).await;
        table.app.get_as(&key, TABLE).await.expect(200)
    };
    let (engine, reader) = (load("engine").await, load("reader-of-part").await);
    assert_eq!(engine.body["config"], json!({ "scan-planning-mode": "server" }));
    assert_eq!(reader.body["config"], json!({}));
    assert_eq!(engine.body["read-restrictions"], reader.body["read-restrictions"]);
    assert!(engine.body["read-restrictions"]["required-row-filter"].is_object());
    assert_ne!(engine.header("etag"), reader.header("etag"));
}
