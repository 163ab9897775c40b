//! Webhooks: which events a receiver gets, in which order, and how often.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::hmac;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use slateberg::app::webhooks;
use slateberg_config::Settings;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::checkpoints::{keep, restored};
use crate::support::app::TestApp;
use crate::support::table::set_property;

const PATH: &str = "/management/v1/webhooks";
/// Time after which a test fails because a condition is not met.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that a receiver got.
#[derive(Debug, Clone)]
struct Received {
    headers: HeaderMap,
    body: Bytes,
}

/// The receiver of a webhook: an HTTP server on a loopback port.
struct Receiver {
    uri: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    received: Mutex<Vec<Received>>,
    /// The statuses of the next responses. Without any, the status is 200.
    statuses: Mutex<VecDeque<u16>>,
    location: Option<String>,
    arrived: watch::Sender<()>,
}

/// A catalog whose webhooks send events.
struct Sending {
    app: TestApp,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().expect("ASCII")
    }

    fn events(&self) -> Vec<Value> {
        serde_json::from_slice(&self.body).expect("a list")
    }

    /// Returns the signature of the request with a secret.
    fn signature(&self, secret: &str) -> String {
        let key = secret.strip_prefix("whsec_").expect("a secret of Standard Webhooks");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(key).expect("base 64"));
        let (id, timestamp) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let signed = [format!("{id}.{timestamp}.").as_bytes(), &self.body].concat();
        format!("v1,{}", STANDARD.encode(hmac::sign(&key, &signed)))
    }
}

