//! The shapes of bodies of `/management/v1/grants`.

use serde::{Deserialize, Serialize};

use super::policies::PoliciesChanged;
use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog::policies::GrantRecord;
use slateberg_catalog::policies::grants::GrantPage;

/// Body of `POST /management/v1/grants`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GrantRequest {
    /// The template's id, such as `grant-read`, or what follows the dash.
    pub template: String,
    /// To whom: `user:ID`, `service-account:ID`, `role:NAME` or `group:NAME`.
    pub grantee: String,
    /// On what, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Comment recorded in the history.
    #[serde(default)]
    pub comment: Option<String>,
    /// Fails unless this is the latest revision.
    #[serde(default)]
    pub expected_revision: Option<u64>,
}

/// A grant.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Grant {
    /// Its identity.
    pub id: String,
    /// The template that it fills in.
    pub template: String,
    /// To whom.
    pub grantee: String,
    /// Name of the API key that the grantee is; null for other grantees.
    pub grantee_name: Option<String>,
    /// On what.
    pub resource: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// By whom.
    pub created_by: String,
    /// Name of the API key that `created_by` is the id of; null for other principals.
    pub created_by_name: Option<String>,
}

impl Grant {
    /// A grant, with the names of the API keys in it.
    pub fn new(record: GrantRecord, keys: &ApiKeys) -> Self {
        let account = record.grantee.strip_prefix("service-account:");
        Self {
            id: record.id.to_string(),
            template: record.template,
            grantee_name: account.and_then(|id| keys.name_of(id)),
            grantee: record.grantee,
            resource: record.resource,
            created_at_ms: record.created_ms,
            created_by_name: keys.name_of(&record.created_by),
            created_by: record.created_by,
        }
    }
}

/// A grant as it is listed.
#[derive(Debug, Serialize)]
pub struct ListedGrant {
    /// The grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// The id of the policy that it is in decisions.
    pub policy: String,
}

impl ListedGrant {
    /// A grant, with the id of its policy.
    pub fn new((record, policy): (GrantRecord, String), keys: &ApiKeys) -> Self {
        Self { grant: Grant::new(record, keys), policy }
    }
}

/// Answer of `GET /management/v1/grants`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListGrants {
    /// The grants, in the order of their making.
    pub grants: Vec<ListedGrant>,
    /// The token of the next page; null if this is the last.
    pub next_page_token: Option<String>,
}

impl ListGrants {
    /// A page of grants.
    pub fn new(page: GrantPage, keys: &ApiKeys) -> Self {
        let grants = page.grants.into_iter().map(|grant| ListedGrant::new(grant, keys)).collect();
        Self { grants, next_page_token: page.next }
    }
}

/// Answer of `POST /management/v1/grants`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Granted {
    /// The grant that there is now, or would be.
    pub grant: Option<Grant>,
    /// What that has changed: nothing if it was there already.
    #[serde(flatten)]
    pub changed: PoliciesChanged,
}
