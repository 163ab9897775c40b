//! Tables: create, load, list, rename, drop.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::metrics_report::scan_report;
use crate::support::snapshots::sorted_members;
use crate::support::table::{append, create_table, schema};

const TABLES: &str = "/v1/namespaces/ns/tables";
const TABLE: &str = "/v1/namespaces/ns/tables/t";

async fn names(app: &TestApp, namespace: &str) -> Vec<String> {
    let path = format!("/v1/namespaces/{namespace}/tables");
    let listed = app.get(&path).await.expect(200);
    let identifiers = listed.body["identifiers"].as_array().expect("a list").iter();
    identifiers.map(|it| it["name"].as_str().expect("a name").to_owned()).collect()
}

fn rename(from: (&[&str], &str), to: (&[&str], &str)) -> Value {
    json!({
        "source": { "namespace": from.0, "name": from.1 },
        "destination": { "namespace": to.0, "name": to.1 },
    })
}

#[tokio::test]
async fn new_table_has_all_members_of_the_specification() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let response = app.create_table("ns", "t").await;
    let metadata = &response.body["metadata"];
    let location = metadata["location"].as_str().expect("a location");
    let file = response.body["metadata-location"].as_str().expect("a metadata location");
    assert!(location.starts_with("memory:///warehouse/ns/t-"), "{location}");
    assert!(file.starts_with(&format!("{location}/metadata/00000-")), "{file}");
    let stored = app.file(file).await.expect("the metadata file");
    let stored: Value = serde_json::from_slice(&stored).expect("JSON");
    assert_eq!(&stored, metadata);

    let _sorted = sorted_members();
    insta::assert_json_snapshot!(without_what_differs(metadata.clone()), @r#"
    {
      "current-schema-id": 0,
      "current-snapshot-id": -1,
      "default-sort-order-id": 0,
      "default-spec-id": 0,
      "format-version": 2,
      "last-column-id": 2,
      "last-partition-id": 999,
      "last-sequence-number": 0,
      "metadata-log": [],
      "partition-specs": [
        {
          "fields": [],
          "spec-id": 0
        }
      ],
      "partition-statistics": [],
      "properties": {
        "write.parquet.compression-codec": "zstd"
      },
      "refs": {},
      "schemas": [
        {
          "fields": [
            {
              "id": 1,
              "name": "id",
              "required": true,
              "type": "long"
            },
            {
              "id": 2,
              "name": "data",
              "required": false,
              "type": "string"
            }
          ],
          "schema-id": 0,
          "type": "struct"
        }
      ],
      "snapshot-log": [],
      "snapshots": [],
      "sort-orders": [
        {
          "fields": [],
          "order-id": 0
        }
      ],
      "statistics": []
    }
    "#);
    let loaded = app.get(TABLE).await.expect(200);
    assert_eq!(loaded.body, response.body);
    assert_eq!(app.head(TABLE).await.expect(204).body, Value::Null);
}

fn without_what_differs(mut metadata: Value) -> Value {
    let members = metadata.as_object_mut().expect("an object");
    for name in ["table-uuid", "location", "last-updated-ms"] {
        assert!(members.remove(name).is_some(), "{name}");
    }
    metadata
}

#[tokio::test]
async fn table_is_created_as_requested() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let mut body = create_table("t");
    // The client sends its own ids. The catalog assigns new ones and updates all references.
    body["schema"]["fields"][0]["id"] = json!(71);
    body["schema"]["fields"][1]["id"] = json!(72);
    body["schema"]["identifier-field-ids"] = json!([71]);
    body["location"] = json!("memory:///warehouse/elsewhere/");
    body["partition-spec"] = json!({ "fields": [
        { "source-id": 71, "name": "bucket", "transform": "bucket[4]", "field-id": 5 } ]});
    body["write-order"] = json!({ "order-id": 7, "fields": [
        { "source-id": 72, "transform": "identity", "direction": "desc", "null-order": "nulls-last" }
    ]});
    body["properties"] = json!({ "owner": "ann", "format-version": "2" });
    let response = app.post(TABLES, body).await.expect(200);
    let metadata = &response.body["metadata"];
    assert_eq!(metadata["location"], "memory:///warehouse/elsewhere");
    assert_eq!(metadata["schemas"][0]["identifier-field-ids"], json!([1]));
    assert_eq!(
        metadata["partition-specs"][0]["fields"],
        json!([{ "source-id": 1, "field-id": 1000, "name": "bucket", "transform": "bucket[4]" }])
    );
    assert_eq!(metadata["sort-orders"][0]["order-id"], 1);
    assert_eq!(metadata["sort-orders"][0]["fields"][0]["source-id"], 2);
    assert_eq!(metadata["default-sort-order-id"], 1);
    assert_eq!(
        metadata["properties"],
        json!({ "owner": "ann", "write.parquet.compression-codec": "zstd" })
    );
}

