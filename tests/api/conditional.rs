//! Entity tags of responses (`ETag`) and 304.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{Answer, TestApp};
use crate::support::table::{append, create_table, set_property};

const TABLE: &str = "/v1/namespaces/ns/tables/t";
const REFS: &str = "/v1/namespaces/ns/tables/t?snapshots=refs";

async fn load_if_none_match(app: &TestApp, path: &str, tags: &[&str]) -> Answer {
    let headers: Vec<_> = tags.iter().map(|tag| ("If-None-Match", *tag)).collect();
    app.request(Method::GET, path, &headers, &Value::Null).await
}

#[tokio::test]
async fn a_client_that_has_the_table_is_told_so() {
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
async fn a_tag_tells_every_state_and_every_way_to_show_it() {
    let app = TestApp::with_table().await;
    let mut tags = Vec::new();
    let mut seen = async |app: &TestApp| {
        for path in [TABLE, REFS] {
            let tag = app.get(path).await.expect(200).header("etag").to_owned();
            assert!(!tags.contains(&tag), "{tag} stood for something else");
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
async fn a_tag_of_one_way_to_show_a_table_is_none_of_the_other() {
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
async fn create_register_and_commit_tell_the_tag_of_the_whole_table() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let made = app.post("/v1/namespaces/ns/tables", create_table("t")).await.expect(200);
    load_if_none_match(&app, TABLE, &[made.header("etag")]).await.expect(304);

    let committed = app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    load_if_none_match(&app, TABLE, &[made.header("etag")]).await.expect(200);
    load_if_none_match(&app, TABLE, &[committed.header("etag")]).await.expect(304);

    app.delete(TABLE).await.expect(204);
    let body = json!({ "name": "r", "metadata-location": committed.body["metadata-location"] });
    let registered = app.post("/v1/namespaces/ns/register", body).await.expect(200);
    let path = "/v1/namespaces/ns/tables/r";
    load_if_none_match(&app, path, &[registered.header("etag")]).await.expect(304);
}

#[tokio::test]
async fn a_commit_makes_the_clients_copy_stale() {
    let app = TestApp::with_table().await;
    let tag = app.get(TABLE).await.expect(200).header("etag").to_owned();
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let loaded = load_if_none_match(&app, TABLE, &[&tag]).await.expect(200);
    assert_eq!(loaded.body["metadata"]["properties"]["a"], "1");
    assert_ne!(loaded.header("etag"), tag);
}

#[tokio::test]
async fn a_restart_leaves_the_copy_fresh() {
    let app = TestApp::with_table().await;
    let tag = app.get(TABLE).await.expect(200).header("etag").to_owned();
    let app = app.restart().await;
    load_if_none_match(&app, TABLE, &[&tag]).await.expect(304);
}

#[tokio::test]
async fn a_table_that_is_gone_is_not_unchanged() {
    let app = TestApp::with_table().await;
    let tag = app.get(TABLE).await.expect(200).header("etag").to_owned();
    app.delete(TABLE).await.expect(204);
    for known in [tag.as_str(), "*"] {
        let gone = load_if_none_match(&app, TABLE, &[known]).await;
        gone.expect_error(404, "NoSuchTableException");
    }
}
