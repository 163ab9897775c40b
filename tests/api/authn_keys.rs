//! API keys: access, limits and lifetime.

use std::sync::Arc;

use axum::http::Method;
use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use slateberg::app::App;
use slateberg_runtime::dependencies::Dependencies;

use crate::support::app::{TestApp, bucket_opener, memory_settings};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::table::create_table;

const KEYS: &str = "/management/v1/api-keys";

/// All routes except the public ones.
async fn closed_routes(app: &TestApp) -> Vec<(Method, String)> {
    let config = app.get("/v1/config").await.expect(200);
    let advertised = config.body["endpoints"].as_array().expect("a list").clone();
    let advertised = advertised.iter().map(|endpoint| {
        let (method, path) = endpoint.as_str().and_then(|it| it.split_once(' ')).expect("a pair");
        let path = path.replace("{namespace}", "ns").replace("{table}", "t").replace("{view}", "v");
        (method.parse::<Method>().expect("a method"), path)
    });
    let mut routes = Vec::new();
    for (method, path) in advertised {
        routes.push((method.clone(), path.replace("/{prefix}", "/default")));
        routes.push((method, path.replace("/{prefix}", "")));
    }
    routes.push((Method::GET, "/v1/config".to_owned()));
    routes.push((Method::GET, "/management/v1/whoami".to_owned()));
    routes.push((Method::GET, KEYS.to_owned()));
    routes.push((Method::POST, KEYS.to_owned()));
    routes.push((Method::GET, format!("{KEYS}/x")));
    routes.push((Method::DELETE, format!("{KEYS}/x")));
    for (method, path) in [
        (Method::GET, "policies"),
        (Method::POST, "policies"),
        (Method::GET, "policies/x"),
        (Method::PUT, "policies/x"),
        (Method::DELETE, "policies/x"),
        (Method::POST, "policies/rollback"),
        (Method::GET, "policies/revisions"),
        (Method::GET, "policies/revisions/1"),
        (Method::GET, "policies/revisions/1/diff/2"),
        (Method::GET, "grants"),
        (Method::POST, "grants"),
        (Method::GET, "grants/x"),
        (Method::DELETE, "grants/x"),
        (Method::POST, "authorize"),
        (Method::GET, "permissions"),
    ] {
        routes.push((method, format!("/management/v1/{path}")));
    }
    routes
}

#[tokio::test]
async fn without_a_credential_only_health_is_served() {
    let app = TestApp::secured().await;
    let before = app.dump().await;
    for (method, path) in closed_routes(&app).await {
        for credential in ["", "sb_wrong", "x.y.z"] {
            let response = app.request_as(credential, method.clone(), &path, &json!({})).await;
            assert_eq!(response.status, 401, "{method} {path}");
            assert!(response.header("www-authenticate").starts_with("Bearer realm=\"slateberg\""));
            if method != Method::HEAD {
                assert_eq!(response.error_type(), "NotAuthorizedException", "{method} {path}");
                assert!(response.is_error_model(), "{}", response.body);
            }
        }
    }
    assert_eq!(app.dump().await, before);
    for open in ["/health", "/ready", "/metrics", "/v1/oauth/jwks"] {
        app.get_as("", open).await.expect(200);
    }
}

#[tokio::test]
async fn metrics_need_a_credential_if_configured() {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.authn.metrics_need_credential = true;
    })
    .await;
    app.get_as("", "/metrics").await.expect_error(401, "NotAuthorizedException");
    app.get("/metrics").await.expect(200);
}

#[tokio::test]
async fn only_the_first_start_creates_an_admin_key() {
    let app = TestApp::secured().await;
    let key = app.credential().to_owned();
    let whoami = app.get("/management/v1/whoami").await.expect(200).body;
    assert_eq!(
        (&whoami["kind"], &whoami["name"], &whoami["roles"], &whoami["warehouses"]),
        (&json!("service-account"), &json!("bootstrap"), &json!(["admin"]), &Value::Null)
    );
    let app = app.restart().await;
    assert!(app.app.runtime.minted_key.is_none());
    app.get_as(&key, "/v1/config").await.expect(200);
    // Even after all keys were revoked by force, a start creates no key.
    let id = whoami["id"].as_str().expect("an id").to_owned();
    app.delete(&format!("{KEYS}/{id}?force=true")).await.expect(204);
    let app = app.restart().await;
    assert!(app.app.runtime.minted_key.is_none());
    app.get_as(&key, "/v1/config").await.expect_error(401, "NotAuthorizedException");
}

