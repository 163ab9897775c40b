//! Earlier states: listings and metadata as of a time or position.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use slateberg_base::clock::Clock;
use slateberg_base::rfc3339;

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::served_app::ServedApp;
use crate::support::table::{create_table, set_property};
use crate::support::view::create_view;

const CONTENTS: &str = "/management/v1/past/contents";
const METADATA: &str = "/management/v1/past/metadata";
const NAMESPACES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 3] = ["x", "y", "z"];

/// A numbers generator that returns the same numbers for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % end as u64).expect("it is small")
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

async fn position(app: &TestApp) -> String {
    let body = app.get("/management/v1/watch").await.expect(200).body;
    body["next"].as_str().expect("a position").to_owned()
}

async fn contents(app: &TestApp, resource: &str, as_of: &str) -> TestResponse {
    app.get(&format!("{CONTENTS}?resource={resource}&as-of={as_of}")).await
}

async fn metadata(app: &TestApp, resource: &str, as_of: &str) -> TestResponse {
    app.get(&format!("{METADATA}?resource={resource}&as-of={as_of}")).await
}

/// Returns the names of the resources of a listing, with their metadata files.
async fn names(app: &TestApp, resource: &str, as_of: &str) -> BTreeSet<String> {
    let listed = contents(app, resource, as_of).await.expect(200).body;
    listed["contents"].as_array().expect("a list").iter().map(described).collect()
}

fn described(past: &Value) -> String {
    let [kind, uuid, name, location] =
        ["kind", "uuid", "name", "metadata-location"].map(|member| past[member].to_string());
    format!("{kind} {} {name} {uuid} {location}", past["namespace"])
}

/// Returns the present contents of all namespaces, in the form of [`names`].
async fn present(app: &TestApp) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for namespace in NAMESPACES {
        let path = format!("/v1/namespaces/{namespace}");
        if app.get(&path).await.status != 200 {
            continue;
        }
        found.insert(described(&json!({ "kind": "namespace", "namespace": [namespace] })));
        for (kind, member) in [("table", "tables"), ("view", "views")] {
            let listed = app.get(&format!("{path}/{member}")).await.expect(200).body;
            for ident in listed["identifiers"].as_array().expect("a list") {
                let name = ident["name"].as_str().expect("a name");
                let loaded = app.get(&format!("{path}/{member}/{name}")).await.expect(200).body;
                let uuid = &loaded["metadata"][format!("{kind}-uuid")];
                found.insert(described(&json!({ "kind": kind, "namespace": [namespace],
                    "name": name, "uuid": uuid, "metadata-location": loaded["metadata-location"] })));
            }
        }
    }
    found
}

/// Returns the contents of all namespaces at a position.
async fn past(app: &TestApp, as_of: &str) -> BTreeSet<String> {
    let mut found = names(app, "warehouse:default", as_of).await;
    for namespace in NAMESPACES {
        let response = contents(app, &format!("namespace:default/{namespace}"), as_of).await;
        let name = described(&json!({ "kind": "namespace", "namespace": [namespace] }));
        match found.contains(&name) {
            true => {
                let listed = response.expect(200).body["contents"].clone();
                found.extend(listed.as_array().expect("a list").iter().map(described));
            }
            false => _ = response.expect(404),
        }
    }
    found
}

/// Makes a random change. It may be rejected.
async fn change(app: &TestApp, numbers: &mut Numbers) {
    let (namespace, name) = (numbers.of(&NAMESPACES), numbers.of(&NAMES));
    let path = format!("/v1/namespaces/{namespace}");
    let ident = |namespace: &str, name: &str| json!({ "namespace": [namespace], "name": name });
    match numbers.below(12) {
        0 | 1 => _ = app.post("/v1/namespaces", json!({ "namespace": [namespace] })).await,
        2 => _ = app.delete(&path).await,
        3 | 4 => _ = app.post(&format!("{path}/tables"), create_table(name)).await,
        5 => _ = app.post(&format!("{path}/views"), create_view(name)).await,
        6 => {
            let kind = numbers.of(&["tables", "views"]);
            _ = app.delete(&format!("{path}/{kind}/{name}")).await;
        }
        7 => {
            let to = ident(numbers.of(&NAMESPACES), numbers.of(&NAMES));
            let body = json!({ "source": ident(namespace, name), "destination": to });
            let kind = numbers.of(&["tables", "views"]);
            _ = app.post(&format!("/v1/{kind}/rename"), body).await;
        }
        8 | 9 => {
            let updates = vec![set_property("a", &numbers.below(1000).to_string())];
            _ = app.commit(namespace, name, vec![], updates).await;
        }
        10 => {
            let body = json!({ "resource": format!("table:default/{namespace}/{name}") });
            _ = app.post("/management/v1/dropped/undrop", body).await;
        }
        _ => {
            let body = json!({ "resource": format!("table:default/{namespace}/{name}") });
            _ = app.post("/management/v1/protections", body.clone()).await;
            let listed = app.get("/management/v1/protections").await.expect(200).body;
            for protection in listed["protections"].as_array().expect("a list") {
                let id = protection["id"].as_str().expect("an id");
                app.delete(&format!("/management/v1/protections/{id}")).await.expect(204);
            }
        }
    }
}

