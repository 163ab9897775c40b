//! Policies created through the API: they apply to the next request, or are rejected entirely.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use slateberg::app::App;
use slateberg_runtime::dependencies::Dependencies;

use crate::support::app::{TestApp, TestResponse, bucket_opener, memory_settings};
use crate::support::fsck::assert_sound;

const POLICIES: &str = "/management/v1/policies";
const KEYS: &str = "/management/v1/api-keys";

/// A policy that permits one API key to list the keys.
fn lists_keys(id: &str, key: &str) -> String {
    format!(
        "@id(\"{id}\")\n@description(\"One who lists keys.\")\npermit (\n  principal == \
         ServiceAccount::\"{key}\",\n  action == Action::\"ReadKeys\",\n  resource\n);"
    )
}

impl TestApp {
    /// Sends `PUT` for a policy.
    pub(crate) async fn put_policy(&self, id: &str, text: &str) -> TestResponse {
        let path = format!("{POLICIES}/{id}");
        self.request(Method::PUT, &path, &[], &json!({ "text": text })).await
    }

    /// Returns the ids of the policies and templates in force with this origin.
    pub(crate) async fn policies_of(&self, origin: &str) -> Vec<String> {
        let listed = self.get(POLICIES).await.expect(200).body;
        let all = listed["policies"].as_array().expect("a list");
        let own = all.iter().filter(|policy| policy["origin"] == origin);
        own.map(|policy| policy["id"].as_str().expect("an id").to_owned()).collect()
    }
}

#[tokio::test]
async fn policy_applies_from_the_next_request_until_its_deletion() {
    let app = TestApp::secured().await;
    let (id, key) = app.make_key(json!({ "name": "lister" })).await;
    app.get_as(&key, KEYS).await.expect_error(403, "ForbiddenException");

    let response_body = app.put_policy("lister", &lists_keys("lister", &id)).await.expect(200).body;
    assert_eq!((&response_body["revision"], &response_body["dry-run"]), (&json!(1), &json!(false)));
    assert_eq!(response_body["changes"]["policies"][0]["before"], Value::Null);
    app.get_as(&key, KEYS).await.expect(200);
    let one = app.get(&format!("{POLICIES}/lister")).await.expect(200).body;
    assert_eq!(one["origin"], "api");
    assert_eq!(one["description"], "One who lists keys.");
    assert_eq!(one["text"], lists_keys("lister", &id));

    let gone = app.delete(&format!("{POLICIES}/lister")).await.expect(200).body;
    assert_eq!(gone["revision"], 2);
    app.get_as(&key, KEYS).await.expect_error(403, "ForbiddenException");
    app.get(&format!("{POLICIES}/lister")).await.expect_error(404, "NotFoundException");
    app.delete(&format!("{POLICIES}/lister")).await.expect_error(404, "NotFoundException");
}

