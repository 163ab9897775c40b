//! Authentication of requests: resolves a credential to a principal.

use std::net::IpAddr;
use std::sync::Arc;

use jsonwebtoken::decode_header;
use quick_cache::sync::Cache;
use uuid::Uuid;

use super::api_keys::ApiKeys;
use super::claims::alleged_issuer;
use super::client_certificates::PresentedCertificate;
use super::error::RejectionReason;
use super::failures::{Failures, TooMany};
use super::issuers::{Issuer, Issuers, Refusal, VerifiedClaims};
use super::key_index::KnownKey;
use super::own_tokens::{self, OwnTokens, TokenSubject};
use super::settings::Settings;
use super::{Error, Result, key_text};
use slateberg_authz::authority::Authority;
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::clock::Clock;
use slateberg_base::ids::Ids;
use slateberg_base::secret::Secret;
use slateberg_model::principal::Principal;
use slateberg_store::Store;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{ApiKeyKey, RevokedKeyKey, SigningKeyKey};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::ChangeAction;
use slateberg_store::txn::RequestRecords;

/// The name of the admin key that the first start creates.
const BOOTSTRAP_NAME: &str = "bootstrap";
/// The name of an admin key that the operator requests on a later start.
const FURTHER_ADMIN_NAME: &str = "admin";

/// Authenticates credentials. Cheap to clone.
#[derive(Clone)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    clock: Arc<dyn Clock>,
    keys: ApiKeys,
    own: OwnTokens,
    issuers: Issuers,
    verified: Cache<TokenHash, Verified>,
    failures: Failures,
}

/// The BLAKE3 hash of a token.
type TokenHash = [u8; 32];

/// The result of verifying a token, cached until the token expires.
#[derive(Clone)]
enum Verified {
    Own(TokenSubject),
    Outside(Arc<Issuer>, VerifiedClaims),
}

const NO_KEY: RejectionReason = RejectionReason("a malformed API key");
const UNKNOWN_KEY: RejectionReason = RejectionReason("an unknown key");
const REVOKED_KEY: RejectionReason = RejectionReason("a token of a revoked key");

/// The dependencies of an [`Authenticator`].
pub struct Parts {
    /// The store of the keys.
    pub store: Store,
    /// Evaluates policies.
    pub authority: Arc<Authority>,
    /// The catalog's id.
    pub catalog_id: Uuid,
    /// The settings of authentication.
    pub settings: Settings,
    /// The configured issuers.
    pub issuers: Issuers,
    /// The admin key for a first start, used instead of a generated one.
    pub bootstrap_key: Option<Secret>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The generator of ids.
    pub ids: Arc<dyn Ids>,
}

impl Authenticator {
    /// Loads the keys. Creates a signing key if none exists, and an admin key if this is the
    /// first start or the settings request one. Returns a generated admin key, which no later call
    /// returns.
    pub async fn open(parts: Parts) -> Result<(Self, Option<Secret>)> {
        let Parts { store, authority, catalog_id, settings, issuers, bootstrap_key, clock, ids } =
            parts;
        let keys = ApiKeys::new(
            store.clone(),
            authority,
            Arc::clone(&clock),
            Arc::clone(&ids),
            settings.api_keys_max,
        );
        let own = OwnTokens::new(own_tokens::Parts {
            store: store.clone(),
            clock: Arc::clone(&clock),
            ids,
            catalog_id,
            token_lifetime_ms: settings.own_token_lifetime_ms(),
            key_lifetime_ms: settings.signing_key_lifetime_ms(),
        });
        let failures = Failures::new(settings.failures_before_delay, settings.failure_delay_ms_max);
        let verified = Cache::new(settings.verified_tokens_max);
        let inner = Inner { settings, clock, keys, own, issuers, verified, failures };
        let authenticator = Self { inner: Arc::new(inner) };
        // A server without authentication needs no keys and leaves existing keys unchanged.
        if authenticator.inner.settings.insecure_no_auth {
            return Ok((authenticator, None));
        }
        let minted = authenticator.load(&store, bootstrap_key).await?;
        Ok((authenticator, minted))
    }

