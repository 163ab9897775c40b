//! The change feed: which events a watch returns, to whom, and from which position.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Version};
use futures::{Stream, StreamExt};
use serde_json::{Value, json};

use slateberg::api::service::Respond;

use crate::support::app::{TestApp, TestResponse};
use crate::support::served_app::ServedApp;
use crate::support::table::set_property;

const WATCH: &str = "/management/v1/watch";
const POSITION: &str = "slateberg-position";

/// Returns the events after a position, without waiting.
async fn events(app: &TestApp, query: &str) -> Vec<Value> {
    let body = app.get(&format!("{WATCH}?wait=0&{query}")).await.expect(200).body;
    body["events"].as_array().expect("a list").clone()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

/// Returns the type and the name of each event about a resource.
fn named(events: &[Value]) -> Vec<(String, String)> {
    let name = |event: &Value| {
        let resource = &event["resource"];
        let levels = resource["namespace"].as_array().into_iter().flatten();
        let levels = levels.chain(resource["name"].as_str().map(|_| &resource["name"]));
        levels.map(|level| level.as_str().expect("a name")).collect::<Vec<_>>().join(".")
    };
    let text = |event: &Value| event["type"].as_str().expect("a type").to_owned();
    events.iter().map(|event| (text(event), name(event))).collect()
}

async fn rename(app: &TestApp, from: &str, to: &str) {
    let ident = |name: &str| {
        let (namespace, name) = name.split_once('.').expect("a namespace and a name");
        json!({ "namespace": [namespace], "name": name })
    };
    let body = json!({ "source": ident(from), "destination": ident(to) });
    app.post("/v1/tables/rename", body).await.expect(204);
}

async fn set(app: &TestApp, namespace: &str, table: &str) {
    app.commit(namespace, table, vec![], vec![set_property("a", "1")]).await.expect(200);
}

/// Returns the current position.
async fn present(app: &TestApp) -> String {
    let body = app.get(WATCH).await.expect(200).body;
    assert_eq!((&body["events"], &body["caught-up"]), (&json!([]), &json!(true)));
    body["next"].as_str().expect("a position").to_owned()
}

#[tokio::test]
async fn each_change_is_an_event_in_the_order_of_the_changes() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let created = app.create_table("ns", "t").await.body;
    let committed = app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    rename(&app, "ns.t", "ns.u").await;
    app.create_view("ns", "v").await;
    app.delete("/v1/namespaces/ns/tables/u").await.expect(204);
    let undrop = json!({ "resource": "table:default/ns/u" });
    app.post("/management/v1/dropped/undrop", undrop).await.expect(200);
    let all = events(&app, "after=oldest").await;
    let expected = [
        ("namespace.created", "ns"),
        ("table.created", "ns.t"),
        ("table.committed", "ns.t"),
        ("table.renamed", "ns.u"),
        ("view.created", "ns.v"),
        ("table.dropped", "ns.u"),
        ("table.undropped", "ns.u"),
    ];
    let expected = expected.map(|(event, name)| (event.to_owned(), name.to_owned()));
    assert_eq!(named(&all), expected);
    let commit = &all[2];
    assert_eq!(commit["before"]["metadata-location"], created["metadata-location"]);
    assert_eq!(commit["after"]["metadata-location"], committed.body["metadata-location"]);
    assert_eq!((&commit["before"]["version"], &commit["after"]["version"]), (&json!(1), &json!(2)));
    assert_eq!(commit["operations"], json!(["set-properties"]));
    assert_eq!(commit["warehouse"], "default");
    assert_eq!(commit["resource"]["uuid"], created["metadata"]["table-uuid"]);
    let ids: Vec<_> = [1, 2, 3, 5, 6].map(|at: usize| &all[at]["resource"]["id"]).into();
    assert!(ids.iter().all(|id| *id == ids[0]), "the id stays the same: {ids:?}");
    assert_eq!(
        (&all[3]["before"]["namespace"], &all[3]["before"]["name"]),
        (&json!(["ns"]), &json!("t"))
    );
}

