//! Responses warn about keys and grants that have no effect. Requests can name an API key instead
//! of giving its id.

use serde_json::{Value, json};
use slateberg_config::Settings;

use crate::support::app::TestApp;

const KEYS: &str = "/management/v1/api-keys";
const GRANTS: &str = "/management/v1/grants";

fn grant_to(grantee: &str) -> Value {
    json!({ "template": "read", "grantee": grantee, "resource": "warehouse:default" })
}

#[track_caller]
fn warnings(body: &Value) -> Vec<&str> {
    let warnings = body["warnings"].as_array().expect("a list");
    warnings.iter().map(|warning| warning.as_str().expect("a text")).collect()
}

#[tokio::test]
async fn a_key_with_a_role_that_no_policy_mentions_is_created_with_a_warning() {
    let app = TestApp::secured().await;
    let created = app.post(KEYS, json!({ "name": "bob", "roles": ["writter"] })).await.expect(201);
    let expected = "no policy in force mentions the role 'writter'. Did you mean 'writer'?";
    assert_eq!(warnings(&created.body), [expected]);
    let created = app.post(KEYS, json!({ "name": "ann", "roles": ["qqq"] })).await.expect(201);
    let expected = "no policy in force mentions the role 'qqq'. \
                    Known roles: admin, auditor, reader, writer";
    assert_eq!(warnings(&created.body), [expected]);
    let created = app.post(KEYS, json!({ "name": "eve", "roles": ["writer"] })).await.expect(201);
    assert!(warnings(&created.body).is_empty());
    // There is no warning about a role that a grant mentions.
    app.post(GRANTS, grant_to("role:analysts")).await.expect(201);
    let created = app.post(KEYS, json!({ "name": "dan", "roles": ["analysts"] })).await.expect(201);
    assert!(warnings(&created.body).is_empty());
}

#[tokio::test]
async fn key_with_a_role_in_the_condition_of_a_policy_is_created_without_a_warning() {
    let policy = r#"@id("team") permit (principal, action in Action::"Read", resource)
                    when { principal in Role::"team" };"#;
    let app = TestApp::with_policies(policy, |_| {}).await;
    let created = app.post(KEYS, json!({ "name": "bob", "roles": ["team"] })).await.expect(201);
    assert!(warnings(&created.body).is_empty());
}

#[tokio::test]
async fn a_grant_to_the_name_of_one_key_is_a_grant_to_its_id() {
    let app = TestApp::secured().await;
    let (id, key) = app.make_key(json!({ "name": "dashboard" })).await;
    let granted = app.post(GRANTS, grant_to("service-account:dashboard")).await.expect(201).body;
    assert_eq!(granted["grant"]["grantee"], format!("service-account:{id}"));
    assert!(warnings(&granted).is_empty());
    app.get_as(&key, "/v1/namespaces").await.expect(200);
    let listed = app.get(&format!("{GRANTS}?grantee=service-account:dashboard")).await.expect(200);
    assert_eq!(listed.body["grants"].as_array().expect("a list").len(), 1);
    let request = json!({ "principal": { "key": "dashboard" }, "action": "ReadConfig",
                        "resource": "warehouse:default" });
    let explained = app.post("/management/v1/authorize", request).await.expect(200).body;
    assert_eq!(
        (&explained["decision"], &explained["principal"]["id"]),
        (&json!("allow"), &json!(id))
    );
}

#[tokio::test]
async fn a_grant_to_the_name_of_two_keys_is_rejected_with_their_ids() {
    let app = TestApp::secured().await;
    let (first, _) = app.make_key(json!({ "name": "dashboard" })).await;
    let (second, _) = app.make_key(json!({ "name": "dashboard" })).await;
    let response = app.post_rejected(GRANTS, grant_to("service-account:dashboard")).await;
    let response = response.expect_error(400, "BadRequestException");
    assert_eq!(
        response.message(),
        format!("2 API keys have the name 'dashboard'. Write the id of one: {first}, {second}")
    );
    // After the revocation of the first key, the name is no longer ambiguous.
    app.delete(&format!("{KEYS}/{first}")).await.expect(204);
    let granted = app.post(GRANTS, grant_to("service-account:dashboard")).await.expect(201).body;
    assert_eq!(granted["grant"]["grantee"], format!("service-account:{second}"));
}

#[tokio::test]
async fn grant_to_a_principal_that_does_not_exist_is_created_with_a_warning() {
    let issuer = |settings: &mut Settings| {
        let issuer = slateberg_authn::settings::IssuerSettings {
            issuer: "https://id.example.com".to_owned(),
            audiences: vec!["slateberg".to_owned()],
            ..Default::default()
        };
        settings.authn.insecure_no_auth = false;
        settings.authn.issuers.insert("corp".to_owned(), issuer);
    };
    let app = TestApp::with_settings(issuer).await;
    app.make_key(json!({ "name": "dashboard", "roles": ["bi"] })).await;
    for (grantee, expected) in [
        (
            "service-account:dashbord",
            "no valid API key has this id or name: dashbord. Did you mean 'dashboard'?",
        ),
        (
            "service-account:01a204c8-3051-72e5-8276-1796d934ce14",
            "no valid API key has this id: 01a204c8-3051-72e5-8276-1796d934ce14",
        ),
        (
            "user:ann",
            "'ann' does not begin with the name of an issuer: the id of a user is ISSUER/SUBJECT. \
                      Configured issuers: corp",
        ),
        ("role:raeder", "no policy mentions the role 'raeder'. Did you mean 'reader'?"),
    ] {
        let granted = app.post(GRANTS, grant_to(grantee)).await.expect(201).body;
        assert_eq!(warnings(&granted), [expected], "{grantee}");
    }
    for grantee in
        ["user:corp/ann", "user:mtls/ops", "service-account:mtls/ops", "role:bi", "group:x"]
    {
        let granted = app.post(GRANTS, grant_to(grantee)).await.expect(201).body;
        assert_eq!(warnings(&granted), Vec::<&str>::new(), "{grantee}");
    }
}

#[tokio::test]
async fn grantor_who_may_not_list_keys_learns_no_names_of_keys() {
    let app = TestApp::secured().await;
    app.make_key(json!({ "name": "dashboard" })).await;
    let (owner_id, owner) = app.make_key(json!({ "name": "owner" })).await;
    let own = json!({ "template": "own", "grantee": format!("service-account:{owner_id}"),
                      "resource": "warehouse:default" });
    app.post(GRANTS, own).await.expect(201);
    for name in ["dashboard", "dashbord"] {
        let body = grant_to(&format!("service-account:{name}"));
        let granted = app.request_as(&owner, axum::http::Method::POST, GRANTS, &body).await;
        let granted = granted.expect(201).body;
        let expected = format!("'{name}' is not the id of an API key: this grant has no effect");
        assert_eq!(warnings(&granted), [expected.as_str()]);
        assert_eq!(granted["grant"]["grantee"], body["grantee"]);
    }
}
