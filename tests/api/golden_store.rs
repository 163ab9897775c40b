//! Stores of earlier versions, filled by `golden/write.py`: this version opens them, returns the
//! same content, and replays the same responses.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::Value;
use slateberg::app::App;
use slateberg_base::progress::Progress;
use slateberg_config::Settings;
use slateberg_objects::open::{Opener, open_url};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::fsck::fsck;
use tempfile::TempDir;

use crate::support::app::{TestApp, TestResponse};
use crate::support::clock::HandClock;

/// Data directory in which the stores were written. Locations are absolute.
const DATA: &str = "file:///golden";

/// A golden store, unpacked.
struct Golden {
    /// The content that clients saw, and the requests whose responses are stored.
    written: Value,
    directory: TempDir,
}

impl Golden {
    fn unpack(name: &str) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/golden");
        let written = std::fs::read(here.join(format!("{name}.json"))).expect("it is there");
        let directory = tempfile::tempdir().expect("there is room");
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(here.join(format!("{name}.tar.gz"))).arg("-C").arg(directory.path());
        assert!(unpack.status().expect("tar runs").success());
        Self { written: serde_json::from_slice(&written).expect("it is JSON"), directory }
    }

    fn settings(&self) -> Settings {
        let data_dir = self.directory.path().to_owned();
        let mut settings = Settings { data_dir, ..Settings::default() };
        settings.state.url = format!("{DATA}/state");
        settings.catalog.local_warehouse_dirs = vec!["/golden/warehouse".into()];
        let warehouse = settings.warehouses.get_mut("default").expect("there is one by default");
        warehouse.location = format!("{DATA}/warehouse/default");
        settings
    }

    /// Replaces the data directory of the writer by the unpacked one in URLs, and sets the clock to
    /// the time of the writer.
    fn dependencies(&self) -> Dependencies {
        let now = format!("file://{}", self.directory.path().display());
        let opener: Opener = Arc::new(move |url, options| match url.strip_prefix(DATA) {
            Some(path) => open_url(&format!("{now}{path}"), options),
            None => open_url(url, options),
        });
        let written_ms = self.written["written-ms"].as_i64().expect("a number");
        Dependencies {
            opener,
            clock: Arc::new(HandClock::at_ms(written_ms)),
            ..Dependencies::default()
        }
    }

    async fn open(&self) -> TestApp {
        let app =
            App::build(self.settings(), self.dependencies()).await.expect("the catalog opens");
        let key = self.written["key"].as_str().expect("a text").to_owned();
        let mut app = TestApp::of(app);
        app.credential = Some(key);
        app
    }

    async fn assert_sound(&self) {
        let report = fsck(&self.settings(), &self.dependencies(), &Progress::default()).await;
        let mut findings = report.expect("fsck runs").findings();
        // Ignores missing metadata files: records contain absolute locations in the writer's data
        // directory, which does not exist here.
        findings.retain(|it| !(it.starts_with(DATA) && it.contains("Failed to open input stream")));
        assert_eq!(findings, Vec::<String>::new());
    }
}

/// Whether a value contains everything that an earlier value contained. A later version may add
/// members.
fn has_all(now: &Value, before: &Value) -> bool {
    match (now, before) {
        // The default policies belong to the binary, not to the store.
        (now, before) if before["origin"] == "file" => now["id"] == before["id"],
        // A grant shows the text of its template, which is a default policy.
        (now, before) if before["origin"] == "grant" => {
            ["id", "from", "effect"].iter().all(|name| now[name] == before[name])
        }
        (Value::Object(now), Value::Object(before)) => before.iter().all(|(name, before)| {
            // These values may differ, because the writer used its key again later, and the default
            // policies have changed since.
            ["last-used-at-ms", "in-force"].contains(&name.as_str())
                || now.get(name).is_some_and(|now| has_all(now, before))
        }),
        (Value::Array(now), Value::Array(before)) => {
            now.len() == before.len() && now.iter().zip(before).all(|(now, it)| has_all(now, it))
        }
        (now, before) => now == before,
    }
}

/// Sends a recorded request again, byte by byte.
async fn send_again(app: &TestApp, request: &Value) -> TestResponse {
    let text = |name: &str| request[name].as_str().expect("a text").to_owned();
    let body = text("body");
    let request = Request::builder()
        .method(text("method").as_str())
        .uri(text("path"))
        .header("Idempotency-Key", text("key"))
        .header(header::AUTHORIZATION, format!("Bearer {}", app.credential()))
        .header(header::CONTENT_LENGTH, body.len());
    app.send(request.body(Body::from(body)).expect("a recorded request is valid")).await
}

#[tokio::test]
async fn store_of_commit_326abe4_is_served_unchanged_and_replays_its_responses() {
    let golden = Golden::unpack("326abe4");
    let app = golden.open().await;
    let seen = golden.written["seen"].as_object().expect("an object");
    for (path, expected) in seen {
        let response = app.get(path).await.expect(200);
        assert!(has_all(&response.body, expected), "{path}: {} without {expected}", response.body);
    }
    let remembered = golden.written["remembered"].as_array().expect("a list");
    for request in remembered {
        let again = send_again(&app, request).await;
        let status = again.status.as_u16();
        assert_eq!(request["status"], status, "{request}: {}", again.body);
        // A replayed response with a table or view contains the current state, which may differ
        // from the recorded one.
        let is_state = again.body.get("metadata").is_some();
        assert!(is_state || has_all(&again.body, &request["answer"]), "{request}: {}", again.body);
    }
    for (path, expected) in seen {
        let response = app.get(path).await.expect(200);
        assert!(has_all(&response.body, expected), "{path} has changed: {}", response.body);
    }
    app.app.runtime.catalog.close().await.expect("it closes");
    golden.assert_sound().await;
    let app = golden.open().await;
    app.create_namespace(&["later"]).await;
    app.app.runtime.catalog.close().await.expect("it closes");
    golden.assert_sound().await;
}
