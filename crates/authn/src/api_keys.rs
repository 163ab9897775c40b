//! API keys, which are created, listed and revoked at run time.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::JoinError;
use tracing::Instrument;
use uuid::Uuid;

use super::key_index::{KeyIndex, KnownKey};
use super::{Error, Result, key_text};
use slateberg_authz::action::{Action, ManageKeys};
use slateberg_authz::authority::Authority;
use slateberg_authz::context::Context;
use slateberg_authz::decide::Decision;
use slateberg_authz::lockout;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::Resource;
use slateberg_base::clock::Clock;
use slateberg_base::error_chain::Cause;
use slateberg_base::ids::Ids;
use slateberg_base::secret::Secret;
use slateberg_model::members::brief;
use slateberg_model::principal::{Identity, Method, Principal};
use slateberg_store::audit::{Denial, DenialResponse};
use slateberg_store::keys::{ApiKeyKey, RevokedKeyKey};
use slateberg_store::records::{
    AllowedBy, ApiKeyRecord, Change, ChangeAction, Origin, RevokedKeyRecord,
};
use slateberg_store::txn::RequestRecords;
use slateberg_store::{self as store, Store};

/// The role to which the default policies permit every action.
pub const ADMIN_ROLE: &str = "admin";
/// Maximum length of the name of a key, role or warehouse, in characters.
const NAME_CHARS_MAX: usize = 256;
/// Maximum number of roles of one key, and of warehouses of one key.
const SCOPE_NAMES_MAX: usize = 256;

/// The properties of a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Display name.
    pub name: String,
    /// The roles of the key.
    pub roles: BTreeSet<String>,
    /// Warehouses to which the key is limited. `None` if it is valid for all warehouses.
    pub warehouses: Option<BTreeSet<String>>,
    /// Expiry in milliseconds since 1970. `None` if the key does not expire.
    pub expires_ms: Option<i64>,
}

/// The caller of an operation on API keys or grantees.
#[derive(Debug, Clone)]
pub struct GranteeReader<'a> {
    /// The caller's principal.
    pub principal: &'a Principal,
    /// The policy context of the request.
    pub context: &'a Context,
    /// The origin of the request.
    pub origin: Origin,
}

/// The API keys. Cheap to clone.
#[derive(Clone)]
pub struct ApiKeys {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    authority: Arc<Authority>,
    index: KeyIndex,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    keys_max: usize,
    /// Held during a revocation, so that two admin keys cannot revoke each other at the same time.
    revocation: Mutex<()>,
}

impl ApiKeys {
    /// Creates the API keys of this store, without loading them.
    pub(super) fn new(
        store: Store,
        authority: Arc<Authority>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        keys_max: usize,
    ) -> Self {
        let index = KeyIndex::default();
        let revocation = Mutex::default();
        let inner = Inner { store, authority, index, clock, ids, keys_max, revocation };
        Self { inner: Arc::new(inner) }
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.inner.authority
    }

    /// Returns the index by which requests are authenticated.
    pub fn index(&self) -> &KeyIndex {
        &self.inner.index
    }

    /// Adds durable keys to the index, so that requests may use them.
    pub(super) fn admit(&self, records: impl IntoIterator<Item = ApiKeyRecord>) -> Result<()> {
        let known = records.into_iter().map(|record| {
            let id = record.id;
            KnownKey::new(record).ok_or_else(|| store::Error::Corrupt {
                key: id.to_string(),
                source: Cause::new("the hash of the API key is invalid"),
            })
        });
        let known = known.collect::<std::result::Result<Vec<_>, _>>()?;
        self.inner.index.add(known);
        Ok(())
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.inner.clock.now_ms()
    }

    /// Returns an admin key and its record. The key is `given`, or a new one. The caller stores the
    /// record.
    pub(super) fn admin(&self, name: &str, given: Option<Secret>) -> (Secret, ApiKeyRecord) {
        let new_key = NewKey {
            name: name.to_owned(),
            roles: BTreeSet::from([ADMIN_ROLE.to_owned()]),
            warehouses: None,
            expires_ms: None,
        };
        self.record("slateberg", new_key, given.unwrap_or_else(key_text::mint))
    }

    fn record(&self, created_by: &str, new_key: NewKey, secret: Secret) -> (Secret, ApiKeyRecord) {
        let hash = key_text::hash(secret.reveal())
            .expect("the key is generated here or was validated with the settings");
        let record = ApiKeyRecord {
            id: self.inner.ids.ordered(),
            name: new_key.name,
            hash: hash.to_hex(),
            roles: new_key.roles,
            warehouses: new_key.warehouses,
            created_ms: self.inner.clock.now_ms(),
            created_by: created_by.to_owned(),
            expires_ms: new_key.expires_ms,
        };
        (secret, record)
    }

