//! The OpenAPI document of the management API: it contains exactly the existing routes, and
//! responses match it.

use std::collections::BTreeSet;
use std::path::Path;

use axum::http::Method;
use serde_json::{Value, json};
use slateberg::api::access_log::AccessLog;
use slateberg::api::router::observer;

use crate::support::app::{TestApp, TestResponse};
use crate::support::bucket::fresh_id;
use crate::support::function::{FUNCTIONS, function};
use crate::support::schema::Schemas;

const PREFIX: &str = "/management/v1";
const METHODS: [&str; 5] = ["get", "post", "put", "delete", "patch"];

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(root.join(path)).expect("it is there")
}

fn document() -> Value {
    serde_json::from_str(&read("docs/openapi/management.json")).expect("JSON")
}

/// Returns the operations of a document, as `METHOD path`.
fn documented(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().expect("paths");
    let all = paths.iter().flat_map(|(path, item)| {
        let methods = METHODS.iter().filter(|method| item.get(**method).is_some());
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    all.collect()
}

/// Returns the operations of the router.
fn routed() -> BTreeSet<String> {
    let observer = observer("http", None, AccessLog::default());
    let operations = observer.routes().operations();
    let managed = operations.filter(|(_, path)| path.starts_with(PREFIX));
    managed.map(|(method, path)| format!("{method} {path}")).collect()
}

#[test]
fn every_route_is_documented_and_nothing_else() {
    let document = document();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(documented(&document), routed());
    let operations = document["paths"].as_object().expect("paths").values();
    let ids = operations.flat_map(|item| METHODS.map(|method| item[method]["operationId"].clone()));
    let ids: Vec<_> = ids.filter(|id| !id.is_null()).map(|id| id.to_string()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "ids are unique");
    assert_eq!(ids.len(), routed().len(), "every operation has one");
}

#[test]
fn every_reference_in_the_document_resolves() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match member.as_str().filter(|_| name == "$ref") {
                        Some(target) => found.push(target.to_owned()),
                        None => references(member, found),
                    }
                }
            }
            Value::Array(all) => all.iter().for_each(|one| references(one, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(!found.is_empty());
    for target in found {
        let pointer = target.strip_prefix('#').expect("it is in the document");
        assert!(document.pointer(pointer).is_some(), "{target}");
    }
}

#[tokio::test]
async fn every_documented_route_is_served() {
    let app = TestApp::secured().await;
    for operation in documented(&document()) {
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let answer = app.request_as("", method, path, &Value::Null).await;
        // Without a credential, even a missing route returns 401. The next request has one.
        assert!([200, 401].contains(&answer.status.as_u16()), "{operation}: {}", answer.status);
        let method = operation.split(' ').next().expect("a method").parse().expect("a method");
        let answer = app.request(method, path, &[], &Value::Null).await;
        let there_is = answer.status != 405 && !answer.message().starts_with("No route");
        assert!(there_is, "{operation}: {}", answer.body);
    }
}

#[tokio::test]
async fn document_needs_no_credential() {
    let app = TestApp::secured().await;
    let answer = app.get_as("", "/management/v1/openapi.json").await.expect(200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.body, document());
}

/// A catalog, and the document that its responses must match.
struct Pinned {
    app: TestApp,
    document: Value,
}

impl Pinned {
    /// Returns the target of a reference. Any other value is returned unchanged.
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(target) => {
                let pointer = target.strip_prefix('#').expect("it is in the document");
                self.document.pointer(pointer).expect("it is there")
            }
            None => value,
        }
    }

    /// Asserts that the document contains this response for the operation.
    #[track_caller]
    fn check(&self, method: &str, template: &str, answer: &TestResponse) {
        let operation = &self.document["paths"][template][method];
        let status = answer.status.as_str();
        let message = format!("{method} {template}: {status} {}", answer.body);
        let response = self.resolved(&operation["responses"][status]);
        assert!(response.is_object(), "the document lacks this response: {message}");
        let schema = &response["content"]["application/json"]["schema"];
        if schema.is_null() {
            assert_eq!(answer.body, Value::Null, "{message}");
            return;
        }
        let problems = Schemas(&self.document).problems(schema, &answer.body);
        assert!(problems.is_empty(), "{message}: {problems:#?}");
    }

    async fn send(&self, credential: &str, method: &str, path: &str, body: Value) -> TestResponse {
        let method = method.to_uppercase().parse().expect("a method");
        self.app.request_as(credential, method, path, &body).await
    }

    /// Sends a request to a path without parameters, and checks the response.
    async fn ask(&self, credential: &str, method: &str, path: &str, body: Value) -> TestResponse {
        let answer = self.send(credential, method, path, body).await;
        self.check(method, path, &answer);
        answer
    }
}

