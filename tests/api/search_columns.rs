//! The search for columns and comments.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::clock::HandClock;
use crate::support::faults::{Fault, FaultStore, LOG, Verb};
use crate::support::served_app::ServedApp;
use crate::support::table::{create_table, set_property};
use crate::support::view::create_view;

const SEARCH: &str = "/management/v1/search";
const TABLES: &str = "/v1/default/namespaces/crm/tables";
const ALL: &str = "in=names,columns,comments";

/// Returns a table of people with comments.
fn people(name: &str) -> Value {
    json!({ "name": name, "properties": { "comment": "everybody we know" },
        "schema": { "type": "struct", "fields": [
            { "id": 1, "name": "id", "required": true, "type": "long" },
            { "id": 2, "name": "Email", "required": false, "type": "string",
              "doc": "the private address" },
            { "id": 3, "name": "home", "required": false, "type": { "type": "struct", "fields": [
                { "id": 4, "name": "street", "required": false, "type": "string" } ] } } ] } })
}

async fn search(app: &TestApp, parameters: &str) -> TestResponse {
    app.get(&format!("{SEARCH}?{parameters}")).await
}

/// Returns the resource and what matches, for each hit.
fn matched(response: TestResponse) -> Vec<(String, String)> {
    let body = response.expect(200).body;
    assert_eq!(body["includes-latest-changes"], true);
    let hits = body["hits"].as_array().expect("hits").iter();
    let matched = |hit: &Value| {
        let text = |member: &str| hit.get(member).map(|it| it.as_str().expect("text"));
        let field = [text("column"), text("comment")].into_iter().flatten().collect::<Vec<_>>();
        let source = hit["matched-in"].as_str().expect("a source");
        let resource = hit["resource"].as_str().expect("a resource");
        (resource.to_owned(), format!("{source}:{}", field.join("=")))
    };
    hits.map(matched).collect()
}

#[track_caller]
fn assert_matched(response: TestResponse, expected: &[(&str, &str)]) {
    let found = matched(response);
    let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(found, expected);
}

async fn with_people() -> TestApp {
    let app = TestApp::new().await;
    create_people(&app).await;
    app
}

async fn create_people(app: &TestApp) {
    let namespace = json!({ "namespace": ["crm"], "properties": { "comment": "all customers" } });
    app.post("/v1/default/namespaces", namespace).await.expect(200);
    app.post(TABLES, people("people")).await.expect(200);
}

#[tokio::test]
async fn columns_and_comments_are_found_and_names_come_first() {
    let app = with_people().await;
    app.post(TABLES, create_table("email")).await.expect(200);
    app.post("/v1/default/namespaces/crm/views", create_view("v")).await.expect(200);
    let people = "table:default/crm/people";
    assert_matched(search(&app, "q=email").await, &[("table:default/crm/email", "names:")]);
    let in_all = [("table:default/crm/email", "names:"), (people, "columns:Email")];
    assert_matched(search(&app, &format!("q=email&{ALL}")).await, &in_all);
    assert_matched(search(&app, "q=street&in=columns").await, &[(people, "columns:home.street")]);
    assert_matched(
        search(&app, "q=home.street&in=columns").await,
        &[(people, "columns:home.street")],
    );
    let private = [(people, "comments:Email=the private address")];
    assert_matched(search(&app, "q=private&in=comments").await, &private);
    assert_matched(search(&app, "q=crm+people+private&in=comments").await, &private);
    let known = [(people, "comments:everybody we know")];
    assert_matched(search(&app, "q=EVERYBODY&in=comments").await, &known);
    let customers = [("namespace:default/crm", "comments:all customers")];
    assert_matched(search(&app, "q=customers&in=comments").await, &customers);
    let view = ("view:default/crm/v", "columns:data");
    let data = [("table:default/crm/email", "columns:data"), view];
    assert_matched(search(&app, "q=data&in=columns").await, &data);
    assert_matched(search(&app, "q=data&in=columns&kind=view").await, &[view]);
    assert_matched(search(&app, "q=email&in=comments").await, &[]);
    let unknown = search(&app, "q=x&in=columns,rows").await;
    let unknown = unknown.expect_error(400, "IllegalArgumentException");
    assert!(unknown.message().contains("Expected one of names, columns, comments"));
}