#[tokio::test]
async fn state_at_each_position_is_the_state_that_was_listed_then() {
    for seed in 0..4 {
        let app = TestApp::new().await;
        let mut numbers = Numbers(seed);
        let mut states = Vec::new();
        for _ in 0..60 {
            states.push((position(&app).await, present(&app).await));
            change(&app, &mut numbers).await;
        }
        assert!(states.iter().filter(|(_, state)| state.len() > 3).count() > 10, "{seed}");
        for (number, (position, state)) in states.iter().enumerate() {
            assert_eq!(past(&app, position).await, *state, "seed {seed}, step {number}");
        }
    }
}

#[tokio::test]
async fn time_selects_the_changes_up_to_this_time() {
    let clock = Arc::new(HandClock::default());
    let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
    let app = TestApp::with_clock(bucket(), memory_settings(), shared).await;
    let mut times = Vec::new();
    for name in ["n0", "n1", "n2"] {
        app.create_namespace(&[name]).await;
        times.push(rfc3339::format(clock.now_ms()));
        clock.advance_seconds(10);
    }
    for (count, time) in times.iter().enumerate() {
        assert_eq!(names(&app, "warehouse:default", time).await.len(), count + 1, "{time}");
    }
    // The log does not show what there was before its first change.
    contents(&app, "warehouse:default", "2020-01-01T00:00:00Z").await.expect(410);
    for wrong in ["2100-01-01T00:00:00Z", "yesterday", ""] {
        contents(&app, "warehouse:default", wrong).await.expect(400);
    }
    contents(&app, "table:default/n0/t", &times[0]).await.expect(400);
    contents(&app, "namespace:default/none", &times[0]).await.expect(404);
    contents(&app, "namespace:default/n2", &times[0]).await.expect(404);
    contents(&app, "warehouse:none", &times[0]).await.expect(404);
}

#[tokio::test]
async fn past_metadata_is_that_of_the_table_with_the_name_at_that_time() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let first = app.get("/v1/namespaces/ns/tables/t").await.expect(200).body;
    let created = position(&app).await;
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let committed = position(&app).await;
    let ident = |name: &str| json!({ "namespace": ["ns"], "name": name });
    let body = json!({ "source": ident("t"), "destination": ident("u") });
    app.post("/v1/tables/rename", body).await.expect(204);
    app.create_table("ns", "t").await;
    app.delete("/v1/namespaces/ns/tables/u").await.expect(204);
    let table = "table:default/ns/t";
    let past = metadata(&app, table, &created).await.expect(200).body;
    assert_eq!(past["metadata"], first["metadata"]);
    assert_eq!(past["metadata-location"], first["metadata-location"]);
    let past = metadata(&app, table, &committed).await.expect(200).body;
    assert_eq!(past["metadata"]["properties"]["a"], "1");
    assert_eq!(past["uuid"], first["metadata"]["table-uuid"]);
    metadata(&app, "table:default/ns/u", &committed).await.expect(404);
    metadata(&app, "view:default/ns/t", &committed).await.expect(404);
    let location = first["metadata-location"].as_str().expect("a location");
    app.delete_file(location).await;
    let missing = metadata(&app, table, &created).await;
    assert!(missing.message().contains(location), "{}", missing.body);
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn pages_of_a_past_listing_contain_each_resource_once() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    for number in 0..7 {
        app.create_table("ns", &format!("t{number}")).await;
    }
    app.post("/v1/namespaces/ns/views", create_view("v")).await.expect(200);
    app.create_namespace(&["ns", "inner"]).await;
    let then = position(&app).await;
    for number in 0..4 {
        app.delete(&format!("/v1/namespaces/ns/tables/t{number}")).await.expect(204);
    }
    let (mut token, mut found) = (String::new(), Vec::new());
    loop {
        let path = format!(
            "{CONTENTS}?resource=namespace:default/ns&as-of={then}&pageSize=2&pageToken={token}"
        );
        let page = app.get(&path).await.expect(200).body;
        found.extend(page["contents"].as_array().expect("a list").iter().map(described));
        match page["next-page-token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(found.len(), 9);
    let all = names(&app, "namespace:default/ns", &then).await;
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), all);
}