#[tokio::test]
async fn start_with_new_admin_key_creates_another_admin_key() {
    let app = TestApp::secured().await;
    let first = app.credential().to_owned();
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    let mut settings = memory_settings();
    settings.authn.insecure_no_auth = false;
    settings.authn.new_admin_key = true;
    let app = TestApp::with(Arc::clone(&app.bucket), settings).await;
    let further = app.app.runtime.minted_key.as_ref().expect("a new admin key").reveal().to_owned();
    assert_ne!(first, further);
    for key in [first, further] {
        app.get_as(&key, KEYS).await.expect(200);
    }
}

#[tokio::test]
async fn bucket_contains_no_api_key() {
    let app = TestApp::secured().await;
    let (_, made) = app.make_key(json!({ "name": "etl" })).await;
    app.app.runtime.catalog.flush().await.expect("it is flushed");
    let objects: Vec<_> = app.bucket.list(None).try_collect().await.expect("it can be listed");
    assert!(!objects.is_empty());
    for object in objects {
        let bytes = app.bucket.get(&object.location).await.expect("it is there");
        let text = String::from_utf8_lossy(&bytes.bytes().await.expect("bytes")).into_owned();
        for key in [app.credential(), &made] {
            assert!(!text.contains(&key[3..]), "{}", object.location);
        }
    }
}

#[tokio::test]
async fn change_of_api_keys_with_an_idempotency_key_is_rejected() {
    let app = TestApp::secured().await;
    let (id, key) = app.make_key(json!({ "name": "etl", "roles": ["reader"] })).await;
    let before = app.dump().await;
    let headers = [("Idempotency-Key", "0195f1e0-0000-7000-8000-000000000001")];
    let body = json!({ "name": "other", "roles": ["reader"] });
    for (method, path) in [(Method::POST, KEYS), (Method::DELETE, &format!("{KEYS}/{id}"))] {
        let response = app.request(method, path, &headers, &body).await;
        let response = response.expect_error(400, "BadRequestException");
        assert!(response.message().contains("Idempotency-Key"), "{}", response.message());
    }
    assert_eq!(app.dump().await, before);
    app.get_as(&key, "/v1/config").await.expect(200);
}

#[tokio::test]
async fn api_key_is_created_shown_once_listed_and_revoked() {
    let app = TestApp::secured().await;
    let request = json!({ "name": "etl", "roles": ["writer"], "warehouses": ["default"] });
    let response = app.post(KEYS, request).await.expect(201);
    assert_eq!(response.header("cache-control"), "no-store");
    let key = response.body["key"].as_str().expect("a key").to_owned();
    let id = response.body["id"].as_str().expect("an id").to_owned();
    assert!(key.starts_with("sb_") && key.len() == 52, "{key}");

    let whoami = app.get_as(&key, "/management/v1/whoami").await.expect(200).body;
    assert_eq!(
        whoami,
        json!({
            "kind": "service-account", "id": id, "name": "etl", "groups": [], "roles": ["writer"],
            "warehouses": ["default"], "method": "api-key",
        })
    );
    let one = app.get(&format!("{KEYS}/{id}")).await.expect(200).body;
    let listed = app.get(KEYS).await.expect(200).body;
    assert_eq!(listed["api-keys"][1], one);
    assert!(one["last-used-at-ms"].is_i64() && one["created-at-ms"].is_i64());
    assert_eq!(one["expires-at-ms"], Value::Null);
    for shown in [&one, &listed] {
        assert!(!shown.to_string().contains("sb_") && !shown.to_string().contains("hash"));
    }

    app.delete(&format!("{KEYS}/{id}")).await.expect(204);
    app.get_as(&key, "/v1/config").await.expect_error(401, "NotAuthorizedException");
    app.delete(&format!("{KEYS}/{id}")).await.expect_error(404, "NotFoundException");
    let app = app.restart().await;
    app.get_as(&key, "/v1/config").await.expect_error(401, "NotAuthorizedException");
}

