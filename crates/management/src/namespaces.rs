//! Bodies of `/management/v1/namespaces`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /management/v1/namespaces/drop`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DropNamespaceRequest {
    /// The namespace, such as `namespace:prod/sales`.
    #[schema(pattern = "^namespace:[^/]+(/[^/]+)+$")]
    pub resource: String,
    /// True to list the resources without dropping them.
    #[serde(default = "default_true")]
    #[schema(default = true)]
    pub dry_run: bool,
}

fn default_true() -> bool {
    true
}

/// Resources that were dropped, or that would be dropped without the dry run.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DroppedNamespace {
    /// Namespaces, such as `namespace:prod/sales`. Each one is after the namespace that contains it.
    pub namespaces: Vec<String>,
    /// Tables, such as `table:prod/sales/orders`.
    pub tables: Vec<String>,
    /// Views.
    pub views: Vec<String>,
    /// Functions.
    #[serde(default)]
    #[schema(required)]
    pub functions: Vec<String>,
    /// Those of the resources that are protected. If a resource is protected, a drop gets 409 and
    /// drops nothing.
    pub protected: Vec<String>,
}
