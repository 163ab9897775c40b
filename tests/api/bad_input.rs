//! Invalid names and values. Each gets a clear 4xx, and nothing is written.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::path;
use crate::support::table::{create_table, schema, set_property};
use crate::support::view::create_view;

/// Invalid names, with the reason.
fn broken_names() -> Vec<(String, &'static str)> {
    let control = "contains a control character";
    let mut names: Vec<_> = [
        ("", "empty"),
        (".", "'.'"),
        ("..", "'..'"),
        ("\u{1f}", control),
        ("a\u{1f}b", control),
        ("\u{0}", control),
        ("a\nb", control),
        ("\t", control),
        ("\u{7f}", control),
        ("\u{85}", control),
    ]
    .map(|(name, reason)| (name.to_owned(), reason))
    .into();
    names.push(("x".repeat(513), "513 bytes long, at most 512 are allowed"));
    names.push(("x".repeat(100_000), "100000 bytes long, at most 512 are allowed"));
    names
}

fn identifier(namespace: &[&str], name: &str) -> Value {
    json!({ "namespace": namespace, "name": name })
}

#[tokio::test]
async fn creation_with_an_invalid_name_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let loaded = app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    let file = &loaded.body["metadata-location"];
    for (name, reason) in broken_names() {
        let name = name.as_str();
        let rename = |source: &str, namespace: &[&str], name: &str| {
            json!({ "source": identifier(&["ns"], source),
                    "destination": identifier(namespace, name) })
        };
        let register = json!({ "name": name, "metadata-location": file });
        let cases = [
            ("namespaces", json!({ "namespace": [name] }), "namespace level"),
            ("namespaces", json!({ "namespace": ["ns", name] }), "namespace level"),
            ("namespaces", json!({ "namespace": [name, "ns"] }), "namespace level"),
            ("namespaces/ns/tables", create_table(name), "name"),
            ("namespaces/ns/views", create_view(name), "name"),
            ("namespaces/ns/register", register.clone(), "name"),
            ("namespaces/ns/register-view", register, "name"),
            ("tables/rename", rename("t", &["ns"], name), "name"),
            ("tables/rename", rename("t", &[name], "u"), "namespace level"),
            ("views/rename", rename("v", &["ns"], name), "name"),
            ("views/rename", rename("v", &["ns", name], "u"), "namespace level"),
        ];
        for (path, body, what) in cases {
            let response = app.post_rejected(&format!("/v1/{path}"), body).await;
            let message = format!("Invalid {what}: {reason}");
            assert_eq!(
                response.error(),
                (400, "IllegalArgumentException", message.as_str()),
                "{path}: {name:?}"
            );
        }
    }
}

#[tokio::test]
async fn lookup_of_an_invalid_name_finds_nothing() {
    let app = TestApp::with_table_and_view().await;
    for (name, _) in broken_names() {
        let name = path::segment(&name);
        // An empty name cannot be a path segment, and the longest names do not fit into a URI.
        if name.is_empty() || name.len() > 10_000 {
            continue;
        }
        let commit = json!({ "requirements": [], "updates": [set_property("a", "1")] });
        let create = json!({ "requirements": [{ "type": "assert-create" }], "updates": [] });
        let requests = [
            (Method::GET, format!("namespaces/{name}"), Value::Null),
            (Method::DELETE, format!("namespaces/{name}"), Value::Null),
            (Method::GET, format!("namespaces/{name}/tables"), Value::Null),
            (Method::GET, format!("namespaces/{name}/views"), Value::Null),
            (Method::GET, format!("namespaces?parent={name}"), Value::Null),
            (Method::POST, format!("namespaces/{name}/properties"), json!({})),
            (Method::POST, format!("namespaces/{name}/tables"), create_table("x")),
            (Method::POST, format!("namespaces/{name}/views"), create_view("x")),
            (Method::GET, format!("namespaces/ns/tables/{name}"), Value::Null),
            (Method::GET, format!("namespaces/{name}/tables/t"), Value::Null),
            (Method::DELETE, format!("namespaces/ns/tables/{name}"), Value::Null),
            (Method::POST, format!("namespaces/ns/tables/{name}"), commit.clone()),
            (Method::POST, format!("namespaces/ns/tables/{name}"), create),
            (Method::POST, format!("namespaces/ns/tables/{name}/unregister"), Value::Null),
            (Method::GET, format!("namespaces/ns/views/{name}"), Value::Null),
            (Method::DELETE, format!("namespaces/ns/views/{name}"), Value::Null),
            (Method::POST, format!("namespaces/ns/views/{name}"), commit),
        ];
        for (method, path, body) in requests {
            let path = format!("/v1/{path}");
            let response = app.request_without_effect(method.clone(), &path, &[], &body).await;
            assert!(
                matches!(response.status.as_u16(), 400 | 404),
                "{method} {path}: {}",
                response.body
            );
            assert!(response.is_error_model(), "{method} {path}: {}", response.body);
        }
    }
}

