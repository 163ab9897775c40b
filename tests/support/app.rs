//! [`TestApp`]: a catalog on memory, and requests to it.
//!
//! The engine, the router and every byte in between are the real ones; only the bucket is memory. A
//! test that wants the bucket to misbehave hands in its own opener.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use serde_json::{Value, json};
use slateberg::api::guard::Guarded;
use slateberg::app::App;
use slateberg_authz::bundled::default_policies;
use slateberg_authz::policy_file::PolicyFile;
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_config::Settings;
use slateberg_objects::conditional::Conditional;
use slateberg_objects::location::Location;
use slateberg_objects::open::{Opened, Opener};
use slateberg_runtime::seams::Seams;
use tower::ServiceExt;

use super::bucket::{bucket, encrypt_if_wanted};

/// The warehouse of every test catalog.
pub const WAREHOUSE: &str = "memory:///warehouse";

/// A catalog, in the process.
pub struct TestApp {
    /// What was built.
    pub app: App,
    /// Its routes.
    pub router: Guarded,
    /// The credential that requests are sent with which say nothing else.
    pub credential: Option<String>,
    /// The bucket that holds state and warehouse.
    pub bucket: Arc<dyn ObjectStore>,
    clock: Arc<dyn Clock>,
}

/// What a request was answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, as JSON; null if there is none.
    pub body: Value,
}

impl Answer {
    /// The exception's name, if this is an error.
    pub fn error_type(&self) -> &str {
        self.body["error"]["type"].as_str().unwrap_or("no error")
    }

    /// The exception's text, if this is an error.
    pub fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or("no error")
    }

    /// A header's value; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("headers are ASCII here"))
    }

    /// Status, exception and text of an error.
    pub fn error(&self) -> (u16, &str, &str) {
        (self.status.as_u16(), self.error_type(), self.message())
    }

    /// Whether the body is the specification's `IcebergErrorResponse`, and tells the status.
    pub fn is_error_model(&self) -> bool {
        let error = &self.body["error"];
        self.body.as_object().is_some_and(|body| body.len() == 1)
            && error.as_object().is_some_and(|error| error.len() == 3)
            && error["message"].as_str().is_some_and(|message| !message.is_empty())
            && error["type"].as_str().is_some_and(|kind| !kind.is_empty())
            && error["code"] == self.status.as_u16()
            && self.header("content-type") == "application/json"
    }

    /// Asserts the status, and tells the body if it is another.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self
    }

    /// Asserts an error of this status and type.
    #[track_caller]
    pub fn expect_error(self, status: u16, kind: &str) -> Self {
        assert_eq!((self.status.as_u16(), self.error_type()), (status, kind), "{}", self.body);
        assert_eq!(self.body["error"]["code"], status, "the body tells the status");
        self
    }
}

/// Settings of a catalog whose state and warehouse are both in memory.
pub fn memory_settings() -> Settings {
    let mut settings = Settings::default();
    settings.state.url = "memory:///state".to_owned();
    encrypt_if_wanted(&mut settings);
    // Most tests are not about who asks; those that are change it back.
    settings.authn.insecure_no_auth = true;
    let warehouse = settings.warehouses.get_mut("default").expect("there is one by default");
    warehouse.location = WAREHOUSE.to_owned();
    settings
}

/// Opens every URL in one and the same bucket, as buckets are opened.
pub fn bucket_opener(bucket: Arc<dyn ObjectStore>) -> Opener {
    Arc::new(move |url, _options| {
        let path = Location::parse(url).expect("test URLs are valid").path();
        Ok(Opened {
            object_store: Conditional::around(Arc::clone(&bucket)),
            path: Path::parse(path).expect("test paths are valid"),
            conditional_update: true,
            directory: None,
        })
    })
}

impl TestApp {
    /// A new, empty catalog.
    pub async fn new() -> Self {
        Self::on(bucket()).await
    }

    /// A catalog on this bucket: empty, or as an earlier one left it.
    pub async fn on(bucket: Arc<dyn ObjectStore>) -> Self {
        Self::with(bucket, memory_settings()).await
    }

    /// A catalog on this bucket with these settings.
    pub async fn with(bucket: Arc<dyn ObjectStore>, settings: Settings) -> Self {
        Self::with_clock(bucket, settings, Arc::new(SystemClock)).await
    }

    /// A catalog on this bucket with these settings, to which this clock tells the time.
    pub async fn with_clock(
        bucket: Arc<dyn ObjectStore>,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let opener = bucket_opener(Arc::clone(&bucket));
        let seams = Seams { opener, clock: Arc::clone(&clock), ..Seams::default() };
        let app = App::build(settings, seams).await.expect("the catalog opens");
        let router = app.router();
        let credential = app.runtime.minted_key.as_ref().map(|key| key.reveal().to_owned());
        Self { app, router, credential, bucket, clock }
    }

