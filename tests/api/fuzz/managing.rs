//! Requests to `/management/v1`: authentication, authorization and background tasks.

use axum::http::Method;
use rand::RngExt;
use serde_json::{Value, json};

use super::grammar::{Draft, Grammar, bare, post};
use crate::support::app::TestResponse;
use crate::support::path;

/// Prefix of the management API.
pub(super) const MANAGEMENT: &str = "/management/v1";
/// The lists of the management API.
pub(super) const LISTS: [&str; 7] =
    ["api-keys", "policies", "grants", "warehouses", "jobs", "checkpoints", "webhooks"];

fn put(path: String, body: Value) -> Draft {
    Draft { method: Method::PUT, path, body: Some(body) }
}

/// Returns the path of a listed resource.
fn one(list: &str, name: &str) -> String {
    format!("{MANAGEMENT}/{list}/{}", path::segment(name))
}

impl Grammar {
    /// Remembers the id of a created resource, except that of the credential in use, which must not
    /// be revoked.
    pub(super) fn learn_created(&mut self, response: &TestResponse) {
        if !matches!(response.status.as_u16(), 201 | 202) {
            return;
        }
        for id in [&response.body["id"], &response.body["grant"]["id"]] {
            if let Some(id) = id.as_str() {
                self.made.push(id.to_owned());
            }
        }
        let surplus = self.made.len().saturating_sub(32);
        self.made.drain(..surplus);
    }

    /// Returns the id of a created resource, or a value that could be one.
    fn created(&mut self) -> String {
        if self.made.is_empty() || self.one_of(12) {
            return self.name().to_owned();
        }
        let at = self.rng.random_range(0..self.made.len());
        self.made[at].clone()
    }

    /// Generates a management request.
    pub(super) fn managing(&mut self) -> Draft {
        match self.rng.random_range(0..54) {
            0..2 => bare(
                Method::GET,
                format!(
                    "{MANAGEMENT}/{}",
                    self.pick(&["whoami", "server", "encryption", "openapi.json"])
                ),
            ),
            2..6 => bare(Method::GET, format!("{MANAGEMENT}/{}", self.pick(&LISTS))),
            6..9 => {
                let list = self.pick(&LISTS);
                let id = if self.one_of(2) { self.created() } else { self.name().to_owned() };
                bare(Method::GET, one(list, &id))
            }
            9..18 => self.about_policies(),
            18..23 => self.about_grants(),
            23..27 => self.about_decisions(),
            27..32 => self.about_warehouses(),
            32..35 => self.about_keys(),
            35..37 => self.about_jobs(),
            37..40 => self.about_dropped(),
            40 => self.about_protections(),
            41 => {
                let (resource, before) = (self.resource(), self.rng.random::<u16>());
                let resource = path::segment(&resource);
                let query = format!("resource={resource}&before={before}");
                bare(Method::GET, format!("{MANAGEMENT}/history?{query}"))
            }
            42 => {
                let resource = path::segment(&self.resource());
                let after = self.pick(&["oldest", "", "AQ"]);
                let query = format!("wait=0&resource={resource}&after={after}&type=table");
                bare(Method::GET, format!("{MANAGEMENT}/watch?{query}"))
            }
            43 => {
                let age_seconds = self.rng.random::<u32>();
                let body = json!({ "resource": self.resource(), "dry-run": self.one_of(2),
                    "older-than-seconds": age_seconds, "retain-last": self.rng.random_range(0..3) });
                post(format!("{MANAGEMENT}/snapshots/expire"), body)
            }
            44 => {
                let resource = path::segment(&self.resource());
                bare(Method::GET, format!("{MANAGEMENT}/tables/health?resource={resource}"))
            }
            45 => {
                let body = json!({ "resource": self.resource(), "dry-run": !self.one_of(8) });
                post(format!("{MANAGEMENT}/namespaces/drop"), body)
            }
            46..48 => self.about_functions(),
            48 => {
                let (query, kind) = (path::segment(self.name()), self.pick(&["table", "", "x"]));
                let size = self.rng.random_range(0..3);
                let query = format!("q={query}&kind={kind}&pageSize={size}");
                bare(Method::GET, format!("{MANAGEMENT}/search?{query}"))
            }
            49..51 => self.about_webhooks(),
            51 => self.about_tables(),
            _ => self.about_checkpoints(),
        }
    }

