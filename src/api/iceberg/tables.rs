//! Handlers for tables, except commits.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::Result;
use crate::api::coding::PreferredCodings;
use crate::api::delegation::DelegationConfig;
use crate::api::error::ApiError;
use crate::api::etag::{ETag, Representation, SnapshotMode};
use crate::api::extract::accept_encoding::AcceptEncoding;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::conditional::IfNoneMatch;
use crate::api::extract::delegation::AccessDelegation;
use crate::api::extract::paging::Paging;
use crate::api::extract::path::{NamespacePath, TabularPath, WarehousePath};
use crate::api::extract::query::Query;
use crate::api::extract::referenced_by::through_views;
use crate::api::respond::{commit_result, create_result, load_result, not_modified, tagged_json};
use crate::api::response_cache::{CachedResponse, ResponseKey, with_vary};
use crate::api::scan_planning_mode::ScanPlanningMode;
use crate::api::state::ApiState;
use crate::api::wire::listings::list_tables_response;
use crate::api::wire::{CreateTableRequest, RegisterTableRequest, RenameTableRequest};
use slateberg_base::error_chain::Cause;
use slateberg_catalog::DelegatedAccess;
use slateberg_catalog::Loaded;
use slateberg_catalog::Readable;
use slateberg_catalog::TabularState;
use slateberg_catalog::tables::CreateTable;
use slateberg_catalog::tables::RegisterTable;
use slateberg_catalog::{self as catalog, Catalog, RequestContext};
use slateberg_model::ident::TabularIdent;
use slateberg_model::partition::UnboundPartitionSpec;
use slateberg_model::schema::Schema;
use slateberg_model::sort::UnboundSortOrder;
use slateberg_model::table::TableMetadata;

/// `GET /v1/{prefix}/namespaces/{namespace}/tables`.
pub async fn list(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    ReadOperation(operation): ReadOperation,
    Paging(page): Paging,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let page = state.catalog.tabulars().list_tables(&cx, &namespace, &page).await?;
    Ok(tagged_json(list_tables_response(&namespace, &page).into(), None))
}

/// `POST /v1/{prefix}/namespaces/{namespace}/tables`.
pub async fn create(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    access_delegation: AccessDelegation,
    MutationWithBody(operation, body): MutationWithBody<CreateTableRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let partition_spec = body.partition_spec.as_deref().map(UnboundPartitionSpec::parse);
    let write_order = body.write_order.as_deref().map(UnboundSortOrder::parse);
    let request = CreateTable {
        ident: TabularIdent { namespace, name: body.name },
        location: body.location,
        schema: Schema::parse(&body.schema)?,
        partition_spec: partition_spec.transpose()?,
        write_order: write_order.transpose()?,
        properties: body.properties.unwrap_or_default(),
        stage: body.stage_create.unwrap_or(false),
    };
    let (ident, catalog) = (request.ident.clone(), &state.catalog);
    let created = catalog.tabulars().create_table(&cx, request).await?;
    let delegation = creator_delegation(catalog, &cx, &ident, &created, &access_delegation).await;
    let planning = ScanPlanningMode::of_warehouse(&cx.warehouse);
    Ok(create_result(catalog.timeline(), &created, delegation, planning))
}

/// `POST /v1/{prefix}/namespaces/{namespace}/register`.
pub async fn register(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    access_delegation: AccessDelegation,
    MutationWithBody(operation, body): MutationWithBody<RegisterTableRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let request = RegisterTable {
        ident: TabularIdent { namespace, name: body.name },
        metadata_location: body.metadata_location,
        overwrite: body.overwrite.unwrap_or(false),
    };
    let (ident, catalog) = (request.ident.clone(), &state.catalog);
    let registered = catalog.tabulars().register_table(&cx, request).await?;
    let delegation =
        creator_delegation(catalog, &cx, &ident, &registered, &access_delegation).await;
    let planning = ScanPlanningMode::of_warehouse(&cx.warehouse);
    Ok(create_result(catalog.timeline(), &registered, delegation, planning))
}

/// Returns the file-access configuration of a created table for its creator. Returns `None` if the
/// client requests none, or if the catalog grants no access.
async fn creator_delegation(
    catalog: &Catalog,
    cx: &RequestContext,
    ident: &TabularIdent,
    created: &Readable,
    access_delegation: &AccessDelegation,
) -> Option<DelegationConfig> {
    let config = catalog
        .delegations()
        .delegated_to_creator(cx, ident, created, access_delegation.modes()?)
        .await;
    config.map(|config| DelegationConfig::new(&config, &cx.warehouse, ident))
}

