//! Extracts the names in request paths.
//!
//! Paths are split before they are decoded, so that a slash in a name (`%2F`) stays in its segment.
//! A bare `+` is decoded as a space, because Java clients up to 1.11 encode spaces in this way.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{self, FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use super::operation::operation;
use crate::api::error::ApiError;
use crate::api::state::ApiState;
use slateberg_catalog::Operation;
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::separator;
use slateberg_model::warehouse::Warehouse;

/// The warehouse of a path.
pub struct WarehousePath(pub Arc<Warehouse>);

/// The namespace of a path.
pub struct NamespacePath {
    /// The warehouse.
    pub warehouse: Arc<Warehouse>,
    /// The namespace.
    pub namespace: NamespaceIdent,
}

/// The table, view or function of a path.
pub struct TabularPath {
    /// The warehouse.
    pub warehouse: Arc<Warehouse>,
    /// Its name.
    pub ident: TabularIdent,
}

impl FromRequestParts<ApiState> for WarehousePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        Ok(Self(Parameters::from_parts(parts).warehouse(operation(parts)?, state)?))
    }
}

impl FromRequestParts<ApiState> for NamespacePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let parameters = Parameters::from_parts(parts);
        let warehouse = parameters.warehouse(operation(parts)?, state)?;
        let namespace = parameters.namespace(&warehouse)?;
        Ok(Self { warehouse, namespace })
    }
}

impl FromRequestParts<ApiState> for TabularPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let parameters = Parameters::from_parts(parts);
        let warehouse = parameters.warehouse(operation(parts)?, state)?;
        let name = required(parameters.tabular, "{table}")?;
        let ident = TabularIdent { namespace: parameters.namespace(&warehouse)?, name };
        Ok(Self { warehouse, ident })
    }
}

/// The decoded parameters of a path of the management API. Replaces axum's extractor, whose
/// rejections do not have the shape of an `ErrorModel`.
pub struct PathParams<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<ApiState> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let extracted = extract::Path::from_request_parts(parts, state).await;
        match extracted {
            Ok(extract::Path(named)) => Ok(Self(named)),
            Err(rejection) => Err(ApiError::bad_request(rejection.body_text())),
        }
    }
}

/// The raw path segments at the positions of the route's parameters.
#[derive(Default)]
struct Parameters<'a> {
    prefix: Option<&'a str>,
    namespace: Option<&'a str>,
    /// A table, view or function.
    tabular: Option<&'a str>,
}

impl<'a> Parameters<'a> {
    fn from_parts(parts: &'a Parts) -> Self {
        let mut parameters = Self::default();
        let Some(route) = parts.extensions.get::<MatchedPath>() else { return parameters };
        for (template, raw) in segments(route.as_str()).zip(segments(parts.uri.path())) {
            match template {
                "{prefix}" => parameters.prefix = Some(raw),
                "{namespace}" => parameters.namespace = Some(raw),
                "{table}" | "{view}" | "{function}" => parameters.tabular = Some(raw),
                _ => {}
            }
        }
        parameters
    }

    fn warehouse(
        &self,
        operation: &Operation,
        state: &ApiState,
    ) -> Result<Arc<Warehouse>, ApiError> {
        let prefix = self.prefix.map(decode).transpose()?;
        Ok(state.catalog.warehouses().warehouse_for(operation, prefix.as_deref())?)
    }

    fn namespace(&self, warehouse: &Warehouse) -> Result<NamespaceIdent, ApiError> {
        let raw = present(self.namespace, "{namespace}")?;
        separator::split_encoded(raw, warehouse.namespace_separator(), decode)
    }
}

/// Splits a path. Segments are short, so a byte loop is the fastest way to find their ends.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let path = rest?;
        let end = path.bytes().position(|byte| byte == b'/');
        rest = end.map(|end| &path[end + 1..]);
        Some(&path[..end.unwrap_or(path.len())])
    })
}

fn required(raw: Option<&str>, name: &str) -> Result<String, ApiError> {
    decode(present(raw, name)?)
}

fn present<'a>(raw: Option<&'a str>, name: &str) -> Result<&'a str, ApiError> {
    raw.ok_or_else(|| ApiError::bad_request(format!("The path has no {name}")))
}

pub(super) fn decode(raw: &str) -> Result<String, ApiError> {
    if !raw.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Ok(raw.to_owned());
    }
    let spaced =
        if raw.contains('+') { Cow::Owned(raw.replace('+', " ")) } else { Cow::Borrowed(raw) };
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| {
        ApiError::bad_request(format!("Invalid path segment: not UTF-8 after decoding: {raw}"))
    })?;
    Ok(decoded.into_owned())
}
