//! Access to the files of tables: credentials, their lifetime, and callers that get none.

use axum::http::Method;
use serde_json::{Value, json};
use slateberg_base::secret::Secret;
use slateberg_model::warehouse::Delegation;

use crate::support::app::{TestApp, TestResponse};
use crate::support::sts::TestSts;
use crate::support::table::{create_table, set_property};

const VENDED: [(&str, &str); 1] = [("x-iceberg-access-delegation", "vended-credentials")];
const TABLE: &str = "/v1/default/namespaces/ns/tables/t";
const TABLES: &str = "/v1/default/namespaces/ns/tables";
const KEY: &str = "s3.access-key-id";

/// Permissions in addition to those of the default roles.
const POLICIES: &str = r#"
@id("ingest")
permit (principal in Role::"ingest",
        action in [Action::"Browse", Action::"Load", Action::"WriteData"], resource);
@id("looks")
permit (principal in Role::"looks", action in [Action::"Browse", Action::"Load"], resource);
@id("part")
@row_filter("{\"type\": \"eq\", \"term\": \"id\", \"value\": 1}")
permit (principal in Role::"part", action in [Action::"Browse", Action::"Load"], resource);
@id("part-data")
permit (principal in Role::"part",
        action in [Action::"ReadConfig", Action::"ReadData", Action::"WriteData"], resource);
@id("engine")
@row_filter("{\"type\": \"eq\", \"term\": \"id\", \"value\": 1}")
permit (principal in Role::"engine", action in [Action::"Read", Action::"Write"], resource);
@id("engine-trust")
permit (principal in Role::"engine", action == Action::"ReadRestricted", resource);
@id("part-of-all")
@row_filter("{\"type\": \"eq\", \"term\": \"id\", \"value\": 1}")
permit (principal in Role::"part-of-all", action, resource);
"#;

/// A catalog whose warehouse has these access-delegation modes.
async fn lake(sts: &TestSts, ways: &[Delegation]) -> TestApp {
    let app = sts.lake(ways, POLICIES).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    app
}

async fn load_as(app: &TestApp, key: &str, headers: &[(&str, &str)]) -> TestResponse {
    let bearer = format!("Bearer {key}");
    let all: Vec<_> = headers.iter().copied().chain([("authorization", bearer.as_str())]).collect();
    app.request(Method::GET, TABLE, &all, &Value::Null).await
}

async fn load(app: &TestApp, headers: &[(&str, &str)]) -> TestResponse {
    app.request(Method::GET, TABLE, headers, &Value::Null).await
}

fn has_no_access(answer: &TestResponse) -> bool {
    answer.body["config"] == json!({}) && answer.body["storage-credentials"].is_null()
}

#[tokio::test]
async fn credentials_are_vended_only_on_request() {
    let sts = TestSts::start().await;
    let app = lake(&sts, &[Delegation::VendedCredentials]).await;
    let plain = load(&app, &[]).await.expect(200);
    assert!(has_no_access(&plain) && !plain.header("etag").is_empty());
    assert_eq!(sts.count(), 0);
    let answer = load(&app, &VENDED).await.expect(200);
    let config = &answer.body["config"];
    assert_eq!(config[KEY], "ASIA1");
    assert_eq!(config["s3.session-token"], "token-1");
    assert_eq!(config["s3.session-token-expires-at-ms"], "1800003600000");
    assert_eq!(config["s3.endpoint"], "http://127.0.0.1:9");
    assert_eq!(config["s3.path-style-access"], "true");
    assert_eq!(config["client.region"], "eu-central-1");
    let refresh = "v1/default/namespaces/ns/tables/t/credentials";
    assert_eq!(config["client.refresh-credentials-endpoint"], refresh);
    let credential = &answer.body["storage-credentials"][0];
    assert_eq!(credential["prefix"], answer.body["metadata"]["location"]);
    assert_eq!(credential["config"][KEY], "ASIA1");
    // HTTP caches must not store the response, and the response has no `ETag`.
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("etag"), "");
    let tag = plain.header("etag");
    let again = load(&app, &[VENDED[0], ("if-none-match", tag)]).await.expect(200);
    assert_eq!(again.body["config"][KEY], "ASIA1");
    load(&app, &[("if-none-match", tag)]).await.expect(304);
    assert!(has_no_access(&load(&app, &[]).await), "a plain load returns cached credentials");
    let location = answer.body["metadata"]["location"].as_str().expect("a text");
    let location = location.strip_prefix("s3://").expect("it is on S3");
    let objects = format!("arn:aws:s3:::{location}/*");
    assert_eq!(sts.last_policy()["Statement"][1]["Resource"], json!([objects]));
}

