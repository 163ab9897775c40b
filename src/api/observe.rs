//! Telemetry of each request: the latency metric, the trace span (if sampled), the line in the
//! access log, and the log line of a failure.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use tracing::Span;

use super::access_log::{AccessLog, AccessPrincipal, Entry};
use super::error::FailureDetails;
use super::peer::source;
use super::route_index::RouteIndex;
use slateberg_catalog::operation::RequestId;
use slateberg_telemetry::collection::Collection;
use slateberg_telemetry::http::{ActiveRequest, HttpMetrics, Method};
use slateberg_telemetry::settings::Ratio;
use slateberg_telemetry::traces::{RequestSpan, TRACEPARENT, TRACESTATE, TraceHeaders};

/// Records telemetry of requests.
pub struct Observer {
    metrics: HttpMetrics,
    routes: RouteIndex,
    /// The fraction of requests that are traced, if traces are exported.
    traced: Option<Ratio>,
    access_log: AccessLog,
}

/// Telemetry of a request in progress.
pub struct RequestTelemetry<'a> {
    active: ActiveRequest<'a>,
    span: Option<RequestSpan>,
    entry: Option<Entry>,
}

impl Observer {
    /// Creates an observer for requests to these routes. The metrics have the same routes in the same
    /// order.
    pub fn new(
        metrics: HttpMetrics,
        routes: RouteIndex,
        traced: Option<Ratio>,
        access_log: AccessLog,
    ) -> Self {
        Self { metrics, routes, traced, access_log }
    }

    /// The routes of all ports.
    pub fn routes(&self) -> &RouteIndex {
        &self.routes
    }

    /// Whether the access log is on.
    pub fn logs_access(&self) -> bool {
        self.access_log.is_on()
    }

    /// Adds the metrics of requests to the collection.
    pub fn collect(&self, into: &mut Collection) {
        self.metrics.collect(into);
    }

    /// Starts to record a request.
    pub fn begin(&self, request: &Request, id: &RequestId) -> RequestTelemetry<'_> {
        let route = self.routes.number(request.uri().path());
        let method = Method::from_name(request.method().as_str());
        let active = self.metrics.begin(method, route);
        let span = self.traced.and_then(|ratio| self.span(ratio, request, method, route, id));
        let entry = self.access_log.begin(request, id);
        RequestTelemetry { active, span, entry }
    }

    fn span(
        &self,
        ratio: Ratio,
        request: &Request,
        method: Method,
        route: Option<u16>,
        id: &RequestId,
    ) -> Option<RequestSpan> {
        let route = route.and_then(|route| self.metrics.route(route));
        let name = || match route {
            Some(route) => format!("{} {route}", method.name()),
            None => method.name().to_owned(),
        };
        let span = RequestSpan::begin(ratio, trace_headers(request.headers()), id, name)?;
        span.set("http.request.method", method.name());
        span.set("url.scheme", self.metrics.scheme());
        span.set("url.path", request.uri().path().to_owned());
        if let Some(route) = route {
            span.set("http.route", route.to_owned());
        }
        if let Some(address) = source(request.extensions()) {
            span.set("client.address", IpAddr::to_string(&address));
        }
        let client = request.headers().get(header::USER_AGENT);
        if let Some(client) = client.and_then(|client| client.to_str().ok()) {
            span.set("user_agent.original", client.to_owned());
        }
        span.set("slateberg.request_id", id.to_string());
        Some(span)
    }
}

impl RequestTelemetry<'_> {
    /// Returns the span in which the request is handled.
    pub fn span(&self) -> Span {
        self.span.as_ref().map_or_else(Span::none, |span| span.span().clone())
    }

    /// Records the response. If the request failed with details for the operator, logs them.
    pub fn finish(mut self, response: &mut Response, id: &RequestId) {
        let status = response.status().as_u16();
        if let Some(details) = response.extensions_mut().remove::<FailureDetails>() {
            let FailureDetails { exception, message, causes } = details;
            let span = self.span();
            let _guard = span.enter();
            tracing::error!(status, exception, response = message, error = causes, request_id = %id, "request failed");
        }
        if let Some(span) = &self.span {
            span.set("http.response.status_code", i64::from(status));
            if status >= 500 {
                span.set("error.type", status.to_string());
                span.fail();
            }
        }
        if let Some(entry) = self.entry.take() {
            entry.complete(status, response.extensions_mut().remove::<AccessPrincipal>());
        }
        self.active.set_status(status);
    }
}

/// Returns the trace headers. If a request has several `traceparent` headers, ignores all of them.
fn trace_headers(headers: &HeaderMap) -> TraceHeaders<'_> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let parent = match (parents.next(), parents.next()) {
        (Some(parent), None) => parent.to_str().ok(),
        _ => None,
    };
    TraceHeaders { parent, state: headers.get(TRACESTATE).and_then(|state| state.to_str().ok()) }
}