impl Pinned {
    /// Sends all requests on warehouses.
    async fn warehouses(&self) {
        let admin = self.app.credential().to_owned();
        let reader = &self.app.key_with_role("reader").await;
        let (all, one) = ("/management/v1/warehouses", "/management/v1/warehouses/{name}");
        let request = json!({ "name": "lake", "storage": { "location": "memory:///lake" } });
        for (credential, status) in [(&*admin, 201), (&admin, 409), (reader, 403), ("", 401)] {
            self.ask(credential, "post", all, request.clone()).await.expect(status);
        }
        self.ask(&admin, "post", all, json!({ "name": "x", "storage": {} })).await.expect(400);
        self.ask(&admin, "get", all, Value::Null).await.expect(200);
        self.ask(reader, "get", all, Value::Null).await.expect(200);
        for (credential, method, name) in [
            (admin.as_str(), "get", "lake"),
            (reader, "get", "lake"),
            (&admin, "get", "default"),
            (&admin, "get", "nothing"),
            (&admin, "put", "lake"),
            (&admin, "put", "default"),
            (&admin, "put", "nothing"),
            (reader, "put", "lake"),
            (reader, "delete", "lake"),
            (&admin, "delete", "default"),
            (&admin, "delete", "lake"),
            (&admin, "delete", "lake"),
        ] {
            let body = if method == "put" { json!({ "storage": {} }) } else { Value::Null };
            let answer = self.send(credential, method, &format!("{all}/{name}"), body).await;
            self.check(method, one, &answer);
        }
    }
}

impl Pinned {
    /// Sends all requests on encryption, to this catalog and to an encrypted one.
    async fn encryption(&self) {
        let admin = self.app.credential().to_owned();
        let reader = self.app.key_with_role("reader").await;
        let [status, rotate, rewrap] =
            ["", "/rotate", "/rewrap"].map(|end| format!("/management/v1/encryption{end}"));
        for (credential, code) in [(admin.as_str(), 200), (&reader, 403), ("", 401)] {
            self.ask(credential, "get", &status, Value::Null).await.expect(code);
        }
        for path in [&rotate, &rewrap] {
            for (credential, code) in [(admin.as_str(), 409), (&reader, 403), ("", 401)] {
                self.ask(credential, "post", path, json!({})).await.expect(code);
            }
        }
        self.ask(&admin, "post", &rewrap, json!({ "key": "x" })).await.expect(400);
        let (app, _file) = super::encryption::encrypted().await;
        let encrypted = Self { app, document: document() };
        for (method, path) in [("get", &status), ("post", &rotate), ("post", &rewrap)] {
            let (verb, body) = (method.to_uppercase().parse().expect("a method"), json!({}));
            let answer = encrypted.app.request(verb, path, &[], &body).await.expect(200);
            encrypted.check(method, path, &answer);
        }
        let unknown = json!({ "wrapping-key": "nothing" });
        encrypted.check("post", &rewrap, &encrypted.app.post(&rewrap, unknown).await.expect(422));
    }
}