    fn about_webhooks(&mut self) -> Draft {
        let all = format!("{MANAGEMENT}/webhooks");
        let webhook = one("webhooks", &self.created());
        match self.rng.random_range(0..5) {
            0 => bare(Method::GET, webhook),
            1 => bare(Method::DELETE, webhook),
            2 => {
                let verb = self.pick(&["suspend", "resume", "rotate", "test"]);
                bare(Method::POST, format!("{webhook}/{verb}"))
            }
            _ => {
                // None of these hosts exists, so no request leaves the machine.
                let url = self.pick(&[
                    "https://a.invalid/b",
                    "http://a.invalid",
                    "https://127.0.0.1",
                    "x",
                ]);
                let types = [self.pick(&["table", "table.committed", "x"])];
                let resource = self.one_of(2).then(|| self.resource());
                post(
                    all,
                    json!({ "name": self.name(), "url": url, "types": types, "resource": resource }),
                )
            }
        }
    }

    /// Generates a request about the manifests or the use of a table.
    fn about_tables(&mut self) -> Draft {
        let resource = self.resource();
        match self.rng.random_range(0..3) {
            0 => {
                let body = json!({ "resource": resource, "dry-run": self.one_of(2) });
                post(format!("{MANAGEMENT}/manifests/rewrite"), body)
            }
            1 => {
                let query = format!("resource={}", path::segment(&resource));
                let about = self.pick(&["usage", "metrics-reports"]);
                bare(Method::GET, format!("{MANAGEMENT}/tables/{about}?{query}"))
            }
            _ => {
                let order = self.pick(&["most-used", "least-used", ""]);
                let size = self.rng.random_range(0..3);
                bare(
                    Method::GET,
                    format!("{MANAGEMENT}/tables/usage?order={order}&pageSize={size}"),
                )
            }
        }
    }

    fn about_functions(&mut self) -> Draft {
        let all = format!("{MANAGEMENT}/functions");
        let resource = format!("function:default/{}", self.name());
        if self.one_of(3) {
            return bare(Method::DELETE, format!("{all}?resource={}", path::segment(&resource)));
        }
        let data_type = self.pick(&["int", "list<int>", "", "decimal(9, 2)"]);
        let definition = json!({
            "parameters": [{ "name": self.name(), "type": data_type }],
            "return-type": { "type": "list", "element": data_type },
            "function-type": self.pick(&["udf", "udtf", "x"]),
            "representations": [{ "dialect": "spark", "sql": self.name() }],
        });
        let body = json!({ "resource": resource, "definitions": [definition] });
        post(all, body)
    }

    fn about_keys(&mut self) -> Draft {
        let role = self.pick(&["reader", "writer", "admin", "owner"]);
        match self.rng.random_range(0..6) {
            0..2 => bare(Method::DELETE, one("api-keys", &self.created())),
            2 => bare(Method::POST, format!("{MANAGEMENT}/encryption/rotate")),
            3 => post(
                format!("{MANAGEMENT}/encryption/rewrap"),
                json!({ "wrapping-key": self.name() }),
            ),
            _ => post(
                format!("{MANAGEMENT}/api-keys"),
                json!({
                    "name": self.name(), "roles": [role],
                    "warehouses": if self.one_of(2) { json!(["default"]) } else { Value::Null },
                    "expires-at-ms": 4_000_000_000_000_i64,
                }),
            ),
        }
    }

