//! Bodies of `/management/v1/policies`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::grant::Grant;
use crate::string_enum::string_enum;

/// Body of `POST /management/v1/policies` and `PUT /management/v1/policies/{id}`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PutPolicyRequest {
    /// The policy in Cedar's syntax, with an @id annotation.
    #[schema(min_length = 1)]
    pub text: String,
    /// Comment recorded in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The request fails unless this is the latest revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u64>,
}

/// Body of `POST /management/v1/policies/rollback`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RollbackRequest {
    /// Revision to return to.
    pub to: u64,
    /// Comment recorded in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The request fails unless this is the latest revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u64>,
}

string_enum! {
    /// Source of a policy.
    PolicyOrigin {
        /// A policy file of the server.
        File = "file",
        /// A request of the management API.
        Api = "api",
        /// A grant.
        Grant = "grant",
        /// No policy: the credential is limited to other warehouses, so the action is denied.
        Credential = "credential",
    }
}

string_enum! {
    /// Effect of a policy.
    PolicyEffect {
        /// Matching requests are permitted unless another policy forbids them.
        Permit = "permit",
        /// Matching requests are denied.
        Forbid = "forbid",
    }
}

/// A policy in force, or a template.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Policy {
    /// Id of the policy.
    pub id: String,
    /// Source of the policy.
    pub origin: PolicyOrigin,
    /// File and line of a policy from a file, or the template of a grant; otherwise null.
    #[schema(required)]
    pub from: Option<String>,
    /// True for a template, which has no effect until it is granted.
    pub template: bool,
    /// Effect of the policy.
    pub effect: PolicyEffect,
    /// The policy's @description annotation; null if it has none.
    #[schema(required)]
    pub description: Option<String>,
    /// The policy in Cedar's syntax.
    pub text: String,
}

/// Response of `GET /management/v1/policies`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyList {
    /// Number of the latest revision.
    pub revision: u64,
    /// Hash of the policies in force. Decisions contain the same hash.
    pub in_force: String,
    /// Policies and templates, ordered by id.
    pub policies: Vec<Policy>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

/// Differences between two revisions of policies and grants.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyDifferences {
    /// Policies that were added, changed or removed.
    pub policies: Vec<PolicyEdit>,
    /// Added grants.
    pub granted: Vec<Grant>,
    /// Revoked grants.
    pub revoked: Vec<Grant>,
}

/// The change of one policy.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyEdit {
    /// Id of the policy.
    pub id: String,
    /// The policy before the change; null if the change added the policy.
    #[schema(required)]
    pub before: Option<String>,
    /// The policy after the change; null if the change removed the policy.
    #[schema(required)]
    pub after: Option<String>,
}

/// Response of requests that change policies or grants.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyChange {
    /// Number of the latest revision.
    pub revision: u64,
    /// Hash of the policies in force after the change. For a dry run, the hash of the policies that
    /// would be in force.
    pub in_force: String,
    /// True for a dry run, which changes nothing.
    pub dry_run: bool,
    /// Differences that the change has made or, for a dry run, would make.
    pub changes: PolicyDifferences,
    /// Warnings: policies with conditions that can never be true, and grantees that match no API
    /// key, issuer or role.
    #[serde(default)]
    #[schema(required)]
    pub warnings: Vec<String>,
}

/// A revision of policies and grants.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyRevision {
    /// Number of the revision.
    pub revision: u64,
    /// Time of the change, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Id of the principal that made the change.
    pub by: String,
    /// Name of the principal in `by` if it is an API key; otherwise null.
    #[schema(required)]
    pub by_name: Option<String>,
    /// Kind of the change: `put_policy`, `remove_policy`, `grant`, `revoke` or
    /// `roll_back_policies`.
    pub action: String,
    /// Comment of the principal; null if the request had no comment.
    #[schema(required)]
    pub comment: Option<String>,
    /// The earlier revision that a rollback restored; null for other changes.
    #[schema(required)]
    pub rolled_back_to: Option<u64>,
    /// Hash of the policies that came into force.
    pub in_force: String,
    /// Differences from the previous revision.
    pub changes: PolicyDifferences,
}

/// Response of `GET /management/v1/policies/revisions`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyRevisionList {
    /// The revisions, newest first.
    pub revisions: Vec<PolicyRevision>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

/// A revision with all its policies and grants. Revision 0, before any change, has no members
/// except policies and grants.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyRevisionDetails {
    /// The change; absent for revision 0.
    #[serde(flatten)]
    pub change: Option<PolicyRevision>,
    /// Policies that were created through the management API, in Cedar's syntax, by id.
    pub policies: BTreeMap<String, String>,
    /// Grants of the revision.
    pub grants: Vec<Grant>,
}

/// Response of `GET /management/v1/policies/revisions/{from}/diff/{to}`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyRevisionDiff {
    /// Number of the first compared revision.
    pub from: u64,
    /// Number of the second compared revision.
    pub to: u64,
    /// Differences from the revision `from` to the revision `to`.
    pub changes: PolicyDifferences,
}
