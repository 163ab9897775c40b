//! Every route, called by every role. The file `authz_routes.txt` contains the status codes in
//! readable form. The test fails if a route is not in this file, so every route is also tested with
//! a role that has no permissions.
//!
//! `UPDATE_MATRIX=1 cargo test --test api authz_routes` writes the file.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use axum::http::Method;
use serde_json::{Value, json};
use slateberg::api::endpoints::ENDPOINTS;
use slateberg_config::WarehouseSettings;

use crate::support::app::TestApp;
use crate::support::function::{FUNCTIONS, function};
use crate::support::metrics_report::scan_report;
use crate::support::table::{append, create_table, schema, set_property};
use crate::support::view::{create_view, replace_query};

const HEADER: &str = "\
# The status of the response to every request in every role.
#
# admin, writer, reader, auditor: the default roles. team: may read and write in the namespace sales,
# which the requests concern. others: the same in another namespace. browser: sees names. nobody: no role.
# elsewhere: a writer whose key is limited to another warehouse. stranger: no credential.
";

/// Permissions in addition to those of the default roles.
const POLICIES: &str = r#"
@id("team")
permit (
  principal in Role::"team",
  action in [Action::"Read", Action::"Write"],
  resource in Namespace::"default/sales"
);
@id("others")
permit (
  principal in Role::"others",
  action in [Action::"Read", Action::"Write"],
  resource in Namespace::"default/hr"
);
@id("way-in")
permit (principal, action in Action::"Browse", resource == Warehouse::"default")
when { principal in Role::"team" || principal in Role::"others" };
@id("browser")
permit (principal in Role::"browser", action in Action::"Browse", resource);
"#;

const ROLES: [&str; 8] =
    ["admin", "writer", "reader", "auditor", "team", "others", "browser", "nobody"];