impl Pinned {
    /// Sends all requests on dropped tables.
    async fn dropped(&self) {
        let admin = self.app.credential().to_owned();
        let reader = &self.app.key_with_role("reader").await;
        let (all, undrop) = ("/management/v1/dropped", "/management/v1/dropped/undrop");
        let one = &format!("{all}/{{id}}");
        self.app.create_namespace(&["dropped"]).await;
        self.app.create_table("dropped", "t").await;
        self.app.delete("/v1/namespaces/dropped/tables/t").await.expect(204);
        for (credential, status) in [(&*admin, 200), (reader, 200), ("", 401)] {
            self.ask(credential, "get", all, Value::Null).await.expect(status);
        }
        let request = json!({ "resource": "table:default/dropped/t" });
        for (credential, status) in [("", 401), (reader, 403), (&admin, 200), (&admin, 404)] {
            self.ask(credential, "post", undrop, request.clone()).await.expect(status);
        }
        self.ask(&admin, "post", undrop, json!({ "resource": "catalog" })).await.expect(400);
        self.app.delete("/v1/namespaces/dropped/tables/t").await.expect(204);
        self.app.create_table("dropped", "t").await;
        self.ask(&admin, "post", undrop, request).await.expect(409);
        let listed = self.app.get(all).await.expect(200).body;
        let id = listed["dropped"][0]["id"].as_str().expect("an id");
        for (credential, status) in [("", 401), (reader, 403), (&admin, 204), (&admin, 404)] {
            let path = format!("{all}/{id}");
            let answer = self.send(credential, "delete", &path, Value::Null).await;
            self.check("delete", one, &answer.expect(status));
        }
        self.app.create_namespace(&["undropped"]).await;
        self.app.delete("/v1/namespaces/undropped").await.expect(204);
        self.ask(&admin, "get", all, Value::Null).await.expect(200);
        let request = json!({ "resource": "namespace:default/undropped" });
        for (credential, status) in [(&**reader, 403), (&*admin, 200), (&*admin, 404)] {
            self.ask(credential, "post", undrop, request.clone()).await.expect(status);
        }
        self.app.delete("/v1/namespaces/undropped").await.expect(204);
    }

    /// Sends all requests on protections.
    async fn protections(&self) {
        let admin = self.app.credential().to_owned();
        let reader = &self.app.key_with_role("reader").await;
        let all = "/management/v1/protections";
        let one = &format!("{all}/{{id}}");
        let request = json!({ "resource": "namespace:default/dropped" });
        for (credential, status) in [("", 401), (reader, 403), (&admin, 200)] {
            self.ask(credential, "post", all, request.clone()).await.expect(status);
        }
        self.ask(&admin, "post", all, json!({ "resource": "warehouse:x" })).await.expect(404);
        self.ask(&admin, "post", all, json!({ "resource": "catalog" })).await.expect(400);
        for (credential, status) in [("", 401), (reader, 200), (&admin, 200)] {
            self.ask(credential, "get", all, Value::Null).await.expect(status);
        }
        let listed = self.app.get(all).await.expect(200).body;
        let id = listed["protections"][0]["id"].as_str().expect("an id");
        for (credential, status) in [("", 401), (reader, 403), (&admin, 204), (&admin, 404)] {
            let path = format!("{all}/{id}");
            let answer = self.send(credential, "delete", &path, Value::Null).await;
            self.check("delete", one, &answer.expect(status));
        }
    }

    /// Sends all requests on labels.
    async fn labels(&self) {
        let admin = self.app.credential().to_owned();
        let reader = &self.app.key_with_role("reader").await;
        self.app.create_namespace(&["labels"]).await;
        self.app.create_table("labels", "t").await;
        let labels = "/management/v1/labels";
        let request = |table: &str| json!({ "resource": format!("table:default/{table}"), "set": { "a": "b" } });
        for (credential, status) in [("", 401), (reader, 403), (&admin, 200)] {
            self.ask(credential, "post", labels, request("labels/t")).await.expect(status);
        }
        self.ask(&admin, "post", labels, request("labels/none")).await.expect(404);
        self.ask(&admin, "post", labels, json!({ "resource": "catalog" })).await.expect(400);
        for (credential, query, status) in [
            ("", "?resource=table:default/labels/t".to_owned(), 401),
            (reader, "?resource=table:default/labels/t".to_owned(), 200),
            (&admin, "?resource=table:default/ns/none".to_owned(), 404),
            (&admin, String::new(), 400),
        ] {
            let path = format!("{labels}{query}");
            let answer = self.send(credential, "get", &path, Value::Null).await;
            self.check("get", labels, &answer.expect(status));
        }
    }

