//! [`Grant`]: a grant in responses about grants and about policies.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A privilege of a grantee on a resource.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Grant {
    /// Id of the grant.
    pub id: String,
    /// Id of the template that the grant instantiates.
    pub template: String,
    /// The grantee, such as `role:analysts`.
    pub grantee: String,
    /// Name of the grantee if it is an API key; otherwise null.
    #[schema(required)]
    pub grantee_name: Option<String>,
    /// The resource, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Id of the principal that created the grant.
    pub created_by: String,
    /// Name of the creator if it is an API key; otherwise null.
    #[schema(required)]
    pub created_by_name: Option<String>,
}