#[tokio::test]
async fn snapshot_of_a_commit_is_in_its_event() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let append = crate::support::table::append(7, None, 1);
    app.commit("ns", "t", vec![], append).await.expect(200);
    let commits = events(&app, "after=oldest&type=table.committed").await;
    assert_eq!(commits.len(), 1);
    assert_eq!(commits[0]["snapshots"], json!({ "main": 7 }));
    assert_eq!(commits[0]["operations"], json!(["add-snapshot", "set-snapshot-ref"]));
}

#[tokio::test]
async fn watch_resumes_after_the_position_of_any_event() {
    let app = TestApp::new().await;
    let begin = present(&app).await;
    for number in 0..5 {
        app.create_namespace(&[&format!("n{number}")]).await;
    }
    let all = events(&app, &format!("after={begin}")).await;
    assert_eq!(all.len(), 5);
    for (at, event) in all.iter().enumerate() {
        let position = event["position"].as_str().expect("a position");
        assert_eq!(events(&app, &format!("after={position}")).await, all[at + 1..]);
    }
    let (mut paged, mut after) = (Vec::new(), begin);
    loop {
        let page = app.get(&format!("{WATCH}?wait=0&max=2&after={after}")).await.expect(200).body;
        paged.extend(page["events"].as_array().expect("a list").clone());
        after = page["next"].as_str().expect("a position").to_owned();
        if page["caught-up"] == true {
            break;
        }
    }
    assert_eq!(paged, all);
}

#[tokio::test]
async fn watch_resumes_after_a_restart_of_the_server() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let all = events(&app, "after=oldest").await;
    let position = all[0]["position"].as_str().expect("a position").to_owned();
    let app = app.restart().await;
    assert_eq!(events(&app, "after=oldest").await, all);
    assert_eq!(events(&app, &format!("after={position}")).await, all[1..]);
    app.create_namespace(&["later"]).await;
    let later = events(&app, &format!("after={position}")).await;
    assert_eq!(types(&later), ["table.created", "namespace.created"]);
}

#[tokio::test]
async fn listing_has_the_position_from_which_a_watch_misses_nothing() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "before").await;
    let tables = app.get("/v1/namespaces/ns/tables").await.expect(200);
    let loaded = app.get("/v1/namespaces/ns/tables/before").await.expect(200);
    app.create_table("ns", "after").await;
    for response in [tables, loaded] {
        let later = events(&app, &format!("after={}", response.header(POSITION))).await;
        let expected = [("table.created".to_owned(), "ns.after".to_owned())];
        assert_eq!(named(&later), expected);
    }
    let tag = app.get("/v1/namespaces/ns/tables/before").await.header("etag").to_owned();
    let path = "/v1/namespaces/ns/tables/before";
    let headers = [("if-none-match", &*tag)];
    let unchanged = app.request(Method::GET, path, &headers, &Value::Null).await.expect(304);
    assert_eq!(events(&app, &format!("after={}", unchanged.header(POSITION))).await.len(), 0);
}

#[tokio::test]
async fn changes_of_a_transaction_are_one_group() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    for table in ["a", "b"] {
        app.create_table("ns", table).await;
    }
    let begin = present(&app).await;
    let change = |table: &str| {
        json!({
            "identifier": { "namespace": ["ns"], "name": table },
            "requirements": [],
            "updates": [set_property("a", "1")],
        })
    };
    let body = json!({ "table-changes": [change("a"), change("b")] });
    app.post("/v1/transactions/commit", body).await.expect(204);
    app.create_namespace(&["later"]).await;
    assert_is_group(&app, &begin).await;
    // After the restart, the earlier changes are no longer in memory.
    assert_is_group(&app.restart().await, &begin).await;
}

async fn assert_is_group(app: &TestApp, begin: &str) {
    let path = format!("{WATCH}?wait=0&max=1&after={begin}");
    let page = app.get(&path).await.expect(200).body;
    let group = page["events"].as_array().expect("a list");
    assert_eq!(types(group), ["table.committed", "table.committed"]);
    assert_eq!(group[0]["position"], Value::Null);
    assert_eq!(group[1]["position"], page["next"]);
    assert_eq!(page["caught-up"], false);
}

