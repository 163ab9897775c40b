//! The writer authenticates the clients of all members.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use object_store::ObjectStore;
use reqwest::Client;
use serde_json::{Value, json};
use slateberg::app::App;
use slateberg_config::Settings;
use slateberg_config::server::tls::ClientCertificates;

use crate::member::{TestMember, member_settings};
use crate::support::bucket::bucket;
use crate::support::certificates::{TestCa, TlsFiles};
use crate::support::served_app::ServedApp;

/// Starts a writer and a standby that require authentication. Returns them with the admin key.
async fn secured(
    bucket: &Arc<dyn ObjectStore>,
    change: impl Fn(&mut Settings),
) -> (TestMember, TestMember, String) {
    let settings = |name| {
        let mut settings = member_settings(name);
        settings.authn.insecure_no_auth = false;
        change(&mut settings);
        settings
    };
    let key = Arc::new(Mutex::new(None));
    let shown = Arc::clone(&key);
    let banner = move |app: &App| {
        let minted = app.runtime.minted_key.as_ref().map(|key| key.reveal().to_owned());
        *shown.lock().unwrap_or_else(PoisonError::into_inner) = minted;
    };
    let writer = TestMember::start_showing(bucket, settings("a"), Arc::new(banner)).await;
    writer.wait_for_role("writer").await;
    let standby = TestMember::start_with(bucket, settings("b")).await;
    standby.wait_for_role("standby").await;
    let key = key.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (writer, standby, key.expect("the first start creates an admin key"))
}

#[tokio::test]
async fn revoked_key_is_rejected_by_all_members_at_once() {
    let bucket = bucket();
    let (writer, standby, admin) = secured(&bucket, |_| {}).await;
    let client = Client::new();
    let keys = format!("{}/management/v1/api-keys", standby.uri);
    let created = client.post(&keys).bearer_auth(&admin);
    let created = created.json(&json!({ "name": "reader", "roles": ["reader"] })).send().await;
    let created = created.expect("it responds");
    assert_eq!(created.status().as_u16(), 201);
    let created: Value = created.json().await.expect("JSON");
    let (id, key) = (created["id"].as_str(), created["key"].as_str().expect("a key"));
    let status = async |member: &TestMember| {
        let request = client.get(format!("{}/v1/config", member.uri)).bearer_auth(key);
        request.send().await.expect("it responds").status().as_u16()
    };
    assert_eq!((status(&writer).await, status(&standby).await), (200, 200));
    let revoked = client.delete(format!("{keys}/{}", id.expect("an id"))).bearer_auth(&admin);
    assert_eq!(revoked.send().await.expect("it responds").status().as_u16(), 204);
    assert_eq!((status(&writer).await, status(&standby).await), (401, 401));
    let without = client.get(format!("{}/v1/config", standby.uri)).send().await;
    assert_eq!(without.expect("it responds").status().as_u16(), 401);
}

#[tokio::test]
async fn revoked_grant_is_not_in_force_on_any_replica() {
    let bucket = bucket();
    let (_writer, standby, admin) = secured(&bucket, |_| {}).await;
    standby.wait_for_replica().await;
    let client = Client::new();
    let post = async |path: &str, body: Value| -> Value {
        let url = format!("{}{path}", standby.uri);
        let response = client.post(url).bearer_auth(&admin).json(&body).send().await;
        let response = response.expect("it responds");
        assert!(response.status().is_success(), "{response:?}");
        response.json().await.expect("JSON")
    };
    post("/v1/namespaces", json!({ "namespace": ["ns"] })).await;
    let created = post("/management/v1/api-keys", json!({ "name": "k", "roles": ["ops"] })).await;
    let key = created["key"].as_str().expect("a key");
    let load = async || {
        let load = client.get(format!("{}/v1/namespaces/ns", standby.uri)).bearer_auth(key);
        load.send().await.expect("it responds").status().as_u16()
    };
    let denied = load().await;
    assert!(denied == 403 || denied == 404, "{denied}");
    for _ in 0..5 {
        let grant =
            json!({ "grantee": "role:ops", "template": "read", "resource": "warehouse:default" });
        let grant = post("/management/v1/grants", grant).await;
        assert_eq!(load().await, 200);
        let id = grant["grant"]["id"].as_str().expect("an id");
        let revoking = client.delete(format!("{}/management/v1/grants/{id}", standby.uri));
        let revoked = revoking.bearer_auth(&admin).send().await.expect("it responds");
        assert!(revoked.status().is_success(), "{revoked:?}");
        assert_eq!(load().await, denied);
    }
    standby.wait_for_replica().await;
    assert_eq!(load().await, denied);
}

#[tokio::test]
async fn client_certificate_is_forwarded_to_the_writer() {
    let bucket = bucket();
    let (own, clients) = (TestCa::new(), TestCa::new());
    let files = TlsFiles::of(&own.server());
    let tls = files.asking(&clients, ClientCertificates::Optional);
    let (writer, standby, _) = secured(&bucket, |settings| settings.server.tls = tls.clone()).await;
    let alice = ServedApp::client(&own, Some(&clients.client("alice")));
    let anonymous = ServedApp::client(&own, None);
    for member in [&writer, &standby] {
        let whoami = format!("{}/management/v1/whoami", member.uri);
        let response = alice.get(&whoami).send().await.expect("it responds");
        let identity: Value = response.json().await.expect("JSON");
        assert_eq!(identity["id"], "mtls/alice", "{identity}");
        let response = anonymous.get(&whoami).send().await.expect("it responds");
        assert_eq!(response.status().as_u16(), 401);
    }
}

#[tokio::test]
async fn writer_applies_rate_limits_to_the_address_of_the_client() {
    let bucket = bucket();
    let limit = |settings: &mut Settings| {
        settings.server.rate_limits.address_requests_per_second = 1;
        settings.server.rate_limits.address_burst_requests_max = 1;
    };
    let (_writer, standby, admin) = secured(&bucket, limit).await;
    let statuses = async |address: [u8; 4]| {
        let client = Client::builder().local_address(Some(address.into())).build();
        let client = client.expect("a client");
        let mut statuses = Vec::new();
        for _ in 0..3 {
            let request = client.get(format!("{}/v1/config", standby.uri)).bearer_auth(&admin);
            statuses.push(request.send().await.expect("it responds").status().as_u16());
        }
        statuses
    };
    for address in [[127, 0, 0, 2], [127, 0, 0, 3]] {
        let statuses = statuses(address).await;
        assert_eq!((statuses[0], statuses.contains(&429)), (200, true), "{address:?} {statuses:?}");
    }
}
