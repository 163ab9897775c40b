//! `POST /v1/oauth/tokens`: exchange of API keys for short-lived tokens.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, header};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::issuer::TestKey;

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

async fn ask(app: &TestApp, authorization: Option<&str>, form: &[(&str, &str)]) -> TestResponse {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let mut request = Request::post("/v1/oauth/tokens")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::CONTENT_LENGTH, body.len());
    if let Some(authorization) = authorization {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    app.send(request.body(Body::from(body)).expect("a request")).await
}

/// Sends the request of PyIceberg, Spark and Trino with `credential=id:secret`.
async fn by_credential(app: &TestApp, id: &str, secret: &str) -> TestResponse {
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", id),
        ("client_secret", secret),
        ("scope", "catalog"),
    ];
    ask(app, None, &form).await
}

fn token(response: &TestResponse) -> String {
    response.body["access_token"].as_str().expect("a token").to_owned()
}

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")))
}

async fn by_hand() -> (TestApp, Arc<HandClock>) {
    let clock = Arc::new(HandClock::default());
    let mut settings = memory_settings();
    settings.authn.insecure_no_auth = false;
    (TestApp::with_clock(bucket(), settings, clock.clone()).await, clock)
}

#[tokio::test]
async fn api_key_is_exchanged_for_a_token_with_its_identity() {
    let app = TestApp::secured().await;
    let (id, key) = app.make_key(json!({ "name": "etl", "roles": ["writer"] })).await;
    let given = by_credential(&app, &id, &key).await.expect(200);
    assert_eq!(given.header("cache-control"), "no-store");
    assert_eq!(given.body["token_type"], "bearer");
    assert_eq!(given.body["issued_token_type"], ACCESS_TOKEN);
    assert_eq!(given.body["expires_in"], 3600);
    let whoami = async |credential: &str| {
        app.get_as(credential, "/management/v1/whoami").await.expect(200).body
    };
    assert_eq!(whoami(&token(&given)).await, whoami(&key).await);
    // Sends the token a second time, because this request uses the cache.
    assert_eq!(whoami(&token(&given)).await, whoami(&key).await);

    let grant = ("grant_type", "client_credentials");
    ask(&app, Some(&basic(&id, &key)), &[grant]).await.expect(200);
    ask(&app, Some(&basic("", &key)), &[grant]).await.expect(200);
    ask(&app, None, &[grant, ("client_secret", key.as_str())]).await.expect(200);
}

#[tokio::test]
async fn unknown_client_gets_the_oauth_error_invalid_client() {
    let app = TestApp::secured().await;
    let (id, key) = app.make_key(json!({ "name": "one" })).await;
    let (other_id, _) = app.make_key(json!({ "name": "two" })).await;
    let invalid = json!({
        "error": "invalid_client", "error_description": "The client is not known",
    });
    let another = if key.ends_with('0') { '1' } else { '0' };
    let almost = format!("{}{another}", &key[..key.len() - 1]);
    for (id, secret) in [
        (id.as_str(), "wrong"),
        (id.as_str(), almost.as_str()),
        (other_id.as_str(), key.as_str()),
        ("nobody", key.as_str()),
        (id.as_str(), ""),
    ] {
        let response = by_credential(&app, id, secret).await.expect(401);
        assert_eq!(response.body, invalid, "{id}:{secret}");
        assert_eq!(response.header("www-authenticate"), "");
        let grant = [("grant_type", "client_credentials")];
        let response = ask(&app, Some(&basic(id, secret)), &grant).await.expect(401);
        assert_eq!(response.body, invalid, "{id}:{secret}");
        assert_eq!(response.header("www-authenticate"), "Basic realm=\"slateberg\"");
    }
    let grant = [("grant_type", "client_credentials")];
    for broken in ["Basic", "Basic !", "Basic eA==", "Basic /w==", "Bearer x"] {
        let response = ask(&app, Some(broken), &grant).await.expect(401);
        assert_eq!(response.body, invalid, "{broken}");
    }
}

