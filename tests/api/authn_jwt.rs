//! Accepted and rejected tokens of external issuers, whose key sets are served over HTTP.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use slateberg_authn::settings::IssuerSettings;

use crate::support::app::{TestApp, memory_settings};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::issuer::{TestIssuer, TestKey};
use crate::support::served_app::ServedApp;

/// A catalog that trusts these issuers.
async fn trusting(issuers: &[(&str, IssuerSettings)]) -> ServedApp {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.authn.issuers =
            issuers.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
        // Disables the delay of repeated rejections, which other tests cover.
        settings.authn.failures_before_delay = u32::MAX;
    })
    .await;
    ServedApp::start(app).await
}

fn part(value: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
}

#[tokio::test]
async fn token_of_a_trusted_issuer_authenticates_its_subject() {
    let (ec, ed) = (TestKey::es256("ec"), TestKey::eddsa("ed"));
    let issuer = TestIssuer::start(&[&ec, &ed]).await;
    let server = trusting(&[("corp", issuer.settings())]).await;
    for key in [&ec, &ed] {
        let token = key.sign(&issuer.claims("alice"));
        assert_eq!(
            server.whoami(&token).await,
            json!({
                "kind": "user", "id": "corp/alice", "name": "name of alice",
                "groups": ["analysts"], "roles": ["writer"], "warehouses": null, "method": "jwt",
            })
        );
    }
    // A role from an issuer has the same effect as a role of an API key.
    let mut claims = issuer.claims("root");
    claims["realm_access"]["roles"] = json!(["admin"]);
    let keys = server.get("/management/v1/api-keys").bearer_auth(ec.sign(&claims)).send().await;
    assert_eq!(keys.expect("it answers").status(), 200);
}

#[tokio::test]
async fn token_of_one_issuer_is_not_valid_for_another() {
    let (one, two) = (TestKey::es256("k"), TestKey::es256("k"));
    let (first, second) = (TestIssuer::start(&[&one]).await, TestIssuer::start(&[&two]).await);
    let by_url = IssuerSettings { jwks_url: format!("{}/keys", second.iss), ..second.settings() };
    let server = trusting(&[("first", first.settings()), ("second", by_url)]).await;
    assert_eq!(server.whoami(&one.sign(&first.claims("a"))).await["id"], "first/a");
    assert_eq!(server.whoami(&two.sign(&second.claims("a"))).await["id"], "second/a");
    assert_eq!(server.status(&two.sign(&first.claims("a"))).await, 401);
    assert_eq!(server.status(&one.sign(&second.claims("a"))).await, 401);
}

#[tokio::test]
async fn config_contains_the_token_url_of_the_callers_issuer() {
    let key = TestKey::es256("k");
    let issuer = TestIssuer::start(&[&key]).await;
    let server = trusting(&[("corp", issuer.settings())]).await;
    let found = async |credential: &str| {
        let config = server.get("/v1/config").bearer_auth(credential).send().await;
        let config: Value = config.expect("it answers").json().await.expect("JSON");
        config["defaults"]["oauth2-server-uri"].clone()
    };
    let token_url = json!(format!("{}/token", issuer.iss));
    assert_eq!(found(&key.sign(&issuer.claims("a"))).await, token_url);
    // A client with an API key gets no URL: the server itself issues its tokens, at the default
    // path of clients.
    assert_eq!(found(server.app.credential()).await, Value::Null);
}

#[tokio::test]
async fn rejection_of_a_token_does_not_reveal_the_reason() {
    let key = TestKey::es256("k");
    let issuer = TestIssuer::start(&[&key]).await;
    let server = trusting(&[("corp", issuer.settings())]).await;
    let good = issuer.claims("a");
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        key.sign(&claims)
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().expect("an object").remove(name);
        key.sign(&claims)
    };
    let now = good["iat"].as_i64().expect("a date");
    let stranger = TestKey::es256("k");
    let mut wrong = vec![
        with("exp", json!(now - 60)),
        with("exp", json!("tomorrow")),
        without("exp"),
        with("nbf", json!(now + 600)),
        with("nbf", json!("yesterday")),
        with("aud", json!("other")),
        with("aud", json!([])),
        without("aud"),
        with("iss", json!("https://elsewhere.example")),
        with("iss", json!([good["iss"]])),
        with("iss", json!(format!("{}/", issuer.iss))),
        without("iss"),
        without("sub"),
        with("sub", json!("")),
        with("sub", json!(7)),
        with("sub", json!("x".repeat(20_000))),
        stranger.sign(&good),
        TestKey::es256("other").sign(&good),
    ];
    let token = key.sign(&good);
    let (message, signature) = token.rsplit_once('.').expect("three parts");
    let other = key.sign(&with_claim(&good, "sub", json!("b")));
    let (other_message, _) = other.rsplit_once('.').expect("three parts");
    wrong.extend([
        format!("{message}."),
        message.to_owned(),
        format!("{other_message}.{signature}"),
        format!("{token}.x"),
        format!("{message}.{}", &signature[1..]),
    ]);
    assert_eq!(server.status(&token).await, 200);
    let refusal = server.get("/v1/config").bearer_auth("nonsense").send().await.expect("answers");
    let challenge = refusal.headers()["www-authenticate"].clone();
    let refusal: Value = refusal.json().await.expect("JSON");
    for token in wrong {
        let response = server.get("/v1/config").bearer_auth(&token).send().await.expect("answers");
        let short: String = token.chars().take(300).collect();
        assert_eq!(response.status(), 401, "{short}");
        assert_eq!(response.headers()["www-authenticate"], challenge, "{short}");
        assert_eq!(response.json::<Value>().await.expect("JSON"), refusal, "{short}");
    }
}