#[tokio::test]
async fn namespace_without_levels_or_with_ten_thousand_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let deep: Vec<_> = (0..10_000).map(|n| format!("l{n}")).collect();
    let refused = app.post_rejected("/v1/namespaces", json!({ "namespace": deep })).await;
    assert_eq!(
        refused.error(),
        (
            400,
            "IllegalArgumentException",
            "Invalid namespace: 10000 levels, at most 32 are allowed"
        )
    );
    let refused = app.post_rejected("/v1/namespaces", json!({ "namespace": [] })).await;
    assert_eq!(refused.message(), "Invalid namespace: expected at least one level");
    let body = json!({ "source": identifier(&["ns"], "t"),
                       "destination": { "namespace": deep, "name": "t" } });
    assert_eq!(app.post_rejected("/v1/tables/rename", body).await.status, 400);

    let levels: Vec<_> = deep.iter().map(String::as_str).collect();
    let joined = path::namespace(&levels);
    for path in [
        format!("/v1/namespaces/{joined}"),
        format!("/v1/namespaces/{joined}/tables"),
        format!("/v1/namespaces/{joined}/tables/t"),
        format!("/v1/namespaces?parent={joined}"),
    ] {
        // HTTP libraries reject such a URI before it reaches the catalog.
        let Ok(request) = axum::http::Request::get(&path).body(axum::body::Body::empty()) else {
            continue;
        };
        let response = app.send(request).await;
        assert!(matches!(response.status.as_u16(), 400 | 404), "{}", response.status);
        assert!(response.is_error_model(), "{}", response.body);
    }
}

#[tokio::test]
async fn creation_in_the_root_namespace_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let rename =
        |source: Value, destination: Value| json!({ "source": source, "destination": destination });
    let cases = [
        ("tables", rename(identifier(&["ns"], "t"), identifier(&[], "t"))),
        ("views", rename(identifier(&["ns"], "v"), identifier(&[], "v"))),
        ("tables", rename(identifier(&[], "ns"), identifier(&["ns"], "x"))),
        ("views", rename(identifier(&[], "ns"), identifier(&["ns"], "x"))),
    ];
    for (kind, body) in cases {
        let response = app.post_rejected(&format!("/v1/{kind}/rename"), body).await;
        assert!(matches!(response.status.as_u16(), 400 | 404), "{}", response.body);
    }
    let change = json!({ "identifier": identifier(&[], "t"), "requirements": [],
                         "updates": [set_property("a", "1")] });
    app.post_rejected("/v1/transactions/commit", json!({ "table-changes": [change] })).await;
}

#[tokio::test]
async fn namespace_properties_beyond_their_bounds_are_rejected() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let huge = json!({ "a": "x".repeat(1 << 20) });
    let bodies = [
        ("/v1/namespaces", json!({ "namespace": ["b"], "properties": huge })),
        ("/v1/namespaces/ns/properties", json!({ "updates": huge })),
    ];
    for (path, body) in bodies {
        let response = app.post_rejected(path, body).await;
        assert_eq!(
            response.error(),
            (
                400,
                "IllegalArgumentException",
                "Invalid namespace properties: 1048577 bytes, at most 1048576 are allowed"
            )
        );
    }
    // The limit applies to all properties together, even if several updates set them.
    let half = |key: &str| json!({ "updates": { key: "x".repeat(600_000) } });
    app.post("/v1/namespaces/ns/properties", half("a")).await.expect(200);
    app.post_rejected("/v1/namespaces/ns/properties", half("b")).await;
    app.post("/v1/namespaces/ns/properties", half("a")).await.expect(200);
}

