//! [`TestApp`]: an in-memory catalog, and requests to it.
//!
//! Engine and router are the real ones; only the bucket is in memory. Tests of faults inject their
//! own opener.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use serde_json::{Value, json};
use slateberg::api::service::PortService;
use slateberg::app::App;
use slateberg_authz::bundled::default_policies;
use slateberg_authz::policy_file::PolicyFile;
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_config::Settings;
use slateberg_objects::conditional::Conditional;
use slateberg_objects::location::Location;
use slateberg_objects::open::{Opened, Opener};
use slateberg_runtime::dependencies::Dependencies;
use tower::ServiceExt;

use super::bucket::{bucket, encrypt_if_enabled};

/// The warehouse of every test catalog.
pub const WAREHOUSE: &str = "memory:///warehouse";

/// An in-process catalog.
pub struct TestApp {
    /// The application.
    pub app: App,
    /// The routes of the client port.
    pub router: PortService,
    /// Default credential of requests.
    pub credential: Option<String>,
    /// The bucket with the state and the warehouse.
    pub bucket: Arc<dyn ObjectStore>,
    clock: Arc<dyn Clock>,
}

/// A response.
#[derive(Debug, Clone)]
pub struct TestResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON. Null if it is empty.
    pub body: Value,
}

impl TestResponse {
    /// Returns the name of an error's exception.
    pub fn error_type(&self) -> &str {
        self.body["error"]["type"].as_str().unwrap_or("no error")
    }

    /// Returns the message of an error.
    pub fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or("no error")
    }

    /// Returns a header's value, or an empty string if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("headers are ASCII here"))
    }

    /// Returns status, exception and message of an error.
    pub fn error(&self) -> (u16, &str, &str) {
        (self.status.as_u16(), self.error_type(), self.message())
    }

    /// Whether the body is the specification's `IcebergErrorResponse` with the same status.
    pub fn is_error_model(&self) -> bool {
        let error = &self.body["error"];
        self.body.as_object().is_some_and(|body| body.len() == 1)
            && error.as_object().is_some_and(|error| error.len() == 3)
            && error["message"].as_str().is_some_and(|message| !message.is_empty())
            && error["type"].as_str().is_some_and(|kind| !kind.is_empty())
            && error["code"] == self.status.as_u16()
            && self.header("content-type") == "application/json"
    }

    /// Asserts the status. The panic message contains the body.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self
    }

    /// Asserts an error of this status and type.
    #[track_caller]
    pub fn expect_error(self, status: u16, kind: &str) -> Self {
        assert_eq!((self.status.as_u16(), self.error_type()), (status, kind), "{}", self.body);
        assert_eq!(self.body["error"]["code"], status, "the body has the same status");
        self
    }
}

/// Returns settings of a catalog with state and warehouse in memory.
pub fn memory_settings() -> Settings {
    let mut settings = Settings::default();
    settings.state.url = "memory:///state".to_owned();
    encrypt_if_enabled(&mut settings);
    // Most tests need no authentication; the others enable it.
    settings.authn.insecure_no_auth = true;
    // Scans are planned on threads of low priority, which get little time while other tests run.
    settings.catalog.plan_wait_ms = 600_000;
    let warehouse = settings.warehouses.get_mut("default").expect("there is one by default");
    warehouse.location = WAREHOUSE.to_owned();
    settings
}

/// Returns an opener that opens every URL in the same bucket.
pub fn bucket_opener(bucket: Arc<dyn ObjectStore>) -> Opener {
    Arc::new(move |url, _options| {
        let path = Location::parse(url).expect("test URLs are valid").path();
        Ok(Opened {
            object_store: Conditional::around(Arc::clone(&bucket)),
            path: Path::parse(path).expect("test paths are valid"),
            conditional_update: true,
            directory: None,
            is_remote: false,
        })
    })
}

/// Writes the default policies and these into a directory.
pub fn write_policies(directory: &std::path::Path, policies: &str) {
    let mut files = default_policies();
    files.push(PolicyFile { name: "own.cedar".to_owned(), text: policies.to_owned() });
    for file in files {
        let name = file.name.rsplit('/').next().expect("a file has a name").to_owned();
        std::fs::write(directory.join(name), file.text).expect("it is written");
    }
}

impl TestApp {
    /// Returns a new, empty catalog.
    pub async fn new() -> Self {
        Self::on(bucket()).await
    }

    /// Returns a catalog on this bucket, which may be empty or contain an earlier state.
    pub async fn on(bucket: Arc<dyn ObjectStore>) -> Self {
        Self::with(bucket, memory_settings()).await
    }

    /// Returns a catalog on this bucket with these settings.
    pub async fn with(bucket: Arc<dyn ObjectStore>, settings: Settings) -> Self {
        Self::with_clock(bucket, settings, Arc::new(SystemClock)).await
    }

