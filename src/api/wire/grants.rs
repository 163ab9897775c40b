//! The shapes of bodies of `/management/v1/grants`.

use serde::{Deserialize, Serialize};

use super::policies::PoliciesChanged;
use crate::catalog::policies::GrantRecord;
use crate::catalog::policies::grants::GrantPage;

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
    /// What goes into the log with it.
    #[serde(default)]
    pub comment: Option<String>,
    /// The number of the newest revision, as whoever asks has seen it.
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
    /// On what.
    pub resource: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// By whom.
    pub created_by: String,
}

impl From<GrantRecord> for Grant {
    fn from(record: GrantRecord) -> Self {
        Self {
            id: record.id.to_string(),
            template: record.template,
            grantee: record.grantee,
            resource: record.resource,
            created_at_ms: record.created_ms,
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

impl From<(GrantRecord, String)> for ListedGrant {
    fn from((record, policy): (GrantRecord, String)) -> Self {
        Self { grant: record.into(), policy }
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

impl From<GrantPage> for ListGrants {
    fn from(page: GrantPage) -> Self {
        let grants = page.grants.into_iter().map(ListedGrant::from).collect();
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
