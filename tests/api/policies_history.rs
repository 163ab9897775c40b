//! The log of policies and grants: its revisions can be listed and compared, and a rollback returns
//! to an earlier revision.

use std::collections::BTreeMap;

use axum::http::Method;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::support::app::TestApp;

const POLICIES: &str = "/management/v1/policies";
const GRANTS: &str = "/management/v1/grants";

/// Returns a policy that affects no caller.
fn policy(id: &str, whom: &str) -> String {
    format!(
        "@id(\"{id}\") permit (principal == User::\"{whom}\", action == Action::\"Load\", resource);"
    )
}

#[tokio::test]
async fn revision_contains_principal_changes_and_comment() {
    let app = TestApp::secured().await;
    let body = json!({ "text": policy("p", "ann"), "comment": "ann reads" });
    app.request(Method::PUT, &format!("{POLICIES}/p"), &[], &body).await.expect(200);
    app.put_policy("p", &policy("p", "bob")).await.expect(200);
    let grant = json!({ "template": "read", "grantee": "role:r", "resource": "warehouse:default" });
    app.post(GRANTS, grant).await.expect(201);
    app.delete(&format!("{POLICIES}/p?comment=no%20more")).await.expect(200);

    let me = app.get("/management/v1/whoami").await.body["id"].clone();
    let all = app.get(&format!("{POLICIES}/revisions")).await.expect(200).body;
    let all = all["revisions"].as_array().expect("a list").clone();
    let found: Vec<_> = all
        .iter()
        .map(|it| (it["revision"].as_u64(), it["action"].as_str(), it["comment"].as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (Some(4), Some("remove_policy"), Some("no more")),
            (Some(3), Some("grant"), None),
            (Some(2), Some("put_policy"), None),
            (Some(1), Some("put_policy"), Some("ann reads")),
        ]
    );
    assert!(all.iter().all(|it| it["by"] == me && it["at-ms"].is_i64()));
    assert_eq!(all[2]["changes"]["policies"][0]["before"], policy("p", "ann"));
    assert_eq!(all[2]["changes"]["policies"][0]["after"], policy("p", "bob"));
    assert_eq!(all[1]["changes"]["granted"][0]["grantee"], "role:r");
    assert_eq!(all[0]["in-force"], app.get(POLICIES).await.body["in-force"]);

    let paged = app.pages(&format!("{POLICIES}/revisions"), "revisions", 3).await;
    assert_eq!(paged, all);

    let third = app.get(&format!("{POLICIES}/revisions/3")).await.expect(200).body;
    assert_eq!(third["policies"], json!({ "p": policy("p", "bob") }));
    assert_eq!(third["grants"].as_array().map(Vec::len), Some(1));
    let none = app.get(&format!("{POLICIES}/revisions/0")).await.expect(200).body;
    assert_eq!(none, json!({ "policies": {}, "grants": [] }));
    for absent in ["revisions/5", "revisions/0/diff/9"] {
        let response = app.get(&format!("{POLICIES}/{absent}")).await;
        response.expect_error(404, "NotFoundException");
    }
    for wrong in ["revisions/x", "revisions/-1", "revisions/0/diff/x", "revisions?pageToken=!"] {
        assert_eq!(app.get(&format!("{POLICIES}/{wrong}")).await.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn rollback_creates_a_revision() {
    let app = TestApp::secured().await;
    app.put_policy("p", &policy("p", "ann")).await.expect(200);
    let grant = json!({ "template": "read", "grantee": "role:r", "resource": "warehouse:default" });
    let granted = app.post(GRANTS, grant).await.expect(201).body["grant"].clone();
    let then = app.get(POLICIES).await.body;
    app.put_policy("p", &policy("p", "bob")).await.expect(200);
    app.put_policy("q", &policy("q", "bob")).await.expect(200);
    app.delete(&format!("{GRANTS}/{}", granted["id"].as_str().expect("an id"))).await.expect(200);

    let diff = app.get(&format!("{POLICIES}/revisions/5/diff/2")).await.expect(200).body;
    let edits = diff["changes"]["policies"].as_array().expect("a list").clone();
    assert_eq!(edits.len(), 2);
    assert_eq!(edits[1], json!({ "id": "q", "before": policy("q", "bob"), "after": null }));
    assert_eq!(diff["changes"]["granted"], json!([granted]));

    let rollback = format!("{POLICIES}/rollback");
    app.post(&rollback, json!({ "to": 2, "expected-revision": 4 })).await.expect(409);
    app.post(&rollback, json!({ "to": 9 })).await.expect_error(404, "NotFoundException");
    let response =
        app.post(&format!("{rollback}?dry_run=true"), json!({ "to": 2 })).await.expect(200);
    let body = json!({ "to": 2, "expected-revision": 5, "comment": "as it was" });
    let back = app.post(&rollback, body).await.expect(200).body;
    assert_eq!(back["changes"], diff["changes"]);
    assert_eq!(back["changes"], response.body["changes"]);
    assert_eq!(back["revision"], 6);
    let now = app.get(POLICIES).await.body;
    assert_eq!((&now["policies"], &now["in-force"]), (&then["policies"], &then["in-force"]));
    let sixth = app.get(&format!("{POLICIES}/revisions/6")).await.expect(200).body;
    assert_eq!((&sixth["rolled-back-to"], &sixth["comment"]), (&json!(2), &json!("as it was")));
    // A rollback can also return to the revision before the first rollback.
    app.post(&rollback, json!({ "to": 5 })).await.expect(200);
    let fifth = app.get(&format!("{POLICIES}/revisions/5")).await.expect(200).body;
    let seventh = app.get(&format!("{POLICIES}/revisions/7")).await.expect(200).body;
    assert_eq!((&fifth["policies"], &fifth["grants"]), (&seventh["policies"], &seventh["grants"]));
    app.post(&rollback, json!({ "to": 0 })).await.expect(200);
    assert_eq!(app.policies_of("api").await, Vec::<String>::new());
    assert_eq!(app.policies_of("grant").await, Vec::<String>::new());
}

/// The expected policies and grants that were created at run time.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    policies: BTreeMap<String, String>,
    grants: Vec<Value>,
}

/// Asserts that the policies in force match the log and the model.
async fn assert_is(app: &TestApp, model: &Model, revision: usize, seed: u64) {
    let listed = app.get(POLICIES).await.expect(200).body;
    assert_eq!(listed["revision"], revision, "seed {seed}");
    let own = listed["policies"].as_array().expect("a list").iter();
    let texts: BTreeMap<_, _> = own
        .filter(|policy| policy["origin"] == "api")
        .map(|policy| (policy["id"].as_str(), policy["text"].as_str()))
        .map(|(id, text)| (id.expect("an id").to_owned(), text.expect("a text").to_owned()))
        .collect();
    assert_eq!(texts, model.policies, "seed {seed}");
    let response_body = app.get(&format!("{POLICIES}/revisions/{revision}")).await.expect(200).body;
    assert_eq!(response_body["policies"], json!(model.policies), "seed {seed}");
    let grants = app.get(GRANTS).await.expect(200).body;
    let grants: Vec<_> =
        grants["grants"].as_array().expect("a list").iter().map(of_grant).collect();
    assert_eq!(grants, model.grants, "seed {seed}");
    let policies = app.policies_of("grant").await;
    assert_eq!(policies.len(), model.grants.len(), "seed {seed}: {policies:?}");
}

/// Returns a grant without its policy id.
fn of_grant(listed: &Value) -> Value {
    let mut grant = listed.clone();
    grant.as_object_mut().expect("an object").remove("policy");
    grant
}

#[tokio::test]
async fn policies_in_force_equal_the_replayed_revisions() {
    for seed in 0..4 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut app = TestApp::secured().await;
        let mut states = vec![Model::default()];
        for _ in 0..25 {
            let mut model = states.last().expect("there is one").clone();
            let id = format!("p{}", rng.random_range(0..3));
            match rng.random_range(0..7) {
                0..=2 => {
                    let text = policy(&id, &format!("u{}", rng.random_range(0..3)));
                    app.put_policy(&id, &text).await.expect(200);
                    model.policies.insert(id, text);
                }
                3 => {
                    let response = app.delete(&format!("{POLICIES}/{id}")).await;
                    let was_there = model.policies.remove(&id).is_some();
                    response.expect(if was_there { 200 } else { 404 });
                }
                4 => {
                    let grantee = format!("role:r{}", rng.random_range(0..3));
                    let resource = "warehouse:default";
                    let body =
                        json!({ "template": "read", "grantee": grantee, "resource": resource });
                    let response = app.post(GRANTS, body).await;
                    if response.status == 201 {
                        model.grants.push(response.body["grant"].clone());
                    }
                }
                5 if !model.grants.is_empty() => {
                    let grant = model.grants.remove(rng.random_range(0..model.grants.len()));
                    let id = grant["id"].as_str().expect("an id");
                    app.delete(&format!("{GRANTS}/{id}")).await.expect(200);
                }
                6 => {
                    let to = rng.random_range(0..states.len());
                    let body = json!({ "to": to });
                    app.post(&format!("{POLICIES}/rollback"), body).await.expect(200);
                    model = states[to].clone();
                }
                _ => app = app.restart().await,
            }
            if Some(&model) != states.last() {
                states.push(model.clone());
            }
            assert_is(&app, &model, states.len() - 1, seed).await;
        }
        for (number, state) in states.iter().enumerate() {
            let response_body =
                app.get(&format!("{POLICIES}/revisions/{number}")).await.expect(200).body;
            assert_eq!(
                response_body["policies"],
                json!(state.policies),
                "seed {seed}, revision {number}"
            );
            assert_eq!(
                response_body["grants"],
                json!(state.grants),
                "seed {seed}, revision {number}"
            );
        }
        app.app.runtime.catalog.close().await.expect("the catalog closes");
        crate::support::fsck::assert_sound(app.bucket).await;
    }
}
