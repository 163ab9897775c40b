//! Slateberg's own tokens: short-lived, signed with Ed25519, and issued to the holder of an API
//! key.
//!
//! A token contains only the id of the API key for which it was issued. The server looks up the key
//! and its roles for each request. So a token becomes invalid together with its key. The signing
//! keys are in the store. The server rotates them periodically. It deletes a signing key when all
//! tokens that the key signed have expired.

use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, encode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::claims::{self, Rules};
use super::issuers::{Refusal, verified_claims};
use super::key_index::KnownKey;
use super::{Error, Result};
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::clock::Clock;
use slateberg_base::error_chain::Cause;
use slateberg_base::ids::Ids;
use slateberg_base::secret::{Secret, random_bytes};
use slateberg_store::keys::SigningKeyKey;
use slateberg_store::records::SigningKeyRecord;
use slateberg_store::{self as store, Store};

/// Header of an Ed25519 seed in PKCS#8 (RFC 8410): the algorithm, and the lengths.
const PKCS8_HEAD: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Issues and verifies slateberg's own tokens.
pub struct OwnTokens {
    store: Store,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    issuer: String,
    audiences: [String; 1],
    token_lifetime_ms: i64,
    key_lifetime_ms: i64,
    /// Ordered by age. The last key is the newest, and signs new tokens.
    keys: RwLock<Vec<Arc<SigningKey>>>,
}

struct SigningKey {
    id: Uuid,
    created_ms: i64,
    signing: EncodingKey,
    verifying: DecodingKey,
    public: Jwk,
}

/// A newly signed token.
#[derive(Debug, Clone)]
pub struct OwnToken {
    /// The token.
    pub text: Secret,
    /// Lifetime in seconds.
    pub expires_in_seconds: i64,
}

/// The content of a verified token: its API key and expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenSubject {
    /// The id of the API key.
    pub key: Uuid,
    /// Expiry in milliseconds since the Unix epoch.
    pub expires_ms: i64,
}

impl SigningKey {
    fn new(record: &SigningKeyRecord) -> Option<Self> {
        let seed = BASE64_STANDARD.decode(record.seed.reveal()).ok()?;
        let seed: [u8; 32] = seed.try_into().ok()?;
        let signing = EncodingKey::from_ed_der(&[&PKCS8_HEAD[..], &seed].concat());
        let mut public = Jwk::from_encoding_key(&signing, Algorithm::EdDSA).ok()?;
        public.common.key_id = Some(record.id.to_string());
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        let verifying = DecodingKey::from_jwk(&public).ok()?;
        let (id, created_ms) = (record.id, record.created_ms);
        Some(Self { id, created_ms, signing, verifying, public })
    }
}

/// The dependencies and settings of [`OwnTokens`].
pub(super) struct Parts {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) catalog_id: Uuid,
    pub(super) token_lifetime_ms: i64,
    pub(super) key_lifetime_ms: i64,
}

