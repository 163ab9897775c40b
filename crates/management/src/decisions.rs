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
    /// The principal. Defaults to the caller.
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
    /// Attributes to assume for the resource instead of its actual attributes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<ResourceAttributes>,
    /// Context to assume instead of the context of this request.
    #[serde(default)]
    pub context: RequestContext,
}

/// Selects a principal by an API key, by a user or service account with roles and groups, or by
/// roles and groups alone.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PrincipalSelector {
    /// The id of an API key, or a name that exactly one valid API key has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The id of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The id of a service account, which does not have to exist.
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
    /// No authentication: the caller runs the catalog in its own process.
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

/// Context of a request.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RequestContext {
    /// Time of the request, such as `2026-01-31T09:00:00Z`. Defaults to now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Source address of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub source_address: Option<IpAddr>,
    /// The client, as in the `User-Agent` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Views through which the client reads, such as `view:prod/reports/eu_orders`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub referenced_by: Vec<String>,
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

/// The principal for which an action was evaluated.
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
    /// Source of the policy. `credential` means that no policy decided: the action is denied
    /// because the credential of the principal is limited to other warehouses.
    pub origin: PolicyOrigin,
    /// The policy's @description annotation; null if it has none.
    #[schema(required)]
    pub description: Option<String>,
}

/// The part of a table that a policy permits the principal to read.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ReadRule {
    /// Id of the policy.
    pub policy: String,
    /// Readable rows, as an Iceberg expression with column names; true for all rows.
    pub row_filter: Value,
    /// Masks by column name. All other columns are readable without a mask.
    pub column_masks: BTreeMap<String, String>,
}

/// Roles and grants that would permit a denied action. Each of them is sufficient.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Remedies {
    /// Roles.
    pub roles: Vec<String>,
    /// Privileges that could be granted on the resource, the least powerful first. Each privilege
    /// is the id of a template, without the prefix `grant-`.
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
    /// The readable parts of the table, one for each policy that permits the principal to load the
    /// table. Absent if the whole table is readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub read_rules: Option<Vec<ReadRule>>,
    /// The principal for which the action was evaluated.
    pub principal: Principal,
    /// Roles and grants that would permit a denied action. Absent if the caller may not read
    /// policies, if a policy forbids the action, or if no role or grant would permit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub permitted_with: Option<Remedies>,
    /// True if the resource exists; null if the caller may not see the resource. If the resource
    /// does not exist, the policies are evaluated for its name, without attributes.
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
    /// The readable parts of the table, one for each policy that permits the principal to load the
    /// table. Absent if the whole table is readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub read_rules: Option<Vec<ReadRule>>,
    /// Hash of the policies that were evaluated.
    pub in_force: String,
}
