//! Invalid bodies: huge, deep, truncated, of wrong types. Each gets a clear 4xx, and nothing is
//! written.

use axum::body::{Body, Bytes};
use axum::http::{Method, Request};
use futures::stream;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::metrics_report::scan_report;
use crate::support::table::{append, create_table, main_is, set_property};
use crate::support::view::{create_view, replace_query};

/// All endpoints that accept a body, each with a valid one.
fn endpoints(file: &Value) -> Vec<(&'static str, Value)> {
    let rename = json!({ "source": { "namespace": ["ns"], "name": "nope" },
                         "destination": { "namespace": ["ns"], "name": "x" } });
    let commit = json!({ "requirements": [main_is(None)], "updates": append(1, None, 1) });
    let mut change = commit.clone();
    change["identifier"] = json!({ "namespace": ["ns"], "name": "t" });
    vec![
        ("/v1/namespaces", json!({ "namespace": ["x"], "properties": { "a": "b" } })),
        ("/v1/namespaces/ns/properties", json!({ "removals": ["a"], "updates": { "b": "c" } })),
        ("/v1/namespaces/ns/tables", create_table("x")),
        ("/v1/namespaces/ns/tables/t", commit),
        ("/v1/namespaces/ns/register", json!({ "name": "x", "metadata-location": file })),
        ("/v1/namespaces/ns/register-view", json!({ "name": "x", "metadata-location": file })),
        ("/v1/namespaces/ns/views", create_view("x")),
        (
            "/v1/namespaces/ns/views/v",
            json!({ "requirements": [], "updates": replace_query("SELECT 2") }),
        ),
        ("/v1/namespaces/ns/tables/t/metrics", scan_report()),
        ("/v1/tables/rename", rename.clone()),
        ("/v1/views/rename", rename),
        ("/v1/transactions/commit", json!({ "table-changes": [change] })),
    ]
}

