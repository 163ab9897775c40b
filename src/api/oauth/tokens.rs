//! `POST /v1/oauth/tokens`: exchanges an API key for a short-lived token (RFC 6749, section 4.4),
//! or a token for a newer token (RFC 8693). Errors have the shape that RFC 6749 defines, not that
//! of Iceberg's errors.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::api::authenticate::record_failure;
use crate::api::error::ApiError;
use crate::api::extract::body::read_body;
use crate::api::peer::source;
use crate::api::request_id::REQUEST_ID;
use crate::api::respond::NO_STORE;
use crate::api::state::ApiState;
use slateberg_authn::error::RejectionReason;
use slateberg_authn::key_index::KnownKey;
use slateberg_authn::key_text;

/// Maximum size of a form: enough for the longest accepted token and the other parameters.
pub const FORM_BYTES_MAX: usize = 64 << 10;
const BASIC_CHALLENGE: &str = r#"Basic realm="slateberg""#;
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
/// The only scope that the specification's clients request.
const SCOPE: &str = "catalog";

/// The errors of RFC 6749, section 5.2.
enum OAuthError {
    /// The client's credentials are invalid.
    InvalidClient { rejection: RejectionReason, by_basic: bool },
    /// The token to exchange is invalid.
    InvalidGrant(RejectionReason),
    /// The request is malformed.
    InvalidRequest(&'static str),
    /// The grant type is not supported.
    UnsupportedGrantType,
    /// The server cannot sign tokens.
    TokensDisabled,
    /// The body cannot be read, or too many requests failed.
    Other(ApiError),
}

/// Issues a token.
pub async fn get_token(State(state): State<ApiState>, request: Request) -> Response {
    let source = source(request.extensions());
    let id = request.headers().get(REQUEST_ID).cloned();
    let id = id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
    let result = match authorized_key(&state, request).await {
        Ok(holder) => token(&state, &holder),
        Err(error) => Err(error),
    };
    match result {
        Ok(response) => response,
        Err(error) => {
            if let OAuthError::InvalidClient { rejection, .. } | OAuthError::InvalidGrant(rejection) =
                &error
                && let Err(too_many) = record_failure(&state, *rejection, source, id).await
            {
                return too_many.into_response();
            }
            error.into_response()
        }
    }
}

/// Returns the API key for which the server issues a token.
async fn authorized_key(state: &ApiState, request: Request) -> Result<Arc<KnownKey>, OAuthError> {
    let (parts, body) = request.into_parts();
    let body = read_body(&parts, body, FORM_BYTES_MAX, state.settings.body_max())
        .await
        .map_err(OAuthError::Other)?;
    let form = parse(&body)?;
    let client = client(state, &parts.headers, &form)?;
    match form.get("grant_type").map(String::as_str) {
        Some("client_credentials") => client.ok_or(OAuthError::InvalidClient {
            rejection: RejectionReason("no client credential"),
            by_basic: false,
        }),
        Some(TOKEN_EXCHANGE) => exchange(state, &form, client).await,
        Some(_) => Err(OAuthError::UnsupportedGrantType),
        None => Err(OAuthError::InvalidRequest("grant_type is missing")),
    }
}

fn parse(body: &[u8]) -> Result<HashMap<String, String>, OAuthError> {
    let mut form = HashMap::new();
    for (name, value) in url::form_urlencoded::parse(body) {
        if form.insert(name.into_owned(), value.into_owned()).is_some() {
            return Err(OAuthError::InvalidRequest("a parameter occurs more than once"));
        }
    }
    // Parameters without a value count as omitted (RFC 6749, section 3.2).
    form.retain(|_, value| !value.is_empty());
    Ok(form)
}

/// Authenticates the client by its credentials in the body or in a `Basic` header. Returns `None`
/// if the client sends no credentials. The secret alone identifies the key. If the client also
/// sends an id, it must be the id of that key.
fn client(
    state: &ApiState,
    headers: &HeaderMap,
    form: &HashMap<String, String>,
) -> Result<Option<Arc<KnownKey>>, OAuthError> {
    let basic = basic(headers)?;
    let by_basic = basic.is_some();
    let in_body = form
        .get("client_secret")
        .map(|secret| (form.get("client_id").cloned().unwrap_or_default(), secret.clone()));
    let (id, secret) = match (basic, in_body) {
        (Some(_), Some(_)) => {
            return Err(OAuthError::InvalidRequest("credentials in both the header and the body"));
        }
        (None, None) => return Ok(None),
        (Some(pair), None) | (None, Some(pair)) => pair,
    };
    let invalid = |rejection| OAuthError::InvalidClient { rejection, by_basic };
    let key = state.authn.key(&secret).map_err(invalid)?;
    if !id.is_empty() && id != key.identity.id {
        return Err(invalid(RejectionReason("a client id that does not match the API key")));
    }
    Ok(Some(key))
}

/// The id and secret of a `Basic` header. Clients may send their current token in a `Bearer` header
/// instead, which is ignored here.
fn basic(headers: &HeaderMap) -> Result<Option<(String, String)>, OAuthError> {
    let malformed = || OAuthError::InvalidClient {
        rejection: RejectionReason("a Basic credential that is not id:secret"),
        by_basic: true,
    };
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| malformed())?;
    let Some((scheme, encoded)) = value.split_once(' ') else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Ok(None);
    }
    let bytes = BASE64_STANDARD.decode(encoded.trim()).map_err(|_| malformed())?;
    let text = String::from_utf8(bytes).map_err(|_| malformed())?;
    let (id, secret) = text.split_once(':').ok_or_else(malformed)?;
    Ok(Some((id.to_owned(), secret.to_owned())))
}