#[tokio::test]
async fn invalid_schemas_specs_and_sort_orders_are_rejected() {
    let app = TestApp::with_table_and_view().await;
    let with = |member: &str, value: Value| {
        let mut body = create_table("x");
        body[member] = value;
        body
    };
    let columns = |fields: Value| json!({ "type": "struct", "fields": fields });
    let column = |id: Value, name: &str, kind: &str| json!({ "id": id, "name": name, "required": false, "type": kind });
    let of_type = |kind: &str| with("schema", columns(json!([column(json!(1), "a", kind)])));
    let mut cases = vec![
        with("schema", json!({})),
        with("schema", json!([])),
        with("schema", json!("struct")),
        with("schema", json!({ "type": "list" })),
        with("schema", columns(json!({}))),
        with("schema", columns(json!([1]))),
        with(
            "schema",
            columns(json!([column(json!(1), "a", "int"), column(json!(2), "a", "int")])),
        ),
        with("schema", columns(json!([column(json!("1"), "a", "int")]))),
        with("schema", columns(json!([column(json!(1e300), "a", "int")]))),
        with("schema", columns(json!([column(json!(i64::MAX), "a", "int")]))),
        with("schema", columns(json!([{ "id": 1, "name": "a", "type": "int" }]))),
        with(
            "partition-spec",
            json!({ "fields": [
            { "source-id": 99, "name": "p", "transform": "identity" } ]}),
        ),
        with(
            "partition-spec",
            json!({ "fields": [
            { "source-id": 2, "name": "p", "transform": "bucket[0]" } ]}),
        ),
        with(
            "partition-spec",
            json!({ "fields": [
            { "source-id": 1, "name": "data", "transform": "bucket[4]" } ]}),
        ),
        with("partition-spec", json!([])),
        with(
            "write-order",
            json!({ "order-id": 1, "fields": [ { "source-id": 99,
            "transform": "identity", "direction": "asc", "null-order": "nulls-first" } ]}),
        ),
        with(
            "write-order",
            json!({ "order-id": 1, "fields": [ { "source-id": 1,
            "transform": "identity", "direction": "up", "null-order": "nulls-first" } ]}),
        ),
        with("properties", json!({ "commit.retry.num-retries": "-1" })),
        with("properties", json!({ "write.metadata.compression-codec": "lz77" })),
        with("properties", json!({ "encryption.key-id": "k" })),
    ];
    for kind in [
        "",
        "integer",
        "decimal(39,2)",
        "decimal(-1,2)",
        "fixed[-1]",
        "fixed[99999999999]",
        "struct",
        "list",
        "map",
        "geometry(",
        "decimal(9,2",
        "timestamp_ps",
    ] {
        cases.push(of_type(kind));
    }
    for body in cases {
        let response = app.post_rejected("/v1/namespaces/ns/tables", body.clone()).await;
        assert_eq!(response.status, 400, "{body}: {}", response.body);
        assert_eq!(response.error_type(), "IllegalArgumentException", "{body}");
        if body["schema"] != schema() {
            let update = json!({ "action": "add-schema", "schema": body["schema"] });
            let commit = json!({ "requirements": [], "updates": [update] });
            let response = app.post_rejected("/v1/namespaces/ns/views/v", commit).await;
            assert_eq!(response.status, 400, "{body}");
        }
    }
}

#[tokio::test]
async fn error_message_truncates_the_rejected_input() {
    let app = TestApp::with_table().await;
    let long = "x".repeat(1 << 20);
    let named = json!({ "namespace": ["ns"], "name": long });
    let nested = json!({ "namespace": [long], "name": "t" });
    let commit =
        |identifier: &Value| json!({ "identifier": identifier, "requirements": [], "updates": [] });
    let bodies = [
        ("namespaces/ns/tables/t", json!({ "requirements": [], "updates": [{ "action": long }] })),
        ("namespaces/ns/tables/t", json!({ "requirements": [{ "type": long }], "updates": [] })),
        ("namespaces/ns/tables/t", commit(&named)),
        ("namespaces/ns/tables/t/metrics", json!({ "report-type": long })),
        ("namespaces/ns/tables", json!({ "name": "x", "location": long, "schema": schema() })),
        ("namespaces/ns/register", json!({ "name": "x", "metadata-location": long })),
        ("namespaces", json!({ "namespace": [long, "x"] })),
        ("tables/rename", json!({ "source": named, "destination": named })),
        ("views/rename", json!({ "source": nested, "destination": nested })),
        ("transactions/commit", json!({ "table-changes": [commit(&named)] })),
        ("transactions/commit", json!({ "table-changes": [commit(&named), commit(&named)] })),
    ];
    let mut repeated = Vec::new();
    for (path, body) in bodies {
        let response = app.post_rejected(&format!("/v1/{path}"), body).await;
        if response.message().len() > 10_000 {
            let start: String = response.message().chars().take(60).collect();
            repeated.push(format!("{path}: {} {start}", response.status));
        }
    }
    assert_eq!(repeated, Vec::<String>::new());
}

#[tokio::test]
async fn management_path_that_is_not_utf8_gets_an_error_model() {
    let app = TestApp::secured().await;
    for list in ["api-keys", "policies", "grants", "warehouses", "jobs", "checkpoints"] {
        let path = format!("/management/v1/{list}/%FF");
        let response = app.get(&path).await.expect_error(400, "BadRequestException");
        assert!(response.is_error_model(), "{path}: {}", response.body);
        assert!(response.message().contains("UTF-8"), "{path}: {}", response.message());
    }
    let path = "/management/v1/policies/revisions/1/diff/%FF";
    app.get(path).await.expect_error(400, "BadRequestException");
}
