//! A listing shows exactly the names that can be loaded, page by page, under arbitrary policies.

use std::collections::BTreeSet;

use axum::http::Method;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::env_numbers::{number_from_env, seed};
use crate::support::path;
use crate::support::table::create_table;
use crate::support::view::create_view;

/// All principals may list names. Other permissions are random.
const EVERYBODY: &str = r#"
@id("way-in") permit (principal, action in [Action::"ReadConfig", Action::"List"], resource);
"#;

const SCOPES: [&str; 6] = [
    "resource",
    r#"resource in Namespace::"default/a""#,
    r#"resource in Namespace::"default/a/b""#,
    r#"resource in Warehouse::"default""#,
    r#"resource == KIND::"default/a/x1""#,
    r#"resource == KIND::"default/a/b/x0""#,
];
const CONDITIONS: [&str; 7] = [
    "",
    r#"when { resource.name like "x*" }"#,
    r#"when { resource.name like "*1" }"#,
    r#"when { resource.hasTag("pii") }"#,
    r#"when { resource.hasTag("pii") && resource.getTag("pii") == "no" }"#,
    r#"when { resource has owner && resource.owner == "nobody" }"#,
    r#"unless { context.authentication == "jwt" }"#,
];
const SPACES: [&[&str]; 3] = [&["a"], &["a", "b"], &["c"]];

fn policies(random: &mut StdRng) -> String {
    let mut text = EVERYBODY.to_owned();
    for number in 0..random.random_range(1..7) {
        let effect = if random.random_bool(0.3) { "forbid" } else { "permit" };
        let (action, kind) =
            [("DescribeNamespace", "Namespace"), ("Load", "Table"), ("Load", "View")]
                .choose(random)
                .expect("there are some");
        let scope = SCOPES.choose(random).expect("there are some").replace("KIND", kind);
        let scope = match scope.as_str() {
            "resource" => format!("resource is {kind}"),
            scope => scope.replace("resource in", &format!("resource is {kind} in")),
        };
        let condition = CONDITIONS.choose(random).expect("there are some");
        text.push_str(&format!(
            "@id(\"drawn{number}\") {effect} (principal in Role::\"team\", \
             action == Action::\"{action}\", {scope}) {condition};\n"
        ));
    }
    text
}

/// A tree of namespaces, tables and views, some of them with a property.
async fn grow(app: &TestApp, random: &mut StdRng) {
    let pii = |random: &mut StdRng| match random.random_range(0..3) {
        0 => json!({}),
        1 => json!({ "pii": "no" }),
        _ => json!({ "pii": "yes" }),
    };
    for levels in SPACES {
        let body = json!({ "namespace": levels, "properties": pii(random) });
        app.post("/v1/default/namespaces", body).await.expect(200);
        let space = format!("/v1/default/namespaces/{}", path::namespace(levels));
        for number in 0..4 {
            let name = format!("{}{number}", ["x", "y"].choose(random).expect("there are two"));
            let mut levels = levels.to_vec();
            levels.push(&name);
            let body = json!({ "namespace": levels, "properties": pii(random) });
            app.post("/v1/default/namespaces", body).await.expect(200);
            let mut table = create_table(&name);
            table["properties"] = pii(random);
            app.post(&format!("{space}/tables"), table).await.expect(200);
            let mut view = create_view(&format!("{name}v"));
            view["properties"] = pii(random);
            app.post(&format!("{space}/views"), view).await.expect(200);
        }
    }
}

/// Returns all names of a listing, read page by page.
async fn listed(app: &TestApp, key: &str, path: &str, member: &str, size: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut token = String::new();
    loop {
        let joint = if path.contains('?') { '&' } else { '?' };
        let page = format!("{path}{joint}pageSize={size}&pageToken={token}");
        let page = app.get_as(key, &page).await.expect(200).body;
        let names = page[member].as_array().expect("a list").clone();
        assert!(names.len() <= size, "a page has more than {size} names");
        let next = page["next-page-token"].as_str().map(ToOwned::to_owned);
        assert!(next.is_none() || names.len() == size, "a page before the last is short");
        all.extend(names);
        match next {
            Some(next) => token = next,
            None => return all,
        }
    }
}

/// Returns the names whose resources can be loaded.
async fn loaded(app: &TestApp, key: &str, names: Vec<Value>, what: &str) -> Vec<Value> {
    let mut seen = Vec::new();
    for name in names {
        let path = match what {
            "namespaces" => path::of_namespace(&name),
            kind => path::of_tabular(kind, &name),
        };
        let path = format!("/v1/default/{path}");
        let loaded = app.get_as(key, &path).await.status.as_u16();
        let there = app.request_as(key, Method::HEAD, &path, &Value::Null).await.status.as_u16();
        match (loaded, there) {
            (200, 204) => seen.push(name),
            (404, 404) => {}
            other => panic!("{path}: {other:?}"),
        }
    }
    seen
}

/// Returns the name of a listed namespace, table or view, as a search returns it.
fn resource_of(kind: &str, name: &Value) -> String {
    let levels = |levels: &Value| {
        let levels = levels.as_array().expect("levels").iter();
        levels.map(|level| level.as_str().expect("text")).collect::<Vec<_>>().join("/")
    };
    if kind == "namespaces" {
        return format!("namespace:default/{}", levels(name));
    }
    let (kind, inside) = (kind.trim_end_matches('s'), levels(&name["namespace"]));
    format!("{kind}:default/{inside}/{}", name["name"].as_str().expect("text"))
}

