//! A call of a method: what the catalog is asked, and what the host is told of it.
//!
//! Each call is a `tracing` span inside whatever span its caller is in, and everything that it logs is inside
//! of that. What spans are good for is the host's own: without a subscriber that wants them, none is made.
//! Their fields are those of the spans of requests, as far as there are such things without HTTP.

use tracing::{Instrument, Span};

use super::{Error, Result};
use slateberg_catalog::{Catalog, Operation, RequestContext};

/// What a call is called, and the span that it is.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) span: Span,
}

/// Names a call. Its span has that name, and fields that are known later.
macro_rules! named {
    ($name:literal) => {
        crate::call::Named {
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

/// A call of a method: as a request, once it was let in.
pub(super) struct Call<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) cx: RequestContext,
    pub(super) span: Span,
}

impl Call<'_> {
    /// Does what was asked for, and tells the host of its end.
    pub(super) async fn done<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let ended = work.instrument(self.span.clone()).await;
        ended.map_err(|error| told(&self.cx.operation, &self.span, error))
    }

    /// The same of a question whether something is there.
    pub(super) async fn is_there(&self, looked: impl Future<Output = Result<()>>) -> Result<bool> {
        match looked.instrument(self.span.clone()).await {
            Ok(()) => Ok(true),
            Err(Error::NoSuchNamespace(_) | Error::NoSuchTable(_) | Error::NoSuchView(_)) => {
                Ok(false)
            }
            Err(error) => Err(told(&self.cx.operation, &self.span, error)),
        }
    }
}

/// Tells the span of an error, and the log what the error's text does not say. As with requests, a span has
/// failed if the catalog has, and not if what was asked for is refused.
pub(super) fn told(operation: &Operation, span: &Span, error: Error) -> Error {
    span.record("error.type", error.exception());
    if error.is_failure() {
        span.record("otel.status_code", "ERROR");
    }
    if let Error::CommitStateUnknown { operator, .. }
    | Error::Unavailable { operator, .. }
    | Error::Internal { operator } = &error
    {
        let request_id = operation.request_id.as_ref().map(ToString::to_string);
        span.in_scope(|| tracing::error!(operator, request_id, "{error}"));
    }
    error
}
