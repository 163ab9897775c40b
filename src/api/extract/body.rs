//! Extracts the operation of a request and, for mutations, also the body.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::time::timeout;
use uuid::Uuid;

use super::operation::take_operation;
use crate::api::admission::content_length;
use crate::api::error::ApiError;
use crate::api::state::ApiState;
use crate::api::wire::object::Object;
use slateberg_base::hex::hex;
use slateberg_catalog::Operation;
use slateberg_catalog::operation::Idempotency;

/// The header with the key of a mutation that is executed at most once.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// An `Idempotency-Key` is a UUID in its 36-character form.
const IDEMPOTENCY_KEY_CHARS: usize = 36;

/// An extension of a request that gets a copy of the body when the handler has read it. Cheap to
/// clone. A member of a cluster that loses its term needs the body to forward the request.
#[derive(Clone, Default)]
pub struct BodySlot(Arc<Mutex<Option<Bytes>>>);

impl BodySlot {
    /// The body, if the handler has read it completely.
    pub fn body(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fill(&self, body: &Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(body.clone());
    }
}

/// A read-only request.
pub struct ReadOperation(pub Operation);

impl FromRequestParts<ApiState> for ReadOperation {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &ApiState) -> Result<Self, ApiError> {
        Ok(Self(take_operation(parts)?))
    }
}

/// A mutation whose body is ignored.
pub struct Mutation(pub Operation);

impl FromRequest<ApiState> for Mutation {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let (operation, _) = read_mutation(request, state).await?;
        Ok(Self(operation))
    }
}

/// A mutation with a JSON body.
pub struct MutationWithBody<T>(pub Operation, pub T);

impl<T: DeserializeOwned> FromRequest<ApiState> for MutationWithBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let (operation, body) = read_mutation(request, state).await?;
        let Object(parsed) = serde_json::from_slice(&body)
            .map_err(|error| ApiError::bad_request(format!("Invalid request body: {error}")))?;
        Ok(Self(operation, parsed))
    }
}

async fn read_mutation(request: Request, state: &ApiState) -> Result<(Operation, Bytes), ApiError> {
    let (mut parts, body) = request.into_parts();
    let operation = take_operation(&mut parts)?;
    let body =
        read_body(&parts, body, state.settings.body_bytes_max, state.settings.body_max()).await?;
    let idempotency = idempotency(&parts, &body)?;
    Ok((Operation { idempotency, ..operation }, body))
}

/// Reads a whole body. Rejects a body that is too long. If the announced length is already too
/// long, reads nothing. Also rejects a body that does not arrive in time, because its reserved
/// memory is needed for other requests.
pub async fn read_body(
    parts: &Parts,
    body: Body,
    bytes_max: usize,
    time_max: Duration,
) -> Result<Bytes, ApiError> {
    let too_long = || {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "BadRequestException",
            format!("The request body is longer than {bytes_max} bytes"),
        )
    };
    let length = content_length(&parts.headers);
    if length.is_some_and(|length| length > bytes_max) {
        return Err(too_long());
    }
    if let Some(encoding) = encoding(&parts.headers)
        && length != Some(0)
    {
        return Err(ApiError::unsupported_encoding(&encoding));
    }
    match timeout(time_max, to_bytes(body, bytes_max)).await {
        Ok(Ok(bytes)) => {
            if let Some(slot) = parts.extensions.get::<BodySlot>() {
                slot.fill(&bytes);
            }
            Ok(bytes)
        }
        Ok(Err(error)) if is_length_limit(&error) => Err(too_long()),
        Ok(Err(_)) => Err(ApiError::bad_request("The request body ended too early")),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "RequestTimeoutException",
            format!("The request body did not arrive within {} seconds", time_max.as_secs()),
        )),
    }
}

/// The content encoding of a body. `None` if the body is not encoded.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    let other = values.find(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))?;
    Some(String::from_utf8_lossy(other.as_bytes()).into_owned())
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn idempotency(parts: &Parts, body: &Bytes) -> Result<Option<Idempotency>, ApiError> {
    let Some(value) = parts.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value
        .to_str()
        .ok()
        .filter(|text| text.len() == IDEMPOTENCY_KEY_CHARS)
        .and_then(|text| Uuid::try_parse(text).ok())
        .ok_or_else(|| {
            ApiError::bad_request("Invalid Idempotency-Key: expected a UUID of 36 characters")
        })?;
    let mut hash = Sha256::new();
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    for part in [parts.method.as_str().as_bytes(), target.as_bytes(), body] {
        // The length prefix distinguishes requests whose concatenated parts are equal.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let fingerprint = hex(&hash.finalize());
    Ok(Some(Idempotency { key, fingerprint }))
}
