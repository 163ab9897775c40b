//! Access log: one line per request (`log.access`), and one per slow request
//! (`log.slow_request_ms`).

use std::net::IpAddr;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::{HeaderValue, Method, Uri, header};

use super::peer::source;
use super::probes::PROBES;
use slateberg_catalog::operation::RequestId;
use slateberg_telemetry::settings::Settings;

/// Status of a request whose client closed the connection before the response, as in nginx.
const CLIENT_CLOSED: u16 = 499;

/// Decides which requests are logged.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessLog {
    all: bool,
    slow: Option<Duration>,
}

/// A request in progress. Dropping the entry writes its log line. So a request is also logged if
/// its client closes the connection before the response.
pub struct Entry {
    log: AccessLog,
    began: Instant,
    method: Method,
    uri: Uri,
    source: Option<IpAddr>,
    client: Option<HeaderValue>,
    id: RequestId,
    outcome: Option<(u16, Option<AccessPrincipal>)>,
}

/// The id of the principal. The module `service` attaches this id to the response, for the access
/// log.
#[derive(Debug, Clone)]
pub struct AccessPrincipal(pub String);

impl AccessLog {
    /// Creates the access log of these settings.
    pub fn new(settings: &Settings) -> Self {
        let slow = Some(settings.slow_request_ms).filter(|ms| *ms > 0).map(Duration::from_millis);
        Self { all: settings.access, slow }
    }

    /// Whether the settings enable any line of the access log.
    pub fn is_on(self) -> bool {
        self.all || self.slow.is_some()
    }

    /// Starts the entry of a request. Most entries write no line, so the entry contains only fields
    /// that are cheap to clone.
    pub fn begin(self, request: &Request, id: &RequestId) -> Option<Entry> {
        self.is_on().then(|| Entry {
            log: self,
            began: Instant::now(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            source: source(request.extensions()),
            client: request.headers().get(header::USER_AGENT).cloned(),
            id: id.clone(),
            outcome: None,
        })
    }
}

impl Entry {
    /// Completes the entry with the response's status and the caller.
    pub fn complete(mut self, status: u16, principal: Option<AccessPrincipal>) {
        self.outcome = Some((status, principal));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        let slow = self.log.slow.is_some_and(|slow| took >= slow);
        let (status, principal) = self.outcome.take().unwrap_or((CLIENT_CLOSED, None));
        let probe = status < 400 && PROBES.contains(&self.uri.path());
        if !slow && (!self.log.all || probe) {
            return;
        }
        let duration_ms = took.as_secs_f64() * 1000.0;
        let (method, path) = (self.method.as_str(), self.uri.path());
        let source = self.source.map(|source| source.to_string()).unwrap_or_default();
        let principal = principal.map(|principal| principal.0).unwrap_or_default();
        let client = self.client.as_ref().and_then(|client| client.to_str().ok());
        let (client, request_id) = (client.unwrap_or_default(), &self.id);
        if slow {
            tracing::warn!(
                target: "slateberg::slow_requests",
                method, path, status, duration_ms, principal, source, client, %request_id,
                "slow request"
            );
        }
        if self.log.all && !probe {
            tracing::info!(
                target: "slateberg::access",
                method, path, status, duration_ms, principal, source, client, %request_id,
                "request"
            );
        }
    }
}