    async fn load(&self, store: &Store, given: Option<Secret>) -> Result<Option<Secret>> {
        let Inner { settings, keys, own, .. } = &*self.inner;
        let durable = store.durable();
        let known = durable.scan::<ApiKeyKey>(&KeyRange::all(KeySpace::ApiKeys), None).await?;
        let revoked =
            durable.scan::<RevokedKeyKey>(&KeyRange::all(KeySpace::RevokedKeys), None).await?;
        let signing =
            durable.scan::<SigningKeyKey>(&KeyRange::all(KeySpace::SigningKeys), None).await?;
        let mut signing: Vec<_> = signing.into_iter().map(|(_, record)| record).collect();
        // A store whose keys were all revoked gets no new admin key, because an operator revoked
        // them on purpose.
        let first = known.is_empty() && signing.is_empty();
        keys.index().add_revoked(revoked.into_iter().map(|(_, record)| record));
        keys.admit(known.into_iter().map(|(_, record)| record))?;
        let fresh_signing = signing.is_empty().then(|| own.mint_signing_key());
        let name = if first { BOOTSTRAP_NAME } else { FURTHER_ADMIN_NAME };
        // A key that the operator provided is not returned.
        let given = given.filter(|_| first);
        let is_generated = given.is_none();
        let needs_admin = first || settings.new_admin_key;
        let admin = needs_admin.then(|| keys.admin(name, given));
        if fresh_signing.is_some() || admin.is_some() {
            let (fresh, minted) = (&fresh_signing, &admin.as_ref().map(|(_, record)| record));
            let permit = Permit::for_task(Task::Open);
            let ((), accepted) = store
                .transact_for_request("first_keys", &permit, |t| async move {
                    if let Some(record) = fresh {
                        t.put(&SigningKeyKey(record.id), record)?;
                    }
                    let Some(record) = minted else {
                        // The creation of a signing key has no entry in the change log.
                        return Ok::<_, Error>(((), RequestRecords::without_change(None)));
                    };
                    t.put(&ApiKeyKey(record.id), *record)?;
                    let change = keys.change(ChangeAction::CreateApiKey, "slateberg", record, None);
                    Ok(((), RequestRecords::of_change(change, None)))
                })
                .await?;
            accepted.durable().await?;
        }
        signing.extend(fresh_signing);
        own.add_records(&signing)?;
        let Some((secret, record)) = admin else { return Ok(None) };
        keys.admit([record])?;
        Ok(is_generated.then_some(secret))
    }

