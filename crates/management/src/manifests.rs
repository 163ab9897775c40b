//! Bodies of `/management/v1/manifests`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /management/v1/manifests/rewrite`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RewriteManifestsRequest {
    /// The table, such as `table:prod/sales/orders`.
    #[schema(pattern = "^table:[^/]+(/[^/]+){2,}$")]
    pub resource: String,
    /// True to return the expected result without changing the table.
    #[serde(default = "default_true")]
    #[schema(default = true)]
    pub dry_run: bool,
}

fn default_true() -> bool {
    true
}

/// Result of a rewrite of manifests, or the expected result of a dry run.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ManifestRewrite {
    /// Id of the new snapshot; null if there was nothing to rewrite, or if the request was a dry run.
    #[schema(required)]
    pub snapshot_id: Option<i64>,
    /// Number of new manifests. For a dry run, an estimate by the sizes in the manifest list.
    pub manifests_created: usize,
    /// Number of manifests that remain.
    pub manifests_kept: usize,
    /// Number of manifests that the new ones replace.
    pub manifests_replaced: usize,
    /// Number of files in the new manifests.
    pub entries_processed: i64,
}
