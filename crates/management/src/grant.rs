//! [`Grant`]: a privilege, as responses about grants and about policies contain it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A privilege of a grantee on a resource.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Grant {
    /// Id of the grant.
    pub id: String,
    /// Id of the template that it fills in.
    pub template: String,
    /// The grantee, as `role:NAME`.
    pub grantee: String,
    /// Name of the API key that the grantee is; null for other grantees.
    #[schema(required)]
    pub grantee_name: Option<String>,
    /// The resource, as `table:prod/sales/orders`.
    pub resource: String,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Id of the principal that created the grant.
    pub created_by: String,
    /// Name of the API key that created-by is the id of; null for other principals.
    #[schema(required)]
    pub created_by_name: Option<String>,
}
