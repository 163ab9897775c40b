//! Listings of API keys, and the names of their principals.

use std::sync::Arc;

use uuid::Uuid;

use super::api_keys::{ApiKeys, GranteeReader};
use super::key_index::KnownKey;
use super::{Error, Result};
use slateberg_authz::action::ReadKeys;
use slateberg_authz::permit::Permit;
use slateberg_model::members::brief;
use slateberg_store::records::{ApiKeyRecord, RevokedKeyRecord};

/// The status of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStatus {
    /// Requests with the key are accepted.
    Active,
    /// The key has expired.
    Expired,
    /// The key was revoked.
    Revoked,
}

/// A valid or revoked key in a listing.
#[derive(Debug, Clone)]
pub struct ListedKey {
    /// The stored record.
    pub record: ApiKeyRecord,
    /// The status.
    pub status: KeyStatus,
    /// Time of the last use, accurate to a second. `None` if the key was not used since the server
    /// started.
    pub last_used_ms: Option<i64>,
    /// Time of the revocation, and the principal that revoked the key.
    pub revoked: Option<(i64, String)>,
}

impl ApiKeys {
    /// Lists valid and revoked keys in the order of their creation.
    pub fn list(&self, asker: &GranteeReader<'_>) -> Result<Vec<ListedKey>> {
        let _permit: Permit<ReadKeys> = self.permit(asker)?;
        let valid = self.index().all();
        let mut all: Vec<_> = valid.iter().map(|known| self.listed(known)).collect();
        all.extend(self.index().all_revoked().iter().map(revoked));
        all.sort_by_key(|key| key.record.id);
        Ok(all)
    }

    /// Returns a valid or revoked key.
    pub fn get(&self, asker: &GranteeReader<'_>, id: &str) -> Result<ListedKey> {
        let _permit: Permit<ReadKeys> = self.permit(asker)?;
        let parsed = Uuid::try_parse(id).ok();
        let valid = parsed.and_then(|id| self.index().by_id(id)).map(|known| self.listed(&known));
        let known = valid.or_else(|| Some(revoked(&self.index().revoked(parsed?)?)));
        known.ok_or_else(|| Error::NoSuchKey(brief(id)))
    }

    /// Describes a valid key.
    pub fn listed(&self, known: &KnownKey) -> ListedKey {
        let record = known.record.clone();
        let expired = record.expires_ms.is_some_and(|expires_ms| expires_ms <= self.now_ms());
        let status = if expired { KeyStatus::Expired } else { KeyStatus::Active };
        ListedKey { record, status, last_used_ms: known.last_used_ms(), revoked: None }
    }

    /// Returns the name of a principal if its id is that of a valid or revoked key. The ids of
    /// other principals contain their names.
    pub fn name_of(&self, principal: &str) -> Option<String> {
        self.index().name(Uuid::try_parse(principal).ok()?)
    }
}

fn revoked(record: &Arc<RevokedKeyRecord>) -> ListedKey {
    let RevokedKeyRecord { key, revoked_ms, revoked_by } = &**record;
    ListedKey {
        record: key.clone(),
        status: KeyStatus::Revoked,
        last_used_ms: None,
        revoked: Some((*revoked_ms, revoked_by.clone())),
    }
}