async fn with_endpoints() -> (TestApp, Vec<(&'static str, Value)>) {
    let app = TestApp::with_table_and_view().await;
    let loaded = app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    let endpoints = endpoints(&loaded.body["metadata-location"]);
    (app, endpoints)
}

async fn post_bytes(app: &TestApp, path: &str, body: impl Into<Body>) -> TestResponse {
    app.send(Request::post(path).body(body.into()).expect("a request")).await
}

/// Sends bytes that must be rejected without any change.
async fn assert_rejected(app: &TestApp, path: &str, body: Vec<u8>, status: u16) -> TestResponse {
    let before = app.dump().await;
    let found = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
    let response = post_bytes(app, path, body).await;
    assert_eq!(response.status.as_u16(), status, "{path} {found}: {}", response.body);
    assert!(response.is_error_model(), "{path} {found}: {}", response.body);
    assert_eq!(app.dump().await, before, "{path} {found} wrote something");
    response
}

#[tokio::test]
async fn body_that_is_not_json_is_rejected() {
    let (app, endpoints) = with_endpoints().await;
    for (path, body) in &endpoints {
        let whole = body.to_string();
        let mut bodies: Vec<Vec<u8>> = [
            "",
            " ",
            "null",
            "true",
            "1",
            "\"text\"",
            "nonsense",
            "{",
            "}",
            "{}{}",
            "[{}]",
            "{\"a\":}",
            "{a:1}",
            "{'a':1}",
            "\u{feff}{}",
            "NaN",
            "{\"a\":1,}",
            "// comment\n{}",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into();
        // Truncated at every eleventh byte, and with invalid UTF-8.
        bodies.extend((1..whole.len()).step_by(11).map(|end| whole.as_bytes()[..end].to_vec()));
        bodies.push([whole.as_bytes(), b"x"].concat());
        bodies.push([&whole.as_bytes()[..whole.len() - 1], b",\"\xff\":1}"].concat());
        bodies.push(vec![0; 100]);
        bodies.push(vec![0xff; 100]);
        for body in bodies {
            let rejection = assert_rejected(&app, path, body, 400).await;
            assert_eq!(rejection.error_type(), "BadRequestException", "{path}");
        }
    }
}

/// Sends `{}`, which is valid only at endpoints whose body has no required member.
#[tokio::test]
async fn body_without_a_required_member_is_rejected() {
    let (app, endpoints) = with_endpoints().await;
    let all_optional = ["/v1/namespaces/ns/properties"];
    for (path, _) in endpoints.iter().filter(|(path, _)| !all_optional.contains(path)) {
        assert_rejected(&app, path, b"{}".to_vec(), 400).await;
    }
}

/// Replaces every member of every body by values of other types.
#[tokio::test]
async fn body_with_members_of_the_wrong_type_is_rejected() {
    let (app, endpoints) = with_endpoints().await;
    let wrong = [json!(7), json!("text"), json!([[]]), json!({ "x": [] }), json!(-1.5e300)];
    for (path, body) in &endpoints {
        for member in body.as_object().expect("an object").keys() {
            for value in &wrong {
                if same_type(&body[member], value) {
                    continue;
                }
                let mut body = body.clone();
                body[member] = value.clone();
                assert_rejected(&app, path, body.to_string().into_bytes(), 400).await;
            }
        }
    }
}

fn same_type(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
        && a.as_array().is_none_or(|elements| elements.is_empty())
        && !a.is_object()
}

#[tokio::test]
async fn deeply_nested_body_is_rejected() {
    let (app, endpoints) = with_endpoints().await;
    let depth = 10_000;
    let arrays = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    for (path, body) in &endpoints {
        assert_rejected(&app, path, arrays.clone().into_bytes(), 400).await;
        assert_rejected(&app, path, "[".repeat(depth).into_bytes(), 400).await;
        for deep in [&arrays, &objects] {
            for member in body.as_object().expect("an object").keys() {
                let mut body = body.clone();
                body[member] = json!("DEEP");
                let text = body.to_string().replacen("\"DEEP\"", deep, 1);
                assert_rejected(&app, path, text.into_bytes(), 400).await;
            }
        }
    }
}

/// Bodies with deeply nested members that are parsed only after the rest of the body.
#[tokio::test]
async fn deeply_nested_unparsed_member_is_rejected() {
    let (app, _) = with_endpoints().await;
    for depth in [200, 10_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let kind = "{\"type\":\"list\",\"element-id\":3,\"element-required\":true,\"element\":";
        let lists = format!("{}\"int\"{}", kind.repeat(depth), "}".repeat(depth));
        let schema = format!(
            "{{\"type\":\"struct\",\"fields\":[{{\"id\":1,\"name\":\"a\",\"required\":true,\"type\":{lists}}}]}}"
        );
        let snapshot = format!(
            "{{\"snapshot-id\":1,\"sequence-number\":1,\"timestamp-ms\":1,\"manifest-list\":\"l\",\
             \"summary\":{{\"operation\":\"append\"}},\"unknown\":{deep}}}"
        );
        let update = |update: String| format!("{{\"requirements\":[],\"updates\":[{update}]}}");
        let table = "/v1/namespaces/ns/tables/t";
        let cases = [
            ("/v1/namespaces/ns/tables", format!("{{\"name\":\"x\",\"schema\":{schema}}}")),
            (table, update(format!("{{\"action\":\"add-schema\",\"schema\":{schema}}}"))),
            (table, update(format!("{{\"action\":\"add-snapshot\",\"snapshot\":{snapshot}}}"))),
            (table, update(format!("{{\"action\":\"set-properties\",\"updates\":{deep}}}"))),
            (table, update(deep.clone())),
        ];
        for (path, body) in cases {
            assert_rejected(&app, path, body.into_bytes(), 400).await;
        }
    }
}

/// A request is an object with named members, never a list of their values.
#[tokio::test]
async fn list_in_place_of_an_object_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let named = json!([["ns"], "t"]);
    let cases = [
        ("/v1/namespaces", json!([["x"], {}])),
        ("/v1/namespaces/ns/properties", json!([])),
        ("/v1/namespaces/ns/properties", json!([[], { "a": "b" }])),
        ("/v1/namespaces/ns/tables/t/metrics", json!(["scan-report"])),
        ("/v1/namespaces/ns/tables/t/sign", json!(["eu", "http://h/b/k", "GET", {}])),
        ("/v1/namespaces/ns/tables/t", json!([null, [], [set_property("a", "1")]])),
        (
            "/v1/namespaces/ns/tables/t",
            json!({ "identifier": named, "requirements": [], "updates": [set_property("a", "1")] }),
        ),
        ("/v1/tables/rename", json!({ "source": named, "destination": [["ns"], "u"] })),
        (
            "/v1/tables/rename",
            json!([{ "namespace": ["ns"], "name": "t" },
                                     { "namespace": ["ns"], "name": "u" }]),
        ),
    ];
    let mut taken = Vec::new();
    for (path, body) in cases {
        let response = app.post(path, body.clone()).await;
        if response.status != 400 {
            taken.push(format!("{path} {body}: {}", response.status));
        }
    }
    assert_eq!(taken, Vec::<String>::new());
}

#[tokio::test]
async fn body_beyond_the_maximum_length_is_rejected() {
    let app = TestApp::with_settings(|settings| settings.server.body_bytes_max = 4096).await;
    let create = |name: &str, padding: usize| {
        json!({ "namespace": [name], "ignored": "x".repeat(padding) }).to_string()
    };
    app.send(Request::post("/v1/namespaces").body(create("a", 4000).into()).expect("a request"))
        .await
        .expect(200);
    let message = "The request body is longer than 4096 bytes";
    let rejection =
        assert_rejected(&app, "/v1/namespaces", create("b", 4096).into_bytes(), 413).await;
    assert_eq!(rejection.error(), (413, "BadRequestException", message));

    // A body with a declared length is rejected before it is read, and a chunked body when it
    // exceeds the limit.
    let announced = Request::post("/v1/namespaces").header("content-length", "999999999999");
    let rejection = app.send(announced.body(Body::empty()).expect("a request")).await;
    assert_eq!(rejection.error(), (413, "BadRequestException", message));
    let pieces = (0..1_000_000).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"          ")));
    let rejection =
        post_bytes(&app, "/v1/namespaces", Body::from_stream(stream::iter(pieces))).await;
    assert_eq!(rejection.error(), (413, "BadRequestException", message));
    let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(b"[")));
    let rejection = post_bytes(&app, "/v1/namespaces", Body::from_stream(endless)).await;
    assert_eq!(rejection.error(), (413, "BadRequestException", message));
    let deleting = Request::delete("/v1/namespaces/a").body(vec![b'x'; 5000].into());
    app.send(deleting.expect("a request")).await.expect_error(413, "BadRequestException");
    app.get("/v1/namespaces/a").await.expect(200);
}