impl OwnTokens {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { store, clock, ids, catalog_id, token_lifetime_ms, key_lifetime_ms } = parts;
        // The catalog's id is the issuer and the audience, so a token is invalid in every other
        // catalog.
        let issuer = format!("urn:slateberg:{catalog_id}");
        let (audiences, keys) = ([issuer.clone()], RwLock::default());
        Self { store, clock, ids, issuer, audiences, token_lifetime_ms, key_lifetime_ms, keys }
    }

    /// Returns the `iss` of the tokens.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Generates a new signing key. The caller stores the record.
    pub(super) fn mint_signing_key(&self) -> SigningKeyRecord {
        SigningKeyRecord {
            id: self.ids.ordered(),
            seed: Secret::new(BASE64_STANDARD.encode(random_bytes::<32>())),
            created_ms: self.clock.now_ms(),
        }
    }

    /// Sets the signing keys, which are durable.
    pub(super) fn add_records(&self, records: &[SigningKeyRecord]) -> Result<()> {
        let mut keys = Vec::new();
        for record in records {
            let key = SigningKey::new(record).ok_or_else(|| store::Error::Corrupt {
                key: record.id.to_string(),
                source: Cause::new("a signing key cannot be read"),
            })?;
            keys.push(Arc::new(key));
        }
        keys.sort_by_key(|key| (key.created_ms, key.id));
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    fn keys(&self) -> Vec<Arc<SigningKey>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Signs a token for the holder of an API key. `None` if there is no signing key or signing
    /// fails.
    pub fn sign(&self, holder: &KnownKey) -> Option<OwnToken> {
        let keys = self.keys();
        let newest = keys.last()?;
        let now_ms = self.clock.now_ms();
        let lifetime_end_ms = now_ms.saturating_add(self.token_lifetime_ms);
        // The token must not outlive the API key.
        let end_ms = holder.record.expires_ms.map_or(lifetime_end_ms, |ms| ms.min(lifetime_end_ms));
        let (from, end) = (now_ms.div_euclid(1000), end_ms.div_euclid(1000));
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(newest.id.to_string());
        let claims = json!({
            "iss": self.issuer,
            "aud": self.issuer,
            "sub": holder.record.id,
            "iat": from,
            "exp": end,
            "jti": self.ids.random(),
        });
        let text = encode(&header, &claims, &newest.signing).ok()?;
        Some(OwnToken { text: Secret::new(text), expires_in_seconds: end - from })
    }

    /// Verifies a token of this server.
    pub fn verify(
        &self,
        token: &str,
        header: &Header,
        now_ms: i64,
    ) -> std::result::Result<TokenSubject, Refusal> {
        if header.alg != Algorithm::EdDSA {
            return Err(Refusal::Reason("an algorithm other than EdDSA"));
        }
        let kid = header.kid.as_deref().and_then(|kid| Uuid::try_parse(kid).ok());
        let key = self.keys().into_iter().find(|key| Some(key.id) == kid);
        let key = key.ok_or(Refusal::Reason("a signing key that is not ours"))?;
        let claims = verified_claims(token, header, &key.verifying).map_err(Refusal::Reason)?;
        let rules = Rules { issuer: &self.issuer, audiences: &self.audiences, leeway_ms: 0 };
        let expires_ms = claims::check(&claims, &rules, now_ms).map_err(Refusal::Reason)?;
        let subject = claims::text_at(&claims, "sub").and_then(|id| Uuid::try_parse(id).ok());
        let key = subject.ok_or(Refusal::Reason("no subject"))?;
        Ok(TokenSubject { key, expires_ms })
    }

    /// Returns the public keys as a JSON Web Key Set.
    pub fn key_set(&self) -> Value {
        let keys = self.keys();
        json!({ "keys": keys.iter().map(|key| &key.public).collect::<Vec<_>>() })
    }

    /// Creates a new signing key when the newest one has reached the end of its lifetime. Deletes
    /// keys whose tokens have all expired. Returns the number of created and deleted keys.
    pub async fn rotate(&self) -> Result<usize> {
        let now_ms = self.clock.now_ms();
        let keys = self.keys();
        let Some(newest) = keys.last() else { return Ok(0) };
        let due = newest.created_ms.saturating_add(self.key_lifetime_ms) <= now_ms;
        let fresh = due.then(|| self.mint_signing_key());
        // A key signs tokens only until its successor is created.
        let successors = keys.iter().skip(1).map(|key| key.created_ms);
        let over: Vec<Uuid> = keys
            .iter()
            .zip(successors)
            .filter(|(_, until)| until.saturating_add(self.token_lifetime_ms) < now_ms)
            .map(|(key, _)| key.id)
            .collect();
        if fresh.is_none() && over.is_empty() {
            return Ok(0);
        }
        let (put, delete) = (&fresh, &over);
        let permit = Permit::for_task(Task::Expiry);
        let ((), accepted) = self
            .store
            .transact("rotate_signing_keys", &permit, |t| async move {
                if let Some(record) = put {
                    t.put(&SigningKeyKey(record.id), record)?;
                }
                delete.iter().try_for_each(|id| t.delete(&SigningKeyKey(*id)))?;
                Ok::<_, Error>(())
            })
            .await?;
        accepted.durable().await?;
        let new_key = fresh.as_ref().and_then(SigningKey::new).map(Arc::new);
        let changed = over.len() + usize::from(new_key.is_some());
        let mut current = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        current.retain(|key| !over.contains(&key.id));
        current.extend(new_key);
        Ok(changed)
    }
}
