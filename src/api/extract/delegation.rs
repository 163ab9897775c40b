//! `X-Iceberg-Access-Delegation`: how a client would like to get at the files of a table.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::api::state::ApiState;
use slateberg_model::warehouse::Delegation;

/// The header's name.
pub const HEADER: &str = "x-iceberg-access-delegation";

/// The ways that a client knows; none if it does not ask.
pub struct AccessDelegation(Option<Vec<Delegation>>);

impl AccessDelegation {
    /// The ways that the client knows, in its own order; none if it does not ask. Words that are not known
    /// are left out, as the specification has it.
    pub fn ways(&self) -> Option<&[Delegation]> {
        self.0.as_deref()
    }
}

impl FromRequestParts<ApiState> for AccessDelegation {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &ApiState) -> Result<Self, Infallible> {
        let mut values = parts.headers.get_all(HEADER).iter().peekable();
        if values.peek().is_none() {
            return Ok(Self(None));
        }
        let words = values.filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(','));
        let ways = words.filter_map(|word| match word.trim().to_ascii_lowercase().as_str() {
            "vended-credentials" => Some(Delegation::VendedCredentials),
            "remote-signing" => Some(Delegation::RemoteSigning),
            _ => None,
        });
        Ok(Self(Some(ways.collect())))
    }
}
