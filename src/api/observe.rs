//! Per-request telemetry: latency metric, trace span (if sampled), access log, and an error log line.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use matchit::Router;
use tracing::error_span;

use super::access_log::{AccessLog, AccessPrincipal, Entry};
use super::error::ForOperator;
use super::peer::source;
use slateberg_catalog::operation::RequestId;
use slateberg_telemetry::http::{Active, HttpMetrics, Method};
use slateberg_telemetry::trace_context::{Remote, TRACEPARENT, TRACESTATE};
use slateberg_telemetry::traces::{Span, Trace, Tracer};

/// Observes requests.
pub struct Observer {
    metrics: Arc<HttpMetrics>,
    tracer: Option<Arc<Tracer>>,
    /// The number of each route, found as axum finds it.
    routes: Router<u16>,
    access_log: AccessLog,
}

/// A request that is observed.
pub struct Observed<'a> {
    active: Active<'a>,
    span: Span,
    log: tracing::Span,
    entry: Option<Entry>,
}

impl Observer {
    /// Observes requests to these routes.
    pub fn new(
        metrics: Arc<HttpMetrics>,
        templates: &[String],
        tracer: Option<Arc<Tracer>>,
        access_log: AccessLog,
    ) -> Self {
        let mut routes = Router::new();
        for (number, template) in templates.iter().enumerate() {
            let number = u16::try_from(number).expect("there are not so many routes");
            routes.insert(template.as_str(), number).expect("axum has taken it as well");
        }
        Self { metrics, tracer, routes, access_log }
    }

    /// Takes note of a request that has come.
    pub fn begin(&self, request: &Request, id: &RequestId) -> Observed<'_> {
        let route = self.routes.at(request.uri().path()).ok().map(|found| *found.value);
        let method = Method::named(request.method().as_str());
        let active = self.metrics.begin(method, route);
        let span = match &self.tracer {
            None => Span::none(),
            Some(tracer) => self.span(tracer, request, method, route, id),
        };
        let log = match span.trace().ids() {
            None => tracing::Span::none(),
            Some((trace_id, span_id)) => {
                error_span!("request", %trace_id, %span_id, request_id = %id)
            }
        };
        let entry = self.access_log.begin(request, id);
        Observed { active, span, log, entry }
    }

    fn span(
        &self,
        tracer: &Arc<Tracer>,
        request: &Request,
        method: Method,
        route: Option<u16>,
        id: &RequestId,
    ) -> Span {
        let route = route.and_then(|route| self.metrics.route(route));
        let name = || match route {
            Some(route) => format!("{} {route}", method.name()),
            None => method.name().to_owned(),
        };
        let mut span = tracer.begin(remote(request.headers()), name);
        span.set("http.request.method", || method.name());
        span.set("url.scheme", || self.metrics.scheme());
        span.set("url.path", || request.uri().path().to_owned());
        if let Some(route) = route {
            span.set("http.route", || route.to_owned());
        }
        if let Some(address) = source(request.extensions()) {
            span.set("client.address", || IpAddr::to_string(&address));
        }
        let client = request.headers().get(header::USER_AGENT);
        if let Some(client) = client.and_then(|client| client.to_str().ok()) {
            span.set("user_agent.original", || client.to_owned());
        }
        span.set("slateberg.request_id", || id.to_string());
        span
    }
}

impl Observed<'_> {
    /// For what is done for it.
    pub fn trace(&self) -> Trace {
        self.span.trace()
    }

    /// What its log lines have in common.
    pub fn log(&self) -> tracing::Span {
        self.log.clone()
    }

    /// Takes note of its answer, and tells the log what the operator should know of it.
    pub fn answered(mut self, response: &mut Response, id: &RequestId) {
        let status = response.status().as_u16();
        if let Some(told) = response.extensions_mut().remove::<ForOperator>() {
            let ForOperator { kind, message, operator } = told;
            let _inside = self.log.enter();
            tracing::error!(status, kind, operator, request_id = %id, "{message}");
        }
        self.span.set("http.response.status_code", || usize::from(status));
        if status >= 500 {
            self.span.set("error.type", || status.to_string());
            self.span.fail("");
        }
        if let Some(entry) = self.entry.take() {
            entry.complete(status, response.extensions_mut().remove::<AccessPrincipal>());
        }
        self.active.answered(status);
    }
}

/// What the request says of the trace that it belongs to, if it says it once.
fn remote(headers: &HeaderMap) -> Option<Remote> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
    let state = headers.get(TRACESTATE).map(|state| state.as_bytes());
    Remote::parse(parent.as_bytes(), state)
}
