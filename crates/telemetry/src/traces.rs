//! Spans of requests, and the selection of the spans that are exported.
//!
//! Spans are created with `tracing`. Each sampled request begins a [`RequestSpan`]. Spans that the
//! server or a library creates inside a request span become parts of its trace. Outside of a
//! request span, for example in a request that is not sampled, these spans are not created. Each
//! omitted span costs one check of the stack of current spans.

use std::collections::HashMap;
use std::fmt::Display;

use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Status, TraceContextExt};
use opentelemetry::{Context as OtelContext, KeyValue, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::field::{Empty, display};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Span, Subscriber, error_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::settings::Ratio;
use slateberg_base::secret::random_bytes;

/// The target of the spans of requests and their parts. Parts are created at `debug`, as
/// `debug_span!(target: TARGET, "commit")`.
pub const TARGET: &str = "slateberg::traces";

/// The header with the trace and parent span of a request.
pub const TRACEPARENT: &str = "traceparent";
/// The header with vendor-specific trace data.
pub const TRACESTATE: &str = "tracestate";

/// Maximum length of a `tracestate`, in bytes. A longer value is ignored.
const TRACESTATE_BYTES_MAX: usize = 512;
/// The name of request spans in `tracing`. In a trace they have the name of the route.
const REQUEST: &str = "request";

/// The headers with which a client passes its trace context.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceHeaders<'a> {
    /// `traceparent`. `None` if the request has no such header, or several.
    pub parent: Option<&'a str>,
    /// `tracestate`.
    pub state: Option<&'a str>,
}

impl Extractor for TraceHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => self.parent,
            TRACESTATE => self.state.filter(|state| state.len() <= TRACESTATE_BYTES_MAX),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

/// The span of a sampled request. The span ends when this value is dropped, even if tasks of the
/// request still run.
#[derive(Debug)]
pub struct RequestSpan {
    span: Span,
    context: OtelContext,
}

impl RequestSpan {
    /// Begins the span of a request if the request is sampled. `headers` may contain the decision
    /// of the client. Without it, the request is sampled with probability `ratio`. Returns `None`
    /// if the request is not sampled or traces are not exported.
    pub fn begin(
        ratio: Ratio,
        headers: TraceHeaders<'_>,
        request_id: &dyn Display,
        name: impl FnOnce() -> String,
    ) -> Option<Self> {
        let client =
            TraceContextPropagator::new().extract_with_context(&OtelContext::new(), &headers);
        let sampled = match client.has_active_span() {
            true => client.span().span_context().is_sampled(),
            false => ratio.samples(random_bytes()),
        };
        if !sampled {
            return None;
        }
        // These fields appear in log lines. The trace has them as attributes or ids instead.
        let span = error_span!(
            target: TARGET,
            parent: None,
            REQUEST,
            trace_id = Empty,
            span_id = Empty,
            request_id = Empty
        );
        span.set_parent(client).ok()?;
        let context = span.context();
        let ids = context.span().span_context().clone();
        span.record("trace_id", display(ids.trace_id()));
        span.record("span_id", display(ids.span_id()));
        span.record("request_id", display(request_id));
        context.span().update_name(name());
        Some(Self { span, context })
    }

    /// Returns the span in which the request's work runs.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Sets an attribute.
    pub fn set(&self, name: &'static str, value: impl Into<Value>) {
        self.context.span().set_attribute(KeyValue::new(name, value));
    }

    /// Marks the request as failed.
    pub fn fail(&self) {
        self.context.span().set_status(Status::error(""));
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        self.context.span().end();
    }
}

/// Marks a span as failed. `reason` becomes its status description.
pub fn fail(span: &Span, reason: &'static str) {
    span.set_status(Status::error(reason));
}

/// Links a span to those of the other spans that are sampled.
pub fn link<'a>(span: &Span, others: impl Iterator<Item = &'a Span>) {
    for other in others.filter(|other| *other != span && !span.is_disabled()) {
        // `add_link` ignores the invalid context of a span that is not sampled.
        span.add_link(other.context().span().span_context().clone());
    }
}

/// Returns the id of the current trace, or `None` outside of sampled requests.
pub fn current_trace_id() -> Option<String> {
    let span = Span::current();
    if span.is_disabled() {
        return None;
    }
    let context = span.context();
    let ids = context.span().span_context().clone();
    ids.is_valid().then(|| ids.trace_id().to_string())
}

/// Returns the headers that pass the context of the current trace to another process. Returns none
/// outside of a sampled request.
pub fn outgoing_headers() -> HashMap<String, String> {
    let (span, mut headers) = (Span::current(), HashMap::new());
    if !span.is_disabled() {
        TraceContextPropagator::new().inject_context(&span.context(), &mut headers);
    }
    headers
}

/// Fields of a [`RequestSpan`] that only log lines need; the trace contains the data in other
/// forms.
pub(super) const LOG_FIELDS: [&str; 3] = ["trace_id", "span_id", "request_id"];

/// Whether this is the metadata of the span of a sampled request.
pub(super) fn is_request(metadata: &Metadata<'_>) -> bool {
    metadata.target() == TARGET && metadata.name() == REQUEST
}

/// Whether this is the span of a request or of one of its parts.
pub(super) fn is_trace_span(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TARGET
}

/// Whether a trace includes this span if it is part of a sampled request. Traces include the AWS
/// SDK's operations and their attempts, but not the ten steps of each attempt.
pub(super) fn is_exported(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    metadata.is_span()
        && match *metadata.level() {
            Level::TRACE => false,
            Level::DEBUG => {
                target == TARGET
                    || target.starts_with("aws_sdk_")
                    || target.starts_with("aws_smithy_") && metadata.name() == "try_attempt"
            }
            _ => true,
        }
}

/// Enables the spans of sampled requests, and those spans inside them that `selects` accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestSpanFilter {
    /// Whether a span inside a request's span is enabled.
    pub selects: fn(&Metadata<'_>) -> bool,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Filter<S> for RequestSpanFilter {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        is_request(metadata) || (self.selects)(metadata) && is_inside(context)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match (self.selects)(metadata) {
            _ if is_request(metadata) => Interest::always(),
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

fn is_inside<S: Subscriber + for<'a> LookupSpan<'a>>(context: &Context<'_, S>) -> bool {
    let current = context.lookup_current();
    current.is_some_and(|span| span.scope().any(|it| is_request(it.metadata())))
}

/// If a request is not sampled, disables the spans for its parts, for all layers at once. If only
/// the filters of the layers disabled a span, the registry would still create it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampledOnlyLayer;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SampledOnlyLayer {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match is_trace_span(metadata) && !is_request(metadata) {
            true => Interest::sometimes(),
            false => Interest::always(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        !is_trace_span(metadata) || is_request(metadata) || is_inside(&context)
    }

    /// Does not restrict the level for other layers.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }
}