#[tokio::test]
async fn incomplete_body_is_rejected() {
    let app = TestApp::with_table().await;
    let pieces = vec![
        Ok(Bytes::from_static(b"{\"namespace\":[\"a\"]")),
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
    ];
    let response =
        post_bytes(&app, "/v1/namespaces", Body::from_stream(stream::iter(pieces))).await;
    assert_eq!(response.error(), (400, "BadRequestException", "The request body ended too early"));
    app.get("/v1/namespaces/a").await.expect_error(404, "NoSuchNamespaceException");
}

#[tokio::test]
async fn body_is_parsed_as_json_regardless_of_its_content_type() {
    let app = TestApp::with_table().await;
    let body = json!({ "requirements": [], "updates": [set_property("a", "1")] });
    for kind in ["application/json", "application/json; charset=utf-8", "text/plain", "x", ""] {
        let headers = [("Content-Type", kind)];
        let path = "/v1/namespaces/ns/tables/t";
        app.request(Method::POST, path, &headers, &body).await.expect(200);
    }
}

#[tokio::test]
async fn body_with_many_updates_completes_or_is_rejected_in_time() {
    let app = TestApp::with_table().await;
    let path = "/v1/namespaces/ns/tables/t";
    let updates: Vec<_> = (0..20_000).map(|n| set_property(&format!("k{n}"), "v")).collect();
    app.post(path, json!({ "requirements": [], "updates": updates })).await.expect(200);
    let removals: Vec<_> = (0..20_000)
        .map(|n| json!({ "action": "remove-properties", "removals": [format!("k{n}")] }))
        .collect();
    app.post(path, json!({ "requirements": [], "updates": removals })).await.expect(200);
    let requirements = vec![main_is(None); 20_000];
    let body = json!({ "requirements": requirements, "updates": [{ "action": "explode" }] });
    app.post_rejected(path, body).await;
    let properties = &app.get(path).await.expect(200).body["metadata"]["properties"];
    assert_eq!(properties.as_object().map(serde_json::Map::len), Some(1));
}
