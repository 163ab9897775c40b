//! Issuers of tokens, and what of their tokens is believed.

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
    fn new(name: &str, settings: &IssuerSettings) -> Self {
        let known = |text: &String| algorithm(text);
        Self {
            name: name.to_owned(),
            settings: settings.clone(),
            keys: KeyHandle::default(),
            algorithms: settings.algorithms.iter().filter_map(known).collect(),
        }
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
    /// The issuers of these settings. Errors with the first problem of [`problems`].
    pub fn new(settings: &BTreeMap<String, IssuerSettings>) -> Result<Self, InvalidSetting> {
        if let Some(problem) = problems(settings).into_iter().next() {
            return Err(problem);
        }
        let issuers = settings.iter().map(|(name, settings)| {
            (settings.issuer.clone(), Arc::new(Issuer::new(name, settings)))
        });
        Ok(Self { by_iss: issuers.collect() })
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
