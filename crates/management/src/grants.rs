//! Bodies of `/management/v1/grants`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use crate::grant::Grant;
use crate::policies::PolicyChange;

/// Body of `POST /management/v1/grants`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CreateGrantRequest {
    /// Privilege to grant: browse, read, write, own, or the id of a policy template.
    #[schema(min_length = 1)]
    pub template: String,
    /// user:ID, service-account:ID, role:NAME or group:NAME. A caller that may list API keys can
    /// also write service-account:NAME if exactly one valid API key has this name.
    #[schema(pattern = "^(user|service-account|role|group):.+$")]
    pub grantee: String,
    /// warehouse:NAME, namespace:WAREHOUSE/LEVEL, table:WAREHOUSE/LEVEL/NAME or
    /// view:WAREHOUSE/LEVEL/NAME. A slash within a name is written %2F.
    #[schema(
        pattern = "^(warehouse:[^/]+|namespace:[^/]+(/[^/]+)+|(table|view):[^/]+(/[^/]+){2,})$"
    )]
    pub resource: String,
    /// Comment recorded in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The request fails unless this is the latest revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u64>,
}

/// A grant and the id of its policy.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct GrantWithPolicy {
    /// The grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Id of the policy that belongs to the grant. Decisions contain this id.
    pub policy: String,
}

/// Response of `GET /management/v1/grants`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct GrantList {
    /// The grants, in the order of their creation.
    pub grants: Vec<GrantWithPolicy>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

/// Response of `POST /management/v1/grants`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CreatedGrant {
    /// The grant; null for a dry run that would create it.
    #[schema(required)]
    pub grant: Option<Grant>,
    /// The change; it is empty if the grant existed before.
    #[serde(flatten)]
    pub change: PolicyChange,
}