/// Routes as in the specification, some of them in several variants.
const ROUTES: [(&str, &str); 128] = [
    ("GET /v1/config", ""),
    ("GET /v1/{prefix}/namespaces", ""),
    ("GET /v1/{prefix}/namespaces", "below one"),
    ("POST /v1/{prefix}/namespaces", ""),
    ("POST /v1/{prefix}/namespaces", "below one"),
    ("GET /v1/{prefix}/namespaces/{namespace}", ""),
    ("HEAD /v1/{prefix}/namespaces/{namespace}", ""),
    ("DELETE /v1/{prefix}/namespaces/{namespace}", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/properties", ""),
    ("GET /v1/{prefix}/namespaces/{namespace}/tables", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables", "staged"),
    ("POST /v1/{prefix}/namespaces/{namespace}/register", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/register", "overwrite"),
    ("GET /v1/{prefix}/namespaces/{namespace}/tables/{table}", ""),
    ("HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}", "nothing"),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}", "data"),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}", "schema"),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}", "properties"),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}", "refs"),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}", "location"),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}", "create"),
    ("DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}", ""),
    ("DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}", "purge"),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics", ""),
    ("GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan", ""),
    ("GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}", ""),
    ("DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks", ""),
    ("POST /v1/{prefix}/tables/rename", ""),
    ("POST /v1/{prefix}/tables/rename", "to hr"),
    ("POST /v1/{prefix}/transactions/commit", ""),
    ("POST /v1/{prefix}/transactions/commit", "with hr"),
    ("GET /v1/{prefix}/namespaces/{namespace}/views", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/views", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/register-view", ""),
    ("GET /v1/{prefix}/namespaces/{namespace}/views/{view}", ""),
    ("HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}", ""),
    ("POST /v1/{prefix}/namespaces/{namespace}/views/{view}", ""),
    ("DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}", ""),
    ("POST /v1/{prefix}/views/rename", ""),
    ("POST /v1/{prefix}/events", ""),
    ("GET /v1/{prefix}/namespaces/{namespace}/functions", ""),
    ("GET /v1/{prefix}/namespaces/{namespace}/functions/{function}", ""),
    ("GET /management/v1/whoami", ""),
    ("GET /management/v1/server", ""),
    ("GET /management/v1/api-keys", ""),
    ("POST /management/v1/api-keys", ""),
    ("GET /management/v1/api-keys/{id}", ""),
    ("DELETE /management/v1/api-keys/{id}", ""),
    ("GET /management/v1/policies", ""),
    ("POST /management/v1/policies", ""),
    ("GET /management/v1/policies/{id}", ""),
    ("PUT /management/v1/policies/{id}", "dry run"),
    ("PUT /management/v1/policies/{id}", ""),
    ("DELETE /management/v1/policies/{id}", ""),
    ("GET /management/v1/policies/revisions", ""),
    ("GET /management/v1/policies/revisions/{number}", ""),
    ("GET /management/v1/policies/revisions/{number}/diff/{to}", ""),
    ("POST /management/v1/policies/rollback", ""),
    ("GET /management/v1/grants", ""),
    ("POST /management/v1/grants", ""),
    ("POST /management/v1/grants", "on hr"),
    ("GET /management/v1/grants/{id}", ""),
    ("DELETE /management/v1/grants/{id}", ""),
    ("GET /management/v1/warehouses", ""),
    ("POST /management/v1/warehouses", ""),
    ("GET /management/v1/warehouses/{name}", ""),
    ("PUT /management/v1/warehouses/{name}", ""),
    ("DELETE /management/v1/warehouses/{name}", ""),
    ("DELETE /management/v1/warehouses/{name}", "of nobody"),
    ("POST /management/v1/functions", ""),
    ("PUT /management/v1/functions", ""),
    ("DELETE /management/v1/functions", ""),
    ("GET /management/v1/dropped", ""),
    ("POST /management/v1/dropped/undrop", ""),
    ("DELETE /management/v1/dropped/{id}", ""),
    ("POST /management/v1/namespaces/drop", ""),
    ("GET /management/v1/protections", ""),
    ("POST /management/v1/protections", ""),
    ("DELETE /management/v1/protections/{id}", ""),
    ("GET /management/v1/labels", ""),
    ("POST /management/v1/labels", ""),
    ("POST /management/v1/scans/explain", ""),
    ("GET /management/v1/search", ""),
    ("GET /management/v1/tables/health", ""),
    ("GET /management/v1/tables/usage", ""),
    ("GET /management/v1/tables/metrics-reports", ""),
    ("GET /management/v1/history", ""),
    ("GET /management/v1/past/contents", ""),
    ("GET /management/v1/past/metadata", ""),
    ("GET /management/v1/watch", ""),
    ("GET /management/v1/watch/cursors", ""),
    ("GET /management/v1/watch/cursors/{cursor}", ""),
    ("PUT /management/v1/watch/cursors/{cursor}", ""),
    ("DELETE /management/v1/watch/cursors/{cursor}", ""),
    ("GET /management/v1/webhooks", ""),
    ("POST /management/v1/webhooks", ""),
    ("GET /management/v1/webhooks/{webhook}", ""),
    ("DELETE /management/v1/webhooks/{webhook}", ""),
    ("POST /management/v1/webhooks/{webhook}/suspend", ""),
    ("POST /management/v1/webhooks/{webhook}/resume", ""),
    ("POST /management/v1/webhooks/{webhook}/rotate", ""),
    ("POST /management/v1/webhooks/{webhook}/test", ""),
    ("POST /management/v1/snapshots/expire", ""),
    ("POST /management/v1/manifests/rewrite", ""),
    ("GET /management/v1/jobs", ""),
    ("POST /management/v1/jobs", ""),
    ("GET /management/v1/jobs/{id}", ""),
    ("POST /management/v1/jobs/{id}/cancel", ""),
    ("GET /management/v1/checkpoints", ""),
    ("POST /management/v1/checkpoints", ""),
    ("GET /management/v1/checkpoints/{checkpoint}", ""),
    ("DELETE /management/v1/checkpoints/{checkpoint}", ""),
    ("GET /management/v1/cluster", ""),
    ("POST /management/v1/cluster/transfer", ""),
    ("POST /management/v1/cluster/pause", ""),
    ("GET /management/v1/encryption", ""),
    ("POST /management/v1/encryption/rotate", ""),
    ("POST /management/v1/encryption/rewrap", ""),
    ("POST /management/v1/authorize", ""),
    ("POST /management/v1/authorize", "for others"),
    ("GET /management/v1/permissions", ""),
    ("GET /management/v1/permissions", "of others"),
];

/// Id of a resource that does not exist.
const ID: &str = "0190b6ad-0000-7000-8000-000000000000";