#[tokio::test]
async fn long_poll_waits_for_the_next_event() {
    let app = TestApp::new().await;
    let begin = present(&app).await;
    let path = format!("{WATCH}?after={begin}&wait=60");
    let create = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        app.create_namespace(&["ns"]).await;
    };
    let (response, ()) = tokio::join!(app.get(&path), create);
    let body = response.expect(200).body;
    assert_eq!(types(body["events"].as_array().expect("a list")), ["namespace.created"]);
    let late = app.get(&format!("{WATCH}?after={}&wait=1", present(&app).await)).await.expect(200);
    assert_eq!((&late.body["events"], &late.body["caught-up"]), (&json!([]), &json!(true)));
}

/// Reads a stream until it contains `end`.
async fn read_until(app: &TestApp, query: &str, headers: &[(&str, &str)], end: &str) -> String {
    let request = Request::get(format!("{WATCH}?{query}"))
        .header("host", "localhost")
        .header("accept", "text/event-stream");
    let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, *value));
    let request = request.body(Body::empty()).expect("a request");
    let response = app.router.respond(request).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    read(&mut body, |text| text.contains(end).then(|| text.to_owned())).await
}

/// Reads a stream until `found` returns a part of its text.
async fn read<E: std::fmt::Debug>(
    stream: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
    found: impl Fn(&str) -> Option<String>,
) -> String {
    let mut text = String::new();
    loop {
        if let Some(found) = found(&text) {
            return found;
        }
        let chunk = tokio::time::timeout(Duration::from_secs(20), stream.next()).await;
        let chunk = chunk.expect("the stream sends in time").expect("the stream goes on");
        text.push_str(std::str::from_utf8(&chunk.expect("a chunk")).expect("UTF-8"));
    }
}

#[tokio::test]
async fn stream_begins_with_its_position_and_sends_each_event_with_its_own() {
    let app = TestApp::new().await;
    let begin = present(&app).await;
    let create = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        app.create_namespace(&["a"]).await;
        app.create_namespace(&["b"]).await;
    };
    let (text, ()) = tokio::join!(read_until(&app, "", &[], "\"b\""), create);
    assert!(text.starts_with("event: progress\n"), "{text}");
    assert!(text.contains("retry: 1000\n") && text.contains(&format!("id: {begin}\n")), "{text}");
    let all = events(&app, &format!("after={begin}")).await;
    for event in &all {
        let (data, id) = (event.to_string(), event["position"].as_str().expect("a position"));
        let sent = text.lines().find_map(|line| {
            let data = line.strip_prefix("data: ")?;
            (serde_json::from_str::<Value>(data).ok()? == *event).then_some(())
        });
        assert!(sent.is_some(), "{data} is not in {text}");
        assert!(text.contains(&format!("id: {id}\n")), "{text}");
    }
    // The position in the header has priority over the position in the URL, because a browser sends
    // the old URL again.
    let last = all[0]["position"].as_str().expect("a position");
    let query = format!("after={begin}");
    let resumed = read_until(&app, &query, &[("last-event-id", last)], "\"b\"").await;
    assert!(!resumed.contains("[\"a\"]"), "{resumed}");
}

#[tokio::test]
async fn filters_select_resources_by_name_and_events_by_type() {
    let app = TestApp::new().await;
    for namespace in [&["ns"][..], &["ns", "below"], &["nsx"]] {
        app.create_namespace(namespace).await;
    }
    for (namespace, table) in [("ns", "t"), ("ns", "u"), ("nsx", "t"), ("ns%1Fbelow", "t")] {
        app.create_table(namespace, table).await;
    }
    rename(&app, "ns.u", "nsx.u").await;
    app.create_view("ns", "t2").await;
    for (query, expected) in [
        ("resource=table:default/ns/t", &["table.created ns.t"][..]),
        ("resource=view:default/ns/t2", &["view.created ns.t2"]),
        (
            "resource=namespace:default/nsx",
            &["namespace.created nsx", "table.created nsx.t", "table.renamed nsx.u"],
        ),
        (
            "resource=namespace:default/ns&type=table",
            &[
                "table.created ns.t",
                "table.created ns.u",
                "table.created ns.below.t",
                "table.renamed nsx.u",
            ],
        ),
        (
            "resource=warehouse:default&type=view.created&type=namespace",
            &[
                "namespace.created ns",
                "namespace.created ns.below",
                "namespace.created nsx",
                "view.created ns.t2",
            ],
        ),
        ("resource=table:default/ns/nothing", &[]),
    ] {
        let found = events(&app, &format!("after=oldest&{query}")).await;
        let found = named(&found).into_iter().map(|(event, name)| format!("{event} {name}"));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{query}");
    }
}

