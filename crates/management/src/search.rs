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
    /// Whether the search has considered all changes that were made before it. False if some of
    /// these changes did not become durable in time; the hits may then lack these changes.
    pub includes_latest_changes: bool,
    /// Searched texts of which the index lacks some, because it has reached
    /// `catalog.search_index_bytes_max`. The hits may then lack tables and views. Absent if the
    /// index is complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<SearchSource>,
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
    /// Quality of the match of the name, column or comment.
    #[serde(rename = "match")]
    pub quality: SearchMatch,
    /// The kind of text that matches the query.
    pub matched_in: SearchSource,
    /// Column that matches, or whose comment matches: the name of the column after the names of the
    /// columns around it, with dots between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// The first 1,024 bytes of the comment that matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
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
    /// A kind of text that a search compares with the query.
    SearchSource {
        /// The names of tables, views, namespaces and functions.
        Names = "names",
        /// The columns of tables and views.
        Columns = "columns",
        /// The comments of columns, tables, views and namespaces.
        Comments = "comments",
    }
}

string_enum! {
    /// The quality of a match.
    SearchMatch {
        /// The text is the query.
        Exact = "exact",
        /// The text begins with the query.
        Prefix = "prefix",
        /// A word of the text begins with the query.
        Word = "word",
        /// The text contains the query.
        Substring = "substring",
    }
}