/// A position of the change feed.
const POSITION: &str = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The resources for one request. Each request has its own, so that requests do not affect each
/// other.
struct RouteResources {
    number: usize,
    table: String,
    view: String,
    dropped: String,
    /// The position of the change feed after the creation of the resources.
    position: String,
}

impl RouteResources {
    async fn prepare(app: &TestApp, number: usize) -> Self {
        let sales = "/v1/default/namespaces/sales";
        let namespace = json!({ "namespace": ["sales", format!("empty{number}")] });
        app.post("/v1/default/namespaces", namespace).await.expect(200);
        let table = create_table(&format!("t{number}"));
        let table = app.post(&format!("{sales}/tables"), table).await.expect(200);
        let hr = create_table(&format!("t{number}"));
        app.post("/v1/default/namespaces/hr/tables", hr).await.expect(200);
        let view = create_view(&format!("v{number}"));
        let view = app.post(&format!("{sales}/views"), view).await.expect(200);
        let resource = format!("function:default/sales/f{number}");
        app.post(FUNCTIONS, function(&resource, "x")).await.expect(201);
        let dropped = create_table(&format!("d{number}"));
        let dropped = app.post(&format!("{sales}/tables"), dropped).await.expect(200);
        app.delete(&format!("{sales}/tables/d{number}")).await.expect(204);
        let location = dropped.body["metadata"]["location"].as_str().expect("a location");
        // The catalog generated the location, so the last part of the location is the id.
        let (_, dropped) = location.rsplit_once('-').expect("it has an id");
        let dropped = dropped.to_owned();
        let file = |body: &Value| body["metadata-location"].as_str().expect("a file").to_owned();
        let position = app.get("/v1/default/namespaces").await.expect(200);
        let position = position.header("slateberg-position").to_owned();
        Self { number, table: file(&table.body), view: file(&view.body), dropped, position }
    }

    /// Returns the request that tests a route with these resources.
    fn request(&self, route: &str, variant: &str) -> (Method, String, Value) {
        let (method, template) = route.split_once(' ').expect("a method and a path");
        let n = self.number;
        let namespace = match (method, variant) {
            ("DELETE", _) if template.ends_with("{namespace}") => format!("sales%1Fempty{n}"),
            _ => "sales".to_owned(),
        };
        let table = if variant == "create" { format!("new{n}") } else { format!("t{n}") };
        let mut path = template
            .replace("{prefix}", "default")
            .replace("{namespace}", &namespace)
            .replace("{table}", &table)
            .replace("{view}", &format!("v{n}"))
            .replace("{function}", &format!("f{n}"))
            .replace("{plan-id}", "none")
            .replace("{number}", "0")
            .replace("{to}", "0")
            .replace("{name}", if variant == "of nobody" { "nothing" } else { "default" })
            .replace("{checkpoint}", ID)
            .replace("{webhook}", ID)
            .replace("{cursor}", &format!("c{n}"))
            .replace("{id}", if template.contains("dropped") { &self.dropped } else { ID });
        match variant {
            "below one" if method == "GET" => path.push_str("?parent=sales"),
            "purge" => path.push_str("?purgeRequested=true"),
            _ if path == FUNCTIONS && method == "DELETE" => {
                path.push_str(&format!("?resource=function:default/sales/f{n}"));
            }
            "dry run" => path.push_str("?dry_run=true"),
            "of others" => path.push_str("?resource=namespace:default/sales&user=corp/ann"),
            _ if template.ends_with("v1/search") => path.push_str("?q=o"),
            _ if ["tables/health", "tables/usage", "tables/metrics-reports", "v1/labels"]
                .iter()
                .any(|it| template.ends_with(it)) =>
            {
                path.push_str(&format!("?resource=table:default/sales/{table}"));
            }
            _ if template.ends_with("past/contents") => {
                let position = &self.position;
                path.push_str(&format!("?resource=namespace:default/sales&as-of={position}"));
            }
            _ if template.ends_with("past/metadata") => {
                let position = &self.position;
                path.push_str(&format!("?resource=table:default/sales/t{n}&as-of={position}"));
            }
            _ if template.ends_with("permissions") => {
                path.push_str("?resource=namespace:default/sales");
            }
            _ => {}
        }
        let method = method.parse().expect("a method");
        let body = match (path.as_str(), &method) {
            (FUNCTIONS, &Method::POST) => function(&format!("function:default/sales/newf{n}"), "x"),
            (FUNCTIONS, _) => function(&format!("function:default/sales/f{n}"), "x + 1"),
            _ => self.body(template, variant),
        };
        (method, path, body)
    }