/// `GET /v1/{prefix}/namespaces/{namespace}/tables/{table}`.
pub async fn load(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    ReadOperation(operation): ReadOperation,
    query: Query,
    condition: IfNoneMatch,
    access_delegation: AccessDelegation,
    AcceptEncoding(codings): AcceptEncoding,
) -> Result<Response> {
    let cx = through_views(&state, RequestContext::new(operation, warehouse), &query).await?;
    let (timeline, mode) = (state.catalog.timeline(), snapshot_mode(&query)?);
    let planning = match &cx.operation.context.referenced_by[..] {
        [] => ScanPlanningMode::of_warehouse(&cx.warehouse),
        [..] => Some(ScanPlanningMode::OnlyClient),
    };
    let config = |delegation: Option<&DelegatedAccess>| {
        delegation.map(|delegation| state.delegation.config_for(delegation, &cx.warehouse, &ident))
    };
    let early_response = |version, delegation: Option<&DelegatedAccess>| {
        let representation = Representation { timeline, version, mode, planning };
        let key = ResponseKey {
            representation,
            delegation: config(delegation).map(|delegation| delegation.key),
        };
        if condition.is_present() && key.delegation.is_none() {
            let tag = ETag::new(representation);
            if condition.matches(&tag) {
                return Some(EarlyResponse::Unchanged(tag));
            }
        }
        state.response_cache.get(key, codings).map(|cached| EarlyResponse::Cached(key, cached))
    };
    let (catalog, modes) = (&state.catalog, access_delegation.modes());
    let (loaded, delegation) =
        match catalog.tabulars().load_table(&cx, &ident, modes, early_response).await? {
            Loaded::Known(EarlyResponse::Unchanged(tag)) => {
                return Ok(not_modified_for_codings(tag, codings));
            }
            Loaded::Known(EarlyResponse::Cached(key, cached)) => {
                return Ok(state.response_cache.respond(key, cached, codings).await);
            }
            Loaded::State(loaded, delegation) => (loaded, config(delegation.as_ref())),
        };
    let loaded = match mode {
        SnapshotMode::All => loaded,
        SnapshotMode::Refs => with_referenced_snapshots_only(loaded)?,
    };
    let representation = Representation { timeline, version: loaded.version(), mode, planning };
    let key = ResponseKey {
        representation,
        delegation: delegation.as_ref().map(|delegation| delegation.key),
    };
    let rendered = load_result(&loaded, representation, delegation);
    Ok(state.response_cache.respond_rendered(key, rendered, codings).await)
}

/// Responses to `loadTable` for which the metadata need not be read.
enum EarlyResponse {
    /// The client has the current version, which has this tag.
    Unchanged(ETag),
    /// The response is cached.
    Cached(ResponseKey, CachedResponse),
}

/// Responds with 304. The tag is weak if the full response might be compressed, because a weak tag
/// matches the compressed and the uncompressed response.
fn not_modified_for_codings(tag: ETag, codings: PreferredCodings) -> Response {
    let tag = if codings.are_identity() { tag } else { tag.weak() };
    with_vary(not_modified(&tag))
}

/// `HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}`.
pub async fn exists(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    ReadOperation(operation): ReadOperation,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    state.catalog.tabulars().table_exists(&cx, &ident).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}`.
pub async fn drop(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    query: Query,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    let purge = query.flag("purgeRequested")?;
    state.catalog.tabulars().drop_table(&cx, ident, purge).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister`.
pub async fn unregister(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    Mutation(operation): Mutation,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let last = state.catalog.tabulars().unregister_table(&cx, ident).await?;
    Ok(commit_result(&last, None).into_response())
}

/// `POST /v1/{prefix}/tables/rename`.
pub async fn rename(
    State(state): State<ApiState>,
    WarehousePath(warehouse): WarehousePath,
    MutationWithBody(operation, body): MutationWithBody<RenameTableRequest>,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    state.catalog.tabulars().rename_table(&cx, body.source.0, body.destination.0).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn snapshot_mode(query: &Query) -> Result<SnapshotMode> {
    match query.get("snapshots").map(|word| word.to_ascii_lowercase()).as_deref() {
        None | Some("all") => Ok(SnapshotMode::All),
        Some("refs") => Ok(SnapshotMode::Refs),
        Some(other) => Err(ApiError::bad_request(format!(
            "Invalid query parameter snapshots: expected all or refs, got '{other}'"
        ))),
    }
}

fn with_referenced_snapshots_only(loaded: Readable) -> Result<Readable> {
    let Readable { state, access, labels } = loaded;
    let metadata = TableMetadata::from_segmented_json(&state.text).map_err(|refusal| {
        catalog::Error::internal(Cause::about("metadata in the store", refusal))
    })?;
    let text = metadata.with_referenced_snapshots_only().to_segmented_json();
    Ok(Readable { state: TabularState { text, ..state }, access, labels })
}