#[tokio::test]
async fn api_keys_keep_their_scope_after_a_restart() {
    let app = TestApp::secured().await;
    let (_, key) = app.make_key(json!({ "name": "etl", "warehouses": ["default"] })).await;
    let before = app.get_as(&key, "/management/v1/whoami").await.expect(200).body;
    let app = app.restart().await;
    assert_eq!(app.get_as(&key, "/management/v1/whoami").await.expect(200).body, before);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    crate::support::fsck::assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn api_key_expires() {
    let clock = Arc::new(HandClock::default());
    let mut settings = memory_settings();
    settings.authn.insecure_no_auth = false;
    let app = TestApp::with_clock(bucket(), settings, clock.clone()).await;
    let soon = 1_800_000_060_000_i64;
    let (_, key) = app.make_key(json!({ "name": "short", "expires-at-ms": soon })).await;
    clock.advance_seconds(59);
    app.get_as(&key, "/management/v1/whoami").await.expect(200);
    clock.advance_seconds(1);
    app.get_as(&key, "/management/v1/whoami").await.expect_error(401, "NotAuthorizedException");
    let past = json!({ "name": "past", "expires-at-ms": soon });
    app.post(KEYS, past).await.expect_error(400, "BadRequestException");
}

#[tokio::test]
async fn api_key_is_accepted_as_bearer_and_as_x_api_key() {
    let app = TestApp::secured().await;
    let key = app.credential().to_owned();
    let bearer = format!("Bearer {key}");
    let lower = format!("bearer {key}");
    let basic = format!("Basic {key}");
    let (_, other) = app.make_key(json!({ "name": "other" })).await;
    let get = async |headers: &[(&str, &str)]| {
        app.request(Method::GET, "/v1/config", headers, &Value::Null).await.status.as_u16()
    };
    assert_eq!(get(&[("X-Api-Key", &key)]).await, 200);
    assert_eq!(get(&[("Authorization", &bearer)]).await, 200);
    assert_eq!(get(&[("authorization", &lower)]).await, 200);
    assert_eq!(get(&[("authorization", &bearer), ("x-api-key", &key)]).await, 200);
    assert_eq!(get(&[("authorization", &bearer), ("x-api-key", &other)]).await, 401);
    assert_eq!(get(&[("authorization", &bearer), ("authorization", &bearer)]).await, 401);
    assert_eq!(get(&[("authorization", &basic)]).await, 401);
    assert_eq!(get(&[("authorization", &key)]).await, 401);
}

#[tokio::test]
async fn api_key_for_one_warehouse_does_not_see_the_others() {
    let mut settings = memory_settings();
    settings.authn.insecure_no_auth = false;
    let lake = slateberg_config::WarehouseSettings {
        location: "memory:///lake".to_owned(),
        ..Default::default()
    };
    settings.warehouses.insert("lake".to_owned(), lake);
    let app = TestApp::with(bucket(), settings).await;
    for warehouse in ["lake", "default"] {
        let path = format!("/v1/{warehouse}/namespaces");
        app.post(&path, json!({ "namespace": ["ns"] })).await.expect(200);
        app.post(&format!("{path}/ns/tables"), create_table("t")).await.expect(200);
    }
    let (_, key) =
        app.make_key(json!({ "name": "lake", "warehouses": ["lake"], "roles": ["writer"] })).await;
    app.get_as(&key, "/v1/lake/namespaces/ns/tables/t").await.expect(200);
    app.get_as(&key, "/v1/config?warehouse=lake").await.expect(200);

    // For a warehouse that the key does not include, the response is the same as for a missing
    // warehouse.
    let (absent, there) = ("/v1/nope/namespaces/ns", "/v1/default/namespaces/ns");
    for below in ["", "/tables", "/tables/t", "/tables/u"] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let ask = async |path: &str| {
                app.request_as(&key, method.clone(), &format!("{path}{below}"), &json!({})).await
            };
            let (absent, there) = (ask(absent).await, ask(there).await);
            assert_eq!(absent.status, there.status, "{method} {below}");
            let found = |message: &str| message.replace("nope", "W").replace("default", "W");
            assert_eq!(found(absent.message()), found(there.message()), "{method} {below}");
        }
    }
    for path in ["/v1/namespaces", "/v1/config", "/v1/config?warehouse=default"] {
        let response = app.get_as(&key, path).await;
        assert_eq!(
            response.error(),
            (404, "NoSuchWarehouseException", "Warehouse does not exist: default"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn only_admins_of_the_whole_catalog_manage_api_keys() {
    let app = TestApp::secured().await;
    let (_, writer) = app.make_key(json!({ "name": "writer", "roles": ["writer"] })).await;
    let bound = json!({ "name": "bound", "roles": ["admin"], "warehouses": ["default"] });
    let (bound_id, bound) = app.make_key(bound).await;
    for key in [&writer, &bound] {
        app.get_as(key, "/v1/config").await.expect(200);
        for (method, path, body) in [
            (Method::GET, KEYS.to_owned(), Value::Null),
            (Method::POST, KEYS.to_owned(), json!({ "name": "x", "roles": ["admin"] })),
            (Method::GET, format!("{KEYS}/{bound_id}"), Value::Null),
            (Method::DELETE, format!("{KEYS}/{bound_id}"), Value::Null),
            (Method::DELETE, format!("{KEYS}/nope"), Value::Null),
        ] {
            let response = app.request_as(key, method.clone(), &path, &body).await;
            response.expect_error(403, "ForbiddenException");
        }
    }
    assert_eq!(app.get(KEYS).await.body["api-keys"].as_array().expect("a list").len(), 3);
}

#[tokio::test]
async fn invalid_api_key_request_is_rejected() {
    let app = TestApp::secured().await;
    let long = "x".repeat(257);
    let many: Vec<_> = (0..257).map(|n| format!("r{n}")).collect();
    for wanted in [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": " " }),
        json!({ "name": "a\nb" }),
        json!({ "name": long }),
        json!({ "name": 1 }),
        json!({ "name": "x", "roles": "admin" }),
        json!({ "name": "x", "roles": [""] }),
        json!({ "name": "x", "roles": many }),
        json!({ "name": "x", "warehouses": [] }),
        json!({ "name": "x", "expires-at-ms": "tomorrow" }),
        json!({ "name": "x", "expires-at-ms": 0 }),
        // If the server ignored the misspelled member, the key would be valid for all warehouses.
        json!({ "name": "x", "warehouse": ["default"] }),
    ] {
        let response = app.post_rejected(KEYS, wanted.clone()).await;
        assert_eq!(response.error_type(), "BadRequestException", "{wanted}");
    }
    let elsewhere = json!({ "name": "x", "warehouses": ["nope"] });
    app.post_rejected(KEYS, elsewhere).await.expect_error(404, "NoSuchWarehouseException");
}

#[tokio::test]
async fn api_keys_beyond_the_maximum_are_rejected() {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.authn.api_keys_max = 2;
    })
    .await;
    app.make_key(json!({ "name": "second" })).await;
    app.post_rejected(KEYS, json!({ "name": "third" }))
        .await
        .expect_error(400, "BadRequestException");
}

#[tokio::test]
async fn server_without_authentication_creates_no_api_keys() {
    let app = TestApp::new().await;
    assert!(app.app.runtime.minted_key.is_none());
    let whoami = app.get("/management/v1/whoami").await.expect(200).body;
    assert_eq!((&whoami["kind"], &whoami["method"]), (&json!("anonymous"), &json!("none")));
    // A key that is created without authentication would become valid as soon as the server
    // requires credentials.
    app.post_rejected(KEYS, json!({ "name": "x" })).await.expect_error(403, "ForbiddenException");
    // Credentials of clients are ignored.
    app.get_as("sb_whatever", "/v1/config").await.expect(200);
}

#[tokio::test]
async fn disabled_authentication_on_a_public_address_needs_a_second_setting() {
    let built = async |address: &str, twice: bool| {
        let mut settings = memory_settings();
        settings.server.listen = address.parse().expect("an address");
        settings.authn.insecure_no_auth_on_public_address = twice;
        let bucket = bucket();
        let dependencies =
            Dependencies { opener: bucket_opener(bucket), ..Dependencies::default() };
        App::build(settings, dependencies).await.map(|_| ()).map_err(|error| error.to_string())
    };
    for loopback in ["127.0.0.1:0", "127.8.8.8:1", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        assert_eq!(built(loopback, false).await, Ok(()), "{loopback}");
    }
    for public in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8181"] {
        let failure = built(public, false).await.expect_err("the start is rejected");
        assert!(failure.contains("--insecure-no-auth-on-public-address"), "{failure}");
        assert_eq!(built(public, true).await, Ok(()), "{public}");
    }
}