impl Receiver {
    async fn start() -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), None).await
    }

    async fn at(address: SocketAddr, location: Option<String>) -> Self {
        let shared = Arc::new(Shared {
            received: Mutex::default(),
            statuses: Mutex::default(),
            location,
            arrived: watch::Sender::new(()),
        });
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let uri = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let routes = Router::new().fallback(receive).with_state(Arc::clone(&shared));
        let serving = async { axum::serve(listener, routes).await.expect("it serves") };
        Self { uri, shared, task: tokio::spawn(serving) }
    }

    fn respond(&self, statuses: &[u16]) {
        self.shared.statuses.lock().expect("no panic").extend(statuses);
    }

    fn received(&self) -> Vec<Received> {
        self.shared.received.lock().expect("no panic").clone()
    }

    /// Waits until the received requests meet a condition.
    async fn wait(&self, what: &str, mut is_met: impl FnMut(&[Received]) -> bool) -> Vec<Received> {
        let mut arrived = self.shared.arrived.subscribe();
        let waiting = async {
            loop {
                arrived.borrow_and_update();
                let received = self.received();
                if is_met(&received) {
                    return received;
                }
                arrived.changed().await.expect("the receiver runs");
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("{what}: {:?}", self.received()))
    }

    /// Waits until the receiver has accepted an event about a resource with this name.
    async fn wait_for_name(&self, name: &str) -> Vec<Received> {
        self.wait(name, |received| data(received).iter().any(|event| is_about(event, name))).await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, HeaderMap) {
    let status = shared.statuses.lock().expect("no panic").pop_front().unwrap_or(200);
    shared.received.lock().expect("no panic").push(Received { headers, body });
    shared.arrived.send_replace(());
    let mut response = HeaderMap::new();
    if let Some(location) = &shared.location {
        response.insert(header::LOCATION, location.parse().expect("a header"));
    }
    (StatusCode::from_u16(status).expect("a status"), response)
}

impl Sending {
    fn start(app: TestApp) -> Self {
        let (stop, stopping) = watch::channel(false);
        let task = webhooks::spawn(&app.app, stopping);
        Self { app, stop, task }
    }

    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// Returns a catalog whose receivers may be on loopback addresses.
    async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let app = TestApp::with_settings(|settings| {
            allow_loopback(settings);
            change(settings);
        });
        Self::start(app.await)
    }

    async fn stop(self) -> TestApp {
        self.stop.send_replace(true);
        self.task.await.expect("no panic");
        self.app
    }

    /// Creates a webhook for all events, and returns the response.
    async fn create(&self, name: &str, receiver: &Receiver) -> Value {
        let body = json!({ "name": name, "url": receiver.uri });
        self.app.post(PATH, body).await.expect(201).body
    }

    async fn show(&self, name: &str) -> Value {
        self.app.get(&format!("{PATH}/{name}")).await.expect(200).body
    }

    /// Waits until the webhook meets a condition.
    async fn wait(&self, name: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let webhook = self.show(name).await;
                if is_met(&webhook) {
                    return webhook;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(webhook) => webhook,
            Err(_) => panic!("{}", self.show(name).await),
        }
    }

    async fn action(&self, name: &str, action: &str, body: Value) -> Value {
        self.app.post(&format!("{PATH}/{name}/{action}"), body).await.expect(200).body
    }

    /// Suspends the only webhook, and waits until the server has stopped to send its events.
    async fn suspend(&self, name: &str) -> Value {
        let suspended = self.action(name, "suspend", json!({ "reason": "because" })).await;
        let waiting = async {
            loop {
                let metrics = self.app.get("/metrics").await.expect(200).body;
                if metrics
                    .as_str()
                    .expect("text")
                    .contains("slateberg_webhooks{state=\"active\"} 0")
                {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the delivery stops");
        suspended
    }
}

fn allow_loopback(settings: &mut Settings) {
    settings.webhooks.allow_http = true;
    settings.webhooks.allow_private = true;
}

/// Returns the events of requests in the form of the change feed.
fn data(received: &[Received]) -> Vec<Value> {
    let events = received.iter().flat_map(Received::events);
    events.map(|event| event["data"].clone()).collect()
}

fn is_about(event: &Value, name: &str) -> bool {
    let resource = &event["resource"];
    resource["name"] == name || resource["namespace"] == json!([name])
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

#[tokio::test]
async fn receiver_gets_the_events_of_the_change_feed_in_order_and_signed() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    let app = &sending.app;
    let begin = app.get("/management/v1/watch").await.expect(200).body["next"].clone();
    let created = sending.create("all", &receiver).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    for number in 0..20 {
        let update = set_property("a", &number.to_string());
        app.commit("ns", "t", vec![], vec![update]).await.expect(200);
    }
    app.create_namespace(&["last"]).await;
    let received = receiver.wait_for_name("last").await;
    let path = format!("/management/v1/watch?wait=0&after={}", begin.as_str().expect("text"));
    let expected = app.get(&path).await.expect(200).body["events"].clone();
    assert_eq!(json!(data(&received)), expected);
    assert_eq!(expected[0]["type"], "webhook.created");
    let secret = created["secret"].as_str().expect("a secret");
    for request in &received {
        assert_eq!(request.header("content-type"), "application/cloudevents-batch+json");
        assert_eq!(request.header("webhook-signature"), request.signature(secret));
        assert!(request.events().len() <= 100);
    }
    let events: Vec<_> = received.iter().flat_map(Received::events).collect();
    let ids: BTreeSet<_> = events.iter().map(|event| event["id"].to_string()).collect();
    assert_eq!(ids.len(), events.len());
    let table = events.iter().find(|event| event["type"] == "table.created").expect("an event");
    assert_eq!(
        (&table["specversion"], &table["subject"]),
        (&json!("1.0"), &json!("table:default/ns/t"))
    );
    let webhook = sending.wait("all", |webhook| webhook["delivery"]["lag-changes"] == 0).await;
    assert_eq!(webhook["delivery"]["failures"], 0);
    assert!(webhook["delivery"]["delivered-at-ms"].is_i64());
    assert!(!webhook.to_string().contains(secret));
    assert!(webhook["secret"].is_null());
}

#[tokio::test]
async fn filter_of_a_webhook_selects_events() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    let app = &sending.app;
    app.create_namespace(&["before"]).await;
    let body = json!({
        "name": "some", "url": receiver.uri, "after": "oldest",
        "resource": "namespace:default/ns", "types": ["table", "namespace.created"],
    });
    app.post(PATH, body).await.expect(201);
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    app.create_view("ns", "v").await;
    app.create_table("ns", "last").await;
    let received = data(&receiver.wait_for_name("last").await);
    assert_eq!(types(&received), ["namespace.created", "table.created", "table.created"]);
}

#[tokio::test]
async fn failed_request_is_repeated_with_the_same_id_before_later_events() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    receiver.respond(&[500, 429]);
    sending.create("all", &receiver).await;
    let failing = sending.wait("all", |webhook| webhook["delivery"]["failures"] == 1).await;
    let error = failing["delivery"]["last-error"].as_str().expect("an error");
    assert!(error.contains("500"), "{error}");
    assert!(failing["delivery"]["next-attempt-at-ms"].is_i64());
    sending.app.create_namespace(&["last"]).await;
    let received = receiver.wait_for_name("last").await;
    let ids: Vec<_> = received.iter().map(|it| it.header("webhook-id")).collect();
    assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3], "{ids:?}");
    assert_eq!(received[0].body, received[2].body);
    let webhook = sending.wait("all", |webhook| webhook["delivery"]["failures"] == 0).await;
    assert_eq!(webhook["delivery"]["last-error"], Value::Null);
}