#[tokio::test]
async fn credentials_are_for_what_policies_allow() {
    let sts = TestSts::start().await;
    let app = lake(&sts, &[Delegation::VendedCredentials]).await;
    let actions = async |role: &str| {
        let key = app.key_with_role(role).await;
        let answer = load_as(&app, &key, &VENDED).await.expect(200);
        let refreshed = app.get_as(&key, &format!("{TABLE}/credentials")).await;
        if has_no_access(&answer) {
            return Err(refreshed.expect_error(403, "ForbiddenException").message().to_owned());
        }
        assert_eq!(
            refreshed.expect(200).body["storage-credentials"][0]["config"][KEY],
            answer.body["config"][KEY]
        );
        let policy = sts.last_policy();
        let statements = policy["Statement"].as_array().expect("a list");
        let all = statements.iter().flat_map(|it| it["Action"].as_array().expect("a list"));
        Ok(all.map(|action| action.as_str().expect("a text").to_owned()).collect::<Vec<_>>())
    };
    let write = [
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
    ];
    let engine = actions("engine").await.expect("some");
    assert_eq!(engine, ["s3:ListBucket", "s3:GetObject"], "a trusted engine only reads");
    assert_eq!(actions("reader").await.expect("some"), ["s3:ListBucket", "s3:GetObject"]);
    assert_eq!(actions("ingest").await.expect("some"), write);
    let both = [["s3:ListBucket", "s3:GetObject"].as_slice(), &write].concat();
    assert_eq!(actions("writer").await.expect("some"), both);
    assert!(
        actions("looks").await.expect_err("denied").contains("may neither read nor write them")
    );
    for role in ["part", "part-of-all"] {
        let error = actions(role).await.expect_err("denied");
        assert!(error.contains("has read restrictions on the table"), "{role}: {error}");
    }
    let engine = app.key_with_role("engine").await;
    let loaded = load_as(&app, &engine, &VENDED).await.expect(200).body;
    assert!(loaded["read-restrictions"]["required-row-filter"].is_object(), "{loaded}");
    assert!(loaded["storage-credentials"].is_array(), "{loaded}");
    let stranger = app.key_with_role("nobody").await;
    load_as(&app, &stranger, &VENDED).await.expect(403);
    app.get_as(&stranger, &format!("{TABLE}/credentials")).await.expect(403);
    assert_eq!(sts.count(), 3, "one request to STS for each set of permissions");
}

#[tokio::test]
async fn credentials_are_reused_for_half_of_their_lifetime() {
    let sts = TestSts::start().await;
    let app = lake(&sts, &[Delegation::VendedCredentials]).await;
    let key = async || load(&app, &VENDED).await.expect(200).body["config"][KEY].clone();
    assert_eq!(key().await, "ASIA1");
    // The cached credentials are also used after a commit, because the commit does not change the
    // location of the table.
    app.post(TABLE, json!({ "requirements": [], "updates": [set_property("a", "b")] }))
        .await
        .expect(200);
    assert_eq!(key().await, "ASIA1");
    sts.clock.advance_seconds(1799);
    assert_eq!(key().await, "ASIA1");
    sts.clock.advance_seconds(1);
    assert_eq!(key().await, "ASIA2");
    let refreshed = app.get(&format!("{TABLE}/credentials")).await.expect(200);
    assert_eq!(refreshed.header("cache-control"), "no-store");
    assert_eq!(refreshed.body["storage-credentials"][0]["config"][KEY], "ASIA2");
}

