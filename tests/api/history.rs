//! The change log: who may read it, and which changes it lists.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::set_property;

const HISTORY: &str = "/management/v1/history";

/// Returns the actions of the listed changes, the newest first.
async fn actions(app: &TestApp, query: &str) -> Vec<String> {
    let body = app.get(&format!("{HISTORY}{query}")).await.expect(200).body;
    let entries = body["entries"].as_array().expect("a list");
    entries.iter().map(|it| it["action"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn history_of_a_table_follows_its_renames_and_names_its_authors() {
    let app = TestApp::secured().await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    app.create_table("ns", "other").await;
    let (id, writer) = app.make_key(json!({ "name": "etl", "roles": ["writer"] })).await;
    let body = json!({ "requirements": [], "updates": [set_property("a", "1")] });
    let path = "/v1/namespaces/ns/tables/t";
    app.request_as(&writer, Method::POST, path, &body).await.expect(200);
    let rename = json!({
        "source": { "namespace": ["ns"], "name": "t" },
        "destination": { "namespace": ["ns"], "name": "u" },
    });
    app.post("/v1/tables/rename", rename).await.expect(204);
    let listed = app.get(&format!("{HISTORY}?resource=table:default/ns/u")).await.expect(200);
    let entries = listed.body["entries"].as_array().expect("a list");
    let listed: Vec<_> = entries.iter().map(|it| (&it["action"], &it["name"])).collect();
    let expected = [("rename_table", "ns.u"), ("commit_table", "ns.t"), ("create_table", "ns.t")];
    assert_eq!(listed.len(), expected.len());
    for ((action, name), expected) in listed.into_iter().zip(expected) {
        assert_eq!((action.as_str(), name.as_str()), (Some(expected.0), Some(expected.1)));
    }
    let commit = &entries[1];
    assert_eq!((&commit["principal"], &commit["principal-name"]), (&json!(id), &json!("etl")));
    assert_eq!((&commit["version-before"], &commit["version-after"]), (&json!(1), &json!(2)));
    assert_eq!(commit["policies"], json!(["role-writer"]));
    assert_eq!(
        (&commit["warehouse"], &commit["authentication"]),
        (&json!("default"), &json!("api-key"))
    );
    assert!(commit["request-id"].is_string() && commit["at-ms"].is_number(), "{commit}");
}

#[tokio::test]
async fn history_of_a_warehouse_includes_what_was_dropped_in_it() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let created = app.create_table("ns", "t").await.body;
    let location = created["metadata"]["location"].as_str().expect("a location");
    let (_, id) = location.rsplit_once('-').expect("a generated location has the id");
    app.delete("/v1/namespaces/ns/tables/t").await.expect(204);
    let all = ["drop_table", "create_table", "create_namespace"];
    assert_eq!(actions(&app, "?resource=warehouse:default").await, all);
    assert_eq!(actions(&app, "").await, all);
    let of_table = format!("?resource=warehouse:default&id={id}");
    assert_eq!(actions(&app, &of_table).await, ["drop_table", "create_table"]);
    assert_eq!(actions(&app, "?resource=namespace:default/ns").await, ["create_namespace"]);
    app.get(&format!("{HISTORY}?resource=table:default/ns/t")).await.expect(404);
}

#[tokio::test]
async fn pages_of_the_history_contain_each_change_once() {
    let app = TestApp::new().await;
    for number in 0..7 {
        app.create_namespace(&[&format!("n{number}")]).await;
    }
    let all = app.get(HISTORY).await.expect(200).body["entries"].clone();
    let (mut paged, mut before) = (Vec::new(), String::new());
    loop {
        let page = app.get(&format!("{HISTORY}?pageSize=3{before}")).await.expect(200).body;
        paged.extend(page["entries"].as_array().expect("a list").clone());
        match page["next-before"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(json!(paged), all);
    assert_eq!(paged.len(), 7);
}

#[tokio::test]
async fn wrong_parameters_of_the_history_are_rejected() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let id = "0197a000-0000-7000-8000-000000000001";
    for (query, status) in [
        ("?pageSize=0", 400),
        ("?pageSize=x", 400),
        ("?before=-1", 400),
        ("?id=x", 400),
        ("?resource=ns", 400),
        (&*format!("?resource=namespace:default/ns&id={id}"), 400),
        ("?resource=warehouse:x", 404),
        ("?resource=namespace:default/x", 404),
        ("?before=0", 200),
        ("?before=18446744073709551615", 200),
    ] {
        app.get(&format!("{HISTORY}{query}")).await.expect(status);
    }
}

#[tokio::test]
async fn history_requires_its_own_action_on_the_resource() {
    let app = TestApp::with_policies(
        r#"@id("keeper") permit (principal in Role::"keeper",
               action in [Action::"Read", Action::"ReadHistory"],
               resource in Namespace::"default/sales");
           @id("config") permit (principal in Role::"keeper", action == Action::"ReadConfig", resource);"#,
        |_| {},
    )
    .await;
    for namespace in ["sales", "hr"] {
        app.create_namespace(&[namespace]).await;
        app.create_table(namespace, "t").await;
    }
    let (writer, keeper) = (app.key_with_role("writer").await, app.key_with_role("keeper").await);
    let auditor = app.key_with_role("auditor").await;
    for (key, query, status) in [
        (&writer, "?resource=table:default/sales/t", 403),
        (&writer, "?resource=warehouse:default", 403),
        (&writer, "", 403),
        (&keeper, "?resource=table:default/sales/t", 200),
        (&keeper, "?resource=table:default/hr/t", 404),
        (&keeper, "?resource=warehouse:default", 403),
        (&keeper, "", 403),
        (&auditor, "", 200),
        (&auditor, "?resource=table:default/hr/t", 200),
        (&String::new(), "", 401),
    ] {
        let path = format!("{HISTORY}{query}");
        app.request_as(key, Method::GET, &path, &Value::Null).await.expect(status);
    }
}