#[tokio::test]
async fn malformed_token_request_gets_an_oauth_error() {
    let app = TestApp::secured().await;
    let key = app.credential().to_owned();
    let secret = ("client_secret", key.as_str());
    let exchange = ("grant_type", EXCHANGE);
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "invalid_request"),
        (&[secret], "invalid_request"),
        (&[("grant_type", ""), secret], "invalid_request"),
        (&[("grant_type", "password"), secret], "unsupported_grant_type"),
        (&[("grant_type", "client_credentials"), secret, secret], "invalid_request"),
        (&[exchange], "invalid_request"),
        (&[exchange, ("subject_token", "x")], "invalid_request"),
        (&[exchange, ("subject_token", "x"), ("subject_token_type", "saml")], "invalid_request"),
        (
            &[exchange, ("subject_token", "x"), ("subject_token_type", ACCESS_TOKEN)],
            "invalid_grant",
        ),
        (
            &[
                exchange,
                ("subject_token", key.as_str()),
                ("subject_token_type", ACCESS_TOKEN),
                ("actor_token", "x"),
            ],
            "invalid_request",
        ),
    ];
    for (form, error) in cases {
        let response = ask(&app, None, form).await.expect(400);
        assert_eq!(response.body["error"], *error, "{form:?}: {}", response.body);
        assert_eq!(response.header("cache-control"), "no-store");
    }
    let twice = [("grant_type", "client_credentials"), secret];
    let response = ask(&app, Some(&basic("", &key)), &twice).await.expect(400);
    assert_eq!(response.body["error"], "invalid_request");
    let long = "x".repeat(70_000);
    ask(&app, None, &[("grant_type", &long)]).await.expect(413);
}

#[tokio::test]
async fn tokens_of_a_revoked_key_are_rejected() {
    let app = TestApp::secured().await;
    let (id, key) = app.make_key(json!({ "name": "etl" })).await;
    let remembered = token(&by_credential(&app, &id, &key).await.expect(200));
    let unseen = token(&by_credential(&app, &id, &key).await.expect(200));
    app.get_as(&remembered, "/management/v1/whoami").await.expect(200);
    app.delete(&format!("/management/v1/api-keys/{id}")).await.expect(204);
    for token in [&remembered, &unseen] {
        app.get_as(token, "/management/v1/whoami")
            .await
            .expect_error(401, "NotAuthorizedException");
    }
    by_credential(&app, &id, &key).await.expect(401);
}

#[tokio::test]
async fn token_expires_after_an_hour_or_with_its_key() {
    let (app, clock) = by_hand().await;
    let soon = json!({ "name": "short", "expires-at-ms": 1_800_000_600_000_i64 });
    let (short_id, short) = app.make_key(soon).await;
    let (long_id, long) = app.make_key(json!({ "name": "long" })).await;
    let short = by_credential(&app, &short_id, &short).await.expect(200);
    let long = by_credential(&app, &long_id, &long).await.expect(200);
    assert_eq!((&short.body["expires_in"], &long.body["expires_in"]), (&json!(600), &json!(3600)));
    let status = async |response: &TestResponse| {
        app.get_as(&token(response), "/management/v1/whoami").await.status.as_u16()
    };
    clock.advance_seconds(599);
    assert_eq!((status(&short).await, status(&long).await), (200, 200));
    clock.advance_seconds(1);
    assert_eq!((status(&short).await, status(&long).await), (401, 200));
    clock.advance_seconds(2999);
    assert_eq!(status(&long).await, 200);
    clock.advance_seconds(1);
    assert_eq!(status(&long).await, 401);
}

#[tokio::test]
async fn token_is_exchanged_for_a_newer_one() {
    let (app, clock) = by_hand().await;
    let (id, key) = app.make_key(json!({ "name": "etl" })).await;
    let first = token(&by_credential(&app, &id, &key).await.expect(200));
    let exchange = async |subject: &str, authorization: Option<&str>| {
        let form = [
            ("grant_type", EXCHANGE),
            ("subject_token", subject),
            ("subject_token_type", ACCESS_TOKEN),
            ("scope", "catalog"),
        ];
        ask(&app, authorization, &form).await
    };
    clock.advance_seconds(3000);
    let bearer = format!("Bearer {first}");
    let second = token(&exchange(&first, Some(&bearer)).await.expect(200));
    // Java clients send this request if their token is the API key.
    exchange(&key, None).await.expect(200);
    clock.advance_seconds(1000);
    app.get_as(&second, "/management/v1/whoami").await.expect(200);
    app.get_as(&first, "/management/v1/whoami").await.expect_error(401, "NotAuthorizedException");
    // An expired token is not sufficient to get a newer token: the API key is required too.
    assert_eq!(exchange(&first, None).await.expect(400).body["error"], "invalid_grant");
    exchange(&first, Some(&basic(&id, &key))).await.expect(200);
}

