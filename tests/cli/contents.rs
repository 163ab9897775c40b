//! `slateberg ls` and `slateberg table show`, durations and times.

use std::path::Path;

use serde_json::{Value, json};

use crate::program::{Server, output_text, slateberg};

async fn post(server: &Server, path: &str, body: &Value) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client.post(format!("{}{path}", server.uri)).bearer_auth(&server.keys()[0]);
    let response = request.json(body).send().await.expect("it responds");
    assert!(response.status().is_success(), "{path}: {}", response.status());
    response.json().await.unwrap_or_default()
}

fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// Creates the namespaces `sales` and `sales/e/u`, with a table each, and a view.
async fn fill(server: &Server) {
    for namespace in [json!(["sales"]), json!(["sales", "e/u"])] {
        post(server, "/v1/namespaces", &json!({ "namespace": namespace })).await;
    }
    let schema = json!({
        "type": "struct", "schema-id": 0,
        "fields": [
            { "id": 1, "name": "id", "type": "long", "required": true },
            { "id": 2, "name": "total", "type": "decimal(10, 2)", "required": false },
        ],
    });
    let table = json!({ "name": "orders", "schema": schema, "properties": { "owner": "ann" } });
    post(server, "/v1/namespaces/sales/tables", &table).await;
    post(server, "/v1/namespaces/sales%1Fe%2Fu/tables", &json!({ "name": "t", "schema": schema }))
        .await;
    let view = json!({
        "name": "totals", "schema": schema, "properties": {},
        "view-version": {
            "version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {},
            "default-namespace": ["sales"],
            "representations": [{ "type": "sql", "sql": "SELECT 1", "dialect": "spark" }],
        },
    });
    post(server, "/v1/namespaces/sales/views", &view).await;
}

fn append(location: &str, at_ms: &Value) -> Value {
    let snapshot = json!({
        "snapshot-id": 7, "sequence-number": 1, "timestamp-ms": at_ms, "schema-id": 0,
        "manifest-list": format!("{location}/metadata/snap-7.avro"),
        "summary": {
            "operation": "append", "total-records": "1234567", "total-files-size": "3145728",
            "total-data-files": "3", "total-delete-files": "0", "engine-name": "spark",
        },
    });
    json!({
        "requirements": [],
        "updates": [
            { "action": "add-snapshot", "snapshot": snapshot },
            { "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7 },
        ],
    })
}

#[tokio::test]
async fn ls_lists_one_level_or_recursively() {
    let directory = tempfile::tempdir().expect("there is room");
    let at: &Path = directory.path();
    let server = Server::start(at, &[]);
    fill(&server).await;
    let list = |arguments: &[&str]| {
        let arguments = [&["ls"], arguments].concat();
        output_text(server.run(at, &server.keys()[0], &arguments))
    };
    let function = ["--dialect", "spark", "--returns", "int", "--sql", "1"];
    let create = [&["function", "create", "default/sales/one"], &function[..]].concat();
    output_text(server.run(at, &server.keys()[0], &create));
    assert_eq!(rows(&list(&[])), [["KIND", "NAME"], ["namespace", "default/sales"]]);
    let below = [
        vec!["KIND", "NAME"],
        vec!["namespace", "default/sales/e%2Fu"],
        vec!["function", "default/sales/one"],
        vec!["table", "default/sales/orders"],
        vec!["view", "default/sales/totals"],
    ];
    assert_eq!(rows(&list(&["default/sales"])), below);
    assert_eq!(rows(&list(&["default/sales/e%2Fu"]))[1], ["table", "default/sales/e%2Fu/t"]);
    assert_eq!(rows(&list(&["--recursive"])).len(), 7);
    let json: Value =
        serde_json::from_str(&list(&["default", "-r", "--output", "json"])).expect("JSON");
    assert_eq!(json["entries"].as_array().map(Vec::len), Some(6), "{json}");
    let missing = server.run(at, &server.keys()[0], &["ls", "default/nothing"]);
    assert_eq!(missing.status.code(), Some(1));
}

#[tokio::test]
async fn table_show_prints_size_last_write_and_schema() {
    let directory = tempfile::tempdir().expect("there is room");
    let at: &Path = directory.path();
    let server = Server::start(at, &[]);
    fill(&server).await;
    let show = |arguments: &[&str]| {
        let arguments = [&["table", "show", "table:default/sales/orders"], arguments].concat();
        output_text(server.run(at, &server.keys()[0], &arguments))
    };
    assert!(show(&[]).contains("none: the table has no snapshot"), "{}", show(&[]));
    let empty: Value = serde_json::from_str(&show(&["--output", "json"])).expect("JSON");
    assert_eq!((&empty["rows"], &empty["last-write"]), (&json!(0), &Value::Null));
    let location = empty["location"].as_str().expect("a location");
    post(&server, "/v1/namespaces/sales/tables/orders", &append(location, &empty["updated-at-ms"]))
        .await;

    let text = show(&[]);
    for part in
        ["1,234,567", "3.0 MiB", "append by engine-name=spark", "decimal(10, 2)", "owner=ann"]
    {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let json: Value = serde_json::from_str(&show(&["--output", "json"])).expect("JSON");
    assert_eq!((&json["rows"], &json["bytes"]), (&json!(1_234_567), &json!(3_145_728)));
    assert_eq!(json["last-write"]["at-ms"], empty["updated-at-ms"]);
    assert_eq!(json["last-write"]["at"], empty["updated-at"]);
    assert_eq!(json["columns"][0]["name"], "id");
    let wrong = server.run(at, &server.keys()[0], &["table", "show", "orders"]);
    let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(error.contains("such as default/sales/orders"), "{error}");
}

#[test]
fn durations_have_units_and_times_are_shown_as_rfc_3339() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let server = Server::start(at, &[]);
    let run = |arguments: &[&str]| server.run(at, &server.keys()[0], arguments);
    for expires in [["--expires-in", "90d"], ["--expires-in-days", "90"]] {
        let create = [&["key", "create", "k"], &expires[..], &["--output", "json"]].concat();
        let created: Value = serde_json::from_str(&output_text(run(&create))).expect("JSON");
        assert!(created["expires-at-ms"].is_number(), "{created}");
        assert!(created["expires-at"].as_str().is_some_and(|at| at.ends_with('Z')), "{created}");
    }
    let listed = output_text(run(&["key", "list"]));
    let year =
        |row: &&Vec<&str>| row.iter().any(|cell| cell.starts_with("20") && cell.ends_with('Z'));
    assert!(rows(&listed).iter().filter(year).count() >= 2, "{listed}");
    for expires in [["--expires-in", "24h"], ["--expires-in-hours", "24"]] {
        output_text(run(&[&["checkpoint", "create"], &expires[..]].concat()));
    }
    let wrong = run(&["key", "create", "k", "--expires-in", "90"]);
    assert_eq!(wrong.status.code(), Some(2));
    let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(error.contains("such as 90d, 24h or 15m"), "{error}");
    let help = output_text(slateberg(at, &["key", "create", "--help"]).output().expect("it runs"));
    assert!(!help.contains("--expires-in-days"), "{help}");
}