#[tokio::test]
async fn listing_and_search_return_exactly_the_loadable_names() {
    let seed = seed("LISTS_SEED");
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..number_from_env("LISTS_ROUNDS", 12) {
        let policies = policies(&mut random);
        let app = TestApp::with_policies(&policies, |_| {}).await;
        let key = app.key_with_role("team").await;
        grow(&app, &mut random).await;
        let mut listings = vec![("/v1/default/namespaces".to_owned(), "namespaces", "namespaces")];
        for levels in SPACES {
            let parent = levels.join("%1F");
            let inside = format!("/v1/default/namespaces/{}", path::namespace(levels));
            let below = format!("/v1/default/namespaces?parent={parent}");
            listings.push((below, "namespaces", "namespaces"));
            listings.push((format!("{inside}/tables"), "identifiers", "tables"));
            listings.push((format!("{inside}/views"), "identifiers", "views"));
        }
        let mut visible = BTreeSet::new();
        for (path, member, kind) in listings {
            let all = listed(&app, app.credential(), &path, member, 100).await;
            let seen = loaded(&app, &key, all, kind).await;
            visible.extend(seen.iter().map(|name| resource_of(kind, name)));
            for size in [1, 2, 100] {
                let listed = listed(&app, &key, &path, member, size).await;
                assert_eq!(listed, seen, "seed {seed}, round {round}: {path} by\n{policies}");
            }
            let unpaged = app.get_as(&key, &path).await.expect(200).body[member].clone();
            assert_eq!(unpaged, json!(seen), "seed {seed}, round {round}: {path} by\n{policies}");
        }
        visible.retain(|resource| resource.rsplit('/').next().is_some_and(|it| it.contains('x')));
        for size in [1, 2, 100] {
            let hits = listed(&app, &key, "/management/v1/search?q=X", "hits", size).await;
            let hits = hits.iter().map(|hit| hit["resource"].as_str().expect("text").to_owned());
            let hits: Vec<_> = hits.collect();
            let found: BTreeSet<_> = hits.iter().cloned().collect();
            assert_eq!(found.len(), hits.len(), "a hit is repeated");
            assert_eq!(found, visible, "seed {seed}, round {round}: a search by\n{policies}");
        }
    }
}

const BY_TAG: &str = r#"
@id("open-tables") permit (principal in Role::"team", action == Action::"Load", resource is Table)
when { resource.hasTag("pii") && resource.getTag("pii") == "no" };
@id("open-namespaces") permit (principal in Role::"team", action == Action::"DescribeNamespace", resource is Namespace)
when { resource.hasTag("pii") && resource.getTag("pii") == "no" };
"#;

/// Applies a random change to one of four tables or namespaces in `a`.
async fn change_something(app: &TestApp, random: &mut StdRng) {
    let pii = ["no", "yes"].choose(random).expect("there are two");
    let name = format!("x{}", random.random_range(0..4));
    let table = format!("/v1/default/namespaces/a/tables/{name}");
    match random.random_range(0..7) {
        0..3 => {
            let update = json!({ "action": "set-properties", "updates": { "pii": pii } });
            let body = json!({ "requirements": [], "updates": [update] });
            let status = app.post(&table, body).await.status.as_u16();
            assert!([200, 404].contains(&status), "{status}");
        }
        3 => {
            let dropped = app.delete(&table).await.status.as_u16();
            let mut body = create_table(&name);
            body["properties"] = json!({ "pii": pii });
            app.post("/v1/default/namespaces/a/tables", body).await.expect(200);
            assert!([204, 404].contains(&dropped), "{dropped}");
        }
        4 => {
            let other = format!("x{}", random.random_range(0..4));
            let ident = |name: &str| json!({ "namespace": ["a"], "name": name });
            let body = json!({ "source": ident(&name), "destination": ident(&other) });
            let status = app.post("/v1/default/tables/rename", body).await.status.as_u16();
            assert!([204, 404, 409].contains(&status), "{status}");
        }
        5 => {
            let hides = format!(
                "@id(\"hidden\") forbid (principal in Role::\"team\", action, resource == \
                 Table::\"default/a/{name}\");"
            );
            let path = "/management/v1/policies/hidden";
            let put = app.request(Method::PUT, path, &[], &json!({ "text": hides })).await;
            assert!([200, 201].contains(&put.status.as_u16()), "{}", put.body);
        }
        _ => {
            let path = format!("/v1/default/namespaces/a%1F{name}/properties");
            app.post(&path, json!({ "updates": { "pii": pii } })).await.expect(200);
        }
    }
}

#[tokio::test]
async fn listing_evaluates_current_attributes() {
    let seed = seed("LISTS_SEED");
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::with_policies(&format!("{EVERYBODY}{BY_TAG}"), |_| {}).await;
    let key = app.key_with_role("team").await;
    app.create_namespace(&["a"]).await;
    for number in 0..4 {
        app.create_namespace(&["a", &format!("x{number}")]).await;
        app.create_table("a", &format!("x{number}")).await;
    }
    let tables = ("/v1/default/namespaces/a/tables", "identifiers", "tables");
    let namespaces = ("/v1/default/namespaces?parent=a", "namespaces", "namespaces");
    let (mut shown, mut hidden) = (0, 0);
    for step in 0..number_from_env("LISTS_STEPS", 60) {
        change_something(&app, &mut random).await;
        for (path, member, kind) in [tables, namespaces] {
            let all = listed(&app, app.credential(), path, member, 100).await;
            let seen = loaded(&app, &key, all.clone(), kind).await;
            let listed = listed(&app, &key, path, member, 3).await;
            assert_eq!(listed, seen, "seed {seed}, step {step}: {path}");
            shown += seen.len();
            hidden += all.len() - seen.len();
        }
    }
    assert!(shown > 0 && hidden > 0, "{shown} names were shown and {hidden} hidden");
}