fn with_claim(claims: &Value, name: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    claims[name] = value;
    claims
}

#[tokio::test]
async fn signature_algorithm_comes_from_the_issuer_and_not_from_the_token() {
    let key = TestKey::es256("k");
    let issuer = TestIssuer::start(&[&key]).await;
    let server = trusting(&[("corp", issuer.settings())]).await;
    let claims = issuer.claims("a");
    let payload = part(&claims);
    let mut forged = Vec::new();
    for alg in ["none", "None", "NONE", "nOnE", "", "HS256", "RS256", "ES256K", "dir", "A128KW"] {
        let header = part(&json!({ "alg": alg, "kid": "k", "typ": "JWT" }));
        forged.push(format!("{header}.{payload}."));
        forged.push(format!("{header}.{payload}.{}", BASE64_URL_SAFE_NO_PAD.encode([0; 64])));
    }
    // The public key is not a secret, so a signature that uses it as an HMAC key is rejected.
    let public = key.public();
    let member = |name: &str| public[name].as_str().expect("a member").to_owned();
    let raw = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(member(name)).expect("base 64");
    let point = [vec![4], raw("x"), raw("y")].concat();
    let secrets = [public.to_string().into_bytes(), member("x").into_bytes(), raw("x"), point];
    for secret in secrets {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let mut header = Header::new(algorithm);
            header.kid = Some("k".to_owned());
            let secret = EncodingKey::from_secret(&secret);
            forged.push(encode(&header, &claims, &secret).expect("it signs"));
        }
    }
    // Tokens with a header that contains or references the key for the verification, or that lists
    // critical members.
    let own = TestKey::es256("k");
    for (name, value) in [
        ("jwk", own.public()),
        ("jku", json!(format!("{}/keys", issuer.iss))),
        ("crit", json!(["exp"])),
        ("crit", json!([])),
    ] {
        let header = part(&json!({ "alg": "ES256", "kid": "k", name: value }));
        let signer = if name == "crit" { &key } else { &own };
        let message = format!("{header}.{payload}");
        let signature =
            jsonwebtoken::crypto::sign(message.as_bytes(), &signer.signing, Algorithm::ES256);
        forged.push(format!("{message}.{}", signature.expect("it signs")));
    }
    for kid in ["../../etc/passwd", "' OR 1=1 --", "", "K", "k\u{0}", "null"] {
        forged.push(TestKey::es256(kid).sign(&claims));
    }
    for token in forged {
        assert_eq!(server.status(&token).await, 401, "{token}");
    }
    assert_eq!(server.status(&key.sign(&claims)).await, 200);
}

#[tokio::test]
async fn token_with_an_algorithm_other_than_the_issuers_is_rejected() {
    let (ec, ed) = (TestKey::es256("ec"), TestKey::eddsa("ed"));
    let issuer = TestIssuer::start(&[&ec, &ed]).await;
    let only_ec = IssuerSettings { algorithms: vec!["ES256".to_owned()], ..issuer.settings() };
    let server = trusting(&[("corp", only_ec)]).await;
    assert_eq!(server.status(&ec.sign(&issuer.claims("a"))).await, 200);
    assert_eq!(server.status(&ed.sign(&issuer.claims("a"))).await, 401);
}