#[tokio::test]
async fn unavailable_sts_fails_only_requests_for_credentials() {
    let sts = TestSts::start().await;
    let app = lake(&sts, &[Delegation::VendedCredentials]).await;
    sts.set_down(true);
    load(&app, &VENDED).await.expect_error(503, "SlowDownException");
    app.get(&format!("{TABLE}/credentials")).await.expect_error(503, "SlowDownException");
    load(&app, &[]).await.expect(200);
    let response = app.request(Method::POST, TABLES, &VENDED, &create_table("u")).await.expect(200);
    assert!(has_no_access(&response));
    sts.set_down(false);
    load(&app, &VENDED).await.expect(200);
}

#[tokio::test]
async fn creator_of_a_table_gets_credentials_to_write() {
    let sts = TestSts::start().await;
    let app = lake(&sts, &[Delegation::VendedCredentials]).await;
    let response = app.request(Method::POST, TABLES, &VENDED, &create_table("u")).await.expect(200);
    assert_eq!(response.body["config"][KEY], "ASIA1");
    assert_eq!((response.header("etag"), response.header("cache-control")), ("", "no-store"));
    let mut body = create_table("v");
    body["stage-create"] = json!(true);
    let staged = app.request(Method::POST, TABLES, &VENDED, &body).await.expect(200);
    assert_eq!(staged.body["config"][KEY], "ASIA2");
    app.post(&format!("{TABLES}/u/unregister"), Value::Null).await.expect(200);
    let body = json!({ "name": "w", "metadata-location": response.body["metadata-location"] });
    let path = "/v1/default/namespaces/ns/register";
    let registered = app.request(Method::POST, path, &VENDED, &body).await.expect(200);
    assert_eq!(registered.body["config"][KEY], "ASIA3");
}

#[tokio::test]
async fn location_of_another_table_gives_no_access_to_its_files() {
    let sts = TestSts::start().await;
    let app = lake(&sts, &[Delegation::VendedCredentials]).await;
    let theirs =
        load(&app, &[]).await.body["metadata"]["location"].as_str().expect("a text").to_owned();
    let around = theirs.rsplit_once('/').expect("it has parts").0.to_owned();
    for (name, location) in [
        ("same", theirs.clone()),
        ("within", format!("{theirs}/data")),
        ("around", around),
        ("root", "s3://lake/w".to_owned()),
        ("hadoop", theirs.replacen("s3://", "s3a://", 1)),
    ] {
        let mut body = create_table(name);
        body["location"] = json!(location);
        body["properties"] = json!({ "write.data.path": theirs });
        let response = app.request(Method::POST, TABLES, &VENDED, &body).await.expect(200);
        assert!(has_no_access(&response), "{name}");
        app.get(&format!("{TABLES}/{name}/credentials")).await;
        app.delete(&format!("{TABLES}/{name}")).await.expect(204);
    }
    let mut body = create_table("elsewhere");
    body["location"] = json!("s3://lake/w/place");
    body["properties"] =
        json!({ "write.data.path": theirs, "write.metadata.path": "s3://lake/w/own" });
    let response = app.request(Method::POST, TABLES, &VENDED, &body).await.expect(200);
    assert!(!has_no_access(&response));
    let policy = sts.last_policy();
    let objects = json!(["arn:aws:s3:::lake/w/place/*", "arn:aws:s3:::lake/w/own/*"]);
    assert_eq!(policy["Statement"][1]["Resource"], objects);
    // A table gets no credentials for a location that is in the properties of another table.
    let mut body = create_table("thief");
    body["location"] = json!("s3://lake/w/own");
    let response = app.request(Method::POST, TABLES, &VENDED, &body).await.expect(200);
    assert!(has_no_access(&response));
    assert!(!has_no_access(&load(&app, &VENDED).await), "the first table still gets credentials");
}

fn sign_request(method: &str, key: &str) -> Value {
    json!({
        "method": method, "region": "eu-central-1", "headers": {},
        "uri": format!("http://127.0.0.1:9/{key}"),
    })
}

