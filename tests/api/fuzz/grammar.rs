//! Requests composed of valid parts, some of which are broken afterwards.

use axum::http::Method;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::Generated;
use super::mutate::{break_bytes, break_json, break_text};
use crate::support::app::TestResponse;
use crate::support::path;
use crate::support::table::create_table;
use crate::support::view::create_view;

/// Names of the resources that usually exist.
pub(super) const NAMES: [&str; 6] = ["a", "b", "t", "v", "x.y", "ü /%"];

/// Requests that create the basic resources.
pub(super) fn initial_resources() -> Vec<(&'static str, Value)> {
    // A location property that points elsewhere would prevent the creation of tables.
    let nowhere = || json!({ "removals": ["location"] });
    vec![
        ("/v1/namespaces", json!({ "namespace": ["a"] })),
        ("/v1/namespaces", json!({ "namespace": ["b"] })),
        ("/v1/namespaces", json!({ "namespace": ["a", "b"] })),
        ("/v1/namespaces/a/properties", nowhere()),
        ("/v1/namespaces/b/properties", nowhere()),
        ("/v1/namespaces/a/tables", create_table("a")),
        ("/v1/namespaces/a/tables", create_table("b")),
        ("/v1/namespaces/b/tables", create_table("a")),
        ("/v1/namespaces/a/views", create_view("v")),
        ("/v1/namespaces/b/views", create_view("v")),
    ]
}

/// A generator of requests.
pub(super) struct Grammar {
    pub(super) rng: StdRng,
    /// The newest sequence number. The sequence numbers of valid snapshots increase.
    pub(super) sequence: i64,
    /// Tokens, tags, UUIDs and locations from responses, for later requests.
    seen: Vec<String>,
    /// The ids of created keys, grants, jobs and checkpoints.
    pub(super) made: Vec<String>,
}

/// A request before its serialization.
pub(super) struct Draft {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

pub(super) fn post(path: String, body: Value) -> Draft {
    Draft { method: Method::POST, path, body: Some(body) }
}

pub(super) fn bare(method: Method, path: String) -> Draft {
    Draft { method, path, body: None }
}

impl Grammar {
    pub(super) fn new(rng: StdRng) -> Self {
        Self { rng, sequence: 0, seen: Vec::new(), made: Vec::new() }
    }

    /// Remembers the values of a response that a client would send back.
    pub(super) fn learn(&mut self, answer: &TestResponse) {
        self.learn_created(answer);
        let body = &answer.body;
        let metadata = &body["metadata"];
        for value in [
            &body["next-page-token"],
            &body["metadata-location"],
            &metadata["table-uuid"],
            &metadata["view-uuid"],
            &metadata["location"],
        ] {
            if let Some(text) = value.as_str() {
                self.remember(text.to_owned());
            }
        }
        if let Some(number) = metadata["last-sequence-number"].as_i64() {
            self.sequence = self.sequence.max(number.min(1 << 40));
        }
        if !answer.header("etag").is_empty() {
            self.remember(answer.header("etag").to_owned());
        }
    }

    fn remember(&mut self, text: String) {
        if self.seen.len() < 64 {
            self.seen.push(text);
        } else {
            let at = self.rng.random_range(0..64);
            self.seen[at] = text;
        }
    }

    /// Generates the next request.
    pub(super) fn request(&mut self) -> Generated {
        let mut draft = self.draft();
        if self.one_of(2)
            && let Some(body) = &mut draft.body
        {
            for _ in 0..self.rng.random_range(1..=3) {
                break_json(&mut self.rng, body);
            }
        }
        let mut body = draft.body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        if self.one_of(20) {
            break_bytes(&mut self.rng, &mut body);
        }
        let mut uri = draft.path;
        if uri.starts_with("/v1/") && self.one_of(3) {
            let warehouse = if self.one_of(8) { "lake" } else { "default" };
            uri = uri.replacen("/v1/", &format!("/v1/{warehouse}/"), 1);
        }
        if self.one_of(15) {
            break_text(&mut self.rng, &mut uri);
        }
        if self.one_of(4) {
            uri = self.with_query(&uri);
        }
        let method = if self.one_of(60) { self.method() } else { draft.method };
        let anonymous = self.one_of(40);
        Generated { method, uri, headers: self.headers(), body, anonymous }
    }