#[tokio::test]
async fn rsa_keys_verify_only_configured_algorithms() {
    let (rs, ps) = (TestKey::rsa("rs", Algorithm::RS256), TestKey::rsa("ps", Algorithm::PS256));
    // Some issuers do not publish the algorithm of a key.
    let any = TestKey::rsa("any", Algorithm::RS256);
    let mut silent = any.public();
    silent.as_object_mut().expect("an object").remove("alg");
    let issuer = TestIssuer::start(&[]).await;
    issuer.publish_raw(vec![rs.public(), ps.public(), silent]);
    let by = |algorithms: &[&str]| IssuerSettings {
        algorithms: algorithms.iter().map(|name| (*name).to_owned()).collect(),
        ..issuer.settings()
    };
    let both = trusting(&[("corp", by(&["RS256", "PS256"]))]).await;
    let one = trusting(&[("corp", by(&["RS256"]))]).await;
    let claims = issuer.claims("a");
    for (key, with_both, with_one) in [
        (rs.clone(), 200, 200),
        (ps.clone(), 200, 401),
        (any.clone(), 200, 200),
        (any.by(Algorithm::PS256), 200, 401),
        // Algorithms that are not configured are rejected, even if the key supports them.
        (any.by(Algorithm::RS384), 401, 401),
        (any.by(Algorithm::PS512), 401, 401),
        // A key is accepted only for the algorithm with which the issuer publishes it.
        (rs.by(Algorithm::PS256), 401, 401),
        (ps.by(Algorithm::RS256), 401, 401),
        (TestKey::rsa("rs", Algorithm::RS256), 401, 401),
    ] {
        let token = key.sign(&claims);
        let message = format!("{} {:?}", key.kid, key.algorithm);
        assert_eq!(both.status(&token).await, with_both, "{message}");
        assert_eq!(one.status(&token).await, with_one, "{message}");
    }
    // The classic attack signs with the public key as a shared secret.
    let modulus = rs.public()["n"].as_str().expect("a member").to_owned();
    let raw = BASE64_URL_SAFE_NO_PAD.decode(&modulus).expect("base 64");
    for secret in [modulus.into_bytes(), raw, rs.public().to_string().into_bytes()] {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some("rs".to_owned());
        let secret = EncodingKey::from_secret(&secret);
        let forged = encode(&header, &claims, &secret).expect("it signs");
        assert_eq!(both.status(&forged).await, 401);
    }
}

#[tokio::test]
async fn unusable_keys_in_a_jwks_are_ignored() {
    let (key, secret) = (TestKey::es256("k"), b"a secret that is shared with everybody");
    let issuer = TestIssuer::start(&[]).await;
    issuer.publish_raw(vec![
        json!({ "kty": "oct", "kid": "s", "k": BASE64_URL_SAFE_NO_PAD.encode(secret) }),
        json!({ "kty": "AKP", "kid": "future", "alg": "ML-DSA-44", "pub": "AAAA" }),
        json!({ "kty": "RSA", "kid": "broken" }),
        json!("no key"),
        key.public(),
    ]);
    let server = trusting(&[("corp", issuer.settings())]).await;
    let claims = issuer.claims("a");
    assert_eq!(server.status(&key.sign(&claims)).await, 200);
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("s".to_owned());
    let forged = encode(&header, &claims, &EncodingKey::from_secret(secret)).expect("it signs");
    assert_eq!(server.status(&forged).await, 401);
}

#[tokio::test]
async fn rotation_of_issuer_keys_fails_no_request() {
    let old = TestKey::es256("2026-1");
    let issuer = TestIssuer::start(&[&old]).await;
    let server = trusting(&[("corp", issuer.settings())]).await;
    let (old_token, claims) = (old.sign(&issuer.claims("a")), issuer.claims("b"));
    assert_eq!(server.status(&old_token).await, 200);

    let new = TestKey::eddsa("2026-2");
    issuer.publish(&[&old, &new]);
    // Of these concurrent requests, the first one triggers the fetch of the new keys.
    let token = new.sign(&claims);
    let statuses = futures::future::join_all((0..20).map(|_| server.status(&token))).await;
    assert_eq!(statuses, vec![200; 20]);
    assert_eq!(server.status(&old_token).await, 200);
}

#[tokio::test]
async fn key_withdrawn_by_its_issuer_is_rejected() {
    let (stolen, new) = (TestKey::es256("stolen"), TestKey::es256("new"));
    let issuer = TestIssuer::start(&[&stolen]).await;
    let server = trusting(&[("corp", issuer.settings())]).await;
    let token = stolen.sign(&issuer.claims("thief"));
    assert_eq!(server.status(&token).await, 200);
    issuer.publish(&[&new]);
    // The unknown key id triggers a fetch, which discards the cached tokens of the old key set.
    assert_eq!(server.status(&new.sign(&issuer.claims("a"))).await, 200);
    assert_eq!(server.status(&token).await, 401);
}

