//! Every error, as HTTP has it: the only table of status codes.
//!
//! Clients switch on `code` and `type`, as the specification's `ErrorModel` has them; texts that Java's
//! compatibility kit asserts come from below as they are.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::rate_limits::TooSoon;
use slateberg_authn as authn;
use slateberg_catalog as catalog;
use slateberg_model::refusal::Refusal;

/// Seconds after which a client that was turned away may come back.
const RETRY_AFTER_SECONDS: u64 = 1;

/// An error that is about to be answered.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    operator: Option<String>,
    /// The `WWW-Authenticate` header.
    challenge: Option<HeaderValue>,
    /// The `Retry-After` header of those who are told to come back.
    retry_after_seconds: u64,
}

/// What the operator should know of an answer.
#[derive(Debug, Clone)]
pub struct ForOperator {
    /// The kind of exception that clients are told.
    pub kind: &'static str,
    /// What they are told of it.
    pub message: String,
    /// What they are not.
    pub operator: String,
}

impl ApiError {
    /// An error with this status, this exception name and this text.
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        let (message, retry_after_seconds) = (message.into(), RETRY_AFTER_SECONDS);
        Self { status, kind, message, operator: None, challenge: None, retry_after_seconds }
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestException", message)
    }

    /// The request's body is encoded in a way that the server does not decode.
    pub fn unsupported_encoding(encoding: &str) -> Self {
        let message = format!("Unsupported Content-Encoding '{encoding}': send the body as it is");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "BadRequestException", message)
    }

    /// The request has no credential that is good: one text, whatever is wrong with it.
    pub fn unauthorized(challenge: &'static str) -> Self {
        let message = "Not authorized: send a valid API key or token as Authorization: Bearer";
        let answer = Self::new(StatusCode::UNAUTHORIZED, "NotAuthorizedException", message);
        Self { challenge: Some(HeaderValue::from_static(challenge)), ..answer }
    }

    /// Too many failed in the same way.
    pub fn too_many_failures() -> Self {
        let message = "Too many requests with credentials that are not valid";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "SlowDownException", message)
    }

    /// There were too many of them lately.
    pub fn too_soon(too_soon: TooSoon) -> Self {
        let TooSoon { retry_after_seconds } = too_soon;
        let message = format!("Too many requests: try again in {retry_after_seconds} s");
        let answer = Self::new(StatusCode::TOO_MANY_REQUESTS, "SlowDownException", message);
        Self { retry_after_seconds, ..answer }
    }

    fn for_operator(mut self, operator: String) -> Self {
        self.operator = Some(operator);
        self
    }
}

impl From<catalog::Error> for ApiError {
    fn from(error: catalog::Error) -> Self {
        use catalog::Error as E;
        let message = error.to_string();
        let (status, kind) = (status(&error), error.exception());
        let answer = Self::new(status, kind, message);
        match error {
            E::CommitStateUnknown { operator, .. }
            | E::Unavailable { operator, .. }
            | E::Internal { operator } => answer.for_operator(operator),
            _ => answer,
        }
    }
}

/// The status of an error of the catalog.
fn status(error: &catalog::Error) -> StatusCode {
    use catalog::Error as E;
    match error {
        E::NoSuchWarehouse(..)
        | E::NoSuchNamespace(..)
        | E::NoSuchTable(..)
        | E::NoSuchView(..)
        | E::NoSuchFile(..)
        | E::NoSuchPolicy(..)
        | E::NoSuchJob(..)
        | E::NoSuchCheckpoint(..) => StatusCode::NOT_FOUND,
        E::AlreadyExists(..)
        | E::NamespaceNotEmpty(..)
        | E::WarehouseNotEmpty(..)
        | E::Conflict(..)
        | E::CommitFailed(..) => StatusCode::CONFLICT,
        E::Invalid(..) | E::Unusable(..) => StatusCode::BAD_REQUEST,
        E::Unprocessable(..) => StatusCode::UNPROCESSABLE_ENTITY,
        E::Forbidden(..) => StatusCode::FORBIDDEN,
        E::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        E::CommitStateUnknown { .. } | E::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
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
        let Self { status, kind, message, operator, challenge, retry_after_seconds } = self;
        let body = json!({
            "error": { "message": message, "type": kind, "code": status.as_u16() }
        });
        let mut response = (status, Json(body)).into_response();
        // Who knows the request's id tells the log.
        if let Some(operator) = operator {
            response.extensions_mut().insert(ForOperator { kind, message, operator });
        }
        let headers = response.headers_mut();
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        // What the server does decode (RFC 9110, section 15.5.16).
        if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after_seconds));
        }
        response
    }
}
