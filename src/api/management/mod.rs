//! `/management/v1`: what the specification of Iceberg has no word for.

pub mod api_keys;
pub mod checkpoints;
pub mod encryption;
pub mod explain;
pub mod grants;
pub mod jobs;
pub mod openapi;
pub mod policies;
pub mod server;
pub mod warehouses;
pub mod whoami;

use crate::api::error::ApiError;

/// What a handler answers.
pub(super) type Result<T> = std::result::Result<T, ApiError>;