    /// Whether authentication is disabled.
    pub fn is_open(&self) -> bool {
        self.inner.settings.insecure_no_auth
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Returns the API keys.
    pub fn keys(&self) -> &ApiKeys {
        &self.inner.keys
    }

    /// Returns the part that signs and verifies this server's own tokens.
    pub fn own_tokens(&self) -> &OwnTokens {
        &self.inner.own
    }

    /// Returns the external issuers.
    pub fn issuers(&self) -> &Issuers {
        &self.inner.issuers
    }

    /// Resolves a credential to its principal. Waits only if a token names an unknown signing key.
    /// In this case, the keys of the issuer are fetched again, because the issuer may have added
    /// that key recently.
    pub async fn principal(
        &self,
        credential: &str,
    ) -> std::result::Result<Principal, RejectionReason> {
        if credential.starts_with(key_text::PREFIX) {
            let hash = key_text::hash(credential).ok_or(NO_KEY)?;
            let identity = self.inner.keys.index().with_hash(&hash, |known| self.identify(known));
            return identity.ok_or(UNKNOWN_KEY)?;
        }
        if credential.len() > self.inner.settings.token_bytes_max {
            return Err(RejectionReason("an oversized token"));
        }
        let hash: TokenHash = blake3::hash(credential.as_bytes()).into();
        if let Some(principal) = self.remembered(&hash) {
            return principal;
        }
        let verified = self.verify(credential).await?;
        let principal = self.identify_verified(&verified)?;
        self.inner.verified.insert(hash, verified);
        Ok(principal)
    }

    /// Resolves a client certificate to its principal.
    pub fn certified(
        &self,
        presented: &PresentedCertificate,
    ) -> std::result::Result<Principal, RejectionReason> {
        presented.valid_identity(self.inner.clock.now_ms()).map(Principal::Identified)
    }

    /// Returns the valid API key with this secret.
    pub fn key(&self, text: &str) -> std::result::Result<Arc<KnownKey>, RejectionReason> {
        let hash = key_text::hash(text).ok_or(NO_KEY)?;
        let known = self.inner.keys.index().by_hash(&hash).ok_or(UNKNOWN_KEY)?;
        self.identify(&known).map(|_| known)
    }

    /// Returns the API key for which a token of this server was issued.
    pub async fn holder(&self, token: &str) -> std::result::Result<Arc<KnownKey>, RejectionReason> {
        if token.len() > self.inner.settings.token_bytes_max {
            return Err(RejectionReason("an oversized token"));
        }
        match self.verify(token).await? {
            Verified::Own(valid_identity) => self.holder_of(valid_identity),
            Verified::Outside(..) => Err(RejectionReason("a token of another issuer")),
        }
    }

    fn holder_of(
        &self,
        token: TokenSubject,
    ) -> std::result::Result<Arc<KnownKey>, RejectionReason> {
        let known = self.inner.keys.index().by_id(token.key);
        known.ok_or(REVOKED_KEY)
    }

    fn identify(&self, known: &KnownKey) -> std::result::Result<Principal, RejectionReason> {
        let identity = known
            .valid_identity(self.inner.clock.now_ms())
            .ok_or(RejectionReason("an expired API key"))?;
        Ok(Principal::Identified(identity))
    }

    fn identify_verified(
        &self,
        verified: &Verified,
    ) -> std::result::Result<Principal, RejectionReason> {
        match verified {
            Verified::Own(token) => {
                let identity =
                    self.inner.keys.index().with_id(token.key, |known| self.identify(known));
                identity.ok_or(REVOKED_KEY)?
            }
            Verified::Outside(_, identity) => {
                Ok(Principal::Identified(Arc::clone(&identity.identity)))
            }
        }
    }

    /// Returns the cached result for a token, if it is still valid.
    fn remembered(
        &self,
        hash: &TokenHash,
    ) -> Option<std::result::Result<Principal, RejectionReason>> {
        let verified = self.inner.verified.get(hash)?;
        let now_ms = self.inner.clock.now_ms();
        let holds = match &verified {
            Verified::Own(token) => token.expires_ms > now_ms,
            Verified::Outside(issuer, identity) => {
                identity.expires_ms > now_ms
                    && issuer.keys.known().generation == identity.generation
            }
        };
        if holds {
            return Some(self.identify_verified(&verified));
        }
        self.inner.verified.remove(hash);
        None
    }

    async fn verify(&self, token: &str) -> std::result::Result<Verified, RejectionReason> {
        // Rejects unknown algorithms, including `none`.
        let header =
            decode_header(token).map_err(|_| RejectionReason("neither an API key nor a token"))?;
        let iss = alleged_issuer(token).ok_or(RejectionReason("a token without an issuer"))?;
        let to_error = |refusal| match refusal {
            Refusal::Reason(reason) => RejectionReason(reason),
            Refusal::UnknownKey => {
                RejectionReason("a token signed by a key that its issuer does not publish")
            }
        };
        let now_ms = self.inner.clock.now_ms();
        if iss == self.inner.own.issuer() {
            let token = self.inner.own.verify(token, &header, now_ms).map_err(to_error)?;
            return Ok(Verified::Own(token));
        }
        let issuer = self.inner.issuers.by_iss(&iss).ok_or(RejectionReason("an unknown issuer"))?;
        let settings = &self.inner.settings;
        let leeway_ms = settings.leeway_ms();
        let mut identity = issuer.verify(token, &header, now_ms, leeway_ms);
        if matches!(identity, Err(Refusal::UnknownKey))
            && issuer.keys.refetch(now_ms, settings.issuer_refetch_pause_ms()).await
        {
            identity = issuer.verify(token, &header, now_ms, leeway_ms);
        }
        Ok(Verified::Outside(Arc::clone(issuer), identity.map_err(to_error)?))
    }

    /// Records a failed authentication from this source. Delays the response if failures are
    /// frequent.
    pub async fn note_failure(&self, source: Option<IpAddr>) -> std::result::Result<(), TooMany> {
        self.inner.failures.note(source, self.inner.clock.now_ms()).await
    }
}