    fn body(&self, template: &str, variant: &str) -> Value {
        let n = self.number;
        let rename = |kind: &str, to: &str| {
            json!({
                "source": { "namespace": ["sales"], "name": format!("{kind}{n}") },
                "destination": { "namespace": [to], "name": format!("renamed{kind}{n}") },
            })
        };
        let change = |namespace: &str| {
            json!({
                "identifier": { "namespace": [namespace], "name": format!("t{n}") },
                "requirements": [], "updates": [set_property("a", "b")],
            })
        };
        let register = |location: &str| {
            json!({
                "name": match variant {
                    "overwrite" => format!("t{n}"),
                    _ => format!("registered{n}"),
                },
                "metadata-location": location,
                "overwrite": variant == "overwrite",
            })
        };
        let last = template.rsplit('/').next().expect("a path has an end");
        match last {
            "namespaces" if variant == "below one" => {
                json!({ "namespace": ["sales", format!("new{n}")] })
            }
            "namespaces" => json!({ "namespace": [format!("new{n}")] }),
            "properties" => json!({ "removals": [], "updates": { "a": n.to_string() } }),
            "tables" => {
                let mut body = create_table(&format!("new{n}"));
                body["stage-create"] = json!(variant == "staged");
                body
            }
            "register" => register(&self.table),
            "register-view" => register(&self.view),
            "views" => create_view(&format!("newview{n}")),
            "events" => json!({}),
            "{table}" => commit(variant),
            "{view}" => json!({ "requirements": [], "updates": replace_query("SELECT 2") }),
            // The warehouse is in memory, so the server signs nothing even for permitted callers.
            "sign" => json!({
                "method": "GET", "region": "r", "uri": "http://h/b/k", "headers": {},
            }),
            "metrics" => scan_report(),
            "plan" => json!({ "filter": true }),
            "tasks" => json!({ "plan-task": "none" }),
            "explain" => json!({ "resource": format!("table:default/sales/t{n}") }),
            "rename" if template.contains("views") => rename("v", "sales"),
            "rename" => rename("t", if variant == "to hr" { "hr" } else { "sales" }),
            "commit" if variant == "with hr" => {
                json!({ "table-changes": [change("sales"), change("hr")] })
            }
            "commit" => json!({ "table-changes": [change("sales")] }),
            "jobs" => json!({
                "kind": "orphan-removal", "resource": format!("table:default/sales/t{n}"),
            }),
            "expire" | "rewrite" => json!({ "resource": format!("table:default/sales/t{n}") }),
            "undrop" => json!({ "resource": format!("table:default/sales/d{n}") }),
            "drop" => json!({ "resource": format!("namespace:default/sales/empty{n}") }),
            "protections" => json!({ "resource": format!("table:default/sales/t{n}") }),
            "labels" => json!({
                "resource": format!("table:default/sales/t{n}"), "set": { "a": "b" },
            }),
            "api-keys" => json!({ "name": format!("key{n}") }),
            "policies" => policy(&format!("p{n}")),
            "{id}" if template.contains("policies") => policy(ID),
            "rewrap" | "transfer" | "suspend" | "rotate" => json!({}),
            "{cursor}" => json!({ "position": POSITION, "consumer": ID }),
            "webhooks" => json!({ "name": format!("w{n}"), "url": "https://example.com/" }),
            "checkpoints" => json!({ "name": format!("c{n}") }),
            "rollback" => json!({ "to": 0 }),
            "warehouses" => json!({
                "name": format!("w{n}"), "storage": { "location": format!("memory:///w{n}") },
            }),
            "{name}" => json!({ "storage": {} }),
            "grants" => {
                let namespace = if variant == "on hr" { "hr" } else { "sales" };
                json!({
                    "template": "read", "grantee": format!("role:r{n}"),
                    "resource": format!("namespace:default/{namespace}"),
                })
            }
            "authorize" => {
                let mut body = json!({ "action": "Load", "resource": "table:default/sales/t1" });
                if variant == "for others" {
                    body["principal"] = json!({ "user": "corp/ann" });
                }
                body
            }
            _ => Value::Null,
        }
    }
}

