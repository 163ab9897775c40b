//! Explanations of decisions over the API: about the caller, and about other principals if the
//! caller may read policies.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::create_table;

const AUTHORIZE: &str = "/management/v1/authorize";
const PERMISSIONS: &str = "/management/v1/permissions";

async fn scene() -> TestApp {
    let app = TestApp::secured().await;
    app.post("/v1/namespaces", json!({ "namespace": ["hr"] })).await.expect(200);
    let mut table = create_table("people");
    table["properties"] = json!({ "classification": "pii" });
    app.post("/v1/namespaces/hr/tables", table).await.expect(200);
    app
}

/// Returns the decision and the policies that determined it.
fn decided(response: &Value) -> (String, Vec<String>) {
    let policies = response["policies"].as_array().expect("a list").iter();
    let ids = policies.map(|policy| policy["id"].as_str().expect("an id").to_owned());
    (response["decision"].as_str().expect("a word").to_owned(), ids.collect())
}

fn expected_decision(decision: &str, policies: &[&str]) -> (String, Vec<String>) {
    (decision.to_owned(), policies.iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn explained_decision_contains_its_deciding_policies() {
    let app = scene().await;
    let private = "@id(\"private\") @description(\"People are private.\") forbid (principal, action in \
                   [Action::\"Load\", Action::\"ReadData\"], resource is Table) when { \
                   resource.hasTag(\"classification\") } unless { principal in Group::\"privacy\" };";
    app.put_policy("private", private).await.expect(200);
    let ask = async |principal: Value, action: &str, resource: &str| {
        let body = json!({ "principal": principal, "action": action, "resource": resource });
        app.post(AUTHORIZE, body).await.expect(200).body
    };
    let people = "table:default/hr/people";
    let reader = json!({ "user": "corp/rob", "roles": ["reader"] });
    let response = ask(reader.clone(), "Load", people).await;
    assert_eq!(decided(&response), expected_decision("deny", &["private"]));
    assert_eq!(response["policies"][0]["description"], "People are private.");
    assert_eq!(response["policies"][0]["origin"], "api");
    assert_eq!(response["policies"][0]["effect"], "forbid");
    assert_eq!(response["revision"], 1);
    assert_eq!(response["in-force"], app.get("/management/v1/policies").await.body["in-force"]);
    assert_eq!(response["principal"]["id"], "corp/rob");

    let insider = json!({ "user": "corp/pam", "roles": ["reader"], "groups": ["privacy"] });
    assert_eq!(
        decided(&ask(insider, "Load", people).await),
        expected_decision("allow", &["role-reader"])
    );
    // A missing resource is evaluated by its name.
    let response = ask(reader.clone(), "Load", "table:default/hr/offices").await;
    assert_eq!(decided(&response), expected_decision("allow", &["role-reader"]));
    // The request replaces the properties of the table: the response is the decision that would
    // apply with them.
    let body = json!({
        "principal": reader, "action": "Load", "resource": people,
        "attributes": { "properties": {} },
    });
    let response = app.post(AUTHORIZE, body).await.expect(200).body;
    assert_eq!(decided(&response), expected_decision("allow", &["role-reader"]));
    let scoped = json!({ "service-account": "x", "roles": ["admin"], "warehouses": ["other"] });
    let response = ask(scoped, "Load", people).await;
    assert_eq!(decided(&response), expected_decision("deny", &["credential-scope"]));
    let response = ask(json!({ "user": "corp/eve" }), "ReadConfig", "warehouse:default").await;
    assert_eq!(decided(&response), expected_decision("deny", &[]));
}

#[tokio::test]
async fn explain_evaluates_the_given_context() {
    let app = scene().await;
    let freeze = "@id(\"freeze\") forbid (principal, action, resource in Warehouse::\"default\") when { \
                  context.time >= datetime(\"2026-12-30\") && context has source_address && \
                  context.source_address.isInRange(ip(\"10.0.0.0/8\")) };";
    app.put_policy("freeze", freeze).await.expect(200);
    let ask = async |context: Value| {
        let body = json!({
            "principal": { "user": "u", "roles": ["admin"] }, "context": context,
            "action": "DropNamespace", "resource": "namespace:default/hr",
        });
        app.post(AUTHORIZE, body).await
    };
    let frozen = json!({ "time": "2026-12-31T00:00:00Z", "source-address": "10.1.2.3" });
    assert_eq!(
        decided(&ask(frozen).await.expect(200).body),
        expected_decision("deny", &["freeze"])
    );
    let before = json!({ "time": "2026-12-29T00:00:00Z", "source-address": "10.1.2.3" });
    assert_eq!(
        decided(&ask(before).await.expect(200).body),
        expected_decision("allow", &["role-admin"])
    );
    let elsewhere = json!({ "time": "2026-12-31T00:00:00Z", "source-address": "192.0.2.1" });
    assert_eq!(
        decided(&ask(elsewhere).await.expect(200).body),
        expected_decision("allow", &["role-admin"])
    );
    for wrong in [json!({ "time": "noon" }), json!({ "source-address": "x" }), json!({ "x": 1 })] {
        assert_eq!(ask(wrong.clone()).await.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn explain_about_others_needs_permission_to_read_policies() {
    let app = scene().await;
    let (id, reader) = app.make_key(json!({ "name": "r", "roles": ["reader"] })).await;
    let (_, auditor) = app.make_key(json!({ "name": "a", "roles": ["auditor"] })).await;
    let own = json!({ "action": "Load", "resource": "table:default/hr/people" });
    let response = app.request_as(&reader, Method::POST, AUTHORIZE, &own).await.expect(200).body;
    assert_eq!(decided(&response), expected_decision("allow", &["role-reader"]));
    assert_eq!(response["principal"]["id"], id);
    let permissions = format!("{PERMISSIONS}?resource=table:default/hr/people");
    let mine = app.get_as(&reader, &permissions).await.expect(200).body;
    assert_eq!(mine["actions"], json!(["Load", "ReadData", "ReportMetrics", "Watch"]));
    let none = app.get_as(&reader, &format!("{PERMISSIONS}?resource=catalog")).await.expect(200);
    assert_eq!(none.body["actions"], json!(["Watch"]));

    let mut of_key = own.clone();
    of_key["principal"] = json!({ "key": id });
    let rejection = app.request_as(&reader, Method::POST, AUTHORIZE, &of_key).await;
    rejection.expect_error(403, "ForbiddenException");
    let rejection = app.get_as(&reader, &format!("{permissions}&key={id}")).await;
    rejection.expect_error(403, "ForbiddenException");
    let response = app.request_as(&auditor, Method::POST, AUTHORIZE, &of_key).await.expect(200);
    assert_eq!(decided(&response.body), expected_decision("allow", &["role-reader"]));
    let theirs = app.get_as(&auditor, &format!("{permissions}&key={id}")).await.expect(200);
    assert_eq!(theirs.body["actions"], mine["actions"]);
    let theirs = format!("{permissions}&user=corp/eve&role=auditor&group=x");
    let theirs = app.get_as(&auditor, &theirs).await.expect(200);
    assert_eq!(theirs.body["actions"], json!(["Load", "ReadHistory", "Watch"]));
    for wrong in ["&key=nope", "&key=x&user=y", "&key=x&role=y"] {
        let response = app.get_as(&auditor, &format!("{permissions}{wrong}")).await;
        assert!(response.status.is_client_error(), "{wrong}");
    }
    app.get_as(&auditor, PERMISSIONS).await.expect(400);
}

#[tokio::test]
async fn explain_reveals_nothing_about_a_hidden_resource() {
    let app = scene().await;
    let (_, key) = app.make_key(json!({ "name": "n" })).await;
    let open = "@id(\"open\") permit (principal, action == Action::\"ReadData\", resource is Table) \
                unless { resource.hasTag(\"classification\") };";
    app.put_policy("open", open).await.expect(200);
    let ask = async |table: &str| {
        let resource = format!("table:default/hr/{table}");
        let body = json!({ "action": "ReadData", "resource": resource });
        let response = app.request_as(&key, Method::POST, AUTHORIZE, &body).await.expect(200);
        decided(&response.body)
    };
    assert_eq!(ask("people").await, ask("nobody").await);
}

#[tokio::test]
async fn invalid_explain_request_is_rejected() {
    let app = scene().await;
    for body in [
        json!({}),
        json!({ "action": "Load" }),
        json!({ "action": "Fly", "resource": "catalog" }),
        json!({ "action": "Load", "resource": "catalog" }),
        json!({ "action": "Read", "resource": "table:default/hr/people" }),
        json!({ "action": "Load", "resource": "people" }),
        json!({ "action": "Load", "resource": "table:default/hr/people", "principal": {} }),
        json!({ "action": "Load", "resource": "table:default/hr/people", "principal": "me" }),
    ] {
        let response = app.post_rejected(AUTHORIZE, body.clone()).await;
        assert_eq!(response.status, 400, "{body}");
    }
}