#[tokio::test]
async fn requests_are_signed_for_the_table_and_by_what_policies_allow() {
    let sts = TestSts::start().await;
    let app = lake(&sts, &[Delegation::RemoteSigning]).await;
    let answer = load(&app, &VENDED).await.expect(200);
    let config = &answer.body["config"];
    assert!(config[KEY].is_null() && answer.body["storage-credentials"].is_null());
    assert_eq!(config["s3.remote-signing-enabled"], "true");
    let endpoint = config["s3.signer.endpoint"].as_str().expect("a path");
    assert_eq!(endpoint, "v1/default/namespaces/ns/tables/t/sign");
    assert_eq!(answer.body["remote-signing-config"], json!({ "properties": {}, "headers": {} }));
    let location =
        answer.body["metadata"]["location"].as_str().expect("a text").replace("s3://", "");
    let sign = async |role: &str, method: &str, key: &str| {
        let credential = app.key_with_role(role).await;
        let body = sign_request(method, key);
        app.request_as(&credential, Method::POST, &format!("/{endpoint}"), &body).await
    };
    let own = format!("{location}/data/x");
    let read = sign("reader", "GET", &own).await.expect(200);
    assert_eq!(read.header("cache-control"), "private");
    assert_eq!(read.body["uri"], format!("http://127.0.0.1:9/{own}"));
    assert!(
        read.body["headers"]["authorization"][0]
            .as_str()
            .expect("a text")
            .contains("Credential=ASIA1/")
    );
    assert_eq!(sign("writer", "PUT", &own).await.expect(200).header("cache-control"), "no-cache");
    sign("reader", "PUT", &own).await.expect_error(403, "ForbiddenException");
    sign("ingest", "GET", &own).await.expect_error(403, "ForbiddenException");
    sign("writer", "GET", "lake/w/other/x").await.expect_error(403, "ForbiddenException");
    sign("looks", "GET", &own).await.expect_error(403, "ForbiddenException");
    sign("engine", "GET", &own).await.expect(200);
    sign("engine", "PUT", &own).await.expect_error(403, "ForbiddenException");
    for role in ["part", "part-of-all"] {
        sign(role, "GET", &own).await.expect_error(403, "ForbiddenException");
    }
    sign("nobody", "GET", &own).await.expect(403);
    sign("writer", "TRACE", &own).await.expect(400);
    let refreshed = app.get(&format!("{TABLE}/credentials")).await.expect(200);
    assert_eq!(refreshed.body, json!({ "storage-credentials": [] }));
}

#[tokio::test]
async fn requests_for_a_staged_table_are_signed_before_and_after_its_creation() {
    let sts = TestSts::start().await;
    let app = lake(&sts, &[Delegation::RemoteSigning]).await;
    let mut body = create_table("u");
    body["stage-create"] = json!(true);
    let ways = [("x-iceberg-access-delegation", "remote-signing")];
    let staged = app.request(Method::POST, TABLES, &ways, &body).await.expect(200);
    let endpoint = staged.body["config"]["signer.endpoint"].as_str().expect("a path").to_owned();
    assert!(endpoint.contains("/u/sign?staged="), "{endpoint}");
    let location =
        staged.body["metadata"]["location"].as_str().expect("a text").replace("s3://", "");
    let path = format!("/{endpoint}");
    let request = sign_request("PUT", &format!("{location}/data/x"));
    app.post(&path, request.clone()).await.expect(200);
    let mut with_properties = request.clone();
    with_properties["properties"] = staged.body["remote-signing-config"]["properties"].clone();
    let plain = path.split('?').next().expect("a path");
    app.post(plain, with_properties.clone()).await.expect(200);
    app.post(plain, request.clone()).await.expect(404);
    with_properties["properties"] = json!({ "slateberg.staged": "x" });
    app.post(plain, with_properties).await.expect(400);
    app.post(&path, sign_request("PUT", "lake/w/other/x")).await.expect(403);
    let other = app.key_with_role("writer").await;
    app.request_as(&other, Method::POST, &path, &request).await.expect(404);
    app.post(&path.replace("/u/", "/t/"), request.clone()).await.expect(403);
    let commit = json!({
        "requirements": [{ "type": "assert-create" }],
        "updates": [
            { "action": "assign-uuid", "uuid": staged.body["metadata"]["table-uuid"] },
            { "action": "upgrade-format-version", "format-version": 2 },
            { "action": "add-schema", "schema": staged.body["metadata"]["schemas"][0] },
            { "action": "set-current-schema", "schema-id": -1 },
            { "action": "add-spec", "spec": { "spec-id": 0, "fields": [] } },
            { "action": "set-default-spec", "spec-id": -1 },
            { "action": "add-sort-order", "sort-order": { "order-id": 0, "fields": [] } },
            { "action": "set-default-sort-order", "sort-order-id": -1 },
            { "action": "set-location", "location": staged.body["metadata"]["location"] },
        ],
    });
    app.post(&format!("{TABLES}/u"), commit).await.expect(200);
    app.post(&path, request.clone()).await.expect(200);
    app.post(path.split('?').next().expect("a path"), request.clone()).await.expect(200);
    sts.clock.advance_seconds(3600);
    app.post(&path, request).await.expect(200);
    app.delete(&format!("{TABLES}/u")).await.expect(204);
}