/// Returns a policy that affects no caller.
fn policy(id: &str) -> Value {
    let text = format!(
        "@id(\"{id}\") permit (principal == User::\"x\", action == Action::\"Load\", resource);"
    );
    json!({ "text": text })
}

fn commit(variant: &str) -> Value {
    let updates = match variant {
        "data" => append(1, None, 1),
        "schema" => vec![json!({ "action": "add-schema", "schema": {
        "type": "struct", "schema-id": 1, "fields": [
            { "id": 1, "name": "id", "required": true, "type": "long" },
        ]}})],
        "properties" => vec![set_property("a", "b")],
        // The branch does not exist. The server reports this only to callers that may remove
        // branches.
        "refs" => vec![json!({ "action": "remove-snapshot-ref", "ref-name": "none" })],
        "location" => {
            vec![json!({ "action": "set-location", "location": "memory:///warehouse/moved" })]
        }
        "create" => vec![
            json!({ "action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1" }),
            json!({ "action": "upgrade-format-version", "format-version": 2 }),
            json!({ "action": "add-schema", "schema": schema() }),
            json!({ "action": "set-current-schema", "schema-id": -1 }),
            json!({ "action": "add-spec", "spec": { "spec-id": 0, "fields": [] } }),
            json!({ "action": "set-default-spec", "spec-id": -1 }),
            json!({ "action": "add-sort-order", "sort-order": { "order-id": 0, "fields": [] } }),
            json!({ "action": "set-default-sort-order", "sort-order-id": -1 }),
        ],
        _ => Vec::new(),
    };
    let requirements = match variant {
        "create" => json!([{ "type": "assert-create" }]),
        _ => json!([]),
    };
    json!({ "requirements": requirements, "updates": updates })
}

#[tokio::test]
async fn every_route_responds_to_every_role_as_in_the_matrix() {
    let lake = WarehouseSettings { location: "memory:///lake".to_owned(), ..Default::default() };
    let app = TestApp::with_policies(POLICIES, |settings| {
        settings.warehouses.insert("lake".to_owned(), lake);
        // The requests of all roles set the same location, so locations may overlap.
        settings.catalog.overlapping_locations = true;
        settings.catalog.events = true;
    })
    .await;
    for namespace in ["sales", "hr"] {
        app.post("/v1/default/namespaces", json!({ "namespace": [namespace] })).await.expect(200);
    }
    let mut everybody = Vec::new();
    for role in ROLES {
        everybody.push((role, app.key_with_role(role).await));
    }
    let elsewhere = json!({ "name": "w", "roles": ["writer"], "warehouses": ["lake"] });
    let (_, elsewhere) = app.make_key(elsewhere).await;
    everybody.push(("elsewhere", elsewhere));
    everybody.push(("stranger", String::new()));

    let names: Vec<_> = everybody.iter().map(|(name, _)| format!("{name:>9}")).collect();
    let mut text = format!("{HEADER}\n{:82}{}\n", "", names.join(" "));
    let mut number = 0;
    for (route, variant) in ROUTES {
        let title =
            if variant.is_empty() { route.to_owned() } else { format!("{route} ({variant})") };
        write!(text, "{title:82}").expect("a string accepts all writes");
        for (_, key) in &everybody {
            number += 1;
            let (method, path, body) =
                RouteResources::prepare(&app, number).await.request(route, variant);
            let response = app.request_as(key, method, &path, &body).await;
            write!(text, " {:>9}", response.status.as_u16()).expect("a string accepts all writes");
        }
        text.push('\n');
    }
    compare(&text.replacen(&format!("{:82}", ""), &format!("{:83}", ""), 1));
}

fn compare(found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/authz_routes.txt");
    #[expect(
        clippy::disallowed_methods,
        reason = "developers set it after they have changed the permissions of a route"
    )]
    if std::env::var("UPDATE_MATRIX").is_ok() {
        std::fs::write(&file, found).expect("the file can be written");
    }
    let golden = std::fs::read_to_string(&file).expect("the file can be read");
    for (number, (golden, found)) in golden.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, golden, "line {}", number + 1);
    }
    assert_eq!(found.lines().count(), golden.lines().count());
}

#[test]
fn matrix_contains_every_route() {
    let attempt: BTreeSet<_> = ROUTES.iter().map(|(route, _)| *route).collect();
    let missing: Vec<_> = ENDPOINTS.iter().filter(|route| !attempt.contains(*route)).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}