    /// Creates a key. Only this call returns its secret.
    pub async fn create(
        &self,
        asker: &GranteeReader<'_>,
        new_key: NewKey,
    ) -> Result<(Secret, Arc<KnownKey>)> {
        let permit: Permit<ManageKeys> = self.permit(asker)?;
        self.check(&new_key)?;
        let keys = self.clone();
        let (by, origin) = (asker.principal.id().to_owned(), asker.origin.clone());
        apart(async move {
            let (secret, record) = keys.record(&by, new_key, key_text::mint());
            let log = keys.change(ChangeAction::CreateApiKey, &by, &record, permit.decision());
            let (written, log) = (&record, &Change { origin: Some(origin), ..log });
            let store = &keys.inner.store;
            let ((), accepted) = store
                .transact_for_request("create_api_key", &permit, |t| async move {
                    t.put(&ApiKeyKey(written.id), written)?;
                    Ok::<_, Error>(((), RequestRecords::of_change(log.clone(), None)))
                })
                .await?;
            accepted.durable().await?;
            let id = record.id;
            keys.admit([record])?;
            let known = keys.index().by_id(id).ok_or_else(|| Error::NoSuchKey(id.to_string()))?;
            let ApiKeyRecord { name, roles, .. } = &known.record;
            tracing::info!(%id, name, ?roles, by, "API key created");
            Ok((secret, known))
        })
        .await
    }

    /// Returns the identities of all keys that have not expired.
    pub fn identities(&self) -> Vec<Arc<Identity>> {
        let now_ms = self.inner.clock.now_ms();
        let good = |known: &Arc<KnownKey>| known.record.expires_ms.is_none_or(|it| it > now_ms);
        let all = self.index().all().into_iter().filter(good);
        all.map(|known| Arc::clone(&known.identity)).collect()
    }

    /// Revokes a key. Afterwards, the server rejects requests with the key, and requests with
    /// tokens that were issued for the key. Without `force`, this function rejects the revocation
    /// of the last credential that may manage keys.
    pub async fn revoke(&self, asker: &GranteeReader<'_>, id: &str, force: bool) -> Result<()> {
        let permit: Permit<ManageKeys> = self.permit(asker)?;
        let id = self.find(id)?.record.id;
        let keys = self.clone();
        let (principal, context) = (asker.principal.clone(), asker.context.clone());
        let origin = asker.origin.clone();
        apart(async move {
            let _one_at_a_time = keys.inner.revocation.lock().await;
            let known = keys.find(&id.to_string())?;
            if !force {
                keys.check_not_last(&principal, &context, &known)?;
            }
            let (by, record) = (principal.id(), &known.record);
            let log = keys.change(ChangeAction::RevokeApiKey, by, record, permit.decision());
            let log = &Change { origin: Some(origin), ..log };
            let revoked = &Arc::new(RevokedKeyRecord {
                key: record.clone(),
                revoked_ms: log.at_ms,
                revoked_by: by.to_owned(),
            });
            // The store keeps at most `keys_max` revoked keys.
            let forgotten = keys.index().first_revoked(keys.inner.keys_max);
            let store = &keys.inner.store;
            let ((), accepted) = store
                .transact_for_request("revoke_api_key", &permit, |t| async move {
                    t.delete(&ApiKeyKey(id))?;
                    t.put(&RevokedKeyKey(id), &**revoked)?;
                    if let Some(forgotten) = forgotten {
                        t.delete(&RevokedKeyKey(forgotten))?;
                    }
                    Ok::<_, Error>(((), RequestRecords::of_change(log.clone(), None)))
                })
                .await?;
            // The index changes before the change is durable, so that the key is rejected even if
            // the change never becomes durable.
            keys.index().revoke(revoked, forgotten);
            accepted.durable().await?;
            tracing::info!(%id, name = record.name, by, force, "API key revoked");
            Ok(())
        })
        .await
    }

    /// Rejects the revocation of a key if afterwards neither the caller nor another key could
    /// manage keys.
    fn check_not_last(
        &self,
        principal: &Principal,
        context: &Context,
        known: &KnownKey,
    ) -> Result<()> {
        let policies = self.inner.authority.policies();
        let manages = |candidates: &[Arc<Identity>]| {
            lockout::any_may::<ManageKeys>(&policies, candidates, context)
        };
        let mut others = self.identities();
        // If the caller uses an API key, `identities` already contains this key, unless it was
        // revoked concurrently.
        if let Principal::Identified(identity) = principal
            && identity.method != Method::ApiKey
        {
            others.push(Arc::clone(identity));
        }
        others.retain(|identity| identity.id != known.identity.id);
        if manages(&others) || !manages(&[Arc::clone(&known.identity)]) {
            return Ok(());
        }
        let ApiKeyRecord { name, id, .. } = &known.record;
        Err(Error::LastAdmin(format!(
            "Cannot revoke API key {} ({id}): no other API key may manage API keys. Create another \
             admin key first, or repeat the request with ?force=true (slateberg key revoke --force)",
            brief(name)
        )))
    }