#[tokio::test]
async fn changed_columns_and_comments_are_found_directly_after_the_response() {
    let app = with_people().await;
    let table = format!("{TABLES}/people");
    let people = "table:default/crm/people";
    assert_matched(search(&app, "q=street&in=columns").await, &[(people, "columns:home.street")]);
    let commit = async |updates: Value| {
        app.post(&table, json!({ "requirements": [], "updates": updates })).await.expect(200);
    };
    let fields = json!([{ "id": 1, "name": "number", "required": true, "type": "long" }]);
    commit(json!([
        { "action": "add-schema", "schema": { "type": "struct", "fields": fields } },
        { "action": "set-current-schema", "schema-id": -1 },
        set_property("comment", "nobody"),
    ]))
    .await;
    assert_matched(search(&app, "q=street&in=columns").await, &[]);
    assert_matched(search(&app, "q=number&in=columns").await, &[(people, "columns:number")]);
    assert_matched(search(&app, "q=nobody&in=comments").await, &[(people, "comments:nobody")]);
    commit(json!([{ "action": "remove-properties", "removals": ["comment"] }])).await;
    assert_matched(search(&app, "q=nobody&in=comments").await, &[]);
    let ident = |name: &str| json!({ "namespace": ["crm"], "name": name });
    let rename = json!({ "source": ident("people"), "destination": ident("persons") });
    app.post("/v1/default/tables/rename", rename).await.expect(204);
    let persons = [("table:default/crm/persons", "columns:number")];
    assert_matched(search(&app, "q=number&in=columns").await, &persons);
    app.delete(&format!("{TABLES}/persons")).await.expect(204);
    assert_matched(search(&app, "q=number&in=columns").await, &[]);
    let comment = json!({ "updates": { "comment": "all suppliers" } });
    app.post("/v1/default/namespaces/crm/properties", comment).await.expect(200);
    let suppliers = [("namespace:default/crm", "comments:all suppliers")];
    assert_matched(search(&app, "q=suppliers&in=comments").await, &suppliers);
    let app = app.restart().await;
    assert_matched(search(&app, "q=suppliers&in=comments").await, &suppliers);
}

#[tokio::test]
async fn columns_of_tables_that_changed_after_the_first_search_of_names_are_found() {
    let app = with_people().await;
    for name in ["dropped", "replaced"] {
        app.post(TABLES, people(name)).await.expect(200);
    }
    // This search builds the index of names, and the last one adds the columns.
    app.get(&format!("{SEARCH}?q=people")).await.expect(200);
    for name in ["dropped", "replaced"] {
        app.delete(&format!("{TABLES}/{name}")).await.expect(204);
    }
    app.post(TABLES, create_table("replaced")).await.expect(200);
    app.post(TABLES, people("created")).await.expect(200);
    let [source, destination] =
        ["people", "renamed"].map(|name| json!({ "namespace": ["crm"], "name": name }));
    let rename = json!({ "source": source, "destination": destination });
    app.post("/v1/default/tables/rename", rename).await.expect(204);
    let found = ["table:default/crm/created", "table:default/crm/renamed"];
    let found = found.map(|table| (table, "columns:home.street"));
    assert_matched(search(&app, "q=street&in=columns").await, &found);
    let replaced = ("table:default/crm/replaced", "columns:data");
    assert_matched(search(&app, "q=data&in=columns").await, &[replaced]);
}

