//! Every error, as HTTP has it: the only table of status codes and exception names.
//!
//! Clients switch on `code` and `type`, as the specification's `ErrorModel` has them; texts that Java's
//! compatibility kit asserts come from below as they are.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::catalog;
use crate::model::refusal::Refusal;

/// Seconds after which a client that was turned away may come back.
const RETRY_AFTER_SECONDS: u64 = 1;

/// An error that is about to be answered.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    operator: Option<String>,
}

impl ApiError {
    /// An error with this status, this exception name and this text.
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), operator: None }
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestException", message)
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
        let (status, kind) = match &error {
            E::NoSuchWarehouse(_) => (StatusCode::NOT_FOUND, "NoSuchWarehouseException"),
            E::NoSuchNamespace(_) => (StatusCode::NOT_FOUND, "NoSuchNamespaceException"),
            E::NoSuchTable(_) => (StatusCode::NOT_FOUND, "NoSuchTableException"),
            E::NoSuchView(_) => (StatusCode::NOT_FOUND, "NoSuchViewException"),
            E::NoSuchFile(_) => (StatusCode::NOT_FOUND, "NotFoundException"),
            E::AlreadyExists(_) => (StatusCode::CONFLICT, "AlreadyExistsException"),
            E::NamespaceNotEmpty(_) => (StatusCode::CONFLICT, "NamespaceNotEmptyException"),
            E::CommitFailed(_) => (StatusCode::CONFLICT, "CommitFailedException"),
            E::CommitStateUnknown { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "CommitStateUnknownException")
            }
            E::Invalid(_) => (StatusCode::BAD_REQUEST, "IllegalArgumentException"),
            E::Unprocessable(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "UnprocessableEntityException")
            }
            E::Forbidden(_) => (StatusCode::FORBIDDEN, "ForbiddenException"),
            E::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "SlowDownException"),
            E::Internal { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError"),
        };
        let answer = Self::new(status, kind, message);
        match error {
            E::CommitStateUnknown { operator, .. }
            | E::Unavailable { operator, .. }
            | E::Internal { operator } => answer.for_operator(operator),
            _ => answer,
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
        let Self { status, kind, message, operator } = self;
        if let Some(operator) = operator {
            tracing::error!(status = status.as_u16(), kind, operator, "{message}");
        }
        let body = json!({
            "error": { "message": message, "type": kind, "code": status.as_u16() }
        });
        let mut response = (status, Json(body)).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        response
    }
}
