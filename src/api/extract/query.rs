//! Query parameters.

use std::collections::HashMap;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::api::error::ApiError;
use crate::api::state::ApiState;

/// The query's parameters, decoded; of one that is repeated, the last.
pub struct Query(HashMap<String, String>);

impl Query {
    /// A parameter's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A parameter that is `true` or `false`; false if it is not there.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(ApiError::bad_request(format!(
                "Invalid query parameter {name}: expected true or false, got '{value}'"
            ))),
        }
    }
}

impl FromRequestParts<ApiState> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &ApiState) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}
