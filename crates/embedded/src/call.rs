//! Calls of the API. Each call passes a request context to the catalog, runs in a span, and returns
//! the catalog's errors to the host.
//!
//! Each call has a `tracing` span, which contains all log events of the call and is inside the
//! host's current span. If no subscriber of the host enables these spans, they are not created.
//! They have the same fields as the spans of HTTP requests, except fields that only HTTP requests
//! have.

use tracing::{Instrument, Span};

use super::{Error, Result};
use slateberg_base::error_chain::chain;
use slateberg_catalog::{Catalog, Operation, RequestContext};

/// The name of a call, and its span.
pub(super) struct NamedCall {
    pub(super) name: &'static str,
    pub(super) span: Span,
}

/// Creates the name and the span of a call. The values of the span's fields are recorded later.
macro_rules! named {
    ($name:literal) => {
        crate::call::NamedCall {
            name: $name,
            span: tracing::info_span!(
                target: "slateberg::embedded",
                $name,
                "slateberg.request_id" = tracing::field::Empty,
                "slateberg.warehouse" = tracing::field::Empty,
                "error.type" = tracing::field::Empty,
                "otel.status_code" = tracing::field::Empty,
            ),
        }
    };
}

pub(super) use named;

/// An authorized call, with its request context.
pub(super) struct Call<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) cx: RequestContext,
    pub(super) span: Span,
}

impl Call<'_> {
    /// Runs the call in its span. Records an error in the span.
    pub(super) async fn done<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let ended = work.instrument(self.span.clone()).await;
        ended.map_err(|error| record_failure(&self.cx.operation, &self.span, error))
    }

    /// Runs an existence check. Returns `false` if the object does not exist.
    pub(super) async fn is_there(&self, looked: impl Future<Output = Result<()>>) -> Result<bool> {
        match looked.instrument(self.span.clone()).await {
            Ok(()) => Ok(true),
            Err(Error::NoSuchNamespace(_) | Error::NoSuchTable(_) | Error::NoSuchView(_)) => {
                Ok(false)
            }
            Err(error) => Err(record_failure(&self.cx.operation, &self.span, error)),
        }
    }
}

/// Records an error in the span, and logs details that the error's message omits. As with HTTP
/// requests, the status of the span is an error if the catalog failed, but not if the catalog
/// rejected the call.
pub(super) fn record_failure(operation: &Operation, span: &Span, error: Error) -> Error {
    span.record("error.type", error.exception());
    if error.is_failure() {
        span.record("otel.status_code", "ERROR");
    }
    if let Some(cause) = error.cause() {
        let operator = chain(cause);
        let request_id = operation.request_id.as_ref().map(ToString::to_string);
        span.in_scope(|| tracing::error!(operator, request_id, "{error}"));
    }
    error
}
