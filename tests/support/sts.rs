//! [`TestSts`]: an `AssumeRole` endpoint like that of AWS, which records its requests. It checks no
//! signatures: tests with a real store (`tests/e2e`) show that credentials are limited by their
//! policies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use object_store::memory::InMemory;
use serde_json::Value;
use slateberg_authz::bundled::default_policies;
use slateberg_base::clock::Clock;
use slateberg_config::FileAccessSettings;
use slateberg_model::warehouse::Delegation;
use tokio::net::TcpListener;

use super::app::{TestApp, memory_settings};
use super::clock::HandClock;
use super::state::LAKE;

/// A security token service with a clock that a test sets.
pub struct TestSts {
    /// The URL of the service.
    pub uri: String,
    /// The clock of the service and of the catalog.
    pub clock: Arc<HandClock>,
    requests: Arc<Mutex<Vec<BTreeMap<String, String>>>>,
    down: Arc<Mutex<bool>>,
}

impl TestSts {
    /// Starts a service.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let uri = format!("http://{}", listener.local_addr().expect("an address"));
        let sts = Self {
            uri,
            clock: Arc::new(HandClock::default()),
            requests: Arc::default(),
            down: Arc::default(),
        };
        let (requests, down, clock) =
            (Arc::clone(&sts.requests), Arc::clone(&sts.down), Arc::clone(&sts.clock));
        let assume = post(move |body: String| async move {
            if *down.lock().expect("no panic") {
                return StatusCode::FORBIDDEN.into_response();
            }
            let form = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
            let mut requests = requests.lock().expect("no panic");
            requests.push(form);
            respond(requests.len(), requests.last().expect("one"), clock.now_ms())
        });
        let router = Router::new().route("/", assume);
        tokio::spawn(async move { axum::serve(listener, router).await });
        sts
    }

    /// Sets whether it fails all requests.
    pub fn set_down(&self, down: bool) {
        *self.down.lock().expect("no panic") = down;
    }

    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.requests.lock().expect("no panic").len()
    }

    /// Returns the session policy of the last request.
    pub fn last_policy(&self) -> Value {
        let requests = self.requests.lock().expect("no panic");
        let last = requests.last().expect("there was a request");
        serde_json::from_str(&last["Policy"]).expect("it is JSON")
    }
}

fn respond(number: usize, form: &BTreeMap<String, String>, now_ms: i64) -> Response {
    let seconds: i64 = form["DurationSeconds"].parse().expect("a number");
    let ends = chrono::DateTime::from_timestamp_millis(now_ms + seconds * 1000).expect("a time");
    let ends = ends.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let xml = format!(
        "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>\
         <Credentials><AccessKeyId>ASIA{number}</AccessKeyId>\
         <SecretAccessKey>hidden-{number}</SecretAccessKey><SessionToken>token-{number}</SessionToken>\
         <Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
    );
    ([(header::CONTENT_TYPE, "text/xml")], xml).into_response()
}

impl TestSts {
    /// Returns a catalog with these policies in addition to the default ones. The warehouse is in a
    /// bucket of S3, has these access-delegation modes, and gets credentials from this service. The
    /// files are in memory.
    pub async fn lake(&self, ways: &[Delegation], policies: &str) -> TestApp {
        let mut settings = memory_settings();
        settings.authn.insecure_no_auth = false;
        // Tables may have overlapping locations, as in stores that an older server wrote.
        settings.catalog.overlapping_locations = true;
        let directory = tempfile::tempdir().expect("there is room");
        for file in default_policies() {
            let name = file.name.rsplit('/').next().expect("a file has a name").to_owned();
            std::fs::write(directory.path().join(name), file.text).expect("it is written");
        }
        std::fs::write(directory.path().join("own.cedar"), policies).expect("it is written");
        settings.authz.policy_paths = vec![directory.path().to_owned()];
        let warehouse = settings.warehouses.get_mut("default").expect("there is one");
        warehouse.location = format!("{LAKE}w");
        warehouse.options = [
            ("aws_endpoint", "http://127.0.0.1:9"),
            ("aws_allow_http", "true"),
            ("aws_region", "eu-central-1"),
            ("aws_access_key_id", "AKIDEXAMPLE"),
            ("aws_secret_access_key", "wJalrXUtnFEMI"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        warehouse.access = FileAccessSettings {
            delegation: ways.to_vec(),
            sts_endpoint: self.uri.clone(),
            ..Default::default()
        };
        let clock = Arc::clone(&self.clock);
        TestApp::with_clock(Arc::new(InMemory::new()), settings, clock).await
    }
}