/// Returns the API key for a token exchange. If the client authenticates with a key, returns that
/// key and does not validate `subject_token`, which may have expired. Otherwise, `subject_token`
/// must be a key or a valid token: returns that key, or the key to which the token was issued.
async fn exchange(
    state: &ApiState,
    form: &HashMap<String, String>,
    client: Option<Arc<KnownKey>>,
) -> Result<Arc<KnownKey>, OAuthError> {
    let malformed = OAuthError::InvalidRequest;
    let subject = form.get("subject_token").ok_or(malformed("subject_token is missing"))?;
    match form.get("subject_token_type").map(String::as_str) {
        Some(ACCESS_TOKEN | JWT) => {}
        Some(_) => {
            return Err(malformed("subject_token_type is not supported: send access_token or jwt"));
        }
        None => return Err(malformed("subject_token_type is missing")),
    }
    if form.contains_key("actor_token") {
        return Err(malformed("delegation (actor_token) is not supported"));
    }
    if let Some(client) = client {
        return Ok(client);
    }
    let holder = if subject.starts_with(key_text::PREFIX) {
        state.authn.key(subject)
    } else {
        state.authn.holder(subject).await
    };
    holder.map_err(OAuthError::InvalidGrant)
}

fn token(state: &ApiState, holder: &KnownKey) -> Result<Response, OAuthError> {
    let token = state.authn.own_tokens().sign(holder).ok_or(OAuthError::TokensDisabled)?;
    let body = json!({
        "access_token": token.text.reveal(),
        "token_type": "bearer",
        "expires_in": token.expires_in_seconds,
        "issued_token_type": ACCESS_TOKEN,
        "scope": SCOPE,
    });
    Ok((StatusCode::OK, NO_STORE, Json(body)).into_response())
}

impl IntoResponse for OAuthError {
    fn into_response(self) -> Response {
        let challenges = matches!(self, Self::InvalidClient { by_basic: true, .. });
        let (status, error, description) = match self {
            Self::InvalidClient { .. } => {
                (StatusCode::UNAUTHORIZED, "invalid_client", "The client is not known")
            }
            Self::InvalidGrant(_) => {
                (StatusCode::BAD_REQUEST, "invalid_grant", "The token is not valid")
            }
            Self::InvalidRequest(why) => (StatusCode::BAD_REQUEST, "invalid_request", why),
            Self::UnsupportedGrantType => (
                StatusCode::BAD_REQUEST,
                "unsupported_grant_type",
                "Expected the grant type client_credentials or token exchange",
            ),
            Self::TokensDisabled => (
                StatusCode::BAD_REQUEST,
                "invalid_request",
                "This server issues no tokens: authentication is disabled",
            ),
            Self::Other(error) => return error.into_response(),
        };
        let body = json!({ "error": error, "error_description": description });
        let mut response = (status, NO_STORE, Json(body)).into_response();
        if challenges {
            let challenge = HeaderValue::from_static(BASIC_CHALLENGE);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