#[tokio::test]
async fn receiver_that_starts_later_gets_all_events() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let sending = Sending::new().await;
    let body = json!({ "name": "all", "url": format!("http://{address}/hook") });
    sending.app.post(PATH, body).await.expect(201);
    sending.app.create_namespace(&["first"]).await;
    sending.wait("all", |webhook| webhook["delivery"]["failures"] != 0).await;
    let receiver = Receiver::at(address, None).await;
    let received = data(&receiver.wait_for_name("first").await);
    assert_eq!(types(&received), ["webhook.created", "namespace.created"]);
}

/// Returns the namespaces that exist according to the events. A repeated event has no effect.
fn fold(events: &[Value]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for event in events {
        let name = event["resource"]["namespace"][0].as_str().map(ToOwned::to_owned);
        match event["type"].as_str().expect("a type") {
            "namespace.created" => names.extend(name),
            "namespace.dropped" => _ = names.remove(&name.expect("a name")),
            _ => {}
        }
    }
    names
}

#[tokio::test]
async fn receiver_misses_no_event_when_the_server_restarts() {
    let (mut sending, receiver) = (Sending::new().await, Receiver::start().await);
    sending.create("all", &receiver).await;
    for round in 0..4 {
        let app = &sending.app;
        for number in 0..8 {
            app.create_namespace(&[&format!("r{round}n{number}")]).await;
        }
        app.delete(&format!("/v1/namespaces/r{round}n0")).await.expect(204);
        let stopped = sending.stop().await;
        stopped.create_namespace(&[&format!("r{round}late")]).await;
        sending = Sending::start(stopped.restart().await);
    }
    sending.app.create_namespace(&["last"]).await;
    let received = data(&receiver.wait_for_name("last").await);
    let listed = sending.app.get("/v1/namespaces").await.expect(200).body["namespaces"].clone();
    let levels = listed.as_array().expect("a list").iter();
    let listed: BTreeSet<_> =
        levels.map(|levels| levels[0].as_str().expect("a name").to_owned()).collect();
    assert_eq!(fold(&received), listed);
}

#[tokio::test]
async fn status_410_suspends_a_webhook_until_it_is_resumed() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    receiver.respond(&[410]);
    sending.create("all", &receiver).await;
    let webhook = sending.wait("all", |webhook| webhook["state"] == "suspended").await;
    assert_eq!(webhook["suspended-reason"], "the receiver responded 410 Gone");
    assert_eq!(webhook["suspended-by"], Value::Null);
    sending.app.create_namespace(&["meanwhile"]).await;
    let resumed = sending.action("all", "resume", Value::Null).await;
    assert_eq!((&resumed["state"], &resumed["suspended-reason"]), (&json!("active"), &Value::Null));
    let received = receiver.wait_for_name("meanwhile").await;
    let after = data(&received[1..]);
    assert_eq!(
        types(&after),
        ["webhook.created", "namespace.created", "webhook.changed"][..after.len()]
    );
}

