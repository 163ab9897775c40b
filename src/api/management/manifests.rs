//! Handler of the rewrite of manifests.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::extract::body::MutationWithBody;
use crate::api::state::ApiState;
use slateberg_catalog as catalog;
use slateberg_management::manifests::{ManifestRewrite, RewriteManifestsRequest};

/// `POST /management/v1/manifests/rewrite`.
pub async fn rewrite(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<RewriteManifestsRequest>,
) -> Result<Json<ManifestRewrite>> {
    let RewriteManifestsRequest { resource, dry_run } = body;
    let request = catalog::ManifestRewrite { resource, dry_run };
    let rewritten = state.catalog.tabulars().rewrite_manifests(&operation, request).await?;
    let catalog::RewrittenManifests { snapshot_id, created, kept, replaced, entries } = rewritten;
    Ok(Json(ManifestRewrite {
        snapshot_id,
        manifests_created: created,
        manifests_kept: kept,
        manifests_replaced: replaced,
        entries_processed: entries,
    }))
}
