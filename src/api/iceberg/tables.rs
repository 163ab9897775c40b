//! Tables, except commits.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::Result;
use crate::api::answers::{Answer, AnswerKey, with_vary};
use crate::api::coding::Coding;
use crate::api::error::ApiError;
use crate::api::extract::accept_encoding::Accepted;
use crate::api::extract::body::{Mutating, MutatingWith, Reading};
use crate::api::extract::conditional::IfNoneMatch;
use crate::api::extract::delegation::AccessDelegation;
use crate::api::extract::paging::Paging;
use crate::api::extract::path::{NamespacePath, TabularPath, WarehousePath};
use crate::api::extract::query::Query;
use crate::api::files::FilesTold;
use crate::api::respond::{
    commit_result, fresh_load_result, made_result, not_modified, tagged_json,
};
use crate::api::state::ApiState;
use crate::api::tag::{Shown, SnapshotMode, Tag};
use crate::api::wire::listings::list_tables_response;
use crate::api::wire::{CreateTableRequest, RegisterTableRequest, RenameTableRequest};
use slateberg_base::error_chain::Cause;
use slateberg_catalog::Delegated;
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
    Reading(operation): Reading,
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
    wanted: AccessDelegation,
    MutatingWith(operation, body): MutatingWith<CreateTableRequest>,
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
    let files = made_files(catalog, &cx, &ident, &created, &wanted).await;
    Ok(made_result(catalog.timeline(), &created, files))
}

/// `POST /v1/{prefix}/namespaces/{namespace}/register`.
pub async fn register(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    wanted: AccessDelegation,
    MutatingWith(operation, body): MutatingWith<RegisterTableRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let request = RegisterTable {
        ident: TabularIdent { namespace, name: body.name },
        metadata_location: body.metadata_location,
        overwrite: body.overwrite.unwrap_or(false),
    };
    let (ident, catalog) = (request.ident.clone(), &state.catalog);
    let registered = catalog.tabulars().register_table(&cx, request).await?;
    let files = made_files(catalog, &cx, &ident, &registered, &wanted).await;
    Ok(made_result(catalog.timeline(), &registered, files))
}

/// Returns the file-access configuration of a created table for its creator. Returns `None` if the
/// client requests none, or if the catalog grants no access.
async fn made_files(
    catalog: &Catalog,
    cx: &RequestContext,
    ident: &TabularIdent,
    made: &Readable,
    wanted: &AccessDelegation,
) -> Option<FilesTold> {
    let told = catalog.delegations().delegated_made(cx, ident, made, wanted.ways()?).await;
    told.map(|told| FilesTold::new(&told, &cx.warehouse, ident))
}

/// `GET /v1/{prefix}/namespaces/{namespace}/tables/{table}`.
pub async fn load(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    Reading(operation): Reading,
    query: Query,
    condition: IfNoneMatch,
    wanted: AccessDelegation,
    Accepted(coding): Accepted,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let (timeline, mode) = (state.catalog.timeline(), snapshot_mode(&query)?);
    let told = |files: Option<&Delegated>| {
        files.map(|files| state.files.told(files, &cx.warehouse, &ident))
    };
    let known = |version, files: Option<&Delegated>| {
        let shown = Shown { timeline, version, mode };
        let key = AnswerKey { shown, files: told(files).map(|files| files.key) };
        if condition.is_there() && key.files.is_none() {
            let tag = Tag::new(shown);
            if condition.holds(&tag) {
                return Some(Known::Unchanged(tag));
            }
        }
        state.answers.get(key, coding).map(|answer| Known::Kept(key, answer))
    };
    let (catalog, ways) = (&state.catalog, wanted.ways());
    let (loaded, files) = match catalog.tabulars().load_table(&cx, &ident, ways, known).await? {
        Loaded::Known(Known::Unchanged(tag)) => return Ok(unchanged(tag, coding)),
        Loaded::Known(Known::Kept(key, answer)) => {
            return Ok(state.answers.respond(key, answer, coding).await);
        }
        Loaded::State(loaded, files) => (loaded, told(files.as_ref())),
    };
    let loaded = match mode {
        SnapshotMode::All => loaded,
        SnapshotMode::Refs => with_referenced_snapshots_only(loaded)?,
    };
    let shown = Shown { timeline, version: loaded.version(), mode };
    let key = AnswerKey { shown, files: files.as_ref().map(|files| files.key) };
    let fresh = fresh_load_result(&loaded, shown, files);
    Ok(state.answers.respond_fresh(key, fresh, coding).await)
}

/// Responses to a load that need no metadata.
enum Known {
    /// The client has the current version, which has this tag.
    Unchanged(Tag),
    /// The response is cached.
    Kept(AnswerKey, Answer),
}

/// Responds with 304. The tag is weak if the full response might be compressed, because it then
/// matches both encodings.
fn unchanged(tag: Tag, coding: Coding) -> Response {
    let tag = if coding == Coding::Identity { tag } else { tag.weak() };
    with_vary(not_modified(&tag))
}

/// `HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}`.
pub async fn exists(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    Reading(operation): Reading,
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
    Mutating(operation): Mutating,
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
    Mutating(operation): Mutating,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let last = state.catalog.tabulars().unregister_table(&cx, ident).await?;
    Ok(commit_result(&last, None))
}

/// `POST /v1/{prefix}/tables/rename`.
pub async fn rename(
    State(state): State<ApiState>,
    WarehousePath(warehouse): WarehousePath,
    MutatingWith(operation, body): MutatingWith<RenameTableRequest>,
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
    let Readable { state, access } = loaded;
    let metadata = TableMetadata::from_text(&state.text).map_err(|refusal| {
        catalog::Error::internal(Cause::about("metadata in the store", refusal))
    })?;
    let text = metadata.with_referenced_snapshots_only().to_text();
    Ok(Readable { state: TabularState { text, ..state }, access })
}
