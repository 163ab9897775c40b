//! The commands of the program for checkpoints, on a catalog in a directory.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::authn_cli::{Server, output_text};
use crate::support::table::create_table;

/// Runs a subcommand without a server.
fn offline(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slateberg"));
    command.args(arguments).current_dir(directory).output().expect("it runs")
}

fn failed_output(output: Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const DATA: [&str; 2] = ["--data-dir", "data"];

async fn post(server: &Server, key: &str, path: &str, body: &Value) -> Value {
    let client = reqwest::Client::new();
    let sent = client.post(format!("{}{path}", server.uri)).bearer_auth(key).json(body).send();
    let response = sent.await.expect("it answers");
    assert!(response.status().is_success(), "{path}: {}", response.status());
    response.json().await.unwrap_or_default()
}

/// Starts a server whose catalog has a table, and returns it with an admin's key.
async fn with_table(at: &Path) -> (Server, String) {
    let server = Server::start(at, &[]);
    let key = server.keys()[0].clone();
    post(&server, &key, "/v1/namespaces", &json!({ "namespace": ["ns"] })).await;
    post(&server, &key, "/v1/namespaces/ns/tables", &create_table("t")).await;
    (server, key)
}

async fn status(server: &Server, key: &str, path: &str) -> u16 {
    let sent = reqwest::Client::new().get(format!("{}{path}", server.uri)).bearer_auth(key).send();
    sent.await.expect("it answers").status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoint_is_created_restored_and_exported() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let (server, key) = with_table(at).await;
    let output = output_text(server.run(
        at,
        &key,
        &["checkpoint", "create", "mine", "--expires-in-hours", "1"],
    ));
    assert!(output.starts_with("checkpoint ") && output.ends_with("  mine\n"), "{output}");
    post(&server, &key, "/v1/namespaces", &json!({ "namespace": ["later"] })).await;
    let listed = output_text(server.run(at, &key, &["checkpoint", "list"]));
    assert!(listed.contains("  mine  ") && listed.matches("Z").count() >= 2, "{listed}");

    // While a server runs, a checkpoint can be read, but nothing can be changed.
    let restore = ["restore", "--to", "mine", "--yes"];
    let report = failed_output(offline(at, &[&restore[..], &DATA].concat()));
    assert!(report.contains("in use"), "{report}");
    let report = failed_output(offline(at, &[&["export", "now.jsonl"][..], &DATA].concat()));
    assert!(report.contains("in use"), "{report}");
    assert!(!at.join("now.jsonl").exists());
    let export = ["export", "mine.jsonl", "--checkpoint", "mine"];
    output_text(offline(at, &[&export[..], &DATA].concat()));
    let lines = std::fs::read_to_string(at.join("mine.jsonl")).expect("it is there");
    assert!(lines.contains(r#""type":"table""#) && !lines.contains("later"), "{lines}");
    assert!(!lines.contains(&key), "the export contains an API key");
    drop(server);

    let report = output_text(offline(at, &[&restore[..], &DATA].concat()));
    assert!(report.contains("restored to checkpoint mine of "), "{report}");
    let undo = report.lines().last().expect("a line").split_whitespace().last().expect("a name");
    let listed =
        output_text(offline(at, &[&["checkpoint", "list", "--offline"][..], &DATA].concat()));
    assert!(listed.contains(undo), "{listed}");
    output_text(offline(at, &[&["fsck"][..], &DATA].concat()));
    let server = Server::start(at, &[]);
    assert_eq!(status(&server, &key, "/v1/namespaces/later").await, 404);
    assert_eq!(status(&server, &key, "/v1/namespaces/ns/tables/t").await, 200);
    drop(server);
    output_text(offline(at, &[&["restore", "--to", undo, "--yes"][..], &DATA].concat()));
    let delete = ["checkpoint", "delete", "mine", "--offline"];
    output_text(offline(at, &[&delete[..], &DATA].concat()));
    let server = Server::start(at, &[]);
    assert_eq!(status(&server, &key, "/v1/namespaces/later").await, 200);
    assert!(!output_text(server.run(at, &key, &["checkpoint", "list"])).contains("mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_without_yes_names_every_change_beside_a_running_server() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let (server, key) = with_table(at).await;
    post(&server, &key, "/v1/namespaces/ns/tables", &create_table("dropped")).await;
    post(&server, &key, "/v1/namespaces/ns/tables", &create_table("old")).await;
    output_text(server.run(at, &key, &["checkpoint", "create", "mine"]));
    let update =
        json!({ "requirements": [], "updates": [crate::support::table::set_property("k", "v")] });
    post(&server, &key, "/v1/namespaces/ns/tables/t", &update).await;
    let renamed = json!({
        "source": { "namespace": ["ns"], "name": "old" },
        "destination": { "namespace": ["ns"], "name": "new" },
    });
    post(&server, &key, "/v1/tables/rename", &renamed).await;
    let path = format!("{}/v1/namespaces/ns/tables/dropped", server.uri);
    let sent = reqwest::Client::new().delete(path).bearer_auth(&key).send();
    assert_eq!(sent.await.expect("it answers").status(), 204);
    post(&server, &key, "/v1/namespaces", &json!({ "namespace": ["later"] })).await;
    for number in 0..52 {
        let table = create_table(&format!("t{number:02}"));
        post(&server, &key, "/v1/namespaces/later/tables", &table).await;
    }

    let restore = ["restore", "--to", "mine", "--data-dir", "data"];
    let output = offline(at, &restore);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = output_text(output);
    assert!(text.contains("RESTORED\ntable     default/ns/dropped\n"), "{text}");
    assert!(text.contains("default/ns/old (now default/ns/new)\n"), "{text}");
    assert!(text.contains("table    default/ns/t\n"), "{text}");
    assert!(text.contains("namespace  default/later\ntable      default/later/t00\n"), "{text}");
    assert!(text.contains("default/later/t48\nand 3 more\n"), "{text}");
    assert!(text.ends_with("add --yes to apply the changes.\n"), "{text}");
    let text = output_text(offline(at, &[&restore[..], &["--output", "json"]].concat()));
    let changes = serde_json::from_str::<Value>(&text).expect("JSON")["changes"].take();
    assert_eq!(changes["tables"], json!({ "restored": 1, "changed": 2, "removed": 52 }));
    let objects = &changes["objects"];
    assert_eq!(objects["restored"], json!([{ "kind": "table", "name": "default/ns/dropped" }]));
    let renamed =
        json!({ "kind": "table", "name": "default/ns/old", "renamed-from": "default/ns/new" });
    let changed = json!([renamed, { "kind": "table", "name": "default/ns/t" }]);
    assert_eq!(objects["changed"], changed);
    assert_eq!(objects["removed"].as_array().map(Vec::len), Some(53));
    // Nothing was changed, and the server continues.
    assert_eq!(status(&server, &key, "/v1/namespaces/later/tables/t51").await, 200);
    post(&server, &key, "/v1/namespaces", &json!({ "namespace": ["after"] })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn import_of_an_export_gives_the_same_catalog() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let server = Server::start(at, &[]);
    let key = server.keys()[0].clone();
    for levels in [vec!["ns"], vec!["ns", "be.low"], vec!["other"]] {
        let body = json!({ "namespace": levels, "properties": { "color": "red" } });
        post(&server, &key, "/v1/namespaces", &body).await;
    }
    for table in ["t", "ü"] {
        post(&server, &key, "/v1/namespaces/ns/tables", &create_table(table)).await;
    }
    let view = crate::support::view::create_view("v");
    post(&server, &key, "/v1/namespaces/ns%1Fbe.low/views", &view).await;
    let grant = ["grant", "read", "--to", "role:x", "--on", "table:default/ns/t"];
    output_text(server.run(at, &key, &grant));
    let protect = ["protect", "table:default/ns/t", "--comment", "audit"];
    output_text(server.run(at, &key, &protect));
    for label in [
        &["table:default/ns/t", "domain=sales"][..],
        &["table:default/ns/t", "--column", "data", "pii=email"],
        &["view:default/ns/be.low/v", "tier=1"],
    ] {
        output_text(server.run(at, &key, &[&["label", "set"][..], label].concat()));
    }
    server.stop();
    output_text(offline(at, &[&["export", "all.jsonl"][..], &DATA].concat()));
    let report = failed_output(offline(at, &[&["export", "all.jsonl"][..], &DATA].concat()));
    assert!(report.contains("all.jsonl"), "an export overwrites no file: {report}");

    // The catalog into which the export is imported uses the same warehouse location.
    let warehouse = format!("file://{}", at.join("data/warehouse/default").display());
    let config = at.join("elsewhere.toml");
    let text = format!("[warehouses.default]\nlocation = {warehouse:?}\n");
    std::fs::write(&config, text).expect("it is written");
    let elsewhere = ["--data-dir", "elsewhere", "--config", "elsewhere.toml"];
    let import = [&["import", "all.jsonl"][..], &elsewhere].concat();
    let report = output_text(offline(at, &import));
    assert!(
        report.contains(
            "2 tables, 1 view, 0 functions, 1 protection, 0 policies, 1 grant, 1 API key"
        ),
        "{report}"
    );
    // A repeated import has no effect.
    output_text(offline(at, &import));
    output_text(offline(at, &[&["fsck"][..], &elsewhere].concat()));
    let again = [&["export", "again.jsonl"][..], &elsewhere].concat();
    output_text(offline(at, &again));
    let lines = |file: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(at.join(file)).expect("it is there");
        text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let all = lines("all.jsonl");
    assert_eq!(lines("again.jsonl"), all);
    let labels = |kind: &str, name: &str| {
        let mut of = all.iter().filter(|line| line["type"] == kind && line["name"] == name);
        of.next().expect("it is exported")["labels"].clone()
    };
    let fields = json!([{ "field-id": 2, "labels": { "pii": "email" } }]);
    assert_eq!(labels("table", "t")["object-labels"], json!({ "domain": "sales" }));
    assert_eq!(labels("table", "t")["fields"], fields);
    assert_eq!(labels("view", "v")["object-labels"], json!({ "tier": "1" }));
    assert_eq!(labels("table", "ü"), Value::Null);

    // A catalog with other contents rejects the import.
    let other = ["--data-dir", "third"];
    let third = Server::start_on(at, "third", &[]);
    let third_key = third.keys()[0].clone();
    post(&third, &third_key, "/v1/namespaces", &json!({ "namespace": ["mine"] })).await;
    third.stop();
    let report = failed_output(offline(at, &[&["import", "all.jsonl"][..], &other].concat()));
    assert!(
        report.contains("the catalog is not empty. Not in the export: 1 namespace\n"),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn clone_is_served_next_to_its_parent_and_deleted() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let (server, key) = with_table(at).await;
    let report = failed_output(offline(at, &[&["clone", "--to", "try"][..], &DATA].concat()));
    assert!(report.contains("in use"), "{report}");
    assert!(!at.join("try/state").exists());
    output_text(server.run(at, &key, &["checkpoint", "create", "mine"]));
    post(&server, &key, "/v1/namespaces", &json!({ "namespace": ["later"] })).await;

    let clone = ["clone", "--to", "try", "--checkpoint", "mine"];
    let report = output_text(offline(at, &[&clone[..], &DATA].concat()));
    assert!(
        report.contains("0 broken") && report.contains("slateberg serve --data-dir"),
        "{report}"
    );
    let pin = report.lines().last().expect("a line").split_whitespace().last().expect("a name");
    let report = failed_output(offline(at, &[&clone[..], &DATA].concat()));
    assert!(report.contains("the location is not empty"), "{report}");
    assert!(output_text(server.run(at, &key, &["checkpoint", "list"])).contains(pin));

    // The warehouse has the location that it has in the parent, although the clone's settings do
    // not contain this location.
    let attempt = Server::start_on(at, "try", &[]);
    assert!(attempt.keys().is_empty(), "the parent's key is valid, so none is printed");
    assert_eq!(status(&attempt, &key, "/v1/namespaces/later").await, 404);
    post(&attempt, &key, "/v1/namespaces/ns/tables", &create_table("tried")).await;
    let update =
        json!({ "requirements": [], "updates": [crate::support::table::set_property("k", "v")] });
    for server in [&server, &attempt] {
        post(server, &key, "/v1/namespaces/ns/tables/t", &update).await;
    }
    assert_eq!(status(&server, &key, "/v1/namespaces/ns/tables/tried").await, 404);
    let purge = format!("{}/v1/namespaces/ns/tables/t?purgeRequested=true", attempt.uri);
    let sent = reqwest::Client::new().delete(purge).bearer_auth(&key).send();
    assert_eq!(sent.await.expect("it answers").status(), 400);
    attempt.stop();
    let report = output_text(offline(at, &["fsck", "--data-dir", "try"]));
    assert!(report.contains("a clone of file://") && report.contains("; 0 broken"), "{report}");

    // A clone of a directory without a running server needs no checkpoint.
    server.stop();
    output_text(offline(at, &[&["clone", "--to", "now"][..], &DATA].concat()));
    let now = Server::start_on(at, "now", &[]);
    assert_eq!(status(&now, &key, "/v1/namespaces/later").await, 200);
    drop(now);
    std::fs::remove_dir_all(at.join("try")).expect("it is there");
    output_text(offline(at, &[&["checkpoint", "delete", pin, "--offline"][..], &DATA].concat()));
    output_text(offline(at, &[&["fsck"][..], &DATA].concat()));
    let listed =
        output_text(offline(at, &[&["checkpoint", "list", "--offline"][..], &DATA].concat()));
    assert!(!listed.contains(pin) && listed.contains("clone-"), "{listed}");
}

#[test]
fn import_reports_malformed_lines_by_number_and_writes_nothing() {
    let directory = tempfile::tempdir().expect("there is room");
    let at = directory.path();
    let id = |n: u8| format!("0190b6ad-0000-7000-8000-0000000000{n:02}");
    let header =
        json!({ "type": "slateberg-export", "version": 1, "catalog-id": id(0), "as-of": "" });
    let warehouse = json!({
        "type": "warehouse", "name": "default", "id": id(1), "location": "file:///w",
        "created-at-ms": 0, "definition": null,
    });
    let namespace = |levels: Value, number| {
        json!({
            "type": "namespace", "warehouse": "default", "namespace": levels, "id": id(number),
            "properties": {}, "version": 1, "created-at-ms": 0, "owner": null,
        })
    };
    let table = json!({
        "type": "table", "warehouse": "default", "namespace": ["a"], "name": "t", "id": id(9),
        "uuid": id(9), "metadata-location": "file:///w/x.metadata.json", "version": 1,
        "created-at-ms": 0, "updated-at-ms": 0, "owner": null, "metadata": "{}",
    });
    let end = |lines| json!({ "type": "end", "lines": lines });
    let newer =
        json!({ "type": "slateberg-export", "version": 6, "catalog-id": id(0), "as-of": "" });
    let mut strange = namespace(json!(["a"]), 2);
    strange["colour"] = json!("red");
    let cases: Vec<(Vec<Value>, &str)> = vec![
        (vec![], "line 1: the last line is missing"),
        (
            vec![newer],
            "line 1: the export has version 6, but this slateberg supports versions up to 5",
        ),
        (vec![warehouse.clone()], "line 1: expected"),
        (vec![header.clone(), header.clone()], "line 2: expected"),
        (vec![header.clone(), warehouse.clone()], "line 3: the last line is missing"),
        (vec![header.clone(), end(3)], "line 2: expected 3 lines"),
        (vec![header.clone(), end(2), warehouse.clone()], "line 3: the file continues"),
        (vec![header.clone(), json!({ "type": "nonsense" })], "line 2: not a line of an export"),
        (
            vec![header.clone(), namespace(json!(["a"]), 2)],
            "line 2: its parent is not in an earlier line",
        ),
        (
            vec![header.clone(), warehouse.clone(), namespace(json!(["a", "b"]), 2)],
            "line 3: its parent is not in an earlier line",
        ),
        (vec![header.clone(), warehouse.clone(), namespace(json!(["a"]), 1)], "line 3: the id"),
        (vec![header.clone(), warehouse.clone(), strange], "line 3: not a line of an export"),
        (
            vec![header.clone(), warehouse.clone(), namespace(json!(["a"]), 2), table],
            "line 4: its metadata cannot be read",
        ),
    ];
    for (lines, expected) in cases {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(at.join("lines.jsonl"), text).expect("it is written");
        let report = failed_output(offline(at, &[&["import", "lines.jsonl"][..], &DATA].concat()));
        assert!(report.contains(expected), "{expected}: {report}");
    }
    std::fs::write(at.join("lines.jsonl"), b"\xff\xfe nonsense\n").expect("it is written");
    let report = failed_output(offline(at, &[&["import", "lines.jsonl"][..], &DATA].concat()));
    assert!(report.contains("line 1: not a line of an export"), "{report}");
}
