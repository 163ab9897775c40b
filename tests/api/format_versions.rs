//! Format versions 1 to 4: their members and validation.

use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::table::{append, create_table, of_version, schema};

const TABLES: &str = "/v1/namespaces/ns/tables";
const TABLE: &str = "/v1/namespaces/ns/tables/t";

async fn with_version(version: u8) -> TestApp {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let mut body = create_table("t");
    body["properties"] = of_version(version);
    app.post(TABLES, body).await.expect(200);
    app
}

async fn create_with_column(app: &TestApp, version: u8, column: Value) -> TestResponse {
    let mut body = create_table("c");
    body["properties"] = of_version(version);
    let fields = body["schema"]["fields"].as_array_mut().expect("fields");
    fields.push(column);
    app.post(TABLES, body).await
}

/// Returns the updates that append a snapshot with row ids.
fn append_rows(id: i64, parent: Option<i64>, number: i64, first: i64, rows: i64) -> Vec<Value> {
    let mut updates = append(id, parent, number);
    updates[0]["snapshot"]["first-row-id"] = json!(first);
    updates[0]["snapshot"]["added-rows"] = json!(rows);
    updates
}

#[tokio::test]
async fn table_has_the_requested_format_version() {
    for version in [1, 2, 3, 4] {
        let app = with_version(version).await;
        let metadata = app.get(TABLE).await.expect(200).body["metadata"].clone();
        assert_eq!(metadata["format-version"], version);
        assert_eq!(metadata["properties"].get("format-version"), None, "no stored property");
        assert_eq!(metadata.get("next-row-id").is_some(), version >= 3);
        assert_eq!(metadata.get("last-sequence-number").is_some(), version > 1);
        // Version 1 also has the current schema and partition spec in separate members, because
        // early readers need them.
        assert_eq!(metadata.get("schema").is_some(), version == 1);
        assert_eq!(metadata.get("partition-spec").is_some(), version == 1);
        let current = if version >= 3 { None } else { Some(json!(-1)) };
        assert_eq!(
            metadata.get("current-snapshot-id").cloned().filter(|it| !it.is_null()),
            current
        );
    }
}

#[tokio::test]
async fn unknown_format_version_is_rejected() {
    let app = with_version(2).await;
    for version in ["0", "5", "-1", "two", "", "2.0", "99999999999"] {
        let mut body = create_table("x");
        body["properties"] = json!({ "format-version": version });
        let response = app.post_rejected(TABLES, body).await;
        assert_eq!(response.error().1, "IllegalArgumentException", "{}", response.message());
    }
}

#[tokio::test]
async fn format_version_is_upgraded_one_by_one_or_at_once() {
    let upgrade =
        |version: u8| json!({ "action": "upgrade-format-version", "format-version": version });
    let app = with_version(1).await;
    let mut first = append(1, None, 0);
    first[0]["snapshot"]["sequence-number"] = json!(0);
    app.commit("ns", "t", vec![], first).await.expect(200);
    for version in [2, 3, 4] {
        let response = app.commit("ns", "t", vec![], vec![upgrade(version)]).await.expect(200);
        assert_eq!(response.body["metadata"]["format-version"], version);
    }
    let metadata = app.get(TABLE).await.expect(200).body["metadata"].clone();
    assert_eq!(metadata["snapshots"][0]["snapshot-id"], 1);
    assert_eq!(metadata["next-row-id"], 0);
    let app = with_version(1).await;
    app.commit("ns", "t", vec![], vec![upgrade(3)]).await.expect(200);
}

#[tokio::test]
async fn version_1_has_no_sequence_numbers() {
    let app = with_version(1).await;
    let body = json!({ "requirements": [], "updates": append(1, None, 1) });
    let response = app.post_rejected(TABLE, body).await;
    assert_eq!(
        response.error(),
        (400, "IllegalArgumentException", "Sequence number must be 0 in v1: 1")
    );
}

#[tokio::test]
async fn version_3_assigns_row_ids() {
    let app = with_version(3).await;
    let commit = async |updates: Vec<Value>| app.commit("ns", "t", vec![], updates).await;
    let metadata =
        commit(append_rows(1, None, 1, 0, 10)).await.expect(200).body["metadata"].clone();
    assert_eq!(metadata["next-row-id"], 10);
    let metadata =
        commit(append_rows(2, Some(1), 2, 10, 5)).await.expect(200).body["metadata"].clone();
    assert_eq!(metadata["next-row-id"], 15);
    assert_eq!(metadata["snapshots"][1]["first-row-id"], 10);
    assert_eq!(metadata["snapshots"][1]["added-rows"], 5);

    let expected = |updates: Vec<Value>| {
        let body = json!({ "requirements": [], "updates": updates });
        app.post_rejected(TABLE, body)
    };
    let without = expected(append(3, Some(2), 3)).await;
    assert_eq!(
        without.error(),
        (400, "IllegalArgumentException", "Cannot add a snapshot: first-row-id is null")
    );
    let behind = expected(append_rows(3, Some(2), 3, 14, 1)).await;
    assert_eq!(
        behind.error(),
        (
            409,
            "CommitFailedException",
            "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind \
             table next-row-id: 14 < 15"
        )
    );
    let negative = expected(append_rows(3, Some(2), 3, 15, -1)).await;
    assert_eq!(negative.message(), "Invalid added-rows (cannot be negative): -1");
    let exhausted = expected(append_rows(3, Some(2), 3, i64::MAX, 1)).await;
    assert_eq!(exhausted.message(), "Cannot add a snapshot: row ids are exhausted");
}