#[tokio::test]
async fn registered_file_with_unusual_members_does_not_hide_the_columns_of_other_tables() {
    let app = with_people().await;
    for (name, member, value) in
        [("readable", "current-version-id", json!(7)), ("unreadable", "versions", json!("none"))]
    {
        app.post(TABLES, people(name)).await.expect(200);
        let table = format!("{TABLES}/{name}");
        let loaded = app.get(&table).await.expect(200).body;
        let file = loaded["metadata-location"].as_str().expect("a location");
        let mut metadata: Value =
            serde_json::from_slice(&app.file(file).await.expect("it is there")).expect("JSON");
        metadata[member] = value;
        app.delete(&table).await.expect(204);
        let unusual = format!("memory:///warehouse/{name}.metadata.json");
        app.put_file(&unusual, metadata.to_string()).await;
        let body = json!({ "name": name, "metadata-location": unusual });
        app.post("/v1/default/namespaces/crm/register", body).await.expect(200);
    }
    let found = search(&app, "q=street&in=columns").await.expect(200);
    assert_eq!(found.body["incomplete"], json!(["columns"]));
    let readable = ["table:default/crm/people", "table:default/crm/readable"];
    assert_matched(found, &readable.map(|table| (table, "columns:home.street")));
    // A commit reads the columns of the table again.
    app.post(
        &format!("{TABLES}/unreadable"),
        json!({ "requirements": [], "updates": [set_property("comment", "odd")] }),
    )
    .await
    .expect(200);
    assert_eq!(matched(search(&app, "q=street&in=columns").await).len(), 2);
}

#[tokio::test]
async fn pages_contain_each_table_once() {
    let app = with_people().await;
    for number in 0..12 {
        app.post(TABLES, people(&format!("email_{number:02}"))).await.expect(200);
        app.post(TABLES, people(&format!("t_{number:02}"))).await.expect(200);
    }
    let found = app.pages(&format!("{SEARCH}?q=email&{ALL}"), "hits", 5).await;
    let found: Vec<_> = found.iter().map(|hit| hit["name"].as_str().expect("a name")).collect();
    let mut expected: Vec<_> = (0..12).map(|number| format!("email_{number:02}")).collect();
    expected.push("people".to_owned());
    expected.extend((0..12).map(|number| format!("t_{number:02}")));
    assert_eq!(found, expected);
}

const POLICIES: &str = r#"
@id("reader") permit (principal in Role::"reader",
    action in [Action::"ReadConfig", Action::"List", Action::"DescribeNamespace", Action::"Load"],
    resource) when { true };
@id("secret") forbid (principal in Role::"reader", action == Action::"Load",
    resource == Table::"default/crm/secret");
@id("masked") @column_mask("Email: replace-with-null")
permit (principal in Role::"masked",
    action in [Action::"ReadConfig", Action::"List", Action::"DescribeNamespace", Action::"Load"],
    resource);
"#;

#[tokio::test]
async fn columns_are_found_only_of_tables_that_the_caller_may_load() {
    let app = TestApp::with_policies(POLICIES, |_| {}).await;
    create_people(&app).await;
    app.post(TABLES, people("secret")).await.expect(200);
    let path = format!("{SEARCH}?q=email&pageSize=1&in=columns");
    let reader = app.key_with_role("reader").await;
    let found = app.get_as(&reader, &path).await.expect(200).body;
    assert_eq!(found["hits"][0]["resource"], "table:default/crm/people");
    assert_eq!(found["next-page-token"], Value::Null);
    // A load returns the whole schema to a principal with a column mask, and so does the search.
    let masked = app.key_with_role("masked").await;
    let both = format!("{SEARCH}?q=email&in=columns");
    let found = app.get_as(&masked, &both).await;
    assert_eq!(matched(found).len(), 2);
    // A load fails if the masked column does not exist.
    let fields = json!([{ "id": 1, "name": "Mail", "required": false, "type": "string" }]);
    let updates = json!([
        { "action": "add-schema", "schema": { "type": "struct", "fields": fields } },
        { "action": "set-current-schema", "schema-id": -1 },
    ]);
    let secret = format!("{TABLES}/secret");
    app.post(&secret, json!({ "requirements": [], "updates": updates })).await.expect(200);
    app.get_as(&masked, &secret).await.expect(403);
    let mail = format!("{SEARCH}?q=mail&in=columns");
    assert_matched(
        app.get_as(&masked, &mail).await,
        &[("table:default/crm/people", "columns:Email")],
    );
    let none = app.key_with_role("none").await;
    assert_matched(app.get_as(&none, &both).await, &[]);
}

