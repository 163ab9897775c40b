//! Bodies of `/management/v1/protections`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Body of `POST /management/v1/protections`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProtectRequest {
    /// A warehouse, namespace, table, view or function, such as `table:prod/sales/orders`.
    #[schema(pattern = "^(warehouse|namespace|table|view|function):.+$")]
    pub resource: String,
    /// A comment for people, such as the reason. At most 1,024 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Protection of a warehouse, namespace, table, view or function against drop, purge, unregister and rename.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Protection {
    /// Id of the protected resource.
    pub id: Uuid,
    /// The protected resource, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Time at which the resource was protected, in milliseconds since the Unix epoch.
    pub protected_at_ms: i64,
    /// Id of the principal that protected the resource.
    pub protected_by: String,
    /// Name of the API key that protected the resource; null for another principal.
    #[schema(required)]
    pub protected_by_name: Option<String>,
    /// Comment of that principal.
    #[schema(required)]
    pub comment: Option<String>,
}

/// Response of `GET /management/v1/protections`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ProtectionList {
    /// Protections of resources that the caller may see, ordered by id.
    pub protections: Vec<Protection>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}
