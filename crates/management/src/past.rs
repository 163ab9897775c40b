//! Bodies of `/management/v1/past`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// A namespace, table or view at an earlier time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PastResource {
    /// Kind: `namespace`, `table` or `view`.
    pub kind: String,
    /// Id in the catalog. A rename does not change it.
    pub id: Uuid,
    /// The `table-uuid` or `view-uuid`; null for a namespace, and if it is unknown.
    #[schema(required)]
    pub uuid: Option<Uuid>,
    /// Levels of the namespace, or of the namespace that contained the table or view.
    pub namespace: Vec<String>,
    /// Name of the table or view at this time; null for a namespace.
    #[schema(required)]
    pub name: Option<String>,
    /// Location of the metadata file at this time; null for a namespace.
    #[schema(required)]
    pub metadata_location: Option<String>,
}

/// Response of `GET /management/v1/past/contents`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PastContents {
    /// The namespaces, then the tables, then the views, each in the order of their names.
    pub contents: Vec<PastResource>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

/// Response of `GET /management/v1/past/metadata`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PastMetadata {
    /// The table or view.
    #[serde(flatten)]
    pub resource: PastResource,
    /// Metadata of the table or view, as in its metadata file.
    #[schema(value_type = Object)]
    pub metadata: Value,
}
