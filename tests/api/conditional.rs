//! Entity tags of responses (`ETag`) and 304.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::table::{append, create_table, set_property};

const TABLE: &str = "/v1/namespaces/ns/tables/t";
const REFS: &str = "/v1/namespaces/ns/tables/t?snapshots=refs";

async fn load_if_none_match(app: &TestApp, path: &str, tags: &[&str]) -> TestResponse {
    let headers: Vec<_> = tags.iter().map(|tag| ("If-None-Match", *tag)).collect();
    app.request(Method::GET, path, &headers, &Value::Null).await
}

#[tokio::test]
async fn load_with_the_current_etag_returns_304() {
    let app = TestApp::with_table().await;
    let loaded = app.get(TABLE).await.expect(200);
    let tag = loaded.header("etag");
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2, "{tag}");
    let bare = tag.trim_matches('"');
    let weak = format!("W/{tag}");
    let list = format!("\"other\", {tag}");
    for known in [&[tag][..], &[bare], &[&weak], &[&list], &["*"], &["\"other\"", tag]] {
        let unchanged = load_if_none_match(&app, TABLE, known).await.expect(304);
        assert_eq!(unchanged.body, Value::Null, "{known:?}");
        assert_eq!(unchanged.header("etag"), tag);
    }
    for other in ["\"other\"", "", "\"\"", "W/", ","] {
        let whole = load_if_none_match(&app, TABLE, &[other]).await.expect(200);
        assert_eq!(whole.body, loaded.body, "{other}");
    }
}

#[tokio::test]
async fn etags_differ_by_state_and_snapshot_mode() {
    let app = TestApp::with_table().await;
    let mut tags = Vec::new();
    let mut seen = async |app: &TestApp| {
        for path in [TABLE, REFS] {
            let tag = app.get(path).await.expect(200).header("etag").to_owned();
            assert!(!tags.contains(&tag), "{tag} is also the tag of another response");
            tags.push(tag);
        }
    };
    seen(&app).await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    seen(&app).await;
    app.commit("ns", "t", vec![], append(2, Some(1), 2)).await.expect(200);
    seen(&app).await;
    app.delete(TABLE).await.expect(204);
    app.create_table("ns", "t").await;
    seen(&app).await;
}

#[tokio::test]
async fn etag_of_one_snapshot_mode_does_not_match_another() {
    let app = TestApp::with_table().await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    let all = app.get(TABLE).await.expect(200).header("etag").to_owned();
    let refs = app.get(REFS).await.expect(200).header("etag").to_owned();
    load_if_none_match(&app, TABLE, &[&refs]).await.expect(200);
    load_if_none_match(&app, REFS, &[&all]).await.expect(200);
    load_if_none_match(&app, REFS, &[&refs]).await.expect(304);
    load_if_none_match(&app, &format!("{TABLE}?snapshots=all"), &[&all]).await.expect(304);
}

#[tokio::test]
async fn create_register_and_commit_return_the_etag_of_the_whole_table() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let created = app.post("/v1/namespaces/ns/tables", create_table("t")).await.expect(200);
    load_if_none_match(&app, TABLE, &[created.header("etag")]).await.expect(304);

    let committed = app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    load_if_none_match(&app, TABLE, &[created.header("etag")]).await.expect(200);
    load_if_none_match(&app, TABLE, &[committed.header("etag")]).await.expect(304);

    app.delete(TABLE).await.expect(204);
    let body = json!({ "name": "r", "metadata-location": committed.body["metadata-location"] });
    let registered = app.post("/v1/namespaces/ns/register", body).await.expect(200);
    let path = "/v1/namespaces/ns/tables/r";
    load_if_none_match(&app, path, &[registered.header("etag")]).await.expect(304);
}

#[tokio::test]
async fn etag_does_not_match_after_a_commit() {
    let app = TestApp::with_table().await;
    let tag = app.get(TABLE).await.expect(200).header("etag").to_owned();
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let loaded = load_if_none_match(&app, TABLE, &[&tag]).await.expect(200);
    assert_eq!(loaded.body["metadata"]["properties"]["a"], "1");
    assert_ne!(loaded.header("etag"), tag);
}

#[tokio::test]
async fn etag_matches_after_a_restart() {
    let app = TestApp::with_table().await;
    let tag = app.get(TABLE).await.expect(200).header("etag").to_owned();
    let app = app.restart().await;
    load_if_none_match(&app, TABLE, &[&tag]).await.expect(304);
}

#[tokio::test]
async fn load_of_a_dropped_table_with_its_etag_returns_404() {
    let app = TestApp::with_table().await;
    let tag = app.get(TABLE).await.expect(200).header("etag").to_owned();
    app.delete(TABLE).await.expect(204);
    for known in [tag.as_str(), "*"] {
        let absent = load_if_none_match(&app, TABLE, &[known]).await;
        absent.expect_error(404, "NoSuchTableException");
    }
}