#[tokio::test]
async fn config_contains_the_access_delegation_header() {
    let sts = TestSts::start().await;
    let app = lake(&sts, &[Delegation::VendedCredentials, Delegation::RemoteSigning]).await;
    let config = app.get("/v1/config").await.expect(200);
    let ways = &config.body["defaults"]["header.X-Iceberg-Access-Delegation"];
    assert_eq!(*ways, "vended-credentials,remote-signing");
}

#[tokio::test]
async fn warehouse_that_cannot_vend_credentials_is_rejected() {
    let sts = TestSts::start().await;
    let app = TestApp::with_settings(|settings| {
        let keys = [("aws_access_key_id", "AKIDEXAMPLE"), ("aws_secret_access_key", "hunter2-x")];
        let keys = keys.map(|(key, value)| (key.to_owned(), Secret::new(value)));
        settings.credentials.insert("lake".to_owned(), keys.into());
    })
    .await;
    let body = |access: Value| {
        json!({ "name": "made", "storage": {
            "location": "s3://lake/made", "credentials": "lake",
            "options": { "aws_region": "eu-central-1" }, "access": access,
        }})
    };
    let vends = json!({ "delegation": ["vended-credentials"], "sts-endpoint": sts.uri });
    let make =
        async |access: &Value| app.post("/management/v1/warehouses", body(access.clone())).await;
    sts.set_down(true);
    let error = make(&vends).await.expect_error(400, "IllegalArgumentException");
    assert!(error.message().contains("cannot vend credentials"), "{}", error.message());
    assert!(!error.message().contains("hunter2"));
    sts.set_down(false);
    for (access, why) in [
        (json!({ "delegation": ["vended-credentials"] }), "role_arn"),
        (json!({ "delegation": ["remote-signing"], "credentials-seconds": 1 }), "900"),
        (json!({ "delegation": ["vended-credentials"], "role-arn": "x" }), "role_arn"),
        (
            json!({ "delegation": ["vended-credentials"], "sts-endpoint": "ftp://x" }),
            "sts_endpoint",
        ),
        (json!({ "delegation": ["all"] }), "vended-credentials"),
        (json!({ "delegation": [], "secret": "x" }), "secret"),
    ] {
        let answer = make(&access).await;
        assert_eq!(answer.status, 400, "{access}");
        assert!(answer.message().contains(why), "{access}: {}", answer.message());
    }
    let created = make(&vends).await.expect(201);
    let access = &created.body["storage"]["access"];
    assert_eq!(access["delegation"], json!(["vended-credentials"]));
    assert_eq!((&access["credentials-seconds"], &access["role-arn"]), (&json!(3600), &Value::Null));
    // Cached credentials depend on the definition of the warehouse: a change invalidates them.
    app.post("/v1/made/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    app.post("/v1/made/namespaces/ns/tables", create_table("t")).await.expect(200);
    let path = "/v1/made/namespaces/ns/tables/t";
    let key = async || app.request(Method::GET, path, &VENDED, &Value::Null).await.expect(200).body;
    let first = key().await["config"][KEY].clone();
    assert_eq!(key().await["config"][KEY], first);
    let mut body = body(vends);
    body.as_object_mut().expect("an object").remove("name");
    body["storage"]["access"]["credentials-seconds"] = json!(900);
    app.request(Method::PUT, "/management/v1/warehouses/made", &[], &body).await.expect(200);
    assert_ne!(key().await["config"][KEY], first);
    body["storage"]["access"] = Value::Null;
    app.request(Method::PUT, "/management/v1/warehouses/made", &[], &body).await.expect(200);
    assert_eq!(key().await["config"], json!({}));
}