#[tokio::test]
async fn wrong_parameters_of_a_watch_are_rejected() {
    let app = TestApp::new().await;
    for (query, status) in [
        ("after=x", 400),
        ("after=AAAA", 400),
        ("wait=61", 400),
        ("wait=-1", 400),
        ("max=0", 400),
        ("max=1001", 400),
        ("type=table.exploded", 400),
        ("type=", 400),
        ("resource=ns", 400),
        ("resource=warehouse:x", 404),
        ("resource=table:x/ns/t", 404),
    ] {
        app.get(&format!("{WATCH}?{query}")).await.expect(status);
    }
}

async fn watch_as(app: &TestApp, key: &str, query: &str) -> TestResponse {
    app.get_as(key, &format!("{WATCH}?wait=0&{query}")).await
}

#[tokio::test]
async fn caller_receives_only_events_about_what_it_may_see() {
    let app = TestApp::with_policies(
        r#"@id("config") permit (principal in Role::"analyst", action == Action::"ReadConfig", resource);
           @id("sales") permit (principal in Role::"analyst", action in Action::"Read",
               resource in Namespace::"default/sales");
           @id("watch") permit (principal in Role::"analyst", action == Action::"Watch", resource);"#,
        |_| {},
    )
    .await;
    let analyst = app.key_with_role("analyst").await;
    for namespace in ["sales", "hr"] {
        app.create_namespace(&[namespace]).await;
        app.create_table(namespace, "t").await;
    }
    rename(&app, "hr.t", "sales.from_hr").await;
    rename(&app, "sales.t", "hr.from_sales").await;
    set(&app, "hr", "from_sales").await;
    let seen = watch_as(&app, &analyst, "after=oldest").await.expect(200);
    let seen = seen.body["events"].as_array().expect("a list").clone();
    let expected = [
        ("namespace.created", "sales"),
        ("table.created", "sales.t"),
        ("table.created", "sales.from_hr"),
        ("table.dropped", "sales.t"),
    ];
    let expected = expected.map(|(event, name)| (event.to_owned(), name.to_owned()));
    assert_eq!(named(&seen), expected);
    for event in &seen {
        assert_eq!(event["before"]["name"], Value::Null, "the other name is hidden: {event}");
        assert_eq!(event["principal"], Value::Null, "the author is hidden: {event}");
        assert_eq!(event["request-id"], Value::Null, "the request is hidden: {event}");
    }
    let all = events(&app, "after=oldest&type=table").await;
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|event| event["principal"].is_string()), "{all:?}");
}

#[tokio::test]
async fn streams_of_one_connection_share_no_event_that_a_caller_may_not_see() {
    let app = TestApp::with_policies(
        r#"@id("read") permit (principal in Role::"analyst",
               action in [Action::"ReadConfig", Action::"Read", Action::"Watch"], resource);"#,
        |_| {},
    )
    .await;
    let callers = [app.credential().to_owned(), app.key_with_role("analyst").await];
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let server = ServedApp::start(app).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    let url = format!("{}{WATCH}?type=table.committed", server.uri);
    let mut streams = Vec::new();
    for caller in callers.iter().cycle().take(20) {
        let request = client.get(&url).bearer_auth(caller).header("accept", "text/event-stream");
        let response = request.send().await.expect("the server responds");
        assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
        streams.push(response.bytes_stream());
    }
    set(&server.app, "ns", "t").await;
    let mut seen = Vec::new();
    for stream in &mut streams {
        seen.push(event_in(stream, "table.committed").await);
    }
    let (admin, analyst) = (&seen[0], &seen[1]);
    assert!(admin["principal"].is_string(), "{admin}");
    assert_eq!((&analyst["principal"], &analyst["request-id"]), (&Value::Null, &Value::Null));
    assert_ne!(admin["position"], analyst["position"], "a position belongs to its caller");
    for pair in seen.chunks(2) {
        assert_eq!(pair, &seen[..2]);
    }
}