#[tokio::test]
async fn policies_survive_a_restart_and_pass_fsck() {
    let app = TestApp::secured().await;
    let (id, key) = app.make_key(json!({ "name": "lister" })).await;
    app.put_policy("lister", &lists_keys("lister", &id)).await.expect(200);
    let before = app.get(POLICIES).await.expect(200).body;
    let app = app.restart().await;
    assert_eq!(app.get(POLICIES).await.expect(200).body, before);
    app.get_as(&key, KEYS).await.expect(200);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn listing_of_policies_contains_their_origins() {
    let app = TestApp::secured().await;
    app.put_policy("more", &lists_keys("more", "nobody")).await.expect(200);
    assert_eq!(app.policies_of("api").await, ["more"]);
    let files = app.policies_of("file").await;
    assert_eq!(
        files,
        [
            "grant-browse",
            "grant-own",
            "grant-read",
            "grant-write",
            "role-admin",
            "role-auditor",
            "role-reader",
            "role-writer",
        ]
    );
    let admin = app.get(&format!("{POLICIES}/role-admin")).await.expect(200).body;
    assert_eq!(admin["from"], "policies/default/roles.cedar:4");
    assert_eq!((&admin["template"], &admin["effect"]), (&json!(false), &json!("permit")));
    let template = app.get(&format!("{POLICIES}/grant-read")).await.expect(200).body;
    assert_eq!(template["template"], true);

    let seen = app.pages(POLICIES, "policies", 2).await;
    assert_eq!(json!(seen), app.get(POLICIES).await.body["policies"]);
}

#[tokio::test]
async fn invalid_policy_is_rejected_with_its_location_and_changes_nothing() {
    let app = TestApp::secured().await;
    app.put_policy("fine", &lists_keys("fine", "x")).await.expect(200);
    let before = app.get(POLICIES).await.body;
    let two = format!("{}\n{}", lists_keys("p", "x"), lists_keys("q", "x"));
    let unknown = "@id(\"p\")\npermit (principal, action == Action::\"Fly\", resource);";
    for (text, told) in [
        ("", "expected one policy or template, got 0"),
        ("permit (principal, action, resource);", "expected @id"),
        ("@id(\"p\")\npermit (principal,, action, resource);", "api/p:2:19: "),
        (unknown, "api/p:"),
        ("@id(\"q\") permit (principal, action, resource);", "its @id is 'q', expected 'p'"),
        (two.as_str(), "expected one policy or template, got 2"),
    ] {
        let response = app.put_policy("p", text).await;
        let response = response.expect_error(400, "IllegalArgumentException");
        assert!(response.message().contains(told), "{text}: {}", response.message());
    }
    let taken = app.put_policy("role-admin", &lists_keys("role-admin", "x")).await.expect(400);
    assert!(taken.message().contains("is taken"), "{}", taken.message());
    let reserved = app.put_policy("rollback", &lists_keys("rollback", "x")).await;
    assert!(reserved.status.is_client_error());
    let long = format!("{}// {}", lists_keys("p", "x"), "x".repeat(70_000));
    app.put_policy("p", &long).await.expect_error(400, "IllegalArgumentException");
    let again = app.post(POLICIES, json!({ "text": lists_keys("fine", "y") })).await;
    again.expect_error(409, "AlreadyExistsException");
    let file = app.delete(&format!("{POLICIES}/role-writer")).await;
    file.expect_error(422, "UnprocessableEntityException");
    for body in [json!({}), json!({ "text": 1 }), json!({ "text": "", "expected": 1 })] {
        app.post(POLICIES, body).await.expect_error(400, "BadRequestException");
    }
    assert_eq!(app.get(POLICIES).await.body, before);
}

#[tokio::test]
async fn template_with_grants_cannot_be_deleted() {
    let app = TestApp::secured().await;
    let text = "@id(\"grant-load\") permit (principal in ?principal, action == Action::\"Load\", \
                resource in ?resource);";
    let made = app.post(POLICIES, json!({ "text": text, "comment": "for links" })).await;
    assert_eq!(made.expect(201).body["revision"], 1);
    let grant = json!({ "template": "load", "grantee": "role:r", "resource": "warehouse:default" });
    let granted = app.post("/management/v1/grants", grant).await.expect(201).body;
    let response = app.delete(&format!("{POLICIES}/grant-load")).await;
    response.expect_error(400, "IllegalArgumentException");
    let id = granted["grant"]["id"].as_str().expect("an id");
    app.delete(&format!("/management/v1/grants/{id}")).await.expect(200);
    app.delete(&format!("{POLICIES}/grant-load")).await.expect(200);
}

#[tokio::test]
async fn dry_run_returns_the_changes_and_applies_none() {
    let app = TestApp::secured().await;
    let before = app.get(POLICIES).await.body;
    let body = json!({ "text": lists_keys("p", "x") });
    let path = format!("{POLICIES}/p?dry_run=true");
    let objects = app.dump().await;
    let response_body = app.request(Method::PUT, &path, &[], &body).await.expect(200).body;
    assert_eq!((&response_body["dry-run"], &response_body["revision"]), (&json!(true), &json!(0)));
    assert_eq!(response_body["changes"]["policies"][0]["id"], "p");
    assert_ne!(response_body["in-force"], before["in-force"]);
    let broken = json!({ "text": "@id(\"p\") permit (principal);" });
    app.request(Method::PUT, &path, &[], &broken).await.expect(400);
    assert_eq!(app.get(POLICIES).await.body, before);
    assert_eq!(app.dump().await, objects, "nothing was written");
    let done = app.put_policy("p", &lists_keys("p", "x")).await.expect(200).body;
    assert_eq!(done["in-force"], response_body["in-force"], "the result that the dry run reported");
}

#[tokio::test]
async fn change_with_an_outdated_expected_revision_is_rejected() {
    let app = TestApp::secured().await;
    let change = async |text: String, expected: u64| {
        let body = json!({ "text": text, "expected-revision": expected });
        app.request(Method::PUT, &format!("{POLICIES}/p"), &[], &body).await
    };
    change(lists_keys("p", "x"), 0).await.expect(200);
    let late = change(lists_keys("p", "y"), 0).await.expect_error(409, "CommitFailedException");
    assert_eq!(late.message(), "Expected policy revision 0, but the newest is 1");
    change(lists_keys("p", "y"), 1).await.expect(200);
    // A request without effect creates no revision.
    assert_eq!(change(lists_keys("p", "y"), 2).await.expect(200).body["revision"], 2);
    let path = format!("{POLICIES}/p?expected_revision=1");
    app.delete(&path).await.expect_error(409, "CommitFailedException");
    app.delete(&format!("{POLICIES}/p?expected_revision=x")).await.expect(400);
    app.delete(&format!("{POLICIES}/p?expected_revision=2&comment=enough")).await.expect(200);
}

#[tokio::test]
async fn change_that_locks_out_all_administrators_is_rejected() {
    let app = TestApp::secured().await;
    let shut = "@id(\"shut\") forbid (principal, action == Action::\"ManagePolicies\", resource);";
    let response = app.put_policy("shut", shut).await;
    let response = response.expect_error(422, "UnprocessableEntityException");
    assert!(
        response.message().contains("no principal could manage policies"),
        "{}",
        response.message()
    );
    // The change is accepted if it exempts another administrator.
    let (id, other) = app.make_key(json!({ "name": "other", "roles": ["admin"] })).await;
    let all_but = format!(
        "{} unless {{ principal == ServiceAccount::\"{id}\" }};",
        shut.trim_end_matches(';')
    );
    app.put_policy("shut", &all_but).await.expect(200);
    app.delete(&format!("{POLICIES}/shut")).await.expect_error(403, "ForbiddenException");
    let path = format!("{POLICIES}/shut");
    app.request_as(&other, Method::DELETE, &path, &Value::Null).await.expect(200);
}

#[tokio::test]
async fn management_of_policies_needs_permission() {
    let app = TestApp::secured().await;
    app.put_policy("p", &lists_keys("p", "x")).await.expect(200);
    let (_, auditor) = app.make_key(json!({ "name": "a", "roles": ["auditor"] })).await;
    let (_, writer) = app.make_key(json!({ "name": "w", "roles": ["writer"] })).await;
    let bound = json!({ "name": "b", "roles": ["admin"], "warehouses": ["default"] });
    let (_, bound) = app.make_key(bound).await;
    let text = json!({ "text": lists_keys("q", "x") });
    let changes = [
        (Method::POST, POLICIES.to_owned(), text.clone()),
        (Method::PUT, format!("{POLICIES}/q"), text.clone()),
        (Method::PUT, format!("{POLICIES}/q?dry_run=true"), text),
        (Method::DELETE, format!("{POLICIES}/p"), Value::Null),
        (Method::DELETE, format!("{POLICIES}/nope"), Value::Null),
        (Method::POST, format!("{POLICIES}/rollback"), json!({ "to": 0 })),
    ];
    let reads = [
        POLICIES.to_owned(),
        format!("{POLICIES}/p"),
        format!("{POLICIES}/revisions"),
        format!("{POLICIES}/revisions/1"),
        format!("{POLICIES}/revisions/0/diff/1"),
    ];
    for key in [&auditor, &writer, &bound] {
        for (method, path, body) in &changes {
            let response = app.request_as(key, method.clone(), path, body).await;
            response.expect_error(403, "ForbiddenException");
        }
        for path in &reads {
            let response = app.get_as(key, path).await;
            match key == &auditor {
                true => response.expect(200),
                false => response.expect_error(403, "ForbiddenException"),
            };
        }
    }
    assert_eq!(app.get(POLICIES).await.body["revision"], 1);
}

#[tokio::test]
async fn policies_are_not_evaluated_without_authentication() {
    let app = TestApp::new().await;
    for path in [POLICIES, "/management/v1/grants", "/management/v1/permissions?resource=catalog"] {
        app.get(path).await.expect_error(403, "ForbiddenException");
    }
    app.post_rejected(POLICIES, json!({ "text": lists_keys("p", "x") })).await.expect(403);
    let grant = json!({ "template": "read", "grantee": "role:r", "resource": "warehouse:default" });
    app.post_rejected("/management/v1/grants", grant).await.expect(403);
    let question = json!({ "action": "ReadPolicies", "resource": "catalog" });
    app.post_rejected("/management/v1/authorize", question).await.expect(403);
}

#[tokio::test]
async fn repeated_change_with_an_idempotency_key_creates_one_revision() {
    let app = TestApp::secured().await;
    let headers = [("Idempotency-Key", "0190a6a3-5f6f-7c3e-8a77-2b6f6f0a3c11")];
    let path = format!("{POLICIES}/p");
    let put = async |text: String| {
        app.request(Method::PUT, &path, &headers, &json!({ "text": text })).await
    };
    let first = put(lists_keys("p", "x")).await.expect(200).body;
    app.delete(&path).await.expect(200);
    assert_eq!(put(lists_keys("p", "x")).await.expect(200).body, first);
    assert_eq!(app.get(POLICIES).await.body["revision"], 2, "the repetition changed something");
    put(lists_keys("p", "y")).await.expect_error(422, "UnprocessableEntityException");
}

#[tokio::test]
async fn policies_and_grants_beyond_the_maximum_are_rejected() {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.authz.policies_max = 1;
        settings.authz.grants_max = 1;
    })
    .await;
    app.put_policy("p", &lists_keys("p", "x")).await.expect(200);
    app.put_policy("p", &lists_keys("p", "y")).await.expect(200);
    app.put_policy("q", &lists_keys("q", "y")).await.expect(422);
    let grant = |role: &str| json!({ "template": "read", "grantee": role, "resource": "warehouse:default" });
    app.post("/management/v1/grants", grant("role:r")).await.expect(201);
    app.post("/management/v1/grants", grant("role:s")).await.expect(422);
}