    /// Sends all requests on functions.
    async fn functions(&self) {
        let admin = self.app.credential().to_owned();
        let reader = &self.app.key_with_role("reader").await;
        let wanted = |name: &str, sql: &str| function(&format!("function:default/{name}"), sql);
        let new = wanted("dropped/f", "x");
        for (credential, status) in [("", 401), (reader, 403), (&admin, 201), (&admin, 409)] {
            self.ask(credential, "post", FUNCTIONS, new.clone()).await.expect(status);
        }
        self.ask(&admin, "post", FUNCTIONS, wanted("dropped/g", "")).await.expect(400);
        self.ask(&admin, "post", FUNCTIONS, wanted("none/g", "x")).await.expect(404);
        let next = wanted("dropped/f", "x + 1");
        for (credential, status) in [("", 401), (reader, 403), (&admin, 200)] {
            self.ask(credential, "put", FUNCTIONS, next.clone()).await.expect(status);
        }
        let mut outdated = next.clone();
        outdated["expected-version"] = json!(1);
        self.ask(&admin, "put", FUNCTIONS, outdated).await.expect(409);
        self.ask(&admin, "put", FUNCTIONS, wanted("dropped/g", "x")).await.expect(404);
        self.ask(&admin, "put", FUNCTIONS, json!({})).await.expect(400);
        let named = format!("{FUNCTIONS}?resource=function:default/dropped/f");
        for (credential, path, status) in [
            ("", &*named, 401),
            (reader, &*named, 403),
            (&admin, &*named, 204),
            (&admin, &*named, 404),
            (&admin, FUNCTIONS, 400),
        ] {
            let answer = self.send(credential, "delete", path, Value::Null).await;
            self.check("delete", FUNCTIONS, &answer.expect(status));
        }
    }

    /// Sends all requests on the history.
    async fn history(&self) {
        let admin = self.app.credential().to_owned();
        let reader = &self.app.key_with_role("reader").await;
        let all = "/management/v1/history";
        for (credential, status) in [("", 401), (reader, 403), (&admin, 200)] {
            self.ask(credential, "get", all, Value::Null).await.expect(status);
        }
        for (query, status) in [("?before=x", 400), ("?resource=warehouse:x", 404)] {
            let answer = self.send(&admin, "get", &format!("{all}{query}"), Value::Null).await;
            self.check("get", all, &answer.expect(status));
        }
    }

    /// Sends all requests on earlier states.
    async fn past(&self) {
        let admin = self.app.credential().to_owned();
        let reader = &self.app.key_with_role("reader").await;
        let nothing = &self.app.key_with_role("nothing").await;
        self.app.create_namespace(&["past"]).await;
        self.app.create_table("past", "t").await;
        let position = self.app.get("/v1/default/namespaces").await.expect(200);
        let position = position.header("slateberg-position").to_owned();
        let elsewhere = {
            let other = TestApp::new().await;
            other.get("/v1/namespaces").await.expect(200).header("slateberg-position").to_owned()
        };
        for (end, resource, absent) in [
            ("contents", "warehouse:default", "warehouse:x"),
            ("metadata", "table:default/past/t", "table:default/past/none"),
        ] {
            let path = format!("/management/v1/past/{end}");
            for (credential, resource, as_of, status) in [
                ("", resource, &position, 401),
                (&*admin, resource, &position, 200),
                (reader, resource, &position, 200),
                (nothing, resource, &position, 403),
                (&admin, absent, &position, 404),
                (&admin, resource, &elsewhere, 410),
                (&admin, "key:x", &position, 400),
            ] {
                let query = format!("?resource={resource}&as-of={as_of}");
                let answer =
                    self.send(credential, "get", &format!("{path}{query}"), Value::Null).await;
                self.check("get", &path, &answer.expect(status));
            }
        }
    }