#[tokio::test]
async fn index_is_dropped_after_ten_minutes_without_a_search() {
    let clock = Arc::new(HandClock::default());
    let shared: Arc<dyn slateberg_base::clock::Clock> = Arc::clone(&clock) as _;
    let app = TestApp::with_clock(Arc::new(InMemory::new()), memory_settings(), shared).await;
    create_people(&app).await;
    assert_eq!(matched(search(&app, "q=email&in=columns").await).len(), 1);
    let names = async || {
        let metrics = app.get("/metrics").await.expect(200);
        let text = metrics.body.as_str().expect("text").to_owned();
        let line = text.lines().find_map(|it| it.strip_prefix("slateberg_search_index_names "));
        line.map(str::to_owned)
    };
    while names().await.as_deref() != Some("2") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    clock.advance_seconds(601);
    while names().await.as_deref() != Some("0") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(matched(search(&app, "q=email&in=columns").await).len(), 1);
}

#[tokio::test]
async fn search_answers_from_an_earlier_state_if_changes_do_not_become_durable() {
    let bucket = FaultStore::new(Arc::new(InMemory::new()));
    let app = TestApp::on(Arc::clone(&bucket) as _).await;
    create_people(&app).await;
    assert_eq!(matched(search(&app, "q=people").await).len(), 1);
    bucket.inject(Verb::Put, LOG, Fault::Hang);
    let puts = bucket.count(Verb::Put, LOG);
    let searched = async {
        bucket.wait_for_requests(Verb::Put, LOG, puts + 1).await;
        let found = search(&app, "q=people").await.expect(200).body;
        bucket.lift();
        found
    };
    let (created, found) = tokio::join!(app.post(TABLES, people("people_later")), searched);
    created.expect(200);
    assert_eq!(found["includes-latest-changes"], false);
    assert_eq!(found["hits"].as_array().expect("hits").len(), 1);
    assert_eq!(matched(search(&app, "q=people").await).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn response_names_the_sources_that_do_not_fit_into_the_index() {
    let app = TestApp::with_settings(|settings| settings.catalog.search_index_bytes_max = 1).await;
    create_people(&app).await;
    let found = search(&app, &format!("q=people&{ALL}")).await.expect(200).body;
    assert_eq!(found["incomplete"], json!(["columns", "comments"]));
    assert_eq!(found["hits"][0]["resource"], "table:default/crm/people");
    let found = search(&app, "q=email&in=columns").await.expect(200).body;
    assert_eq!((&found["incomplete"], &found["hits"]), (&json!(["columns"]), &json!([])));
    let names = search(&app, "q=people").await.expect(200).body;
    assert_eq!(names.get("incomplete"), None);
    // The index also lacks the columns of tables that are created later.
    app.post(TABLES, people("more")).await.expect(200);
    let found = search(&app, "q=email&in=columns").await.expect(200).body;
    assert_eq!((&found["incomplete"], &found["hits"]), (&json!(["columns"]), &json!([])));
    let served = ServedApp::start(app).await;
    let text = served.stdout_of(&["search", "people", "--in", "names,columns,comments"]).await;
    let lacks = "The index lacks some columns and comments, so the hits may be incomplete: the server \
                 has logged the reason\n";
    assert!(text.ends_with(lacks), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_line_prints_what_matches() {
    let app = with_people().await;
    let served = ServedApp::start(app).await;
    let text = served.stdout_of(&["search", "private", "--in", "names,columns,comments"]).await;
    assert_eq!(
        text,
        "RESOURCE                  MATCH  MATCHED\ntable:default/crm/people  word   comment of \
         Email: the private address\n"
    );
}
