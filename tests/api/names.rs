//! Names of every kind: every unambiguous name is allowed, and is stored unchanged.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::path;
use crate::support::table::{create_table, set_property};
use crate::support::view::create_view;

const NAMES: [&str; 22] = [
    "a.b",
    "a/b",
    "a b",
    "a+b",
    "a%b",
    "%2F",
    "%1F",
    "a?b",
    "a#b",
    "a&b=c",
    "..a",
    "a..",
    " ",
    "-",
    "ü",
    "u\u{308}",
    "名前",
    "🦀",
    "\u{202e}abc",
    "'; DROP TABLE t; --",
    "\"quoted\"",
    "\\",
];

#[tokio::test]
async fn namespace_table_and_view_with_any_name_can_be_created_renamed_and_dropped() {
    let app = TestApp::new().await;
    for name in NAMES {
        let segment = path::segment(name);
        let namespace = format!("/v1/namespaces/{segment}");
        app.create_namespace(&[name]).await;
        app.get(&namespace).await.expect(200);
        app.head(&namespace).await.expect(204);
        app.create_namespace(&[name, name]).await;
        let nested = app.get(&format!("{namespace}%1F{segment}")).await.expect(200);
        assert_eq!(nested.body["namespace"], json!([name, name]));
        let children = app.get(&format!("/v1/namespaces?parent={segment}")).await.expect(200);
        assert_eq!(children.body["namespaces"], json!([[name, name]]));

        let (table, view) = (format!("{namespace}/tables/{segment}"), format!("{name}-view"));
        app.post(&format!("{namespace}/tables"), create_table(name)).await.expect(200);
        app.head(&table).await.expect(204);
        let update = json!({ "updates": [set_property("k", name)], "requirements": [],
                             "identifier": { "namespace": [name], "name": name } });
        let committed = app.post(&table, update).await.expect(200);
        assert_eq!(committed.body["metadata"]["properties"]["k"], name);
        app.post(&format!("{namespace}/views"), create_view(&view)).await.expect(200);
        app.head(&format!("{namespace}/views/{}", path::segment(&view))).await.expect(204);
        let listed = app.get(&format!("{namespace}/tables")).await.expect(200);
        assert_eq!(listed.body["identifiers"], json!([{ "namespace": [name], "name": name }]));
    }
    let seen = app.dump().await.visible;
    assert_eq!(seen.as_object().map(serde_json::Map::len), Some(2 * NAMES.len()));
    let app = app.restart().await;
    assert_eq!(app.dump().await.visible, seen);
    for name in NAMES {
        let (segment, view) = (path::segment(name), path::segment(&format!("{name}-view")));
        let namespace = format!("/v1/namespaces/{segment}");
        app.delete(&format!("{namespace}/tables/{segment}")).await.expect(204);
        app.delete(&format!("{namespace}/views/{view}")).await.expect(204);
        app.delete(&format!("{namespace}%1F{segment}")).await.expect(204);
        app.delete(&namespace).await.expect(204);
    }
    assert_eq!(app.dump().await.visible, json!({}));
}

#[tokio::test]
async fn dot_in_a_name_does_not_separate_levels() {
    let app = TestApp::new().await;
    app.create_namespace(&["a"]).await;
    app.create_namespace(&["a", "b"]).await;
    app.get("/v1/namespaces/a.b").await.expect_error(404, "NoSuchNamespaceException");
    app.create_namespace(&["a.b"]).await;
    app.create_table("a.b", "t").await;
    app.get("/v1/namespaces/a%1Fb/tables/t").await.expect_error(404, "NoSuchTableException");
    app.delete("/v1/namespaces/a%1Fb").await.expect(204);
    app.get("/v1/namespaces/a.b/tables/t").await.expect(200);
    let nested = app.delete("/v1/namespaces/a%1Fb").await;
    assert_eq!(nested.message(), "Namespace does not exist: a.b");
}

#[tokio::test]
async fn plus_in_a_path_is_a_space_and_encoded_plus_is_a_plus() {
    let app = TestApp::new().await;
    app.create_namespace(&["a b"]).await;
    app.create_namespace(&["a+b"]).await;
    for (path, name) in [("a%20b", "a b"), ("a+b", "a b"), ("a%2Bb", "a+b"), ("a%2bb", "a+b")] {
        let loaded = app.get(&format!("/v1/namespaces/{path}")).await.expect(200);
        assert_eq!(loaded.body["namespace"], json!([name]), "{path}");
    }
}

#[tokio::test]
async fn names_that_look_alike_are_different() {
    let app = TestApp::new().await;
    // The last two look the same, but are different strings.
    for name in ["a", "A", "a ", " a", "ü", "u\u{308}"] {
        app.create_namespace(&[name]).await;
    }
    let listed = app.get("/v1/namespaces").await.expect(200);
    assert_eq!(listed.body["namespaces"].as_array().map(Vec::len), Some(6));
}

/// A client that reads the metadata table `ns.t.snapshots` first looks for a table `snapshots` in
/// the namespace `ns.t`.
#[tokio::test]
async fn metadata_table_is_not_a_table_of_the_catalog() {
    let app = TestApp::with_table().await;
    for name in ["snapshots", "files", "history"] {
        let response = app.get(&format!("/v1/namespaces/ns%1Ft/tables/{name}")).await;
        let message = format!("Table does not exist: ns.t.{name}");
        assert_eq!(response.error(), (404, "NoSuchTableException", message.as_str()));
    }
}

#[tokio::test]
async fn namespace_with_the_maximum_number_of_levels_is_accepted() {
    let app = TestApp::new().await;
    let levels: Vec<_> = (0..32).map(|n| format!("l{n}")).collect();
    let mut levels: Vec<_> = levels.iter().map(String::as_str).collect();
    for depth in 1..=32 {
        app.create_namespace(&levels[..depth]).await;
    }
    let deepest = path::namespace(&levels);
    app.create_table(&deepest, "t").await;
    app.get(&format!("/v1/namespaces/{deepest}/tables/t")).await.expect(200);
    levels.push("l32");
    let response = app.post("/v1/namespaces", json!({ "namespace": levels })).await;
    assert_eq!(
        response.error(),
        (400, "IllegalArgumentException", "Invalid namespace: 33 levels, at most 32 are allowed")
    );
}

#[tokio::test]
async fn name_of_the_maximum_length_is_accepted_and_a_longer_one_is_rejected() {
    let app = TestApp::new().await;
    let longest = "ü".repeat(256);
    app.create_namespace(&[&longest]).await;
    let namespace = format!("/v1/namespaces/{}", path::segment(&longest));
    let created =
        app.post(&format!("{namespace}/tables"), create_table(&longest)).await.expect(200);
    let file = created.body["metadata-location"].as_str().expect("a location");
    // Each segment of a location fits the limits of file systems.
    assert!(file.split('/').all(|part| part.len() <= 255), "{file}");
    app.get(&format!("{namespace}/tables/{}", path::segment(&longest))).await.expect(200);
    let longer = format!("{longest}x");
    let text = "513 bytes long, at most 512 are allowed";
    let cases: [(String, Value, String); 3] = [
        (
            "/v1/namespaces".into(),
            json!({ "namespace": [longer] }),
            format!("Invalid namespace level: {text}"),
        ),
        (format!("{namespace}/tables"), create_table(&longer), format!("Invalid name: {text}")),
        (format!("{namespace}/views"), create_view(&longer), format!("Invalid name: {text}")),
    ];
    for (path, body, message) in cases {
        let response = app.post_rejected(&path, body).await;
        assert_eq!(response.error(), (400, "IllegalArgumentException", message.as_str()));
    }
}
