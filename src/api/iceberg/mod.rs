//! The operations of the Iceberg REST specification, one file per group.

pub mod config;
pub mod events;
pub mod files;
pub mod functions;
pub mod metrics;
pub mod namespaces;
pub mod planning;
pub mod table_commit;
pub mod tables;
pub mod transactions;
pub mod views;

use serde_json::value::RawValue;

use super::error::ApiError;
use slateberg_model::ident::TabularIdent;
use slateberg_model::members::brief;
use slateberg_model::refusal::Refusal;

/// The result of a handler.
pub type Result<T> = std::result::Result<T, ApiError>;

/// Parses a list of updates or requirements. Rejects the request at the first invalid one.
fn parse_all<T>(
    raw: &[Box<RawValue>],
    parse: impl Fn(&RawValue) -> std::result::Result<T, Refusal>,
) -> Result<Vec<T>> {
    raw.iter().map(|raw| Ok(parse(raw)?)).collect()
}

/// Rejects a body whose identifier differs from that in the path.
fn same_as_path(in_body: Option<&TabularIdent>, in_path: &TabularIdent) -> Result<()> {
    match in_body {
        Some(ident) if ident != in_path => Err(ApiError::bad_request(format!(
            "The body's identifier is {}, the path's is {}",
            brief(ident),
            brief(in_path)
        ))),
        _ => Ok(()),
    }
}
