//! Bodies of `POST /management/v1/authorize` and `GET /management/v1/permissions`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::policies::{PolicyEffect, PolicyOrigin};
use crate::string_enum::string_enum;

/// Body of `POST /management/v1/authorize`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AuthorizeRequest {
    /// The principal; the caller without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<PrincipalSelector>,
    /// The action, such as `Load`.
    pub action: String,
    /// catalog, warehouse:NAME, namespace:WAREHOUSE/LEVEL, table:WAREHOUSE/LEVEL/NAME or
    /// view:WAREHOUSE/LEVEL/NAME. A slash within a name is written %2F.
    #[schema(
        pattern = "^(catalog|warehouse:[^/]+|namespace:[^/]+(/[^/]+)+|(table|view):[^/]+(/[^/]+){2,})$"
    )]
    pub resource: String,
    /// Attributes to assume for the resource in place of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<ResourceAttributes>,
    /// Circumstances to assume in place of those of this request.
    #[serde(default)]
    pub context: RequestContext,
}

/// A key; or one of user and service-account, with roles and groups; or roles and groups alone, for
/// what they permit.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PrincipalSelector {
    /// The id of an API key, or a name that exactly one valid API key has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The id of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The id of a service account, which need not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Roles to assume.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<String>,
    /// Groups to assume.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// Warehouses that the credential is limited to; null for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warehouses: Option<BTreeSet<String>>,
    /// Authentication method to assume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<AuthenticationMethod>,
}

/// Authentication method of a principal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuthenticationMethod {
    /// Token of an external issuer.
    Jwt,
    /// API key.
    ApiKey,
    /// Client certificate.
    Mtls,
    /// None: the catalog is embedded in the process of the caller.
    Embedded,
}

/// Attributes of a resource.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ResourceAttributes {
    /// Properties of the resource.
    pub properties: BTreeMap<String, String>,
    /// Location of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Id of the principal that created the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Circumstances of a request.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RequestContext {
    /// Time, such as `2026-01-31T09:00:00Z`; now without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Source address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub source_address: Option<IpAddr>,
    /// Name that the client gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

string_enum! {
    /// Kind of a principal.
    PrincipalKind {
        /// A person.
        User = "user",
        /// A program.
        ServiceAccount = "service-account",
    }
}

/// The principal that a decision is about.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Principal {
    /// Kind of the principal.
    pub kind: PrincipalKind,
    /// Id of the principal.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Roles of the principal.
    pub roles: BTreeSet<String>,
    /// Groups of the principal.
    pub groups: BTreeSet<String>,
}

/// A policy that led to a decision.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DecidingPolicy {
    /// Id of the policy.
    pub id: String,
    /// Effect of the policy.
    pub effect: PolicyEffect,
    /// Source of the policy; `credential` if the credential is not valid for the resource.
    pub origin: PolicyOrigin,
    /// Its @description annotation; null without one.
    #[schema(required)]
    pub description: Option<String>,
}

/// The part of a table that a policy permits to read.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ReadRule {
    /// Id of the policy.
    pub policy: String,
    /// The rows, as an Iceberg expression with columns by name; true for all.
    pub row_filter: Value,
    /// Masks of columns by name; other columns are not masked.
    pub column_masks: BTreeMap<String, String>,
}

/// Roles and grants that would permit a denied action. Each of them is sufficient.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Remedies {
    /// Roles.
    pub roles: Vec<String>,
    /// Templates to grant on the resource.
    pub grants: Vec<String>,
}

string_enum! {
    /// Outcome of an evaluation.
    Decision {
        /// The action is permitted.
        Allow = "allow",
        /// The action is denied.
        Deny = "deny",
    }
}

/// Response of `POST /management/v1/authorize`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct AuthorizeResponse {
    /// The decision.
    pub decision: Decision,
    /// Policies that led to the decision; empty if no policy permits the action.
    pub policies: Vec<DecidingPolicy>,
    /// The part of the table that each policy with a permit to load it permits to read; absent if
    /// all of it may be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub read_rules: Option<Vec<ReadRule>>,
    /// The principal of the decision.
    pub principal: Principal,
    /// Roles and grants that would permit a denied action, for callers that may read policies.
    /// Absent if a policy forbids it, or nothing would permit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub permitted_with: Option<Remedies>,
    /// True if the resource exists; null if the caller may not see it. Policies are evaluated by
    /// its name if it does not.
    #[schema(required)]
    pub resource_exists: Option<bool>,
    /// The action.
    pub action: String,
    /// The resource.
    pub resource: String,
    /// Number of the latest revision of policies and grants.
    pub revision: u64,
    /// Hash of the policies that were evaluated.
    pub in_force: String,
}

/// Response of `GET /management/v1/permissions`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PermissionsResponse {
    /// The principal.
    pub principal: Principal,
    /// The resource.
    pub resource: String,
    /// Permitted actions.
    pub actions: Vec<String>,
    /// The part of the table that each policy with a permit to load it permits to read; absent if
    /// all of it may be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub read_rules: Option<Vec<ReadRule>>,
    /// Hash of the policies that were evaluated.
    pub in_force: String,
}