#[tokio::test]
async fn suspended_webhook_sends_nothing_and_keeps_its_position() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    sending.create("all", &receiver).await;
    let suspended = sending.suspend("all").await;
    assert_eq!(
        (&suspended["state"], &suspended["suspended-reason"]),
        (&json!("suspended"), &json!("because"))
    );
    assert_eq!(suspended["suspended-by"], "anonymous");
    let sent = receiver.received().len();
    sending.app.create_namespace(&["later"]).await;
    // Another webhook has sent the event.
    let other = Receiver::start().await;
    let body = json!({ "name": "other", "url": other.uri, "after": "oldest" });
    sending.app.post(PATH, body).await.expect(201);
    other.wait_for_name("later").await;
    assert!(!data(&receiver.received()[sent..]).iter().any(|event| is_about(event, "later")));
    sending.action("all", "resume", Value::Null).await;
    receiver.wait_for_name("later").await;
}

#[tokio::test]
async fn webhook_without_success_is_suspended_after_the_configured_time() {
    let sending = Sending::with(|settings| settings.webhooks.retry_seconds_max = 1).await;
    let receiver = Receiver::start().await;
    receiver.respond(&[500; 20]);
    sending.create("all", &receiver).await;
    let webhook = sending.wait("all", |webhook| webhook["state"] == "suspended").await;
    let reason = webhook["suspended-reason"].as_str().expect("a reason");
    assert!(reason.contains("every attempt failed") && reason.contains("500"), "{reason}");
}

/// Asserts that requests get this signature. The request that is sent during the change of the
/// secret may have the earlier signature.
async fn assert_signed(
    sending: &Sending,
    receiver: &Receiver,
    prefix: &str,
    signature: impl Fn(&Received) -> String,
) {
    for number in 0..100 {
        let name = format!("{prefix}{number}");
        sending.app.create_namespace(&[&name]).await;
        let received = receiver.wait_for_name(&name).await;
        let last = received.last().expect("a request");
        if last.header("webhook-signature") == signature(last) {
            return;
        }
    }
    panic!("the requests have other signatures");
}

#[tokio::test]
async fn both_secrets_sign_during_a_rotation() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    let created = sending.create("all", &receiver).await;
    let old = created["secret"].as_str().expect("a secret");
    let rotated = sending.action("all", "rotate", json!({ "previous-seconds": 3600 })).await;
    let new = rotated["secret"].as_str().expect("a secret");
    assert_ne!(old, new);
    assert!(rotated["previous-secret-expires-at-ms"].is_i64());
    let both =
        |request: &Received| format!("{} {}", request.signature(new), request.signature(old));
    assert_signed(&sending, &receiver, "both", both).await;
    let rotated = sending.action("all", "rotate", json!({ "previous-seconds": 0 })).await;
    let newest = rotated["secret"].as_str().expect("a secret");
    assert_signed(&sending, &receiver, "newest", |request| request.signature(newest)).await;
    let path = format!("{PATH}/all/rotate");
    let body = json!({ "previous-seconds": 2_592_001 });
    sending.app.post(&path, body).await.expect_error(400, "IllegalArgumentException");
}

const POLICIES: &str = r#"
@id("notifier")
permit (principal in Role::"notifier", action in [Action::"ManageWebhooks", Action::"Watch"], resource);
@id("notifier-sees-one")
permit (principal in Role::"notifier", action in [Action::"Browse", Action::"Load"],
        resource in Namespace::"default/open");
"#;