/// Returns the data of the first event of a type in a stream.
async fn event_in(
    stream: &mut (impl Stream<Item = reqwest::Result<Bytes>> + Unpin),
    event_type: &str,
) -> Value {
    let begin = format!("event: {event_type}\ndata: ");
    let data = read(stream, |text| {
        let (data, _) = text.split_once(&begin)?.1.split_once('\n')?;
        Some(data.to_owned())
    });
    serde_json::from_str(&data.await).expect("JSON")
}

#[tokio::test]
async fn watch_requires_its_own_action_on_the_resource() {
    let app = TestApp::with_policies(
        r#"@id("config") permit (principal in Role::"analyst", action == Action::"ReadConfig", resource);
           @id("sales") permit (principal in Role::"analyst", action in Action::"Read",
               resource in Namespace::"default/sales");
           @id("hr") permit (principal in Role::"analyst", action == Action::"Load",
               resource in Namespace::"default/hr");"#,
        |_| {},
    )
    .await;
    for namespace in ["sales", "hr"] {
        app.create_namespace(&[namespace]).await;
        app.create_table(namespace, "t").await;
    }
    let (analyst, stranger) = (app.key_with_role("analyst").await, app.key_with_role("x").await);
    for (key, query, status) in [
        (&analyst, "resource=namespace:default/sales", 200),
        (&analyst, "resource=table:default/sales/t", 200),
        (&analyst, "resource=table:default/sales/later", 200),
        (&analyst, "resource=table:default/hr/t", 403),
        (&analyst, "resource=table:default/hr/later", 404),
        (&analyst, "resource=namespace:default/hr", 404),
        (&analyst, "resource=warehouse:default", 403),
        (&analyst, "", 403),
        (&stranger, "resource=warehouse:default", 403),
        (&String::new(), "", 401),
    ] {
        watch_as(&app, key, query).await.expect(status);
    }
}

#[tokio::test]
async fn changed_policies_cause_a_resync() {
    let app = TestApp::secured().await;
    let admin = app.credential().to_owned();
    app.create_namespace(&["ns"]).await;
    let (reader, position) = (app.key_with_role("reader").await, present(&app).await);
    let from = |body: &Value| body["next"].as_str().expect("a position").to_owned();
    let mine = from(&watch_as(&app, &reader, "resource=warehouse:default").await.expect(200).body);
    let path = format!("{WATCH}?resource=warehouse:default&after={mine}&wait=60");
    let grant =
        json!({ "template": "write", "grantee": "role:a", "resource": "namespace:default/ns" });
    let change = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        app.post("/management/v1/grants", grant).await.expect(201);
    };
    let (response, ()) = tokio::join!(app.get_as(&reader, &path), change);
    let body = response.expect(200).body;
    assert_eq!(types(body["events"].as_array().expect("a list")), ["resync"]);
    // A later watch from the position of this event does not repeat the event.
    let query = format!("resource=warehouse:default&after={}", from(&body));
    let later = watch_as(&app, &reader, &query).await.expect(200).body;
    assert_eq!(later["events"], json!([]));
    // A principal with other permissions also gets `resync` if it resumes from this position.
    let query = format!("after={position}&type=grant.created");
    let other = watch_as(&app, &admin, &query).await.expect(200).body;
    assert_eq!(types(other["events"].as_array().expect("a list")), ["resync", "grant.created"]);
}

#[tokio::test]
async fn lost_permission_ends_a_stream() {
    let app = TestApp::secured().await;
    app.create_namespace(&["ns"]).await;
    let grant = |grantee: &str| json!({ "template": "read", "grantee": grantee, "resource": "namespace:default/ns" });
    let granted = app.post("/management/v1/grants", grant("role:guest")).await.expect(201).body;
    let guest = app.key_with_role("guest").await;
    let id = granted["grant"]["id"].as_str().expect("an id").to_owned();
    let revoke = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        app.delete(&format!("/management/v1/grants/{id}")).await.expect(200);
    };
    let bearer = format!("Bearer {guest}");
    let headers = [("authorization", &*bearer)];
    let query = "resource=namespace:default/ns";
    let (text, ()) = tokio::join!(read_until(&app, query, &headers, "event: closed"), revoke);
    assert!(!text.contains("event: resync"), "{text}");
}

