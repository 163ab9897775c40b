//! Locations: files go to the location of their table and nowhere else.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::{create_table, creating_updates, set_property};
use crate::support::view::create_view;

/// Returns locations outside of the warehouse, or ambiguous ones.
fn outside() -> Vec<String> {
    let mut locations: Vec<String> = [
        "memory:///",
        "memory:///other/t",
        "memory:///warehouse2/t",
        "memory:///warehouse/../other/t",
        "memory:///warehouse/t/..",
        "memory:///warehouse/./t",
        "memory:///warehouse//t",
        "memory:///warehouse/%2e%2e/other",
        "memory:///warehouse/%2E%2E/other",
        "memory:///warehouse/..%2Fother",
        "memory:///warehouse%2Ft",
        "memory:///warehouse%2f..%2fother",
        "memory:///warehouse/..%5Cother",
        "memory:///warehouse\\..\\other",
        "memory:///warehouse/t?versionId=1",
        "memory:///warehouse/t#fragment",
        "memory:///warehouse/t\u{0}",
        "memory:///warehouse/t\n",
        "memory:///warehouse/\u{1f}t",
        "memory:///WAREHOUSE/t",
        "memory://warehouse/t",
        "memory://user:password@/warehouse/t",
        "memory://host/warehouse/t",
        "memory:/warehouse/t",
        "file:///warehouse/t",
        "file:/warehouse/t",
        "/warehouse/t",
        "warehouse/t",
        "s3://warehouse/t",
        "s3://bucket@evil/warehouse/t",
        "http://169.254.169.254/warehouse/t",
        "://warehouse/t",
        "t",
        " memory:///warehouse/t",
    ]
    .map(ToOwned::to_owned)
    .into();
    locations.push(format!("memory:///warehouse/{}", "x".repeat(2048)));
    locations
}

/// A request that sets a location, and its path.
type LocationRequest = (&'static str, &'static str, fn(&str) -> Value);

/// All requests with which a client can set a location.
const LOCATION_REQUESTS: [LocationRequest; 12] = [
    ("create", "tables", |location| with(create_table("x"), "location", location)),
    ("stage", "tables", |location| {
        let mut body = with(create_table("x"), "location", location);
        body["stage-create"] = json!(true);
        body
    }),
    ("create with write.metadata.path", "tables", |location| {
        let mut body = create_table("x");
        body["properties"] = json!({ "write.metadata.path": location });
        body
    }),
    ("set-location", "tables/t", |location| updates([set_location(location)])),
    ("set write.metadata.path", "tables/t", |location| {
        updates([set_property("write.metadata.path", location)])
    }),
    ("commit a create", "tables/x", |location| {
        let updates = [creating_updates(), vec![set_location(location)]].concat();
        json!({ "requirements": [{ "type": "assert-create" }], "updates": updates })
    }),
    ("register", "register", |location| json!({ "name": "x", "metadata-location": location })),
    (
        "register over",
        "register",
        |location| json!({ "name": "t", "metadata-location": location, "overwrite": true }),
    ),
    ("create a view", "views", |location| with(create_view("x"), "location", location)),
    ("set-location of a view", "views/v", |location| updates([set_location(location)])),
    ("set write.metadata.path of a view", "views/v", |location| {
        updates([set_property("write.metadata.path", location)])
    }),
    (
        "register a view",
        "register-view",
        |location| json!({ "name": "x", "metadata-location": location }),
    ),
];

fn with(mut body: Value, member: &str, value: &str) -> Value {
    body[member] = json!(value);
    body
}

fn set_location(location: &str) -> Value {
    json!({ "action": "set-location", "location": location })
}

fn updates(updates: impl IntoIterator<Item = Value>) -> Value {
    json!({ "requirements": [], "updates": updates.into_iter().collect::<Vec<_>>() })
}

#[tokio::test]
async fn location_outside_the_warehouse_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    // A file at the outside location. If the catalog looked there, it would find the file.
    app.put_file("memory:///other/t", "{}").await;
    for (way, path, body) in LOCATION_REQUESTS {
        for location in outside() {
            let response =
                app.post_rejected(&format!("/v1/namespaces/ns/{path}"), body(&location)).await;
            assert_eq!(
                (response.error().0, response.error().1),
                (400, "IllegalArgumentException"),
                "{way}: {location}: {}",
                response.message()
            );
        }
    }
}

#[tokio::test]
async fn transaction_with_a_location_outside_the_warehouse_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    for location in outside() {
        for update in [set_location(&location), set_property("write.metadata.path", &location)] {
            let mut change = updates([update]);
            change["identifier"] = json!({ "namespace": ["ns"], "name": "t" });
            let body = json!({ "table-changes": [change] });
            let response = app.post_rejected("/v1/transactions/commit", body).await;
            assert_eq!(response.error_type(), "IllegalArgumentException", "{location}");
        }
    }
}

#[tokio::test]
async fn namespace_with_a_location_outside_the_warehouse_gets_no_tables() {
    let app = TestApp::new().await;
    for (n, location) in outside().into_iter().enumerate() {
        let name = format!("n{n}");
        let body = json!({ "namespace": [name], "properties": { "location": location } });
        let made = app.post("/v1/namespaces", body).await;
        if made.status.is_client_error() {
            assert!(made.is_error_model(), "{}", made.body);
            continue;
        }
        for (kind, body) in [("tables", create_table("x")), ("views", create_view("x"))] {
            let response = app.post_rejected(&format!("/v1/namespaces/{name}/{kind}"), body).await;
            assert_eq!(response.error_type(), "IllegalArgumentException", "{location}");
        }
    }
    assert_eq!(app.files("memory:///warehouse").await, Vec::<String>::new());
}

