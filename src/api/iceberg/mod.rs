//! The specification's operations: one file for each family.

pub mod config;
pub mod files;
pub mod metrics;
pub mod namespaces;
pub mod table_commit;
pub mod tables;
pub mod transactions;
pub mod views;

use serde_json::value::RawValue;

use super::error::ApiError;
use slateberg_model::ident::TabularIdent;
use slateberg_model::members::brief;
use slateberg_model::refusal::Refusal;

/// What a handler answers.
pub type Result<T> = std::result::Result<T, ApiError>;

/// Parses a list of updates or requirements; the first that is wrong refuses the request.
fn parse_all<T>(
    raw: &[Box<RawValue>],
    parse: impl Fn(&RawValue) -> std::result::Result<T, Refusal>,
) -> Result<Vec<T>> {
    raw.iter().map(|raw| Ok(parse(raw)?)).collect()
}

/// Refuses a body that names something else than the path does.
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
