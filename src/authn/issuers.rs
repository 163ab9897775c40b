//! Issuers of tokens, and what of their tokens is believed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, Header, Validation, decode};

use super::claims::{self, Claims, Rules};
use super::client_certificates;
use super::key_set::KeyHandle;
use super::settings::IssuerSettings;
use crate::model::principal::{EMBEDDED_ID_PREFIX, Identity, IdentityKind, Method};

/// Algorithms that an issuer may sign with. None of them has a key that both signs and verifies.
const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// Why a token is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// For a reason that a newer key set does not change.
    Reason(&'static str),
    /// It names a key that its issuer is not known to have.
    UnknownKey,
}

/// Whom a token speaks for, and until when.
#[derive(Debug, Clone)]
pub struct Spoken {
    /// Whom.
    pub identity: Arc<Identity>,
    /// The generation of the key set that it was verified by.
    pub generation: u64,
    /// When it is good no more, in milliseconds since the Unix epoch.
    pub expires_ms: i64,
}

/// An outside issuer.
pub struct Issuer {
    /// The name that the settings give it.
    pub name: String,
    /// Its settings.
    pub settings: IssuerSettings,
    /// Its keys.
    pub keys: KeyHandle,
    algorithms: Vec<Algorithm>,
}

impl Issuer {
    fn new(name: &str, settings: &IssuerSettings) -> Result<Self, String> {
        let wrong = |what: &str| format!("authn.issuers.{name}.{what}");
        if name.is_empty() || name.contains('/') {
            return Err(format!("authn.issuers: a name has no slash, got '{name}'"));
        }
        if name == client_certificates::ID_PREFIX {
            return Err(format!(
                "authn.issuers: '{name}' is what client certificates are called by"
            ));
        }
        if name == EMBEDDED_ID_PREFIX {
            return Err(format!(
                "authn.issuers: '{name}' is what programs are called by that embed the catalog"
            ));
        }
        if settings.issuer.is_empty() {
            return Err(wrong("issuer: expected the iss of its tokens"));
        }
        if settings.audiences.is_empty() {
            return Err(wrong(
                "audiences: expected at least one: tokens for others are no good here",
            ));
        }
        if !settings.jwks_url.is_empty() && !settings.jwks_file.as_os_str().is_empty() {
            return Err(wrong("jwks_url: there is a jwks_file as well"));
        }
        let algorithm = |text: &String| {
            let known = ALGORITHMS.iter().find(|(name, _)| name == text);
            let names = ALGORITHMS.map(|(name, _)| name).join(", ");
            known.map(|(_, algorithm)| *algorithm).ok_or_else(|| {
                format!("{}: expected one of {names}, got '{text}'", wrong("algorithms"))
            })
        };
        let algorithms =
            settings.algorithms.iter().map(algorithm).collect::<Result<Vec<_>, _>>()?;
        if algorithms.is_empty() {
            return Err(wrong("algorithms: expected at least one"));
        }
        let (name, settings) = (name.to_owned(), settings.clone());
        Ok(Self { name, settings, keys: KeyHandle::default(), algorithms })
    }

    /// Verifies a token's signature and its claims.
    pub fn verify(
        &self,
        token: &str,
        header: &Header,
        now_ms: i64,
        leeway_ms: i64,
    ) -> Result<Spoken, Refusal> {
        // Not what the token says decides how it is verified, but what the issuer is known to do.
        if !self.algorithms.contains(&header.alg) {
            return Err(Refusal::Reason("another algorithm than its issuer's"));
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
        Ok(Spoken { identity: Arc::new(identity), generation: known.generation, expires_ms })
    }

    /// Whether its keys are fetched, and not in a file.
    pub fn is_fetched(&self) -> bool {
        self.settings.jwks_file.as_os_str().is_empty()
    }

    /// Where its clients get tokens, as far as that is known.
    pub fn token_url(&self) -> Option<String> {
        match self.settings.token_url.as_str() {
            "" => self.keys.known().token_url.map(|url| url.to_string()),
            url => Some(url.to_owned()),
        }
    }
}

/// The claims of a token whose signature is that of this key, by the algorithm that was let pass.
pub(super) fn verified_claims(
    token: &str,
    header: &Header,
    key: &jsonwebtoken::DecodingKey,
) -> Result<Claims, &'static str> {
    if header.crit.is_some() {
        return Err("an extension that has to be understood");
    }
    let mut signature_alone = Validation::new(header.alg);
    // What the claims mean is judged by our clock and our rules.
    signature_alone.validate_exp = false;
    signature_alone.validate_nbf = false;
    signature_alone.validate_aud = false;
    signature_alone.required_spec_claims.clear();
    match decode::<Claims>(token, key, &signature_alone) {
        Ok(decoded) => Ok(decoded.claims),
        Err(_) => Err("a signature that does not fit"),
    }
}

/// All issuers, by the `iss` of their tokens.
#[derive(Default, Clone)]
pub struct Issuers {
    by_iss: BTreeMap<String, Arc<Issuer>>,
}

impl Issuers {
    /// The issuers of these settings; or what is wrong with them, and where.
    pub fn new(settings: &BTreeMap<String, IssuerSettings>) -> Result<Self, String> {
        let mut by_iss = BTreeMap::new();
        for (name, settings) in settings {
            let issuer = Arc::new(Issuer::new(name, settings)?);
            if by_iss.insert(settings.issuer.clone(), issuer).is_some() {
                return Err(format!("authn.issuers.{name}.issuer: another has the same"));
            }
        }
        Ok(Self { by_iss })
    }

    /// The issuer with this `iss`.
    pub fn by_iss(&self, iss: &str) -> Option<&Arc<Issuer>> {
        self.by_iss.get(iss)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Issuer>> {
        self.by_iss.values()
    }

    /// The one that vouches for an identity.
    pub fn of(&self, identity: &Identity) -> Option<&Arc<Issuer>> {
        let (name, _) = identity.id.split_once('/').filter(|_| identity.method == Method::Jwt)?;
        self.all().find(|issuer| issuer.name == name)
    }
}