    /// Sends all requests on the change feed.
    async fn watch(&self) {
        let admin = self.app.credential().to_owned();
        let reader = &self.app.key_with_role("reader").await;
        let all = "/management/v1/watch";
        for (credential, status) in [("", 401), (reader, 200), (&admin, 200)] {
            self.ask(credential, "get", all, Value::Null).await.expect(status);
        }
        let of_nothing = &self.app.key_with_role("nothing").await;
        for (credential, query, status) in [
            (&*admin, "?after=oldest", 200),
            (&admin, "?after=x", 400),
            (of_nothing, "", 403),
            (&admin, "?resource=warehouse:x", 404),
        ] {
            let answer = self.send(credential, "get", &format!("{all}{query}"), Value::Null).await;
            self.check("get", all, &answer.expect(status));
        }
        let cursors = &format!("{all}/cursors");
        for (credential, status) in [("", 401), (reader, 403), (&admin, 200)] {
            self.ask(credential, "get", cursors, Value::Null).await.expect(status);
        }
        let present = self.send(&admin, "get", all, Value::Null).await.expect(200).body;
        let stored = json!({ "position": present["next"], "consumer": fresh_id() });
        let (one, path) = (&format!("{cursors}/{{cursor}}"), &format!("{cursors}/c"));
        for (method, body, status) in [
            ("get", Value::Null, 404),
            ("put", json!({}), 400),
            ("put", stored, 204),
            ("put", json!({ "position": present["next"], "consumer": fresh_id() }), 409),
            ("get", Value::Null, 200),
            ("delete", Value::Null, 204),
            ("delete", Value::Null, 404),
        ] {
            let answer = self.send(&admin, method, path, body).await;
            self.check(method, one, &answer.expect(status));
        }
    }