    /// A catalog that was opened otherwise. It has no bucket of the test's.
    pub fn of(app: App) -> Self {
        let router = app.router();
        let credential = app.runtime.minted_key.as_ref().map(|key| key.reveal().to_owned());
        let (bucket, clock) = (Arc::new(InMemory::new()), Arc::new(SystemClock));
        Self { app, router, credential, bucket, clock }
    }

    /// A new, empty catalog with some settings changed.
    pub async fn with_settings(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = memory_settings();
        change(&mut settings);
        Self::with(bucket(), settings).await
    }

    /// Stops the catalog, and opens it anew on what it left.
    pub async fn restart(self) -> Self {
        self.app.runtime.catalog.close().await.expect("the catalog closes");
        self.restart_closed().await
    }

    /// Opens a catalog anew that was closed, on what there is by now.
    pub async fn restart_closed(self) -> Self {
        let settings = Settings::clone(&self.app.runtime.settings);
        let credential = self.credential;
        let app = Self::with_clock(self.bucket, settings, self.clock).await;
        // A later start mints no key: the one that there was is as good as before.
        Self { credential: app.credential.clone().or(credential), ..app }
    }

    /// A new, empty catalog that asks for credentials. Requests are sent with its admin key, unless they
    /// bring a credential of their own.
    pub async fn secured() -> Self {
        Self::with_settings(|settings| settings.authn.insecure_no_auth = false).await
    }

    /// The same, by the policies that come with the program and these.
    pub async fn with_policies(policies: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let directory = tempfile::tempdir().expect("there is room");
        let mut files = default_policies();
        files.push(PolicyFile { name: "own.cedar".to_owned(), text: policies.to_owned() });
        for file in files {
            let name = file.name.rsplit('/').next().expect("a file has a name").to_owned();
            std::fs::write(directory.path().join(name), file.text).expect("it is written");
        }
        Self::with_settings(|settings| {
            settings.authn.insecure_no_auth = false;
            settings.authz.policy_paths = vec![directory.path().to_owned()];
            change(settings);
        })
        .await
    }

    /// The text of a new API key with this role.
    pub async fn key_with_role(&self, role: &str) -> String {
        self.make_key(json!({ "name": role, "roles": [role] })).await.1
    }

    /// The credential that requests are sent with.
    pub fn credential(&self) -> &str {
        self.credential.as_deref().expect("the catalog asks for credentials")
    }

    /// Sends a request and reads the whole answer. A request without a host names `localhost`, as a client would.
    pub async fn send(&self, mut request: Request<Body>) -> Answer {
        let headers = request.headers_mut();
        headers.entry(header::HOST).or_insert(HeaderValue::from_static("localhost"));
        let response =
            self.router.clone().oneshot(request).await.expect("the router is infallible");
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.expect("the body is in memory");
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()))
        };
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Sends a request with these headers, and with a JSON body unless it is null.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let brings_its_own = headers.iter().any(|(name, _)| {
            ["authorization", "x-api-key"].iter().any(|other| name.eq_ignore_ascii_case(other))
        });
        if let Some(credential) = self.credential.as_ref().filter(|_| !brings_its_own) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {credential}"));
        }
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        // What every client announces; without it, a server reckons with the longest body.
        request = request.header(header::CONTENT_LENGTH, body.len());
        self.send(request.body(Body::from(body)).expect("test requests are valid")).await
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> Answer {
        self.request(Method::GET, path, &[], &Value::Null).await
    }

    /// `HEAD`.
    pub async fn head(&self, path: &str) -> Answer {
        self.request(Method::HEAD, path, &[], &Value::Null).await
    }

    /// `DELETE`.
    pub async fn delete(&self, path: &str) -> Answer {
        self.request(Method::DELETE, path, &[], &Value::Null).await
    }

    /// `POST` with a body.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.request(Method::POST, path, &[], &body).await
    }

    /// A request with this credential, or with none if it is empty.
    pub async fn request_as(
        &self,
        credential: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Answer {
        let bearer = format!("Bearer {credential}");
        let headers: &[_] = match credential {
            "" => &[],
            _ => &[("authorization", bearer.as_str())],
        };
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        request = request.header(header::CONTENT_LENGTH, body.len());
        self.send(request.body(Body::from(body)).expect("test requests are valid")).await
    }

    /// `GET` with this credential.
    pub async fn get_as(&self, credential: &str, path: &str) -> Answer {
        self.request_as(credential, Method::GET, path, &Value::Null).await
    }

    /// Makes an API key; returns its id and its text.
    pub async fn make_key(&self, wanted: Value) -> (String, String) {
        let made = self.post("/management/v1/api-keys", wanted).await.expect(201);
        let text = |name: &str| made.body[name].as_str().expect("a text").to_owned();
        (text("id"), text("key"))
    }
}
