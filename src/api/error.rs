//! Converts all errors to HTTP responses. Contains the only table of status codes.
//!
//! Clients switch on the `code` and `type` of the specification's `ErrorModel`. The compatibility
//! kit of the Java implementation asserts some messages. Therefore, messages of the catalog are
//! returned unchanged.

use axum::Json;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::rate_limits::RateLimited;
use slateberg_authn as authn;
use slateberg_base::error_chain::chain;
use slateberg_catalog as catalog;
use slateberg_catalog::error::Kind;
use slateberg_model::refusal::Refusal;

/// Seconds after which a rejected client may retry.
const RETRY_AFTER_SECONDS: u64 = 1;

/// An error response.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    /// The causes of a failure, for the log.
    causes: Option<String>,
    /// The `WWW-Authenticate` header.
    challenge: Option<HeaderValue>,
    /// The `Retry-After` header, sent with 429 and 503.
    retry_after_seconds: u64,
}

/// Details of a failed request, for the log.
#[derive(Debug, Clone)]
pub struct FailureDetails {
    /// The exception type in the response.
    pub exception: &'static str,
    /// The message in the response.
    pub message: String,
    /// The causes, separated by colons. The response omits them.
    pub causes: String,
}

impl ApiError {
    /// Creates an error with this status, exception type and message.
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        let (message, retry_after_seconds) = (message.into(), RETRY_AFTER_SECONDS);
        Self { status, kind, message, causes: None, challenge: None, retry_after_seconds }
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestException", message)
    }

    /// 404: the server has no such route. `hint` follows the path.
    pub fn no_such_route(method: &Method, path: &str, hint: &str) -> Self {
        let message = format!("No route for request: {method} {path}{hint}");
        Self::new(StatusCode::NOT_FOUND, "NotFoundException", message)
    }

    /// 415: the request's body has a content encoding. The server decodes no bodies.
    pub fn unsupported_encoding(encoding: &str) -> Self {
        let message = format!("Unsupported Content-Encoding '{encoding}': send the body unencoded");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "BadRequestException", message)
    }

    /// 401: the request has no valid credential. The message does not reveal the reason.
    pub fn unauthorized(challenge: &'static str) -> Self {
        let message = "Not authorized: send a valid API key or token as Authorization: Bearer";
        let api_error = Self::new(StatusCode::UNAUTHORIZED, "NotAuthorizedException", message);
        Self { challenge: Some(HeaderValue::from_static(challenge)), ..api_error }
    }

    /// 429: too many requests with invalid credentials.
    pub fn too_many_failures() -> Self {
        let message = "Too many requests with credentials that are not valid";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "SlowDownException", message)
    }

    /// 429: a rate limit is exceeded.
    pub fn rate_limited(rate_limited: RateLimited) -> Self {
        let RateLimited { retry_after_seconds } = rate_limited;
        let message = format!("Too many requests: try again in {retry_after_seconds} s");
        let api_error = Self::new(StatusCode::TOO_MANY_REQUESTS, "SlowDownException", message);
        Self { retry_after_seconds, ..api_error }
    }
}

impl From<catalog::Error> for ApiError {
    fn from(error: catalog::Error) -> Self {
        let message = error.to_string();
        let (status, kind) = (status(error.kind()), error.exception());
        let causes = error.cause().map(|cause| chain(cause));
        Self { causes, ..Self::new(status, kind, message) }
    }
}

/// Maps an error of the catalog to its status.
fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::NoSuchWarehouse
        | Kind::NoSuchNamespace
        | Kind::NoSuchTable
        | Kind::NoSuchView
        | Kind::NoSuchFunction
        | Kind::NoSuchFile
        | Kind::NoSuchPolicy
        | Kind::NoSuchJob
        | Kind::NoSuchCheckpoint
        | Kind::NoSuchDropped
        | Kind::NoSuchProtection
        | Kind::NoSuchWebhook
        | Kind::NoSuchCursor
        | Kind::NoSuchPlan
        | Kind::NoSuchPlanTask => StatusCode::NOT_FOUND,
        Kind::AlreadyExists
        | Kind::NamespaceNotEmpty
        | Kind::WarehouseNotEmpty
        | Kind::Conflict
        | Kind::CommitFailed => StatusCode::CONFLICT,
        Kind::PositionGone => StatusCode::GONE,
        Kind::Invalid | Kind::Unusable | Kind::Validation => StatusCode::BAD_REQUEST,
        Kind::NotPlannable => StatusCode::NOT_ACCEPTABLE,
        Kind::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::CommitStateUnknown | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<authn::Error> for ApiError {
    fn from(error: authn::Error) -> Self {
        use authn::Error as E;
        let message = error.to_string();
        match error {
            E::Invalid(_) | E::TooMany(_) => Self::bad_request(message),
            E::Forbidden(_) => Self::new(StatusCode::FORBIDDEN, "ForbiddenException", message),
            E::LastAdmin(_) => Self::new(StatusCode::CONFLICT, "ConflictException", message),
            E::NoSuchKey(_) => Self::new(StatusCode::NOT_FOUND, "NotFoundException", message),
            E::Store(error) => catalog::Error::from(error).into(),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        catalog::Error::from(refusal).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { status, kind, message, causes, challenge, retry_after_seconds } = self;
        let body = json!({
            "error": { "message": message, "type": kind, "code": status.as_u16() }
        });
        let mut response = (status, Json(body)).into_response();
        // `observe` logs these details with the request id. The response contains the id as well,
        // so that a client can refer to the log line.
        if let Some(causes) = causes {
            let details = FailureDetails { exception: kind, message, causes };
            response.extensions_mut().insert(details);
        }
        let headers = response.headers_mut();
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        // The response names the supported encoding (RFC 9110, section 15.5.16).
        if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after_seconds));
        }
        response
    }
}