#[tokio::test]
async fn types_of_version_3_need_version_3() {
    let app = with_version(3).await;
    for (n, kind) in [
        "variant",
        "geometry",
        "geometry(srid:3857)",
        "geography",
        "geography(srid:4326, karney)",
        "unknown",
        "timestamp_ns",
        "timestamptz_ns",
    ]
    .into_iter()
    .enumerate()
    {
        let column = json!({ "id": 3, "name": "new", "required": false, "type": kind });
        let rejection = create_with_column(&app, 2, column.clone()).await;
        assert_eq!(rejection.status, 400, "{kind}");
        let text = rejection.message();
        assert!(text.contains("is not supported until v3"), "{kind}: {text}");
        let created = create_with_column(&app, 3, column.clone()).await.expect(200);
        assert_eq!(created.body["metadata"]["schemas"][0]["fields"][2]["type"], kind);
        let rename = json!({ "source": { "namespace": ["ns"], "name": "c" },
                             "destination": { "namespace": ["ns"], "name": format!("c{n}") } });
        app.post("/v1/tables/rename", rename).await.expect(204);

        // A schema that is added later is validated in the same way.
        let mut schema = schema();
        schema["fields"].as_array_mut().expect("fields").push(column);
        let add = json!({ "action": "add-schema", "schema": schema });
        app.commit("ns", "t", vec![], vec![add]).await.expect(200);
    }
}