    /// Sends all requests on background jobs.
    async fn jobs(&self) {
        let admin = self.app.credential().to_owned();
        let reader = &self.app.key_with_role("reader").await;
        let all = "/management/v1/jobs";
        let (one, cancel) = (&format!("{all}/{{id}}"), &format!("{all}/{{id}}/cancel"));
        self.app.create_namespace(&["ns"]).await;
        self.app.create_table("ns", "t").await;
        let request = json!({ "kind": "orphan-removal", "resource": "table:default/ns/t" });
        for (credential, status) in [(&*admin, 202), (&admin, 409), (reader, 403), ("", 401)] {
            self.ask(credential, "post", all, request.clone()).await.expect(status);
        }
        let expire = "/management/v1/snapshots/expire";
        let table = json!({ "resource": "table:default/ns/t" });
        for (credential, status) in [(&*admin, 200), (reader, 403), ("", 401)] {
            self.ask(credential, "post", expire, table.clone()).await.expect(status);
        }
        let rewrite = "/management/v1/manifests/rewrite";
        for (credential, status) in [(&*admin, 200), (reader, 403), ("", 401)] {
            self.ask(credential, "post", rewrite, table.clone()).await.expect(status);
        }
        let nothing = json!({ "kind": "orphan-removal", "resource": "table:default/ns/nothing" });
        self.ask(&admin, "post", all, nothing).await.expect(404);
        self.ask(&admin, "post", all, json!({ "kind": "purge" })).await.expect(400);
        self.app.delete("/v1/namespaces/ns/tables/t?purgeRequested=true").await.expect(204);
        let jobs = self.ask(&admin, "get", all, Value::Null).await.expect(200).body;
        assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(2));
        self.ask(reader, "get", all, Value::Null).await.expect(200);
        let first = jobs["jobs"][0]["id"].as_str().expect("an id");
        let second = jobs["jobs"][1]["id"].as_str().expect("an id");
        let path = format!("{all}/{second}/cancel");
        let cancelled = self.send(&admin, "post", &path, Value::Null).await.expect(200);
        self.check("post", cancel, &cancelled);
        self.app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
        for (credential, id, status) in
            [(&*admin, first, 200), (&admin, second, 200), (reader, first, 404), ("", first, 401)]
        {
            let answer = self.send(credential, "get", &format!("{all}/{id}"), Value::Null).await;
            self.check("get", one, &answer.expect(status));
        }
        for (credential, status) in [(&*admin, 409), (reader, 404), ("", 401)] {
            let path = format!("{all}/{first}/cancel");
            let answer = self.send(credential, "post", &path, Value::Null).await;
            self.check("post", cancel, &answer.expect(status));
        }
    }

    /// Sends all requests on the cluster. This server is not a member of one.
    async fn cluster(&self) {
        let admin = self.app.credential().to_owned();
        let reader = self.app.key_with_role("reader").await;
        let (status, transfer) = ("/management/v1/cluster", "/management/v1/cluster/transfer");
        let pause = "/management/v1/cluster/pause";
        for (credential, code) in [(admin.as_str(), 404), (&reader, 403), ("", 401)] {
            self.ask(credential, "get", status, Value::Null).await.expect(code);
            self.ask(credential, "post", transfer, json!({})).await.expect(code);
            self.ask(credential, "post", pause, Value::Null).await.expect(code);
        }
        self.ask(&admin, "post", transfer, json!({ "to": "b" })).await.expect(400);
    }

    /// Sends all requests on checkpoints.
    async fn checkpoints(&self) {
        let admin = self.app.credential().to_owned();
        let reader = self.app.key_with_role("reader").await;
        let (all, one) = ("/management/v1/checkpoints", "/management/v1/checkpoints/{checkpoint}");
        let named = json!({ "name": "mine", "lifetime-seconds": 60 });
        for (credential, code) in [(admin.as_str(), 201), (&admin, 409), (&reader, 403), ("", 401)]
        {
            self.ask(credential, "post", all, named.clone()).await.expect(code);
        }
        self.ask(&admin, "post", all, json!({})).await.expect(201);
        for wrong in [json!({ "lifetime": 1 }), json!({ "name": "a/b" }), json!({ "name": ".." })] {
            self.ask(&admin, "post", all, wrong).await.expect(400);
        }
        self.ask(&admin, "post", all, json!({ "lifetime-seconds": 0 })).await.expect(400);
        for (credential, code) in [(admin.as_str(), 200), (&reader, 403), ("", 401)] {
            self.ask(credential, "get", all, Value::Null).await.expect(code);
        }
        for (credential, method, word) in [
            (admin.as_str(), "get", "mine"),
            (&reader, "get", "mine"),
            (&admin, "get", "nothing"),
            (&reader, "delete", "mine"),
            (&admin, "delete", "mine"),
            (&admin, "delete", "mine"),
        ] {
            let answer = self.send(credential, method, &format!("{all}/{word}"), Value::Null).await;
            self.check(method, one, &answer);
        }
    }
}