#[tokio::test]
async fn signing_keys_are_published_and_rotated() {
    let (app, clock) = by_hand().await;
    let (id, key) = app.make_key(json!({ "name": "etl" })).await;
    let published = async || {
        let keys = app.get_as("", "/v1/oauth/jwks").await.expect(200).body;
        assert!(!keys.to_string().contains("\"d\""), "a private key is published: {keys}");
        serde_json::from_value::<JwkSet>(keys).expect("a key set")
    };
    let rotate = async || app.app.runtime.authn.own_tokens().rotate().await.expect("it rotates");
    let old = token(&by_credential(&app, &id, &key).await.expect(200));
    assert_eq!((published().await.keys.len(), rotate().await), (1, 0));

    // Anyone with the published keys can verify a token.
    let kid = decode_header(&old).expect("a token").kid.expect("a key id");
    let verifying = DecodingKey::from_jwk(published().await.find(&kid).expect("it is published"));
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.validate_aud = false;
    let claims = decode::<Value>(&old, &verifying.expect("a key"), &validation);
    assert_eq!(claims.expect("a good token").claims["sub"], id.as_str());

    clock.advance_seconds(30 * 24 * 60 * 60 - 60);
    let last = token(&by_credential(&app, &id, &key).await.expect(200));
    clock.advance_seconds(60);
    assert_eq!((rotate().await, rotate().await, published().await.keys.len()), (1, 0, 2));
    let new = token(&by_credential(&app, &id, &key).await.expect(200));
    let kid = |token: &str| decode_header(token).expect("a token").kid;
    assert_ne!(kid(&new), kid(&last));
    for token in [&last, &new] {
        app.get_as(token, "/management/v1/whoami").await.expect(200);
    }
    // The old key is removed when all tokens that it signed have expired.
    clock.advance_seconds(3601);
    assert_eq!((rotate().await, published().await.keys.len()), (1, 1));
    let kept = app.get_as("", "/v1/oauth/jwks").await.body;
    let fresh = by_credential(&app, &id, &key).await.expect(200);
    let app = app.restart().await;
    assert_eq!(app.get_as("", "/v1/oauth/jwks").await.body, kept);
    app.get_as(&token(&fresh), "/management/v1/whoami").await.expect(200);
}

#[tokio::test]
async fn token_of_another_catalog_or_signer_is_rejected() {
    let (app, other) = (TestApp::secured().await, TestApp::secured().await);
    let elsewhere = token(&by_credential(&other, "", other.credential()).await.expect(200));
    app.get_as(&elsewhere, "/management/v1/whoami")
        .await
        .expect_error(401, "NotAuthorizedException");

    let ours = token(&by_credential(&app, "", app.credential()).await.expect(200));
    let kid = decode_header(&ours).expect("a token").kid.expect("a key id");
    let parts: Vec<_> = ours.split('.').collect();
    let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(parts[1]).expect("base 64");
    let claims: Value = serde_json::from_slice(&payload).expect("claims");
    for forger in [TestKey::eddsa(&kid), TestKey::es256(&kid), TestKey::eddsa("other")] {
        let forged = forger.sign(&claims);
        app.get_as(&forged, "/management/v1/whoami")
            .await
            .expect_error(401, "NotAuthorizedException");
    }
    app.get_as(&ours, "/management/v1/whoami").await.expect(200);
}

#[tokio::test]
async fn server_without_authentication_issues_no_tokens() {
    let app = TestApp::new().await;
    by_credential(&app, "x", "y").await.expect(401);
    assert_eq!(app.get("/v1/oauth/jwks").await.expect(200).body, json!({ "keys": [] }));
}
