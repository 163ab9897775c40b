//! Names out of paths.
//!
//! Paths are taken apart before they are decoded, so that a slash in a name (`%2F`) stays in its
//! segment. A bare `+` is a space, as Java clients up to 1.11 write it.

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, OriginalUri};
use axum::http::Uri;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::api::error::ApiError;
use crate::api::state::ApiState;
use crate::model::ident::{NamespaceIdent, TabularIdent};
use crate::model::warehouse::Warehouse;

/// Separates the levels of a namespace.
pub const SEPARATOR: char = '\u{1f}';

/// The warehouse that a path is in.
pub struct WarehousePath(pub Arc<Warehouse>);

/// The namespace that a path names.
pub struct NamespacePath {
    /// The warehouse.
    pub warehouse: Arc<Warehouse>,
    /// The namespace.
    pub namespace: NamespaceIdent,
}

/// The table or view that a path names.
pub struct TabularPath {
    /// The warehouse.
    pub warehouse: Arc<Warehouse>,
    /// The table or view.
    pub ident: TabularIdent,
}

impl FromRequestParts<ApiState> for WarehousePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        Ok(Self(warehouse(parts, state)?))
    }
}

impl FromRequestParts<ApiState> for NamespacePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let warehouse = warehouse(parts, state)?;
        Ok(Self { warehouse, namespace: namespace(parts)? })
    }
}

impl FromRequestParts<ApiState> for TabularPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let warehouse = warehouse(parts, state)?;
        let name = match parameter(parts, "{table}")? {
            Some(name) => name,
            None => required(parts, "{view}")?,
        };
        let ident = TabularIdent { namespace: namespace(parts)?, name };
        Ok(Self { warehouse, ident })
    }
}

fn warehouse(parts: &Parts, state: &ApiState) -> Result<Arc<Warehouse>, ApiError> {
    let prefix = parameter(parts, "{prefix}")?;
    Ok(state.catalog.warehouses().by_prefix(prefix.as_deref())?)
}

fn namespace(parts: &Parts) -> Result<NamespaceIdent, ApiError> {
    Ok(split_levels(&required(parts, "{namespace}")?))
}

/// A namespace from its levels, joined by the separator.
pub fn split_levels(joined: &str) -> NamespaceIdent {
    NamespaceIdent(joined.split(SEPARATOR).map(ToOwned::to_owned).collect())
}

fn required(parts: &Parts, name: &str) -> Result<String, ApiError> {
    parameter(parts, name)?.ok_or_else(|| ApiError::bad_request(format!("The path has no {name}")))
}

/// The decoded segment that stands where the route has `name`.
fn parameter(parts: &Parts, name: &str) -> Result<Option<String>, ApiError> {
    let Some(route) = parts.extensions.get::<MatchedPath>() else { return Ok(None) };
    let uri = whole_uri(parts);
    let segments = route.as_str().split('/').zip(uri.path().split('/'));
    let Some((_, raw)) = segments.into_iter().find(|(template, _)| *template == name) else {
        return Ok(None);
    };
    decode(raw).map(Some)
}

/// The URI as the client sent it. Nested routers see theirs without what stands in front of them.
pub fn whole_uri(parts: &Parts) -> &Uri {
    parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0)
}

fn decode(raw: &str) -> Result<String, ApiError> {
    let spaced = raw.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| {
        ApiError::bad_request(format!("Invalid path segment, not UTF-8 when decoded: {raw}"))
    })?;
    Ok(decoded.into_owned())
}