#[tokio::test]
async fn webhook_sends_only_events_that_its_owner_may_see() {
    let app = TestApp::with_policies(POLICIES, allow_loopback).await;
    let (sending, receiver) = (Sending::start(app), Receiver::start().await);
    let app = &sending.app;
    let (id, key) = app.make_key(json!({ "name": "n", "roles": ["notifier"] })).await;
    let body = json!({ "name": "restricted", "url": receiver.uri });
    let created = app.request_as(&key, Method::POST, PATH, &body).await.expect(201).body;
    assert_eq!((&created["owner"], &created["owner-roles"]), (&json!(id), &json!(["notifier"])));
    for namespace in ["closed", "open"] {
        app.create_namespace(&[namespace]).await;
        app.create_table(namespace, "t").await;
    }
    app.create_table("open", "last").await;
    let received = data(&receiver.wait_for_name("last").await);
    assert!(received.iter().all(|event| !event.to_string().contains("closed")), "{received:?}");
    assert_eq!(types(&received), ["namespace.created", "table.created", "table.created"]);
    assert!(received.iter().all(|event| event["principal"].is_null()));
    // After the revocation of the key of its owner, the webhook sends nothing.
    app.delete(&format!("/management/v1/api-keys/{id}")).await.expect(204);
    app.create_table("open", "hidden").await;
    let webhook = sending.wait("restricted", |webhook| webhook["state"] == "suspended").await;
    assert_eq!(webhook["suspended-reason"], "the API key of the owner was revoked");
    assert!(!data(&receiver.received()).iter().any(|event| is_about(event, "hidden")));
    // The administrator who resumes the webhook becomes its owner.
    let resumed = sending.action("restricted", "resume", Value::Null).await;
    assert_eq!(resumed["owner-roles"], json!(["admin"]));
    let received = data(&receiver.wait_for_name("hidden").await);
    assert!(types(&received).contains(&"resync"), "{received:?}");
}

#[tokio::test]
async fn webhook_requires_permissions_to_manage_webhooks_and_to_watch() {
    let policies = r#"@id("m") permit (principal in Role::"manager", action == Action::"ManageWebhooks", resource);"#;
    let app = TestApp::with_policies(policies, allow_loopback).await;
    let body = json!({ "name": "w", "url": "https://example.com" });
    for role in ["writer", "reader", "manager", "nothing"] {
        let key = app.key_with_role(role).await;
        let created = app.request_as(&key, Method::POST, PATH, &body).await;
        created.expect_error(403, "ForbiddenException");
    }
    assert_eq!(app.get(PATH).await.expect(200).body, json!({ "webhooks": [] }));
}

#[tokio::test]
async fn receiver_at_a_private_address_gets_no_request() {
    let receiver = Receiver::start().await;
    let strict = Sending::start(TestApp::new().await);
    let wrong = [
        receiver.uri.as_str(),
        "http://example.com/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:169.254.169.254]/latest/meta-data",
        "https://0x7f000001/",
        "https://user:password@example.com/",
        "file:///etc/passwd",
        "hook",
    ];
    for url in wrong {
        let body = json!({ "name": "w", "url": url });
        strict.app.post(PATH, body).await.expect_error(400, "IllegalArgumentException");
    }
    assert_eq!(strict.app.get(PATH).await.expect(200).body, json!({ "webhooks": [] }));
    // The server checks the addresses of a name when it connects.
    let sending = Sending::with(|settings| settings.webhooks.allow_private = false).await;
    let url = receiver.uri.replace("127.0.0.1", "localhost");
    sending.app.post(PATH, json!({ "name": "w", "url": url })).await.expect(201);
    let tested = sending.action("w", "test", Value::Null).await;
    let error = tested["error"].as_str().expect("an error");
    assert!(tested["accepted"] == false && error.contains("is not public"), "{error}");
    sending.wait("w", |webhook| webhook["delivery"]["failures"] != 0).await;
    assert_eq!(receiver.received().len(), 0);
    // An allowed network permits the address.
    let allowed = Sending::with(|settings| {
        settings.webhooks.allow_private = false;
        settings.webhooks.allowed_networks = vec!["127.0.0.0/8".to_owned(), "::1".to_owned()];
    });
    let allowed = allowed.await;
    allowed.app.post(PATH, json!({ "name": "w", "url": receiver.uri })).await.expect(201);
    assert_eq!(allowed.action("w", "test", Value::Null).await["accepted"], true);
}