#[tokio::test]
async fn creation_under_an_existing_name_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let again = app.post(TABLES, create_table("t")).await;
    assert_eq!(again.error(), (409, "AlreadyExistsException", "Table already exists: ns.t"));
    let view = app.post(TABLES, create_table("v")).await;
    assert_eq!(
        view.error(),
        (409, "AlreadyExistsException", "View with same name already exists: ns.v")
    );
}

#[tokio::test]
async fn every_request_for_a_missing_table_returns_404() {
    let app = TestApp::with_table_and_view().await;
    let commit = json!({ "requirements": [], "updates": [] });
    for (namespace, table) in [("ns", "nope"), ("nope", "t"), ("ns", "v")] {
        let path = format!("/v1/namespaces/{namespace}/tables/{table}");
        let message = format!("Table does not exist: {namespace}.{table}");
        let report = scan_report();
        let responses = [
            app.get(&path).await,
            app.get(&format!("{path}?snapshots=refs")).await,
            app.delete(&path).await,
            app.delete(&format!("{path}?purgeRequested=true")).await,
            app.post(&path, commit.clone()).await,
            app.post(&format!("{path}/unregister"), Value::Null).await,
            app.post(&format!("{path}/metrics"), report).await,
        ];
        for response in responses {
            assert_eq!(response.error(), (404, "NoSuchTableException", message.as_str()));
        }
        assert_eq!(app.head(&path).await.expect(404).body, Value::Null);
    }
}

#[tokio::test]
async fn listing_of_tables_contains_no_views() {
    let app = TestApp::with_table_and_view().await;
    app.create_namespace(&["ns", "child"]).await;
    app.create_table("ns%1Fchild", "below").await;
    app.create_table("ns", "a").await;
    let listed = app.get(TABLES).await.expect(200);
    assert_eq!(
        listed.body,
        json!({ "next-page-token": null, "identifiers": [
            { "namespace": ["ns"], "name": "a" },
            { "namespace": ["ns"], "name": "t" },
        ]})
    );
}

#[tokio::test]
async fn dropped_table_leaves_its_files_and_frees_its_name() {
    let app = TestApp::with_table().await;
    let loaded = app.get(TABLE).await.expect(200);
    let file = loaded.body["metadata-location"].as_str().expect("a location").to_owned();
    assert_eq!(app.delete(TABLE).await.expect(204).body, Value::Null);
    app.get(TABLE).await.expect_error(404, "NoSuchTableException");
    app.delete(TABLE).await.expect_error(404, "NoSuchTableException");
    assert!(app.file(&file).await.is_some());
    let anew = app.create_table("ns", "t").await;
    assert_ne!(anew.body["metadata"]["table-uuid"], loaded.body["metadata"]["table-uuid"]);
    assert_ne!(anew.body["metadata"]["location"], loaded.body["metadata"]["location"]);
}