#[tokio::test]
async fn stored_policies_can_be_disabled_and_deleted() {
    let app = TestApp::secured().await;
    let key = app.credential().to_owned();
    app.put_policy("p", &lists_keys("p", "x")).await.expect(200);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    let mut settings = memory_settings();
    settings.authn.insecure_no_auth = false;
    // A policy file uses the id of a stored policy.
    let directory = tempfile::tempdir().expect("there is room");
    let admins = "@id(\"admins\") permit (principal in Role::\"admin\", action, resource);";
    let text = format!("{admins}\n{}", lists_keys("p", "y"));
    std::fs::write(directory.path().join("p.cedar"), text).expect("it can be written");
    settings.authz.policy_paths = vec![directory.path().to_owned()];
    let dependencies =
        Dependencies { opener: bucket_opener(Arc::clone(&app.bucket)), ..Dependencies::default() };
    let rejection = App::build(settings.clone(), dependencies).await.map(|_| ());
    let rejection = rejection.expect_err("two policies have the same id").to_string();
    assert!(rejection.contains("@id(\"p\") is taken"), "{rejection}");

    settings.authz.stored_policies = false;
    let mut without = TestApp::with(Arc::clone(&app.bucket), settings.clone()).await;
    without.credential = Some(key.clone());
    assert_eq!(without.policies_of("file").await, ["admins", "p"]);
    without.put_policy("q", &lists_keys("q", "x")).await.expect(422);
    without.delete(&format!("{POLICIES}/p")).await.expect(200);
    without.app.runtime.catalog.close().await.expect("the catalog closes");

    settings.authz.stored_policies = true;
    let mut mended = TestApp::with(Arc::clone(&app.bucket), settings).await;
    mended.credential = Some(key);
    mended.put_policy("q", &lists_keys("q", "x")).await.expect(200);
    assert_eq!(mended.policies_of("api").await, ["q"]);
}

#[tokio::test]
async fn policies_decide_who_lists_and_creates_api_keys() {
    let app = TestApp::secured().await;
    let (_, auditor) = app.make_key(json!({ "name": "a", "roles": ["auditor"] })).await;
    let new = json!({ "name": "x" });
    app.get_as(&auditor, KEYS).await.expect(200);
    let rejection = app.request_as(&auditor, Method::POST, KEYS, &new).await;
    let rejection = rejection.expect_error(403, "ForbiddenException");
    assert_eq!(rejection.message(), "Not allowed: ManageKeys on Catalog::\"catalog\"");
    let lets = "@id(\"p\") permit (principal in Role::\"auditor\", action == Action::\"ManageKeys\", \
                resource);";
    app.put_policy("p", lets).await.expect(200);
    app.request_as(&auditor, Method::POST, KEYS, &new).await.expect(201);
}