#[tokio::test]
async fn column_defaults_need_version_3_and_are_stored() {
    let app = with_version(2).await;
    let column = |kind: &str, default: Value| {
        json!({ "id": 3, "name": "new", "required": false, "type": kind,
                "initial-default": default, "write-default": default })
    };
    let expected = create_with_column(&app, 2, column("int", json!(7))).await;
    assert_eq!(expected.status, 400, "{}", expected.body);
    for (kind, default) in [
        ("int", json!(7)),
        ("long", json!(-1)),
        ("boolean", json!(true)),
        ("string", json!("ü")),
        ("double", json!(1.5)),
        ("decimal(9,2)", json!("14.20")),
        ("date", json!("2017-11-16")),
        ("timestamp", json!("2017-11-16T22:31:08.123456")),
        ("uuid", json!("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
        ("fixed[4]", json!("111F2C0A")),
        ("binary", json!("00FF")),
    ] {
        let created = create_with_column(&app, 3, column(kind, default.clone())).await.expect(200);
        let field = &created.body["metadata"]["schemas"][0]["fields"][2];
        assert_eq!(field["initial-default"], default, "{kind}");
        assert_eq!(field["write-default"], default, "{kind}");
        app.delete("/v1/namespaces/ns/tables/c").await.expect(204);
        let wrong = create_with_column(&app, 3, column(kind, json!({ "not": "one" }))).await;
        assert_eq!(wrong.status, 400, "{kind}: {}", wrong.body);
    }
}

#[tokio::test]
async fn encryption_keys_are_added_and_removed() {
    let app = with_version(3).await;
    let key = |id: &str| {
        json!({ "key-id": id, "encrypted-key-metadata": "AAEC", "encrypted-by-id": "kek",
                                 "properties": { "a": "b" }, "of-a-later-version": 1 })
    };
    let add = |id: &str| json!({ "action": "add-encryption-key", "encryption-key": key(id) });
    let response = app.commit("ns", "t", vec![], vec![add("a"), add("b")]).await.expect(200);
    assert_eq!(response.body["metadata"]["encryption-keys"], json!([key("a"), key("b")]));
    let remove = json!({ "action": "remove-encryption-key", "key-id": "a" });
    let response = app.commit("ns", "t", vec![], vec![remove]).await.expect(200);
    assert_eq!(response.body["metadata"]["encryption-keys"], json!([key("b")]));
    let mut broken = add("c");
    broken["encryption-key"]["encrypted-key-metadata"] = json!("not base64!");
    let body = json!({ "requirements": [], "updates": [broken] });
    let refused = app.post_rejected(TABLE, body).await;
    assert_eq!(refused.message(), "Cannot parse encrypted-key-metadata: not base64");
}

#[tokio::test]
async fn unknown_metadata_members_survive_registration_and_commits() {
    let app = with_version(3).await;
    let mut metadata = app.get(TABLE).await.expect(200).body["metadata"].clone();
    let unknown = json!({ "nested": [1, null, { "a": 2.5 }] });
    metadata["of-a-later-version"] = unknown.clone();
    let file = "memory:///warehouse/later.metadata.json";
    app.put_file(file, metadata.to_string()).await;
    app.delete(TABLE).await.expect(204);
    let body = json!({ "name": "later", "metadata-location": file });
    let registered = app.post("/v1/namespaces/ns/register", body).await.expect(200);
    assert_eq!(registered.body["metadata"]["of-a-later-version"], unknown);
    let rows = append_rows(1, None, 1, 0, 1);
    let committed = app.commit("ns", "later", vec![], rows).await.expect(200);
    assert_eq!(committed.body["metadata"]["of-a-later-version"], unknown);
}

fn upgrade_to(version: u8) -> Vec<Value> {
    vec![json!({ "action": "upgrade-format-version", "format-version": version })]
}

#[tokio::test]
async fn version_4_is_rejected_if_its_setting_is_off() {
    let app = TestApp::with_settings(|it| it.catalog.format_version_4 = false).await;
    app.create_namespace(&["ns"]).await;
    let mut body = create_table("t");
    body["properties"] = of_version(4);
    let reason = "(supported: v3, set catalog.format_version_4 for v4)";
    for stage in [false, true] {
        body["stage-create"] = json!(stage);
        let created = app.post_rejected(TABLES, body.clone()).await;
        let message = format!("Unsupported format version: v4 {reason}");
        assert_eq!(created.error(), (400, "IllegalArgumentException", message.as_str()));
    }
    body = create_table("t");
    body["properties"] = of_version(3);
    app.post(TABLES, body).await.expect(200);
    let commit = json!({ "requirements": [], "updates": upgrade_to(4) });
    let upgraded = app.post_rejected(TABLE, commit).await;
    let message = format!("Cannot upgrade table to unsupported format version: v4 {reason}");
    assert_eq!(upgraded.error(), (400, "IllegalArgumentException", message.as_str()));
}

/// Writes a table's metadata with an unknown member to a file, and returns the file's location.
async fn write_metadata(app: &TestApp, version: u8, name: &str) -> String {
    let mut metadata = app.get(TABLE).await.expect(200).body["metadata"].clone();
    let location = format!("{}-{name}", metadata["location"].as_str().expect("a location"));
    metadata["format-version"] = json!(version);
    metadata["table-uuid"] = json!(format!("00000000-0000-4000-8000-00000000000{version}"));
    metadata["location"] = json!(location);
    metadata["next-row-id"] = json!(0);
    metadata["content-tree"] = json!({ "depth": 2 });
    let file = format!("{location}/metadata/00000-x.metadata.json");
    app.put_file(&file, metadata.to_string()).await;
    file
}

#[tokio::test]
async fn registered_version_4_keeps_unknown_members_and_needs_the_setting() {
    let app = with_version(3).await;
    let file = write_metadata(&app, 4, "u").await;
    let body = json!({ "name": "u", "metadata-location": file });
    app.post("/v1/namespaces/ns/register", body).await.expect(200);
    let updates = vec![json!({ "action": "set-properties", "updates": { "a": "b" } })];
    let metadata =
        app.commit("ns", "u", vec![], updates).await.expect(200).body["metadata"].clone();
    assert_eq!(metadata["format-version"], 4);
    assert_eq!(metadata["content-tree"], json!({ "depth": 2 }));

    let app = TestApp::with_settings(|it| it.catalog.format_version_4 = false).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let file = write_metadata(&app, 4, "u").await;
    let body = json!({ "name": "u", "metadata-location": file });
    let rejected = app.post("/v1/namespaces/ns/register", body).await;
    assert_eq!(rejected.status, 400);
    assert!(rejected.message().contains("set catalog.format_version_4"), "{}", rejected.message());
}

#[tokio::test]
async fn server_reads_no_manifests_of_version_4() {
    let app = with_version(4).await;
    let plan = format!("{TABLE}/plan");
    app.post(&plan, json!({})).await.expect(200);
    app.commit("ns", "t", vec![], append_rows(1, None, 1, 0, 10)).await.expect(200);
    let planned = app.post(&plan, json!({})).await;
    let planned = planned.expect_error(406, "UnsupportedOperationException");
    assert!(planned.message().contains("format version 4"), "{}", planned.message());
    for (path, begin) in [
        ("/management/v1/manifests/rewrite", "Cannot rewrite manifests: "),
        ("/management/v1/snapshots/expire", "Cannot expire snapshots: "),
    ] {
        for dry_run in [true, false] {
            let body = json!({ "resource": "table:default/ns/t", "dry-run": dry_run });
            let rejected = app.post(path, body).await;
            let rejected = rejected.expect_error(400, "IllegalArgumentException");
            assert!(rejected.message().starts_with(begin), "{}", rejected.message());
        }
    }
}
