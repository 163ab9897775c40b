//! `X-Iceberg-Access-Delegation`: the delegation modes that a client supports.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::api::state::ApiState;
use slateberg_model::warehouse::Delegation;

/// The name of the header.
pub const HEADER: &str = "x-iceberg-access-delegation";

/// The modes that the client supports. `None` without the header.
pub struct AccessDelegation(Option<Vec<Delegation>>);

impl AccessDelegation {
    /// The supported modes in the client's order, or `None` without the header. Unknown names are
    /// ignored, as the specification requires.
    pub fn modes(&self) -> Option<&[Delegation]> {
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
        let names = values.filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(','));
        let modes = names.filter_map(|name| match name.trim().to_ascii_lowercase().as_str() {
            "vended-credentials" => Some(Delegation::VendedCredentials),
            "remote-signing" => Some(Delegation::RemoteSigning),
            _ => None,
        });
        Ok(Self(Some(modes.collect())))
    }
}