    /// Authorizes action `A` on the keys. Keys belong to the catalog as a whole. So a caller that
    /// is limited to some warehouses is rejected. Otherwise, this caller could create an unlimited
    /// key. A server without authentication rejects every caller. Otherwise, anyone could create a
    /// key that would stay valid after authentication is enabled.
    pub(super) fn permit<A: Action>(&self, asker: &GranteeReader<'_>) -> Result<Permit<A>> {
        let GranteeReader { principal, context, origin } = asker;
        let not_allowed = |why: &str| Error::Forbidden(format!("Not allowed: {why}"));
        match principal {
            Principal::Anonymous => {
                return Err(not_allowed(
                    "a server without authentication has no API keys to manage",
                ));
            }
            Principal::Identified(identity) if identity.warehouses.is_some() => {
                return Err(not_allowed("managing API keys needs a credential for all warehouses"));
            }
            Principal::Identified(_) | Principal::Task(_) => {}
        }
        let catalog = Resource::catalog();
        let permit = self.inner.authority.authorize(principal, &catalog, context);
        permit.map_err(|denied| {
            let denial =
                Denial::of(DenialResponse::Forbidden, &denied, &catalog, principal, origin);
            self.inner.store.audit_denial(self.inner.clock.now_ms(), &denial);
            not_allowed(&format!("{} on {catalog}", A::NAME))
        })
    }

    /// Returns a valid key.
    fn find(&self, id: &str) -> Result<Arc<KnownKey>> {
        let parsed = Uuid::try_parse(id).ok();
        let known = parsed.and_then(|id| self.index().by_id(id));
        known.ok_or_else(|| match parsed.and_then(|id| self.index().revoked(id)) {
            Some(_) => Error::NoSuchKey(format!("{} has been revoked already", brief(id))),
            None => Error::NoSuchKey(brief(id)),
        })
    }

    fn check(&self, new_key: &NewKey) -> Result<()> {
        check_name("name", &new_key.name)?;
        let warehouses = new_key.warehouses.iter().flatten();
        for (what, count) in [
            ("roles", new_key.roles.len()),
            ("warehouses", new_key.warehouses.as_ref().map_or(0, BTreeSet::len)),
        ] {
            if count > SCOPE_NAMES_MAX {
                return Err(Error::Invalid(format!(
                    "Invalid {what}: expected at most {SCOPE_NAMES_MAX}, got {count}"
                )));
            }
        }
        new_key.roles.iter().try_for_each(|role| check_name("role", role))?;
        warehouses.into_iter().try_for_each(|name| check_name("warehouse", name))?;
        if new_key.warehouses.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(Error::Invalid("Invalid warehouses: expected at least one".to_owned()));
        }
        if new_key.expires_ms.is_some_and(|expires_ms| expires_ms <= self.inner.clock.now_ms()) {
            return Err(Error::Invalid("Invalid expiry: it has passed already".to_owned()));
        }
        match self.index().len() {
            keys if keys >= self.inner.keys_max => Err(Error::TooMany(keys)),
            _ => Ok(()),
        }
    }

    pub(super) fn change(
        &self,
        action: ChangeAction,
        by: &str,
        record: &ApiKeyRecord,
        decision: Option<&Decision>,
    ) -> Change {
        Change {
            at_ms: self.inner.clock.now_ms(),
            action: action.into(),
            principal: by.to_owned(),
            // Keys do not belong to a warehouse.
            warehouse: Uuid::nil(),
            subject: record.id,
            name: record.name.clone(),
            version_before: None,
            version_after: None,
            allowed: decision.map(AllowedBy::from),
            origin: None,
            resource: None,
            group: None,
        }
    }
}

fn check_name(what: &str, name: &str) -> Result<()> {
    let wrong = name.trim().is_empty()
        || name.chars().count() > NAME_CHARS_MAX
        || name.chars().any(char::is_control);
    if wrong {
        return Err(Error::Invalid(format!(
            "Invalid {what}: expected 1 to {NAME_CHARS_MAX} printable characters, got '{}'",
            brief(name)
        )));
    }
    Ok(())
}

/// Spawns `work` so that it completes even if the client disconnects. Otherwise, the store and the
/// index in memory could differ: for example, a durable key could be missing in the index.
async fn apart<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let stopped = |panic: JoinError| store::Error::Unknown(Cause::new(panic));
    tokio::spawn(work.in_current_span()).await.map_err(stopped)?
}
