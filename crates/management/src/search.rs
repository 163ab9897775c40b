//! Bodies of `/management/v1/search`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::string_enum::string_enum;

/// Response of `GET /management/v1/search`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SearchResponse {
    /// Found resources, the best match first. Equally good matches are ordered by name.
    pub hits: Vec<SearchHit>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

/// A found resource.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SearchHit {
    /// The resource, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Kind of the resource.
    pub kind: SearchKind,
    /// Warehouse of the resource.
    pub warehouse: String,
    /// Levels of the namespace that contains the resource. Empty for a top-level namespace.
    pub namespace: Vec<String>,
    /// Name of the resource, or the last level of a namespace.
    pub name: String,
    /// How well the name matches the query.
    #[serde(rename = "match")]
    pub quality: SearchMatch,
}

string_enum! {
    /// A kind of resource that the search finds.
    SearchKind {
        /// A namespace.
        Namespace = "namespace",
        /// A table.
        Table = "table",
        /// A view.
        View = "view",
        /// A function.
        Function = "function",
    }
}

string_enum! {
    /// How well a name matches a query.
    SearchMatch {
        /// The name is the query.
        Exact = "exact",
        /// The name begins with the query.
        Prefix = "prefix",
        /// A word of the name begins with the query.
        Word = "word",
        /// The name contains the query.
        Substring = "substring",
    }
}