#[tokio::test]
async fn events_about_removed_tables_cause_a_resync_if_policies_use_properties() {
    let app = TestApp::with_policies(
        r#"@id("config") permit (principal in Role::"analyst",
               action in [Action::"Browse", Action::"Watch"], resource);
           @id("public") permit (principal in Role::"analyst", action == Action::"Load", resource)
               when { resource.hasTag("public") && resource.getTag("public") == "yes" };"#,
        |_| {},
    )
    .await;
    let analyst = app.key_with_role("analyst").await;
    app.create_namespace(&["ns"]).await;
    for table in ["public", "secret"] {
        app.create_table("ns", table).await;
    }
    let public = vec![set_property("public", "yes")];
    app.commit("ns", "public", vec![], public).await.expect(200);
    let seen = |body: Value| {
        let events = body["events"].as_array().expect("a list").clone();
        named(&events)
            .into_iter()
            .map(|(event, name)| format!("{event} {name}"))
            .collect::<Vec<_>>()
    };
    let before = watch_as(&app, &analyst, "after=oldest&type=table").await.expect(200).body;
    let next = before["next"].as_str().expect("a position").to_owned();
    assert_eq!(seen(before), ["table.created ns.public", "table.committed ns.public"]);
    app.delete("/v1/namespaces/ns/tables/secret").await.expect(204);
    let after = watch_as(&app, &analyst, &format!("type=table&after={next}")).await.expect(200);
    assert_eq!(seen(after.body), ["resync "]);
}

#[tokio::test]
async fn watches_have_limits_of_their_own() {
    let app = TestApp::with_settings(|settings| settings.server.watchers_max = 0).await;
    app.get(WATCH).await.expect(503);
    app.create_namespace(&["ns"]).await;
    let app = TestApp::with_policies(
        r#"@id("all") permit (principal in Role::"analyst", action == Action::"Watch", resource);"#,
        |settings| {
            settings.server.watchers_per_principal_max = 1;
            settings.server.requests_in_flight_max = 2;
        },
    )
    .await;
    let (analyst, other) = (app.key_with_role("analyst").await, app.key_with_role("analyst").await);
    let next = watch_as(&app, &analyst, "").await.expect(200).body;
    let next = next["next"].as_str().expect("a position");
    let waiting = format!("{WATCH}?after={next}&wait=60");
    let others = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        watch_as(&app, &analyst, "").await.expect(429);
        watch_as(&app, &other, "").await.expect(200);
        app.create_namespace(&["ns"]).await;
        let policy = r#"@id("a") permit (principal, action in Action::"Browse", resource);"#;
        app.post("/management/v1/policies", json!({ "text": policy })).await.expect(201);
    };
    let (response, ()) = tokio::join!(app.get_as(&analyst, &waiting), others);
    response.expect(200);
    watch_as(&app, &analyst, "").await.expect(200);
}

#[tokio::test]
async fn position_is_gone_after_its_changes_left_the_log() {
    let app = TestApp::with_settings(|settings| settings.catalog.change_log_entries_max = 3).await;
    for number in 0..6 {
        app.create_namespace(&[&format!("n{number}")]).await;
    }
    let all = events(&app, "after=oldest").await;
    let position = |at: usize| all[at]["position"].as_str().expect("a position").to_owned();
    app.app.runtime.catalog.maintenance().expire().await.expect("it expires");
    // The events are readable until the restart, because they are still in memory.
    assert_eq!(events(&app, &format!("after={}", position(0))).await, all[1..]);
    let app = app.restart().await;
    let gone = app.get(&format!("{WATCH}?wait=0&after={}", position(0))).await;
    gone.expect_error(410, "GoneException");
    assert_eq!(events(&app, &format!("after={}", position(2))).await, all[3..]);
    assert_eq!(events(&app, "after=oldest").await, all[3..]);
}
