//! [`TestSts`]: an `AssumeRole` endpoint like that of AWS, which records its requests. It checks no
//! signatures: tests with a real store (`tests/e2e`) show that credentials are limited by their
//! policies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;
use slateberg_base::clock::Clock;
use tokio::net::TcpListener;

use super::clock::HandClock;

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