#[tokio::test]
async fn redirect_of_a_receiver_is_not_followed() {
    let target = Receiver::start().await;
    let address = ([127, 0, 0, 1], 0).into();
    let receiver = Receiver::at(address, Some(target.uri.clone())).await;
    receiver.respond(&[302, 307, 302, 307]);
    let sending = Sending::new().await;
    sending.create("all", &receiver).await;
    sending.wait("all", |webhook| webhook["delivery"]["failures"] != 0).await;
    let tested = sending.action("all", "test", Value::Null).await;
    assert!(tested["error"].as_str().expect("an error").contains("30"), "{tested}");
    assert_eq!(target.received().len(), 0);
}

#[tokio::test]
async fn test_event_is_signed_and_reaches_the_receiver_of_a_suspended_webhook() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    let body = json!({ "name": "w", "url": receiver.uri, "types": ["table"] });
    let created = sending.app.post(PATH, body).await.expect(201).body;
    sending.suspend("w").await;
    let tested = sending.action("w", "test", Value::Null).await;
    assert_eq!(tested, json!({ "accepted": true, "error": null }));
    let received = receiver.received();
    assert_eq!(types(&data(&received)), ["webhook.test"]);
    let secret = created["secret"].as_str().expect("a secret");
    assert_eq!(received[0].header("webhook-signature"), received[0].signature(secret));
    let webhook = sending.show("w").await;
    assert_eq!(
        (&webhook["state"], &webhook["delivery"]["delivered-at-ms"]),
        (&json!("suspended"), &Value::Null)
    );
}

#[tokio::test]
async fn restore_causes_a_resync_and_later_events_follow() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    sending.app.create_namespace(&["ns"]).await;
    keep(&sending.app, "earlier").await;
    sending.create("all", &receiver).await;
    sending.app.create_namespace(&["lost"]).await;
    receiver.wait_for_name("lost").await;
    let (app, _) = restored(sending.stop().await, "earlier").await;
    let sending = Sending::start(app);
    let webhook = sending.show("all").await;
    assert_eq!(webhook["state"], "active");
    sending.app.create_namespace(&["after"]).await;
    let received =
        receiver.wait("resync", |received| types(&data(received)).contains(&"resync")).await;
    let before = received.len();
    sending.app.create_namespace(&["last"]).await;
    let received = receiver.wait_for_name("last").await;
    let all = data(&received);
    let resync = types(&all).iter().position(|it| *it == "resync").expect("an event");
    assert!(all[..resync].iter().any(|event| is_about(event, "lost")));
    assert!(all[resync..].iter().any(|event| is_about(event, "last")));
    assert!(before > 0);
}

#[tokio::test]
async fn webhook_is_not_part_of_a_later_listing_after_its_deletion() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    let created = sending.create("all", &receiver).await;
    let id = created["id"].as_str().expect("an id").to_owned();
    assert_eq!(sending.show(&id).await["name"], "all");
    sending.app.delete(&format!("{PATH}/{id}")).await.expect(204);
    sending.app.get(&format!("{PATH}/all")).await.expect_error(404, "NotFoundException");
    sending.app.delete(&format!("{PATH}/all")).await.expect_error(404, "NotFoundException");
    let history = sending.app.get("/management/v1/history").await.expect(200).body;
    let entries = history["entries"].as_array().expect("a list");
    let actions: Vec<_> = entries.iter().map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions, [Some("delete_webhook"), Some("create_webhook")]);
    let key = created["secret"].as_str().expect("a secret").trim_start_matches("whsec_");
    assert!(!history.to_string().contains(key));
}