    /// Returns a catalog on this bucket with these settings and this clock.
    pub async fn with_clock(
        bucket: Arc<dyn ObjectStore>,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let opener = bucket_opener(Arc::clone(&bucket));
        let dependencies =
            Dependencies { opener, clock: Arc::clone(&clock), ..Dependencies::default() };
        let app = App::build(settings, dependencies).await.expect("the catalog opens");
        let router = app.router();
        let credential = app.runtime.minted_key.as_ref().map(|key| key.reveal().to_owned());
        Self { app, router, credential, bucket, clock }
    }

    /// Wraps an open catalog. The test has no access to its bucket.
    pub fn of(app: App) -> Self {
        let router = app.router();
        let credential = app.runtime.minted_key.as_ref().map(|key| key.reveal().to_owned());
        let (bucket, clock) = (Arc::new(InMemory::new()), Arc::new(SystemClock));
        Self { app, router, credential, bucket, clock }
    }

    /// Returns a new, empty catalog with changed settings.
    pub async fn with_settings(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = memory_settings();
        change(&mut settings);
        Self::with(bucket(), settings).await
    }

    /// Stops the catalog and opens it again on its state.
    pub async fn restart(self) -> Self {
        self.app.runtime.catalog.close().await.expect("the catalog closes");
        self.restart_closed().await
    }

    /// Opens a closed catalog again on its present state.
    pub async fn restart_closed(self) -> Self {
        let settings = Settings::clone(&self.app.runtime.settings);
        let credential = self.credential;
        let app = Self::with_clock(self.bucket, settings, self.clock).await;
        // A later start creates no key: the earlier one is still valid.
        Self { credential: app.credential.clone().or(credential), ..app }
    }

    /// Returns a new, empty catalog that requires credentials. Requests are sent with its admin key
    /// unless they have their own credential.
    pub async fn secured() -> Self {
        Self::with_settings(|settings| settings.authn.insecure_no_auth = false).await
    }

    /// Like [`secured`](Self::secured), with the default policies and these.
    pub async fn with_policies(policies: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let directory = tempfile::tempdir().expect("there is room");
        write_policies(directory.path(), policies);
        Self::with_settings(|settings| {
            settings.authn.insecure_no_auth = false;
            settings.authz.policy_paths = vec![directory.path().to_owned()];
            change(settings);
        })
        .await
    }

    /// Creates an API key with this role, and returns its secret.
    pub async fn key_with_role(&self, role: &str) -> String {
        self.make_key(json!({ "name": role, "roles": [role] })).await.1
    }

    /// Returns the default credential of requests.
    pub fn credential(&self) -> &str {
        self.credential.as_deref().expect("the catalog requires credentials")
    }

    /// Sends a request and reads the whole response. The default host is `localhost`.
    pub async fn send(&self, mut request: Request<Body>) -> TestResponse {
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
        TestResponse { status: parts.status, headers: parts.headers, body }
    }

    /// Sends a request with these headers, and with a JSON body unless it is null.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> TestResponse {
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
        // All clients send the length; without it, the server reserves memory for the longest body.
        request = request.header(header::CONTENT_LENGTH, body.len());
        self.send(request.body(Body::from(body)).expect("test requests are valid")).await
    }

    /// Sends a `GET`.
    pub async fn get(&self, path: &str) -> TestResponse {
        self.request(Method::GET, path, &[], &Value::Null).await
    }

    /// Reads all pages of a listing, each of which has at most `size` entries. `path` ends with a
    /// query parameter, or has none. `list` is the member of a page with its entries.
    pub async fn pages(&self, path: &str, list: &str, size: usize) -> Vec<Value> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let path = format!("{path}{separator}pageSize={size}&pageToken={token}");
            let page = self.get(&path).await.expect(200).body;
            let entries = page[list].as_array().expect("a list");
            assert!((1..=size).contains(&entries.len()), "{page}");
            all.extend(entries.iter().cloned());
            match page["next-page-token"].as_str() {
                Some(next) => token = next.to_owned(),
                None => return all,
            }
        }
    }

    /// Sends a `HEAD`.
    pub async fn head(&self, path: &str) -> TestResponse {
        self.request(Method::HEAD, path, &[], &Value::Null).await
    }

    /// Sends a `DELETE`.
    pub async fn delete(&self, path: &str) -> TestResponse {
        self.request(Method::DELETE, path, &[], &Value::Null).await
    }

    /// Sends a `POST` with a body.
    pub async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.request(Method::POST, path, &[], &body).await
    }

    /// Sends a request with this credential, or with none if it is empty.
    pub async fn request_as(
        &self,
        credential: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> TestResponse {
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

    /// Sends a `GET` with this credential.
    pub async fn get_as(&self, credential: &str, path: &str) -> TestResponse {
        self.request_as(credential, Method::GET, path, &Value::Null).await
    }

    /// Creates an API key. Returns its id and its secret.
    pub async fn make_key(&self, wanted: Value) -> (String, String) {
        let created = self.post("/management/v1/api-keys", wanted).await.expect(201);
        let text = |name: &str| created.body[name].as_str().expect("a text").to_owned();
        (text("id"), text("key"))
    }
}
