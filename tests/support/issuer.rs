//! [`TestIssuer`]: an issuer of tokens with a real key-set endpoint on its own port.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair,
};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use slateberg_authn::settings::IssuerSettings;
use slateberg_base::clock::{Clock, SystemClock};
use tokio::net::TcpListener;

/// A signing key of an issuer.
#[derive(Clone)]
pub struct TestKey {
    pub kid: String,
    pub algorithm: Algorithm,
    pub signing: EncodingKey,
}

impl TestKey {
    /// Returns a new P-256 key.
    pub fn es256(kid: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("randomness");
        let der = pair.to_pkcs8v1().expect("it can be written");
        let signing = EncodingKey::from_ec_der(der.as_ref());
        Self { kid: kid.to_owned(), algorithm: Algorithm::ES256, signing }
    }

    /// Returns a new Ed25519 key.
    pub fn eddsa(kid: &str) -> Self {
        let pair = Ed25519KeyPair::generate().expect("randomness");
        let der = pair.to_pkcs8v1().expect("it can be written");
        let signing = EncodingKey::from_ed_der(der.as_ref());
        Self { kid: kid.to_owned(), algorithm: Algorithm::EdDSA, signing }
    }

    /// Returns a new RSA key of 2048 bits for this algorithm.
    pub fn rsa(kid: &str, algorithm: Algorithm) -> Self {
        /// Length of the PKCS #8 header before a key of this size.
        const HEADER_BYTES: usize = 26;
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("randomness");
        let der = pair.as_der().expect("it can be written");
        let signing = EncodingKey::from_rsa_der(&der.as_ref()[HEADER_BYTES..]);
        Self { kid: kid.to_owned(), algorithm, signing }
    }

    /// Returns the same key with another algorithm.
    pub fn by(&self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self.clone() }
    }

    /// Returns its public key.
    pub fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.signing, self.algorithm).expect("a public half");
        jwk.common.key_id = Some(self.kid.clone());
        serde_json::to_value(jwk).expect("it is JSON")
    }

    /// Returns a token with these claims.
    pub fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.kid.clone());
        encode(&header, claims, &self.signing).expect("it signs")
    }
}

/// Current content of an issuer, and the number of fetches.
struct IssuerState {
    keys: Mutex<Vec<Value>>,
    down: Mutex<bool>,
    key_fetches: AtomicU64,
}

/// An issuer.
pub struct TestIssuer {
    /// The issuer's `iss`, which is also the base URL of its discovery document.
    pub iss: String,
    state: Arc<IssuerState>,
}

impl TestIssuer {
    /// Starts an issuer with these keys.
    pub async fn start(keys: &[&TestKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let iss = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(IssuerState {
            keys: Mutex::new(Vec::new()),
            down: Mutex::new(false),
            key_fetches: AtomicU64::new(0),
        });
        let (jwks, document) = (Arc::clone(&state), iss.clone());
        let router = Router::new()
            .route(
                "/keys",
                get(move || async move {
                    jwks.key_fetches.fetch_add(1, Ordering::SeqCst);
                    if *jwks.down.lock().expect("no panic") {
                        return Err(StatusCode::SERVICE_UNAVAILABLE);
                    }
                    let keys = jwks.keys.lock().expect("no panic").clone();
                    Ok(Json(json!({ "keys": keys })))
                }),
            )
            .route(
                "/.well-known/openid-configuration",
                get(move || async move {
                    Json(json!({
                        "issuer": document,
                        "jwks_uri": format!("{document}/keys"),
                        "token_endpoint": format!("{document}/token"),
                    }))
                }),
            );
        tokio::spawn(async move { axum::serve(listener, router).await });
        let issuer = Self { iss, state };
        issuer.publish(keys);
        issuer
    }

    /// Replaces the published keys.
    pub fn publish(&self, keys: &[&TestKey]) {
        self.publish_raw(keys.iter().map(|key| key.public()).collect());
    }

    /// Replaces the published members of the key set.
    pub fn publish_raw(&self, keys: Vec<Value>) {
        *self.state.keys.lock().expect("no panic") = keys;
    }

    /// Makes all responses errors, or restores them.
    pub fn set_down(&self, down: bool) {
        *self.state.down.lock().expect("no panic") = down;
    }

    /// Returns the number of fetches of its keys.
    pub fn key_fetches(&self) -> u64 {
        self.state.key_fetches.load(Ordering::SeqCst)
    }

    /// Returns settings that trust it.
    pub fn settings(&self) -> IssuerSettings {
        IssuerSettings {
            issuer: self.iss.clone(),
            audiences: vec!["slateberg".to_owned()],
            algorithms: ["ES256", "EdDSA"].map(str::to_owned).into(),
            roles_claim: "realm_access.roles".to_owned(),
            ..IssuerSettings::default()
        }
    }

    /// Returns the claims of a valid token with a lifetime of one hour.
    pub fn claims(&self, subject: &str) -> Value {
        let now = SystemClock.now_ms() / 1000;
        json!({
            "iss": self.iss,
            "aud": "slateberg",
            "sub": subject,
            "preferred_username": format!("name of {subject}"),
            "groups": ["analysts"],
            "realm_access": { "roles": ["writer"] },
            "iat": now,
            "exp": now + 3600,
        })
    }
}