#[tokio::test]
async fn keys_of_an_unavailable_issuer_stay_valid() {
    let key = TestKey::es256("k");
    let issuer = TestIssuer::start(&[&key]).await;
    let server = trusting(&[("corp", issuer.settings())]).await;
    assert_eq!(server.status(&key.sign(&issuer.claims("a"))).await, 200);
    issuer.set_down(true);
    assert_eq!(server.status(&TestKey::es256("new").sign(&issuer.claims("a"))).await, 401);
    assert_eq!(server.status(&key.sign(&issuer.claims("b"))).await, 200);
}

#[tokio::test]
async fn flood_of_unknown_key_ids_causes_few_fetches() {
    let key = TestKey::es256("k");
    let issuer = TestIssuer::start(&[&key]).await;
    let server = trusting(&[("corp", issuer.settings())]).await;
    assert_eq!(server.status(&key.sign(&issuer.claims("a"))).await, 200);
    let before = issuer.key_fetches();
    let forged: Vec<_> =
        (0..200).map(|n| TestKey::es256(&format!("k{n}")).sign(&issuer.claims("a"))).collect();
    let statuses = futures::future::join_all(forged.iter().map(|it| server.status(it))).await;
    assert_eq!(statuses, vec![401; 200]);
    let fetches = issuer.key_fetches() - before;
    assert!(fetches <= 2, "{fetches} fetches");
    assert_eq!(server.status(&key.sign(&issuer.claims("b"))).await, 200);
}

#[tokio::test]
async fn cached_token_expires() {
    let key = TestKey::eddsa("k");
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("keys.json");
    std::fs::write(&file, json!({ "keys": [key.public()] }).to_string()).expect("it is written");
    let clock = Arc::new(HandClock::default());
    let mut settings = memory_settings();
    settings.authn.insecure_no_auth = false;
    let issuer = IssuerSettings {
        issuer: "https://id.example.com".to_owned(),
        jwks_file: file,
        audiences: vec!["a".to_owned(), "b".to_owned()],
        algorithms: vec!["EdDSA".to_owned()],
        ..IssuerSettings::default()
    };
    settings.authn.issuers.insert("file".to_owned(), issuer);
    let app = TestApp::with_clock(bucket(), settings, clock.clone()).await;
    let token = key.sign(&json!({
        "iss": "https://id.example.com", "aud": ["b", "c"], "sub": "a", "exp": 1_800_000_060,
    }));
    for seconds in [0, 60, 29] {
        clock.advance_seconds(seconds);
        app.get_as(&token, "/management/v1/whoami").await.expect(200);
    }
    clock.advance_seconds(1);
    app.get_as(&token, "/management/v1/whoami").await.expect_error(401, "NotAuthorizedException");
}

#[tokio::test]
async fn issuer_settings_that_trust_too_much_are_rejected() {
    let good = IssuerSettings {
        issuer: "https://id.example.com".to_owned(),
        audiences: vec!["slateberg".to_owned()],
        ..IssuerSettings::default()
    };
    let rejection = async |change: &dyn Fn(&mut IssuerSettings)| {
        let mut issuer = good.clone();
        change(&mut issuer);
        let mut settings = memory_settings();
        settings.authn.issuers.insert("corp".to_owned(), issuer);
        let built = slateberg::app::App::build(settings, Default::default()).await;
        built.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(rejection(&|_| {}).await, "");
    for algorithm in ["none", "HS256", "HS512", "rs256", ""] {
        let error = rejection(&|issuer| issuer.algorithms = vec![algorithm.to_owned()]).await;
        assert!(error.contains("authn.issuers.corp.algorithms"), "{error}");
    }
    let error = rejection(&|issuer| issuer.algorithms.clear()).await;
    assert!(error.contains("algorithms"), "{error}");
    let error = rejection(&|issuer| issuer.audiences.clear()).await;
    assert!(error.contains("audiences"), "{error}");
    let error = rejection(&|issuer| issuer.issuer.clear()).await;
    assert!(error.contains("iss"), "{error}");
    let error = rejection(&|issuer| issuer.jwks_file = "/no/such/file".into()).await;
    assert!(error.contains("/no/such/file"), "{error}");
}

#[tokio::test]
async fn issuer_that_starts_later_is_fetched() {
    let key = TestKey::es256("k");
    let issuer = TestIssuer::start(&[&key]).await;
    issuer.set_down(true);
    let server = trusting(&[("corp", issuer.settings())]).await;
    let token = key.sign(&issuer.claims("a"));
    assert_eq!(server.status(&token).await, 401);
    issuer.set_down(false);
    let found = async {
        while server.status(&token).await != 200 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("it is found");
}