#[tokio::test]
async fn metadata_file_with_a_location_outside_the_warehouse_is_not_registered() {
    let app = TestApp::with_table_and_view().await;
    for (kind, register) in [("tables/t", "register"), ("views/v", "register-view")] {
        let loaded = app.get(&format!("/v1/namespaces/ns/{kind}")).await.expect(200);
        for location in ["memory:///other/t", "memory:///warehouse/../other", "s3://b/t"] {
            let mut metadata = loaded.body["metadata"].clone();
            metadata["location"] = json!(location);
            let file = "memory:///warehouse/smuggled.metadata.json";
            app.put_file(file, metadata.to_string()).await;
            let body = json!({ "name": "x", "metadata-location": file });
            let response = app.post_rejected(&format!("/v1/namespaces/ns/{register}"), body).await;
            assert_eq!(response.error_type(), "IllegalArgumentException", "{location}");
        }
    }
}

#[tokio::test]
async fn locations_inside_the_warehouse_are_accepted_unchanged() {
    let app = TestApp::with_table_and_view().await;
    for (n, location) in [
        "memory:///warehouse/a b/ü",
        "memory:///warehouse/a.b/..c/d..",
        "memory:///warehouse/a=1/b+c",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("x{n}");
        let body = with(create_table(&name), "location", location);
        let response = app.post("/v1/namespaces/ns/tables", body).await.expect(200);
        assert_eq!(response.body["metadata"]["location"], location);
        let file = response.body["metadata-location"].as_str().expect("a location");
        assert!(app.file(file).await.is_some(), "{file}");
        let location = format!("{location}-view");
        let body = with(create_view(&format!("v{n}")), "location", &location);
        let response = app.post("/v1/namespaces/ns/views", body).await.expect(200);
        assert_eq!(response.body["metadata"]["location"], location);
    }
}

#[tokio::test]
async fn default_location_of_a_table_is_below_that_of_its_namespace() {
    let app = TestApp::new().await;
    let body = json!({ "namespace": ["ns"],
                       "properties": { "location": "memory:///warehouse/own/place/" } });
    app.post("/v1/namespaces", body).await.expect(200);
    let response = app.create_table("ns", "t").await;
    let location = response.body["metadata"]["location"].as_str().expect("a location");
    assert!(location.starts_with("memory:///warehouse/own/place/t-"), "{location}");
}

#[tokio::test]
async fn namespace_properties_contain_its_location() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let location = async |name: &str| {
        let loaded = app.get(&format!("/v1/namespaces/{name}")).await.expect(200);
        loaded.body["properties"]["location"].as_str().expect("a location").to_owned()
    };
    let body = json!({ "namespace": ["ns", "a b"] });
    app.post("/v1/namespaces", body).await.expect(200);
    for (name, expected) in [("ns", "ns"), ("ns%1Fa%20b", "ns/a_b")] {
        assert_eq!(location(name).await, format!("memory:///warehouse/{expected}"));
        let response = app.create_table(name, "t").await;
        let table = response.body["metadata"]["location"].as_str().expect("a location");
        assert!(table.starts_with(&format!("{}/t-", location(name).await)), "{table}");
    }
    // A derived location is not a stored property. It cannot be removed, but a client can set the
    // property to another location.
    let update = |body| app.post("/v1/namespaces/ns/properties", body);
    let removed = update(json!({ "removals": ["location"] })).await.expect(200);
    assert_eq!(removed.body["missing"], json!(["location"]));
    update(json!({ "updates": { "location": "memory:///warehouse/own" } })).await.expect(200);
    assert_eq!(location("ns").await, "memory:///warehouse/own");
}

/// In a file system, nothing can be written below a file. The catalog rejects such a location for
/// every kind of object store.
#[tokio::test]
async fn location_below_a_file_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let made = app.create_table("ns", "other").await;
    let file = made.body["metadata-location"].as_str().expect("a location").to_owned();
    for below in [file.clone(), format!("{file}/a/b")] {
        let update = set_property("write.metadata.path", &below);
        let mut change = json!({ "requirements": [], "updates": [update] });
        let response = app.post_rejected("/v1/namespaces/ns/tables/t", change.clone()).await;
        assert!(response.message().contains("lies below the file"), "{}", response.message());
        change["identifier"] = json!({ "namespace": ["ns"], "name": "t" });
        let transaction = json!({ "table-changes": [change] });
        app.post_rejected("/v1/transactions/commit", transaction).await;
    }
    let mut table = create_table("below");
    table["location"] = json!(file);
    app.post_rejected("/v1/namespaces/ns/tables", table.clone()).await;
    table["location"] = json!(format!("{file}/deeper"));
    app.post_rejected("/v1/namespaces/ns/tables", table).await;
    let mut view = create_view("below");
    view["location"] = json!(file);
    app.post_rejected("/v1/namespaces/ns/views", view).await;
    let elsewhere = set_property("write.metadata.path", "memory:///warehouse/elsewhere");
    app.commit("ns", "t", vec![], vec![elsewhere]).await.expect(200);
}
