//! Rank 0: request and response bodies of `/management/v1`.
//!
//! The server writes these types and the command line reads them, so that a renamed field does not
//! compile. The schemas of the OpenAPI document are derived from them, and doc comments become its
//! descriptions. Requests reject unknown fields. Responses ignore them, so that a client can talk
//! to a newer server.

pub mod api_keys;
pub mod checkpoints;
pub mod decisions;
pub mod encryption;
pub mod error;
mod grant;
pub mod grants;
pub mod identity;
pub mod jobs;
pub mod openapi;
pub mod policies;
mod string_enum;
pub mod warehouses;

/// String properties by name.
pub type Properties = std::collections::BTreeMap<String, String>;