#[tokio::test]
async fn wrong_requests_for_webhooks_are_rejected_and_change_nothing() {
    let sending = Sending::with(|settings| settings.webhooks.max = 2).await;
    let app = &sending.app;
    let webhook = |name: &str| json!({ "name": name, "url": "https://receiver.invalid/" });
    let with = |member: &str, value: Value| {
        let mut body = webhook("w");
        body[member] = value;
        body
    };
    for (body, status) in [
        (json!({ "name": "w" }), 400),
        (webhook(""), 400),
        (webhook("a b"), 400),
        (webhook("0190b6ad-0000-7000-8000-000000000000"), 400),
        (with("types", json!(["table.exploded"])), 400),
        (with("resource", json!("ns")), 400),
        (with("resource", json!("warehouse:nothing")), 404),
        (with("after", json!("x")), 400),
        (with("type", json!("table")), 400),
        (with("secret", json!("whsec_AAAA")), 400),
    ] {
        app.post(PATH, body).await.expect(status);
    }
    assert_eq!(app.get(PATH).await.expect(200).body, json!({ "webhooks": [] }));
    let key = [("idempotency-key", "0190b6ad-0000-7000-8000-000000000000")];
    app.request(Method::POST, PATH, &key, &webhook("a")).await.expect(400);
    app.post(PATH, webhook("a")).await.expect(201);
    app.post(PATH, webhook("a")).await.expect_error(409, "AlreadyExistsException");
    app.post(PATH, webhook("b")).await.expect(201);
    app.post(PATH, webhook("c")).await.expect_error(422, "UnprocessableEntityException");
    for action in ["suspend", "resume", "rotate", "test"] {
        let path = format!("{PATH}/nothing/{action}");
        app.post(&path, json!({})).await.expect_error(404, "NotFoundException");
    }
    let long = json!({ "reason": "a".repeat(1025) });
    app.post(&format!("{PATH}/a/suspend"), long).await.expect(400);
}

#[tokio::test]
async fn transaction_is_in_one_request() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    let app = &sending.app;
    app.create_namespace(&["ns"]).await;
    let names: Vec<_> = (0..40).map(|number| format!("t{number}")).collect();
    for name in &names {
        app.create_table("ns", name).await;
    }
    sending.create("all", &receiver).await;
    sending.suspend("all").await;
    for value in ["1", "2", "3", "4"] {
        let change = |name: &String| {
            json!({
                "identifier": { "namespace": ["ns"], "name": name },
                "requirements": [], "updates": [set_property("a", value)],
            })
        };
        let body = json!({ "table-changes": names.iter().map(change).collect::<Vec<_>>() });
        app.post("/v1/transactions/commit", body).await.expect(204);
    }
    sending.action("all", "resume", Value::Null).await;
    app.create_namespace(&["last"]).await;
    let received = receiver.wait_for_name("last").await;
    let commits = |request: &Received| {
        let events = request.events();
        events.iter().filter(|event| event["type"] == "table.committed").count()
    };
    let counts: Vec<_> = received.iter().map(commits).filter(|count| *count > 0).collect();
    assert_eq!(counts.iter().sum::<usize>(), 160);
    assert!(counts.iter().all(|count| [40, 80].contains(count)), "{counts:?}");
}

#[tokio::test]
async fn transaction_that_is_larger_than_a_request_is_sent_completely() {
    let (sending, receiver) = (Sending::new().await, Receiver::start().await);
    let app = &sending.app;
    app.create_namespace(&["ns"]).await;
    let names: Vec<_> = (0..120).map(|number| format!("t{number:03}")).collect();
    for name in &names {
        app.create_table("ns", name).await;
    }
    let body = json!({ "name": "w", "url": receiver.uri, "types": ["table.committed"] });
    app.post(PATH, body).await.expect(201);
    let change = |name: &String| {
        json!({
            "identifier": { "namespace": ["ns"], "name": name },
            "requirements": [], "updates": [set_property("a", "b")],
        })
    };
    let body = json!({ "table-changes": names.iter().map(change).collect::<Vec<_>>() });
    app.post("/v1/transactions/commit", body).await.expect(204);
    let received =
        receiver.wait("120 events", |received| data(received).len() >= names.len()).await;
    let counts: Vec<_> = received.iter().map(|request| request.events().len()).collect();
    assert_eq!(counts, [100, 20]);
    let events = data(&received);
    let found: BTreeSet<_> =
        events.iter().map(|event| event["resource"]["name"].as_str()).collect();
    assert_eq!(found, names.iter().map(|name| Some(name.as_str())).collect());
    let ids: BTreeSet<_> = received.iter().map(|request| request.header("webhook-id")).collect();
    assert_eq!(ids.len(), 2);
}
