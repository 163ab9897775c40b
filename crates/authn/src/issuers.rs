//! Token issuers, and the verification of their tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, Header, Validation, decode};

use super::algorithms::algorithm;
use super::claims::{self, Claims, Rules};
use super::issuer_rules::problems;
use super::key_set::KeyHandle;
use super::settings::IssuerSettings;
use slateberg_base::setting::InvalidSetting;
use slateberg_model::principal::{Identity, IdentityKind, Method};

/// The reason for rejecting a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The token is invalid for this reason. A newer key set of the issuer would not make it valid.
    Reason(&'static str),
    /// The token names a key that is not in the known key set of its issuer.
    UnknownKey,
}

/// A verified token.
#[derive(Debug, Clone)]
pub struct VerifiedClaims {
    /// The identity of the bearer.
    pub identity: Arc<Identity>,
    /// The generation of the key set that verified the token.
    pub generation: u64,
    /// Expiry in milliseconds since the Unix epoch.
    pub expires_ms: i64,
}

/// An external issuer.
pub struct Issuer {
    /// The name in the settings.
    pub name: String,
    /// Settings of the issuer.
    pub settings: IssuerSettings,
    /// Public keys of the issuer.
    pub keys: KeyHandle,
    algorithms: Vec<Algorithm>,
}

impl Issuer {
    fn new(name: &str, settings: &IssuerSettings) -> Self {
        let known = |text: &String| algorithm(text);
        Self {
            name: name.to_owned(),
            settings: settings.clone(),
            keys: KeyHandle::default(),
            algorithms: settings.algorithms.iter().filter_map(known).collect(),
        }
    }

    /// Verifies a token's signature and claims.
    pub fn verify(
        &self,
        token: &str,
        header: &Header,
        now_ms: i64,
        leeway_ms: i64,
    ) -> Result<VerifiedClaims, Refusal> {
        // The issuer's settings, not the token, determine the accepted algorithms.
        if !self.algorithms.contains(&header.alg) {
            return Err(Refusal::Reason("an algorithm that its issuer's settings do not allow"));
        }
        let known = self.keys.known();
        let key = known.set.find(header.kid.as_deref(), header.alg).ok_or(Refusal::UnknownKey)?;
        let claims = verified_claims(token, header, &key.key).map_err(Refusal::Reason)?;
        let Self { name, settings, .. } = self;
        let rules = Rules { issuer: &settings.issuer, audiences: &settings.audiences, leeway_ms };
        let expires_ms = claims::check(&claims, &rules, now_ms).map_err(Refusal::Reason)?;
        let subject = claims::text_at(&claims, &settings.subject_claim)
            .ok_or(Refusal::Reason("no subject"))?;
        let identity = Identity {
            kind: IdentityKind::User,
            id: format!("{name}/{subject}"),
            name: claims::text_at(&claims, &settings.name_claim).unwrap_or(subject).to_owned(),
            groups: claims::names_at(&claims, &settings.groups_claim),
            roles: claims::names_at(&claims, &settings.roles_claim),
            method: Method::Jwt,
            warehouses: None,
        };
        Ok(VerifiedClaims {
            identity: Arc::new(identity),
            generation: known.generation,
            expires_ms,
        })
    }

    /// Whether the keys are fetched from a URL instead of read from a file.
    pub fn is_fetched(&self) -> bool {
        self.settings.jwks_file.as_os_str().is_empty()
    }

    /// Returns the URL of the token endpoint, if known.
    pub fn token_url(&self) -> Option<String> {
        match self.settings.token_url.as_str() {
            "" => self.keys.known().token_url.map(|url| url.to_string()),
            url => Some(url.to_owned()),
        }
    }
}

/// Returns the claims of a token after verifying its signature with this key. The caller has
/// checked the algorithm.
pub(super) fn verified_claims(
    token: &str,
    header: &Header,
    key: &jsonwebtoken::DecodingKey,
) -> Result<Claims, &'static str> {
    if header.crit.is_some() {
        return Err("a critical header extension (crit)");
    }
    let mut signature_alone = Validation::new(header.alg);
    // The caller validates the claims with this server's clock and rules.
    signature_alone.validate_exp = false;
    signature_alone.validate_nbf = false;
    signature_alone.validate_aud = false;
    signature_alone.required_spec_claims.clear();
    match decode::<Claims>(token, key, &signature_alone) {
        Ok(decoded) => Ok(decoded.claims),
        Err(_) => Err("an invalid signature"),
    }
}

/// All issuers, by the `iss` of their tokens.
#[derive(Default, Clone)]
pub struct Issuers {
    by_iss: BTreeMap<String, Arc<Issuer>>,
}

impl Issuers {
    /// Creates the configured issuers. Errors with the first problem of [`problems`].
    pub fn new(settings: &BTreeMap<String, IssuerSettings>) -> Result<Self, InvalidSetting> {
        if let Some(problem) = problems(settings).into_iter().next() {
            return Err(problem);
        }
        let issuers = settings.iter().map(|(name, settings)| {
            (settings.issuer.clone(), Arc::new(Issuer::new(name, settings)))
        });
        Ok(Self { by_iss: issuers.collect() })
    }

    /// Returns the issuer with this `iss`.
    pub(crate) fn by_iss(&self, iss: &str) -> Option<&Arc<Issuer>> {
        self.by_iss.get(iss)
    }

    /// Returns all issuers.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Issuer>> {
        self.by_iss.values()
    }

    /// Returns the issuer whose token authenticated this identity.
    pub fn of(&self, identity: &Identity) -> Option<&Arc<Issuer>> {
        let (name, _) = identity.id.split_once('/').filter(|_| identity.method == Method::Jwt)?;
        self.all().find(|issuer| issuer.name == name)
    }
}
