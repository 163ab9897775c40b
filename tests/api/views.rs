//! Views: create, load, list, rename, drop, register.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::snapshots::sorted_members;
use crate::support::view::{create_view, replace_query, view_version_of};

const VIEWS: &str = "/v1/namespaces/ns/views";
const VIEW: &str = "/v1/namespaces/ns/views/v";

fn rename(from: (&str, &str), to: (&str, &str)) -> Value {
    json!({
        "source": { "namespace": [from.0], "name": from.1 },
        "destination": { "namespace": [to.0], "name": to.1 },
    })
}

fn sql(text: &str, dialect: &str) -> Value {
    json!({ "type": "sql", "sql": text, "dialect": dialect })
}

#[tokio::test]
async fn new_view_has_all_members_of_the_specification() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let response = app.create_view("ns", "v").await;
    let location = response.body["metadata"]["location"].as_str().expect("a location").to_owned();
    let file = response.body["metadata-location"].as_str().expect("a location");
    assert!(location.starts_with("memory:///warehouse/ns/v-"), "{location}");
    assert!(file.starts_with(&format!("{location}/metadata/00000-")), "{file}");
    let stored = app.file(file).await.expect("the metadata file");
    let stored: Value = serde_json::from_slice(&stored).expect("JSON");
    assert_eq!(stored, response.body["metadata"]);
    assert_eq!(app.get(VIEW).await.expect(200).body, response.body);
    assert_eq!(app.head(VIEW).await.expect(204).body, Value::Null);

    let mut metadata = response.body["metadata"].clone();
    let members = metadata.as_object_mut().expect("an object");
    for name in ["view-uuid", "location", "schemas"] {
        assert!(members.remove(name).is_some(), "{name}");
    }
    for list in ["versions", "version-log"] {
        assert!(metadata[list][0]["timestamp-ms"].as_i64().is_some_and(|time| time > 0));
        metadata[list][0]["timestamp-ms"] = json!("now");
    }
    let _sorted = sorted_members();
    insta::assert_json_snapshot!(metadata, @r#"
    {
      "current-version-id": 1,
      "format-version": 1,
      "properties": {
        "comment": "a view"
      },
      "version-log": [
        {
          "timestamp-ms": "now",
          "version-id": 1
        }
      ],
      "versions": [
        {
          "default-namespace": [
            "ns"
          ],
          "representations": [
            {
              "dialect": "spark",
              "sql": "SELECT 1",
              "type": "sql"
            }
          ],
          "schema-id": 0,
          "summary": {
            "engine-name": "spark"
          },
          "timestamp-ms": "now",
          "version-id": 1
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn view_with_a_repeated_dialect_is_rejected() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let mut body = create_view("v");
    body["view-version"] =
        view_version_of(json!([sql("SELECT 1", "trino"), sql("SELECT 2", "Trino")]));
    let response = app.post_rejected(VIEWS, body.clone()).await;
    assert_eq!(
        response.error(),
        (
            400,
            "IllegalArgumentException",
            "Invalid view version: Cannot add multiple queries for dialect trino"
        )
    );
    body["view-version"] =
        view_version_of(json!([sql("SELECT 1", "trino"), sql("SELECT 1", "spark")]));
    app.post(VIEWS, body.clone()).await.expect(200);
    body["name"] = json!("w");
    body["view-version"] = view_version_of(json!([]));
    let response = app.post_rejected(VIEWS, body).await;
    assert_eq!(response.message(), "Cannot create view without specifying a query");
}

#[tokio::test]
async fn creation_under_an_existing_name_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let again = app.post_rejected(VIEWS, create_view("v")).await;
    assert_eq!(again.error(), (409, "AlreadyExistsException", "View already exists: ns.v"));
    let table = app.post_rejected(VIEWS, create_view("t")).await;
    assert_eq!(
        table.error(),
        (409, "AlreadyExistsException", "Table with same name already exists: ns.t")
    );
}

#[tokio::test]
async fn every_request_for_a_missing_view_returns_404() {
    let app = TestApp::with_table_and_view().await;
    for (namespace, view) in [("ns", "nope"), ("nope", "v"), ("ns", "t")] {
        let path = format!("/v1/namespaces/{namespace}/views/{view}");
        let message = format!("View does not exist: {namespace}.{view}");
        let responses = [
            app.get(&path).await,
            app.delete(&path).await,
            app.commit_view(namespace, view, vec![], replace_query("SELECT 2")).await,
        ];
        for response in responses {
            assert_eq!(response.error(), (404, "NoSuchViewException", message.as_str()));
        }
        assert_eq!(app.head(&path).await.expect(404).body, Value::Null);
    }
}

#[tokio::test]
async fn listing_of_views_contains_no_tables() {
    let app = TestApp::with_table_and_view().await;
    app.create_view("ns", "a").await;
    let listed = app.get(VIEWS).await.expect(200);
    assert_eq!(
        listed.body,
        json!({ "next-page-token": null, "identifiers": [
            { "namespace": ["ns"], "name": "a" },
            { "namespace": ["ns"], "name": "v" },
        ]})
    );
}

#[tokio::test]
async fn dropped_view_frees_its_name() {
    let app = TestApp::with_table_and_view().await;
    let uuid = app.get(VIEW).await.expect(200).body["metadata"]["view-uuid"].clone();
    assert_eq!(app.delete(VIEW).await.expect(204).body, Value::Null);
    app.delete(VIEW).await.expect_error(404, "NoSuchViewException");
    app.create_table("ns", "v").await;
    app.delete("/v1/namespaces/ns/tables/v").await.expect(204);
    let anew = app.create_view("ns", "v").await;
    assert_ne!(anew.body["metadata"]["view-uuid"], uuid);
}

#[tokio::test]
async fn renamed_view_keeps_its_identity() {
    let app = TestApp::with_table_and_view().await;
    app.create_namespace(&["other"]).await;
    let before = app.get(VIEW).await.expect(200);
    let body = rename(("ns", "v"), ("other", "w"));
    assert_eq!(app.post("/v1/views/rename", body).await.expect(204).body, Value::Null);
    app.get(VIEW).await.expect_error(404, "NoSuchViewException");
    assert_eq!(app.get("/v1/namespaces/other/views/w").await.expect(200).body, before.body);
    app.delete("/v1/namespaces/other").await.expect_error(409, "NamespaceNotEmptyException");
    app.commit_view("other", "w", vec![], replace_query("SELECT 2")).await.expect(200);
}

#[tokio::test]
async fn invalid_rename_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    app.create_view("ns", "w").await;
    let cases = [
        (
            rename(("ns", "nope"), ("ns", "x")),
            404,
            "NoSuchViewException",
            "View does not exist: ns.nope",
        ),
        (rename(("ns", "t"), ("ns", "x")), 404, "NoSuchViewException", "View does not exist: ns.t"),
        (
            rename(("ns", "v"), ("non_existing", "x")),
            404,
            "NoSuchNamespaceException",
            "Namespace does not exist: non_existing",
        ),
        (
            rename(("ns", "v"), ("ns", "w")),
            409,
            "AlreadyExistsException",
            "Cannot rename ns.v to ns.w. View already exists",
        ),
        (
            rename(("ns", "v"), ("ns", "t")),
            409,
            "AlreadyExistsException",
            "Cannot rename ns.v to ns.t. Table already exists",
        ),
    ];
    for (body, status, kind, message) in cases {
        let response = app.post_rejected("/v1/views/rename", body).await;
        assert_eq!(response.error(), (status, kind, message));
    }
}

#[tokio::test]
async fn a_view_is_registered_from_its_metadata_file() {
    let app = TestApp::with_table_and_view().await;
    let before = app.get(VIEW).await.expect(200);
    let location = before.body["metadata-location"].clone();
    let register = |name: &str| json!({ "name": name, "metadata-location": location });
    let path = "/v1/namespaces/ns/register-view";
    let taken = app.post_rejected(path, register("v")).await;
    assert_eq!(taken.error(), (409, "AlreadyExistsException", "View already exists: ns.v"));
    let taken = app.post_rejected(path, register("t")).await;
    assert_eq!(
        taken.error(),
        (409, "AlreadyExistsException", "Table with same name already exists: ns.t")
    );
    app.delete(VIEW).await.expect(204);
    let registered = app.post(path, register("w")).await.expect(200);
    assert_eq!(registered.body, before.body);
    assert_eq!(app.get("/v1/namespaces/ns/views/w").await.expect(200).body, before.body);
    app.commit_view("ns", "w", vec![], replace_query("SELECT 2")).await.expect(200);
}

#[tokio::test]
async fn views_survive_a_restart() {
    let app = TestApp::with_table_and_view().await;
    app.commit_view("ns", "v", vec![], replace_query("SELECT 2")).await.expect(200);
    let before = app.dump().await;
    let app = app.restart().await;
    assert_eq!(app.dump().await.visible, before.visible);
}