    pub(super) fn one_of(&mut self, n: u32) -> bool {
        self.rng.random_ratio(1, n)
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.rng.random_range(0..from.len())]
    }

    fn method(&mut self) -> Method {
        let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "FUZZ"];
        self.pick(&methods).parse().expect("a method")
    }

    pub(super) fn name(&mut self) -> &'static str {
        match self.rng.random_range(0..10) {
            0..6 => "a",
            6..8 => "b",
            _ => self.pick(&NAMES),
        }
    }

    fn levels(&mut self) -> Vec<&'static str> {
        let depth = if self.one_of(8) { 2 } else { 1 };
        (0..depth).map(|_| self.name()).collect()
    }

    pub(super) fn namespace(&mut self) -> String {
        format!("/v1/namespaces/{}", path::namespace(&self.levels()))
    }

    fn tabular(&mut self, kind: &str) -> String {
        let name = if kind == "views" && !self.one_of(4) { "v" } else { self.name() };
        format!("{}/{kind}/{}", self.namespace(), path::segment(name))
    }

    fn identifier(&mut self) -> Value {
        json!({ "namespace": self.levels(), "name": self.name() })
    }

    pub(super) fn seen_text(&mut self) -> String {
        if self.seen.is_empty() {
            return String::new();
        }
        let at = self.rng.random_range(0..self.seen.len());
        self.seen[at].clone()
    }

    fn draft(&mut self) -> Draft {
        match self.rng.random_range(0..146) {
            0..10 => bare(Method::GET, self.tabular("tables")),
            10..14 => bare(Method::GET, self.tabular("views")),
            14..18 => bare(Method::GET, self.namespace()),
            18..22 => bare(Method::GET, "/v1/namespaces".to_owned()),
            22..26 => bare(Method::GET, format!("{}/tables", self.namespace())),
            26..28 => bare(Method::GET, format!("{}/views", self.namespace())),
            28 => bare(Method::GET, "/v1/config".to_owned()),
            29 => bare(Method::GET, self.pick(&["/health", "/ready", "/metrics", "/"]).to_owned()),
            30 => bare(Method::HEAD, self.namespace()),
            31 => bare(Method::HEAD, self.tabular("tables")),
            32 => bare(Method::HEAD, self.tabular("views")),
            33..60 => post(self.tabular("tables"), self.commit()),
            60..67 => post(self.tabular("views"), self.view_commit()),
            67..72 => {
                let (count, mut changes) = (self.rng.random_range(1..4), Vec::new());
                for _ in 0..count {
                    let mut change = self.commit();
                    change["identifier"] = self.identifier();
                    changes.push(change);
                }
                post("/v1/transactions/commit".to_owned(), json!({ "table-changes": changes }))
            }
            72..76 => post("/v1/namespaces".to_owned(), json!({ "namespace": self.levels() })),
            76..80 => post(
                format!("{}/properties", self.namespace()),
                json!({
                "removals": [self.name()], "updates": { self.name(): self.name() } }),
            ),
            80..84 => post(format!("{}/tables", self.namespace()), self.new_table()),
            84..86 => post(format!("{}/views", self.namespace()), create_view(self.name())),
            86..89 => {
                let kind = self.pick(&["tables", "views"]);
                let body = json!({ "source": self.identifier(), "destination": self.identifier() });
                post(format!("/v1/{kind}/rename"), body)
            }
            89..92 => {
                let kind = self.pick(&["register", "register-view"]);
                let body = json!({ "name": self.name(), "metadata-location": self.seen_text(),
                                   "overwrite": self.one_of(2) });
                post(format!("{}/{kind}", self.namespace()), body)
            }
            92 => bare(Method::POST, format!("{}/unregister", self.tabular("tables"))),
            93 => post(
                format!("{}/metrics", self.tabular("tables")),
                json!({ "report-type": self.pick(&["scan-report", "commit-report"]), "table-name": "t",
                    "snapshot-id": 1, "metrics": {} }),
            ),
            94 => post(
                format!("{}/sign", self.tabular("tables")),
                json!({ "method": "GET", "region": "r", "headers": {}, "uri": self.seen_text() }),
            ),
            95 => bare(self.method(), format!("{}/credentials", self.tabular("tables"))),
            96..98 => bare(Method::DELETE, self.tabular("tables")),
            98 => bare(Method::DELETE, self.tabular("views")),
            99..101 => bare(Method::DELETE, self.namespace()),
            101 => bare(self.method(), format!("/v1/{}", self.seen_text())),
            140..143 => post(format!("{}/plan", self.tabular("tables")), self.scan()),
            143 => {
                bare(self.method(), format!("{}/plan/{}", self.tabular("tables"), self.seen_text()))
            }
            144 => post(
                format!("{}/tasks", self.tabular("tables")),
                json!({ "plan-task": self.seen_text() }),
            ),
            145 => {
                let table = format!("table:default/{}/{}", self.name(), self.name());
                post(
                    "/management/v1/scans/explain".to_owned(),
                    json!({ "resource": table, "filter": self.filter() }),
                )
            }
            _ => self.managing(),
        }
    }

    fn scan(&mut self) -> Value {
        let mut scan = json!({ "filter": self.filter(), "stats-fields": ["id", self.name()] });
        match self.rng.random_range(0..4) {
            0 => scan["snapshot-id"] = json!(self.rng.random_range(0..4)),
            1 => {
                scan["start-snapshot-id"] = json!(self.rng.random_range(0..4));
                scan["end-snapshot-id"] = json!(self.rng.random_range(0..4));
            }
            _ => {}
        }
        scan
    }

    fn filter(&mut self) -> Value {
        let column = self.pick(&["id", "data", "other"]);
        match self.rng.random_range(0..6) {
            0 => json!(self.one_of(2)),
            1 => json!({ "type": "not", "child": self.filter() }),
            2 => json!({ "type": "and", "left": self.filter(), "right": self.filter() }),
            3 => json!({ "type": "in", "term": column, "values": [1, self.name()] }),
            4 => json!({ "type": "is-null", "term": column }),
            _ => json!({ "type": "lt", "term": column, "value": self.rng.random_range(-5..5) }),
        }
    }

    fn with_query(&mut self, uri: &str) -> String {
        let name = self.pick(&[
            "pageToken",
            "pageSize",
            "parent",
            "snapshots",
            "purgeRequested",
            "warehouse",
            "referenced-by",
            "dry_run",
            "expected_revision",
            "comment",
            "grantee",
            "resource",
            "user",
            "key",
            "x",
            "",
        ]);
        let mut value = match self.rng.random_range(0..6) {
            0 => String::new(),
            1 => self.pick(&["refs", "all", "true", "false", "default"]).to_owned(),
            2 => self.rng.random_range(-1..5).to_string(),
            3 => path::namespace(&self.levels()),
            _ => path::segment(&self.seen_text()),
        };
        if self.one_of(4) {
            break_text(&mut self.rng, &mut value);
        }
        let separator = if uri.contains('?') { '&' } else { '?' };
        format!("{uri}{separator}{name}={value}")
    }

    fn headers(&mut self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if self.one_of(16) {
            let mut key = format!("0195f1e0-0000-7000-8000-{:012}", self.rng.random_range(0..200));
            if self.one_of(5) {
                break_text(&mut self.rng, &mut key);
            }
            headers.push(("idempotency-key", key));
        }
        if self.one_of(5) {
            headers.push(("if-none-match", self.seen_text()));
        }
        if self.one_of(10) {
            let kind = self.pick(&["application/json", "text/plain", "", "multipart/form-data"]);
            headers.push(("content-type", kind.to_owned()));
        }
        if self.one_of(20) {
            headers.push(("x-iceberg-access-delegation", self.seen_text()));
        }
        headers
    }
}
