//! Query parameters.

use std::borrow::Cow;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::api::error::ApiError;
use crate::api::state::ApiState;

/// The raw query string. Most requests have none.
pub struct Query(String);

impl Query {
    /// A parameter's decoded value: the last one if the parameter is repeated.
    pub fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let parameters = url::form_urlencoded::parse(self.0.as_bytes());
        parameters.filter(|(key, _)| key == name).last().map(|(_, value)| value)
    }

    /// A parameter's value as the client encoded it.
    pub fn encoded(&self, name: &str) -> Option<&str> {
        let mut parameters = self.0.rsplit('&').filter_map(|parameter| parameter.split_once('='));
        parameters.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// All decoded values of a repeatable parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = String> {
        let parameters = url::form_urlencoded::parse(self.0.as_bytes());
        parameters.filter(move |(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// A boolean parameter. False if it is missing.
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
        Ok(Self(parts.uri.query().unwrap_or_default().to_owned()))
    }
}
