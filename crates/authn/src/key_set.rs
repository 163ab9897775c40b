//! An issuer's public keys: what tokens are verified by, and how newer ones come in.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Notify, watch};

/// Keys that one set may have.
const KEYS_MAX: usize = 100;
/// How long a request with an unknown key waits for a look at the issuer.
const REFETCH_PATIENCE: Duration = Duration::from_secs(3);

/// A public key.
pub struct PublicKey {
    kid: Option<String>,
    algorithm: Option<String>,
    family: AlgorithmFamily,
    /// What signatures are verified by.
    pub key: DecodingKey,
}

/// The public keys of an issuer.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
    text: Vec<u8>,
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys that are not for signatures, of kinds that are not known, or
    /// symmetric, are left out: with a symmetric one, whoever can verify can also sign.
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
            return Err("there is no key for signatures in it".to_owned());
        }
        Ok(Self { keys, text: text.to_vec() })
    }

    /// The key that a token names, if it fits its algorithm. A token that names none is verified by the
    /// only key that fits, if there is just one.
    pub fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&PublicKey> {
        let fits = |key: &&PublicKey| {
            key.family == family(algorithm)
                && key.algorithm.as_ref().is_none_or(|own| *own == format!("{algorithm:?}"))
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

/// The family of an algorithm.
fn family(algorithm: Algorithm) -> AlgorithmFamily {
    use AlgorithmFamily as F;
    [F::Rsa, F::Ec, F::Ed]
        .into_iter()
        .find(|family| family.algorithms().contains(&algorithm))
        .unwrap_or(F::Hmac)
}

/// What is known of an issuer's keys by now.
#[derive(Clone, Default)]
pub struct Known {
    /// The keys.
    pub set: Arc<KeySet>,
    /// Grows whenever the keys become others.
    pub generation: u64,
    /// Grows with every look at the issuer, whatever came of it.
    looks: u64,
    /// Where clients get tokens, if the issuer says so.
    pub token_url: Option<Arc<str>>,
}

/// Where an issuer's keys come in, and where newer ones are asked for.
#[derive(Default)]
pub struct KeyHandle {
    known: watch::Sender<Known>,
    wanted: Notify,
    /// From when on a key that is not known is a reason to look again.
    look_again_ms: AtomicI64,
    /// The number of the last look that was asked for.
    asked: AtomicU64,
}

impl KeyHandle {
    /// What is known by now.
    pub fn known(&self) -> Known {
        self.known.borrow().clone()
    }

    /// Brings in what a look at the issuer has found.
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

    /// Tells that a look at the issuer has failed: what was known stays.
    pub fn failed(&self) {
        self.known.send_modify(|known| known.looks += 1);
    }

    /// Returns when somebody asks for newer keys.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Asks for newer keys, unless that was done within `pause_ms`, and waits a short while for them, as
    /// all do that come while somebody looks. Says whether it is worth to look at them again.
    pub(super) async fn refetch(&self, now_ms: i64, pause_ms: i64) -> bool {
        let mut known = self.known.subscribe();
        let looks = known.borrow_and_update().looks;
        let again_ms = self.look_again_ms.load(Ordering::Relaxed);
        let next_ms = now_ms.saturating_add(pause_ms);
        let turn = (Ordering::AcqRel, Ordering::Relaxed);
        // The first look needs no asking: it is under way from the start.
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