#[tokio::test]
async fn renamed_table_keeps_its_identity() {
    let app = TestApp::with_table().await;
    app.create_namespace(&["other"]).await;
    app.create_namespace(&["other", "deep"]).await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    let before = app.get(TABLE).await.expect(200);
    let steps: [(&[&str], &str, &[&str], &str); 3] = [
        (&["ns"], "t", &["ns"], "u"),
        (&["ns"], "u", &["other", "deep"], "u"),
        (&["other", "deep"], "u", &["other"], "t"),
    ];
    for (namespace, name, to_namespace, to_name) in steps {
        let body = rename((namespace, name), (to_namespace, to_name));
        assert_eq!(app.post("/v1/tables/rename", body).await.expect(204).body, Value::Null);
    }
    app.get(TABLE).await.expect_error(404, "NoSuchTableException");
    let itself = rename((&["other"], "t"), (&["other"], "t"));
    app.post("/v1/tables/rename", itself).await.expect(204);
    let after = app.get("/v1/namespaces/other/tables/t").await.expect(200);
    assert_eq!(after.body, before.body);
    assert_eq!(names(&app, "ns").await, Vec::<String>::new());
    assert_eq!(names(&app, "other").await, ["t"]);
    // After the rename, the old namespace is empty and can be dropped. The new one cannot.
    app.delete("/v1/namespaces/other%1Fdeep").await.expect(204);
    app.delete("/v1/namespaces/other").await.expect_error(409, "NamespaceNotEmptyException");
    app.commit("other", "t", vec![], append(2, Some(1), 2)).await.expect(200);
}

#[tokio::test]
async fn invalid_rename_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    app.create_table("ns", "u").await;
    let before = app.dump().await;
    let cases = [
        (
            rename((&["ns"], "nope"), (&["ns"], "x")),
            404,
            "NoSuchTableException",
            "Table does not exist: ns.nope",
        ),
        (
            rename((&["nope"], "t"), (&["ns"], "x")),
            404,
            "NoSuchTableException",
            "Table does not exist: nope.t",
        ),
        (
            rename((&["ns"], "v"), (&["ns"], "x")),
            404,
            "NoSuchTableException",
            "Table does not exist: ns.v",
        ),
        (
            rename((&["ns"], "t"), (&["non_existing"], "x")),
            404,
            "NoSuchNamespaceException",
            "Namespace does not exist: non_existing",
        ),
        (
            rename((&["ns"], "t"), (&["ns"], "u")),
            409,
            "AlreadyExistsException",
            "Cannot rename ns.t to ns.u. Table already exists",
        ),
        (
            rename((&["ns"], "t"), (&["ns"], "v")),
            409,
            "AlreadyExistsException",
            "Cannot rename ns.t to ns.v. View already exists",
        ),
    ];
    for (body, status, kind, message) in cases {
        let response = app.post_rejected("/v1/tables/rename", body).await;
        assert_eq!(response.error(), (status, kind, message));
    }
    assert_eq!(app.dump().await, before);
}

#[tokio::test]
async fn load_returns_all_or_referenced_snapshots() {
    let app = TestApp::with_table().await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    app.commit("ns", "t", vec![], append(2, Some(1), 2)).await.expect(200);
    let ids = |body: &Value| -> Vec<i64> {
        let snapshots = body["metadata"]["snapshots"].as_array().expect("a list").iter();
        snapshots.map(|snapshot| snapshot["snapshot-id"].as_i64().expect("an id")).collect()
    };
    for query in ["", "?snapshots=all", "?snapshots=ALL", "?referenced-by=ns%1Fv"] {
        assert_eq!(ids(&app.get(&format!("{TABLE}{query}")).await.expect(200).body), [1, 2]);
    }
    let refs = app.get(&format!("{TABLE}?snapshots=refs")).await.expect(200);
    assert_eq!(ids(&refs.body), [2]);
    assert_eq!(refs.body["metadata"]["snapshot-log"].as_array().map(Vec::len), Some(2));
    let wrong = app.get(&format!("{TABLE}?snapshots=some")).await;
    wrong.expect_error(400, "BadRequestException");
}

#[tokio::test]
async fn load_with_unsupported_delegation_returns_the_table() {
    let app = TestApp::with_table().await;
    for value in ["vended-credentials", "remote-signing", "vended-credentials,remote-signing", "x"]
    {
        let headers = [("X-Iceberg-Access-Delegation", value)];
        let loaded = app.request(axum::http::Method::GET, TABLE, &headers, &Value::Null).await;
        assert_eq!(loaded.expect(200).body["config"], json!({}));
    }
}

#[tokio::test]
async fn tables_survive_a_restart() {
    let app = TestApp::with_table_and_view().await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    let before = app.dump().await;
    let app = app.restart().await;
    assert_eq!(app.dump().await.visible, before.visible);
    assert_eq!(app.get(TABLE).await.expect(200).body["metadata"]["schemas"][0], schema());
}