#[tokio::test]
async fn responses_match_the_schemas_of_the_document() {
    let pinned = Pinned { app: TestApp::secured().await, document: document() };
    let admin = pinned.app.credential().to_owned();
    let whoami = "/management/v1/whoami";
    let keys = "/management/v1/api-keys";
    let one = "/management/v1/api-keys/{id}";
    for credential in [admin.as_str(), "", "sb_nonsense"] {
        pinned.ask(credential, "get", whoami, Value::Null).await;
        pinned.ask(credential, "get", keys, Value::Null).await;
    }
    let request =
        json!({ "name": "reader", "roles": ["reader"], "expires-at-ms": 4_000_000_000_000_i64 });
    let created = pinned.ask(&admin, "post", keys, request).await.expect(201);
    let everything =
        json!({ "name": "x", "roles": [], "warehouses": ["default"], "expires-at-ms": null });
    pinned.ask(&admin, "post", keys, everything).await.expect(201);
    let reader = created.body["key"].as_str().expect("a text");
    pinned.ask(reader, "get", whoami, Value::Null).await.expect(200);
    pinned.ask(reader, "get", "/management/v1/server", Value::Null).await.expect(200);
    for wrong in [json!({}), json!({ "name": "" }), json!({ "name": "x", "more": 1 })] {
        pinned.ask(&admin, "post", keys, wrong).await.expect(400);
    }
    let elsewhere = json!({ "name": "x", "warehouses": ["nowhere"] });
    assert!(pinned.ask(&admin, "post", keys, elsewhere).await.status.is_client_error());
    pinned.ask(reader, "post", keys, json!({ "name": "x" })).await.expect(403);
    pinned.ask(reader, "get", keys, Value::Null).await.expect(403);
    let listed = pinned.ask(&admin, "get", keys, Value::Null).await.expect(200);
    assert_eq!(listed.body["api-keys"].as_array().expect("a list").len(), 3);
    let id = created.body["id"].as_str().expect("an id");
    for (credential, method, id) in [
        (admin.as_str(), "get", id),
        (reader, "get", id),
        (reader, "delete", id),
        (&admin, "get", "nonsense"),
        (&admin, "delete", "nonsense"),
        ("", "delete", id),
        (&admin, "delete", id),
        (&admin, "delete", id),
    ] {
        let answer = pinned.send(credential, method, &format!("{keys}/{id}"), Value::Null).await;
        pinned.check(method, one, &answer);
    }
    let policies = "/management/v1/policies";
    let text = r#"@id("a") permit (principal, action in Action::"Browse", resource);"#;
    pinned.ask(&admin, "post", policies, json!({ "text": text })).await.expect(201);
    pinned.ask(&admin, "post", policies, json!({ "text": "nonsense" })).await;
    let grants = "/management/v1/grants";
    let grant = json!({ "template": "read", "grantee": "role:x", "resource": "warehouse:default" });
    pinned.ask(&admin, "post", grants, grant).await.expect(201);
    let asked = json!({ "action": "List", "resource": "warehouse:default" });
    pinned.ask(&admin, "post", "/management/v1/authorize", asked).await.expect(200);
    for path in [policies, grants, "/management/v1/policies/revisions"] {
        pinned.ask(&admin, "get", path, Value::Null).await.expect(200);
        pinned.ask("", "get", path, Value::Null).await.expect(401);
    }
    for (template, method, filled) in [
        ("/policies/{id}", "get", "/policies/a"),
        ("/policies/{id}", "get", "/policies/nothing"),
        ("/policies/{id}", "delete", "/policies/a?comment=over"),
        ("/policies/revisions/{number}", "get", "/policies/revisions/1"),
        ("/policies/revisions/{number}", "get", "/policies/revisions/0"),
        ("/policies/revisions/{number}/diff/{to}", "get", "/policies/revisions/0/diff/1"),
        ("/permissions", "get", "/permissions?resource=warehouse:default"),
        ("/grants/{id}", "get", "/grants/nothing"),
    ] {
        let answer = pinned.send(&admin, method, &format!("{PREFIX}{filled}"), Value::Null).await;
        pinned.check(method, &format!("{PREFIX}{template}"), &answer);
    }
    pinned.warehouses().await;
    pinned.encryption().await;
    pinned.dropped().await;
    pinned.protections().await;
    pinned.labels().await;
    pinned.functions().await;
    pinned.history().await;
    pinned.past().await;
    pinned.watch().await;
    pinned.jobs().await;
    pinned.checkpoints().await;
    pinned.cluster().await;
    let open = TestApp::new().await;
    pinned.check("get", whoami, &open.get(whoami).await.expect(200));
}