    /// Generates a policy. None of them forbids the requests of the sweeps.
    fn policy(&mut self) -> String {
        let (id, whose, what) = (self.name(), self.name(), self.name());
        let action = self.pick(&["Read", "Browse", "Load", "Write"]);
        let head = format!("@id(\"{id}\") ");
        let body = match self.rng.random_range(0..6) {
            0 => "permit (principal in ?principal, action in Action::\"Read\", resource in ?resource);"
                .to_owned(),
            1 => format!("forbid (principal == User::\"{whose}\", action, resource);"),
            2 => {
                let filter = json!({ "type": "eq", "term": whose, "value": what }).to_string();
                let masks = ["id: show-last-4", "data: replace-with-null", "id: sha-256-global"];
                format!(
                    "@row_filter({}) @column_mask(\"{}\") permit (principal in Group::\"{whose}\", \
                     action == Action::\"Load\", resource);",
                    json!(filter),
                    self.pick(&masks)
                )
            }
            3 => format!(
                "permit (principal, action in Action::\"Read\", resource) when \
                 {{ context.authentication == \"jwt\" && principal in Group::\"{whose}\" }};"
            ),
            _ => format!(
                "permit (principal in Role::\"{whose}\", action in Action::\"{action}\", \
                 resource in Namespace::\"default/{what}\");"
            ),
        };
        head + &body
    }

    fn about_policies(&mut self) -> Draft {
        let [from, to] = [(); 2].map(|()| self.rng.random_range(0..6));
        let revisions = format!("{MANAGEMENT}/policies/revisions");
        match self.rng.random_range(0..12) {
            0..5 => {
                let text = self.policy();
                let id = text.split('"').nth(1).unwrap_or_default();
                let path = one("policies", id);
                let mut body = json!({ "text": text, "comment": self.name() });
                if self.one_of(6) {
                    body["expected-revision"] = json!(from);
                }
                let new = self.one_of(2);
                if new { post(format!("{MANAGEMENT}/policies"), body) } else { put(path, body) }
            }
            5..7 => bare(Method::DELETE, one("policies", self.name())),
            7 => post(format!("{MANAGEMENT}/policies/rollback"), json!({ "to": from })),
            8 => bare(Method::GET, revisions),
            9 => bare(Method::GET, format!("{revisions}/{from}")),
            10 => bare(Method::GET, format!("{revisions}/{from}/diff/{to}")),
            _ => bare(Method::GET, one("policies", self.pick(&["role-admin", "grant-read", "a"]))),
        }
    }

    /// Generates a resource in policy notation, such as `table:default/a/t`.
    fn resource(&mut self) -> String {
        let (namespace, name) = (self.name(), self.name());
        let [namespace, name] = [namespace, name].map(|it| it.replace('/', "%2F"));
        match self.rng.random_range(0..6) {
            0 => "catalog".to_owned(),
            1 => format!("warehouse:{}", self.pick(&["default", "lake", "absent"])),
            2 => format!("namespace:default/{namespace}"),
            3 => format!("view:default/{namespace}/{name}"),
            _ => format!("table:default/{namespace}/{name}"),
        }
    }

    fn grantee(&mut self) -> String {
        format!("{}:{}", self.pick(&["user", "group", "role", "service-account"]), self.name())
    }

    fn about_grants(&mut self) -> Draft {
        match self.rng.random_range(0..8) {
            0..2 => bare(Method::DELETE, one("grants", &self.created())),
            2 => {
                let (to, on) = (self.grantee(), self.resource());
                let [to, on] = [to, on].map(|it| path::segment(&it));
                bare(Method::GET, format!("{MANAGEMENT}/grants?grantee={to}&resource={on}"))
            }
            _ => {
                let template = self.pick(&["read", "grant-write", "own", "browse", "a"]);
                post(
                    format!("{MANAGEMENT}/grants"),
                    json!({
                        "template": template, "grantee": self.grantee(),
                        "resource": self.resource(), "comment": self.name(),
                    }),
                )
            }
        }
    }

    fn about_decisions(&mut self) -> Draft {
        if self.one_of(3) {
            let (on, user) = (path::segment(&self.resource()), path::segment(self.name()));
            let whose = self.pick(&["user", "key", "service_account", "group"]);
            return bare(
                Method::GET,
                format!("{MANAGEMENT}/permissions?resource={on}&{whose}={user}"),
            );
        }
        let action = self.pick(&["Load", "Drop", "ManagePolicies", "CommitData", "List"]);
        let mut body = json!({ "action": action, "resource": self.resource() });
        match self.rng.random_range(0..4) {
            0 => body["principal"] = json!({ "key": self.created() }),
            1 => {
                body["principal"] = json!({
                    "user": self.name(), "roles": ["reader"], "groups": [self.name()],
                    "warehouses": ["default"], "authentication": "jwt",
                });
            }
            _ => {}
        }
        if self.one_of(2) {
            body["attributes"] = json!({
                "properties": { self.name(): self.name() },
                "location": self.seen_text(), "owner": self.name(),
            });
            body["context"] = json!({
                "time": "2026-01-31T09:00:00Z", "source-address": "127.0.0.1", "client": "x",
            });
        }
        post(format!("{MANAGEMENT}/authorize"), body)
    }