#[tokio::test]
async fn state_is_gone_after_its_changes_left_the_log_or_in_another_catalog() {
    let app = TestApp::with_settings(|settings| settings.catalog.change_log_entries_max = 3).await;
    app.create_namespace(&["n"]).await;
    let early = position(&app).await;
    for number in 0..6 {
        app.create_namespace(&[&format!("n{number}")]).await;
    }
    let late = position(&app).await;
    app.app.runtime.catalog.maintenance().expire().await.expect("it expires");
    for as_of in [&early, "2020-01-01T00:00:00Z"] {
        let gone = contents(&app, "warehouse:default", as_of).await;
        gone.expect_error(410, "GoneException");
    }
    assert_eq!(names(&app, "warehouse:default", &late).await.len(), 7);
    let other = TestApp::new().await;
    contents(&other, "warehouse:default", &late).await.expect_error(410, "GoneException");
}

#[tokio::test]
async fn caller_sees_past_tables_that_it_may_load_today() {
    let app = TestApp::with_policies(
        r#"@id("config") permit (principal in Role::"analyst", action in Action::"Browse", resource);
           @id("sales") permit (principal in Role::"analyst", action in Action::"Read",
               resource in Namespace::"default/sales");"#,
        |_| {},
    )
    .await;
    let analyst = app.key_with_role("analyst").await;
    let nobody = app.key_with_role("nobody").await;
    for namespace in ["sales", "hr"] {
        app.create_namespace(&[namespace]).await;
        for table in ["stays", "moves", "drops"] {
            app.create_table(namespace, table).await;
        }
    }
    let then = position(&app).await;
    for (from, to) in [("sales", "hr"), ("hr", "sales")] {
        let body = json!({
            "source": { "namespace": [from], "name": "moves" },
            "destination": { "namespace": [to], "name": "moved" },
        });
        app.post("/v1/tables/rename", body).await.expect(204);
        app.delete(&format!("/v1/namespaces/{from}/tables/drops")).await.expect(204);
    }
    let seen = async |key: &str, namespace: &str| {
        let path = format!("{CONTENTS}?resource=namespace:default/{namespace}&as-of={then}");
        let listed = app.get_as(key, &path).await.expect(200).body;
        let names = listed["contents"].as_array().expect("a list").iter();
        names.map(|past| past["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let admin = app.credential().to_owned();
    assert_eq!(seen(&admin, "sales").await, ["drops", "moves", "stays"]);
    assert_eq!(seen(&analyst, "sales").await, ["stays"], "it may not load hr.moved or undrop");
    assert_eq!(seen(&analyst, "hr").await, ["moves"], "it may load sales.moved");
    let load = async |key: &str, table: &str| {
        let path = format!("{METADATA}?resource=table:default/{table}&as-of={then}");
        app.request_as(key, Method::GET, &path, &Value::Null).await
    };
    load(&analyst, "sales/stays").await.expect(200);
    load(&analyst, "hr/moves").await.expect(200);
    for hidden in ["sales/moves", "sales/drops", "hr/stays", "hr/none"] {
        load(&analyst, hidden).await.expect_error(404, "NoSuchTableException");
    }
    load(&admin, "sales/drops").await.expect(200);
    load(&nobody, "sales/stays").await.expect(403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_line_lists_and_shows_an_earlier_state() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    app.create_namespace(&["ns", "inner"]).await;
    app.create_table("ns", "t").await;
    let then = position(&app).await;
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    app.delete("/v1/namespaces/ns/tables/t").await.expect(204);
    let served = ServedApp::start(app).await;
    let text = served.stdout_of(&["ls", "default/ns", "--as-of", &then]).await;
    assert!(text.contains("default/ns/t\n") && text.contains("default/ns/inner\n"), "{text}");
    let all = served.stdout_of(&["ls", "default", "--recursive", "--as-of", &then]).await;
    assert_eq!(all.lines().count(), 4, "{all}");
    let now = served.stdout_of(&["ls", "default/ns"]).await;
    assert!(!now.contains("default/ns/t\n"), "{now}");
    let shown = served.stdout_of(&["table", "show", "default/ns/t", "--as-of", &then]).await;
    assert!(shown.contains("default/ns/t"), "{shown}");
    let wrong = served.run(&["ls", "default/ns", "--as-of", "yesterday"]).await;
    assert_eq!(wrong.status.code(), Some(1));
}
