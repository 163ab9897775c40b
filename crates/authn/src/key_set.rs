//! An issuer's public keys, and their replacement by newer ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use super::algorithms::algorithm as named;

/// Maximum number of keys in a set.
const KEYS_MAX: usize = 100;
/// Maximum time that a request whose token names an unknown key waits for a refetch of the keys.
const REFETCH_PATIENCE: Duration = Duration::from_secs(3);

/// A public key.
pub struct PublicKey {
    kid: Option<String>,
    algorithm: Option<String>,
    family: AlgorithmFamily,
    /// The key that verifies signatures.
    pub key: DecodingKey,
}

/// The public keys of an issuer.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
    text: Vec<u8>,
}

impl KeySet {
    /// Parses a JSON Web Key Set. Skips keys that are not for signatures, keys of unknown types,
    /// and symmetric keys, with which every verifier could also sign.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Jwks {
            keys: Vec<Value>,
        }
        let jwks: Jwks = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if jwks.keys.len() > KEYS_MAX {
            return Err(format!("expected at most {KEYS_MAX} keys, got {}", jwks.keys.len()));
        }
        let keys: Vec<_> = jwks.keys.into_iter().filter_map(PublicKey::read).collect();
        if keys.is_empty() {
            return Err("the key set contains no key for signatures".to_owned());
        }
        Ok(Self { keys, text: text.to_vec() })
    }

    /// Returns the key that a token names, if that key fits the algorithm. If the token names no
    /// key, returns the only key that fits the algorithm, or `None` if several keys fit.
    pub fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&PublicKey> {
        let fits = |key: &&PublicKey| {
            key.family == family(algorithm)
                && key.algorithm.as_deref().is_none_or(|own| named(own) == Some(algorithm))
        };
        match kid {
            Some(kid) => self.keys.iter().filter(fits).find(|key| key.kid.as_deref() == Some(kid)),
            None => {
                let mut fitting = self.keys.iter().filter(fits);
                fitting.next().filter(|_| fitting.next().is_none())
            }
        }
    }
}

impl PublicKey {
    fn read(value: Value) -> Option<Self> {
        let algorithm = value.get("alg").and_then(Value::as_str).map(str::to_owned);
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let for_signatures = match &jwk.common.public_key_use {
            None => true,
            Some(wanted) => *wanted == PublicKeyUse::Signature,
        };
        let family = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa,
            AlgorithmParameters::EllipticCurve(_) => AlgorithmFamily::Ec,
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
                AlgorithmFamily::Ed
            }
            _ => return None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| for_signatures)?;
        Some(Self { kid: jwk.common.key_id, algorithm, family, key })
    }
}

/// Returns the family of an algorithm.
fn family(algorithm: Algorithm) -> AlgorithmFamily {
    use AlgorithmFamily as F;
    [F::Rsa, F::Ec, F::Ed]
        .into_iter()
        .find(|family| family.algorithms().contains(&algorithm))
        .unwrap_or(F::Hmac)
}

/// The known state of an issuer's keys.
#[derive(Clone, Default)]
pub struct Known {
    /// The key set.
    pub set: Arc<KeySet>,
    /// Number that increases whenever the key set changes.
    pub generation: u64,
    /// Number of fetches, including failed ones.
    looks: u64,
    /// The URL of the token endpoint, if the issuer publishes it.
    pub token_url: Option<Arc<str>>,
}

/// Stores an issuer's keys, and forwards requests for newer ones to the task that fetches them.
#[derive(Default)]
pub struct KeyHandle {
    known: watch::Sender<Known>,
    wanted: Notify,
    /// Earliest time at which an unknown key can cause the next fetch.
    look_again_ms: AtomicI64,
    /// The number of the last requested fetch.
    asked: AtomicU64,
}

impl KeyHandle {
    /// Returns the current keys.
    pub fn known(&self) -> Known {
        self.known.borrow().clone()
    }

    /// Stores the result of a successful fetch.
    pub fn push(&self, set: KeySet, token_url: Option<&str>) {
        self.known.send_modify(|known| {
            known.looks += 1;
            known.token_url = token_url.map(Into::into);
            if known.set.text != set.text {
                known.set = Arc::new(set);
                known.generation += 1;
            }
        });
    }

    /// Records a failed fetch. The known keys stay valid.
    pub fn failed(&self) {
        self.known.send_modify(|known| known.looks += 1);
    }

    /// Waits until a request needs newer keys.
    pub async fn wait_requested(&self) {
        self.wanted.notified().await;
    }

    /// Requests newer keys, unless they were already requested within the last `pause_ms`. Waits
    /// for the end of the requested fetch, but only for a short time. Returns `true` if the fetch
    /// has ended. In this case, the caller should verify the token again.
    pub(super) async fn refetch(&self, now_ms: i64, pause_ms: i64) -> bool {
        let mut known = self.known.subscribe();
        let looks = known.borrow_and_update().looks;
        let again_ms = self.look_again_ms.load(Ordering::Relaxed);
        let next_ms = now_ms.saturating_add(pause_ms);
        let turn = (Ordering::AcqRel, Ordering::Relaxed);
        // The first fetch starts without a request, so this function only waits for it.
        let first = looks == 0;
        if !first
            && now_ms >= again_ms
            && self.look_again_ms.compare_exchange(again_ms, next_ms, turn.0, turn.1).is_ok()
        {
            self.asked.store(looks + 1, Ordering::Release);
            self.wanted.notify_one();
        }
        if !first && self.asked.load(Ordering::Acquire) <= looks {
            return false;
        }
        let look = known.wait_for(|known| known.looks > looks);
        tokio::time::timeout(REFETCH_PATIENCE, look).await.is_ok_and(|look| look.is_ok())
    }
}