    fn about_warehouses(&mut self) -> Draft {
        let name = self.pick(&["lake", "lake", "pond", "default", "absent"]).to_owned();
        let at = self.pick(&["memory:///lake", "memory:///pond", "memory:///warehouse/below"]);
        let storage = json!({
            "location": at, "allowed-locations": ["memory:///shared/"], "options": {},
            "access": { "delegation": [], "credentials-seconds": 3600 },
        });
        let mut body = json!({
            "storage": storage,
            "client-defaults": { self.name(): self.name() },
            "client-overrides": { "rest-page-size": "7" },
        });
        match self.rng.random_range(0..7) {
            0 => bare(Method::DELETE, one("warehouses", &name)),
            1..4 => {
                if self.one_of(2) {
                    body["expected-version"] = json!(self.rng.random_range(0..4));
                }
                put(one("warehouses", &name), body)
            }
            _ => {
                body["name"] = json!(name);
                post(format!("{MANAGEMENT}/warehouses"), body)
            }
        }
    }

    fn about_jobs(&mut self) -> Draft {
        if self.one_of(3) {
            let path = one("jobs", &self.created());
            return bare(Method::POST, format!("{path}/cancel"));
        }
        let mut body = json!({ "kind": "orphan-removal", "resource": self.resource() });
        if self.one_of(2) {
            body["dry-run"] = json!(self.one_of(2));
            body["older-than-seconds"] = json!(self.rng.random_range(0..1_000_000));
        }
        post(format!("{MANAGEMENT}/jobs"), body)
    }

    fn about_labels(&mut self) -> Draft {
        let (path, resource) = (format!("{MANAGEMENT}/labels"), self.resource());
        match self.one_of(2) {
            true => bare(Method::GET, format!("{path}?resource={}", path::segment(&resource))),
            false => {
                let (key, value) = (self.name().to_owned(), self.name().to_owned());
                post(path, json!({ "resource": resource, "set": { key: value }, "field-id": 1 }))
            }
        }
    }

    fn about_protections(&mut self) -> Draft {
        if self.one_of(2) {
            return self.about_labels();
        }
        let list = format!("{MANAGEMENT}/protections");
        match self.rng.random_range(0..6) {
            0 => bare(Method::GET, list),
            1 => post(list, json!({ "resource": "warehouse:no-such", "comment": self.name() })),
            _ => bare(Method::DELETE, one("protections", &self.created())),
        }
    }

    fn about_dropped(&mut self) -> Draft {
        match self.rng.random_range(0..4) {
            0 => bare(Method::GET, format!("{MANAGEMENT}/dropped")),
            1 => {
                let path = one("dropped", &self.created());
                bare(Method::DELETE, format!("{path}?purge={}", self.one_of(2)))
            }
            _ => {
                let mut body = json!({ "resource": self.resource() });
                if self.one_of(2) {
                    body["new-name"] = json!(self.resource());
                }
                if self.one_of(4) {
                    body["id"] = json!(self.created());
                }
                post(format!("{MANAGEMENT}/dropped/undrop"), body)
            }
        }
    }

    fn about_checkpoints(&mut self) -> Draft {
        if self.one_of(3) {
            let which = if self.one_of(2) { self.created() } else { self.name().to_owned() };
            return bare(Method::DELETE, one("checkpoints", &which));
        }
        let mut body = json!({ "name": self.name() });
        if self.one_of(2) {
            body["lifetime-seconds"] = json!(self.rng.random_range(1..1_000_000));
        }
        post(format!("{MANAGEMENT}/checkpoints"), body)
    }
}
