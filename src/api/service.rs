//! The entry point of a port: rejects requests that exceed a limit before it does any work for
//! them, authenticates all other requests, and responds with 500 if a handler panics.
//!
//! The service wraps the router as a whole. An axum layer would wrap each route separately, and
//! each request would clone the wrapped route.

use std::any::Any;
use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use tower_service::Service;
use tracing::{Instrument, debug_span};

use super::access_log::AccessPrincipal;
use super::admission::{Admission, AtCapacity, has_body};
use super::authenticate::authenticate;
use super::cors::Cors;
use super::cross_origin;
use super::error::ApiError;
use super::frame::{RequestFrame, request_id_header};
use super::host;
use super::oauth::tokens::FORM_BYTES_MAX;
use super::peer::{peer, source};
use super::probes::METRICS;
use super::rate_limits::RateLimits;
use super::request_id::REQUEST_ID;
use super::state::ApiState;
use super::watchers::POSITION;
use slateberg_catalog::operation::{Context as OperationContext, RequestId};
use slateberg_catalog::{self as catalog, Operation};
use slateberg_model::principal::Principal;
use slateberg_telemetry::traces::{self, TARGET};

/// Responds to the requests of a port.
pub trait Respond: Send + Sync + 'static {
    /// Responds to a request. The request has the peer of its connection as an extension
    /// ([`peer`]).
    fn respond(&self, request: Request) -> BoxFuture<'static, Response>;
}

/// The routes of a port. Each request is checked before it reaches its route. Cheap to clone.
#[derive(Clone)]
pub struct PortService {
    routes: Router,
    checks: Arc<RequestChecks>,
    /// CORS, if pages of other origins may send requests.
    cors: Option<Arc<Cors>>,
}

/// The checks before a request reaches its route.
struct RequestChecks {
    frame: RequestFrame,
    admission: Admission,
    /// Paths that are exempt from admission.
    unlimited_paths: &'static [&'static str],
    auth: Option<AuthLayer>,
}

/// Authentication and rate limits.
pub struct AuthLayer {
    state: ApiState,
    /// Rate limits, if configured.
    limits: Option<Arc<RateLimits>>,
    /// Paths that need no credential.
    public_paths: &'static [&'static str],
}

impl PortService {
    /// Puts the checks in front of these routes. The paths of `unlimited_paths` are served
    /// regardless of the number of requests in progress. Without `auth`, routes that need a
    /// principal reject all requests.
    pub fn new(
        routes: Router,
        frame: RequestFrame,
        admission: Admission,
        unlimited_paths: &'static [&'static str],
        auth: Option<AuthLayer>,
    ) -> Self {
        let checks = Arc::new(RequestChecks { frame, admission, unlimited_paths, auth });
        Self { routes, checks, cors: None }
    }

    /// Adds CORS. The server responds to preflight requests before authentication, because browsers
    /// send them without a credential.
    #[must_use]
    pub fn with_cors(self, cors: Option<Arc<Cors>>) -> Self {
        Self { cors, ..self }
    }

    /// Responds to a request.
    async fn handle(self, request: Request) -> Response {
        let Self { routes, checks, .. } = self;
        let respond = async |request, id| checks.handle(routes, request, id).await;
        checks.frame.respond(request, respond).await
    }
}

impl Respond for PortService {
    fn respond(&self, request: Request) -> BoxFuture<'static, Response> {
        let mut service = self.clone();
        match service.cors.take() {
            None => Box::pin(service.handle(request)),
            Some(cors) => cors.handle(service, request),
        }
    }
}

impl RequestChecks {
    async fn handle(&self, mut routes: Router, mut request: Request, id: RequestId) -> Response {
        let Self { admission, unlimited_paths, auth, .. } = self;
        let limits = match auth {
            Some(auth) if !unlimited_paths.contains(&request.uri().path()) => {
                auth.limits.as_deref()
            }
            _ => None,
        };
        if let Some(limits) = limits
            && let Err(rate_limited) = limits.take_for_address(source(request.extensions()))
        {
            return ApiError::rate_limited(rate_limited).into_response();
        }
        // Hold the permit until the handler has responded.
        let _permit = match unlimited_paths.contains(&request.uri().path()) {
            true => None,
            false => match admission.admit() {
                Ok(permit) => Some(permit),
                Err(_) => return at_capacity().into_response(),
            },
        };
        if let Some(auth) = auth {
            if let Err(error) = auth.attach_operation(&mut request, id, limits).await {
                return error.into_response();
            }
            if let Err(AtCapacity) = auth.reserve_body(admission, &mut request) {
                return at_capacity().into_response();
            }
        }
        let caller = auth.as_ref().and_then(|auth| auth.caller(&request));
        // Determine the position before the read, so that a watch from this position misses no
        // change after the read.
        let position = auth.as_ref().and_then(|auth| auth.position(&request));
        let response = AssertUnwindSafe(routes.call(request)).catch_unwind();
        match response.await {
            Ok(Ok(mut response)) => {
                if let Some(caller) = caller {
                    response.extensions_mut().insert(AccessPrincipal(caller.id().to_owned()));
                }
                if let Some(position) = position
                    && (response.status().is_success()
                        || response.status() == StatusCode::NOT_MODIFIED)
                {
                    response.headers_mut().insert(POSITION, position);
                }
                response
            }
            Ok(Err(impossible)) => match impossible {},
            Err(panic) => internal_error(panic.as_ref()).into_response(),
        }
    }
}

impl AuthLayer {
    /// Requires credentials, except at the paths of `public_paths`.
    pub fn new(
        state: ApiState,
        limits: Option<Arc<RateLimits>>,
        public_paths: &'static [&'static str],
    ) -> Self {
        Self { state, limits, public_paths }
    }

    /// Authenticates a request and attaches its operation. At a path without authentication,
    /// attaches only the request's id.
    async fn attach_operation(
        &self,
        request: &mut Request,
        id: RequestId,
        limits: Option<&RateLimits>,
    ) -> Result<(), ApiError> {
        let is_public = self.is_public(request.uri().path());
        let is_unprotected = !is_public && self.state.authn.is_open();
        let own = is_unprotected.then_some(self.state.settings.host_names.as_slice());
        host::check(request, own)?;
        if is_public {
            // The handler reads the id from the header, as if the client had sent it.
            request.headers_mut().insert(REQUEST_ID, request_id_header(&id));
            return Ok(());
        }
        let peer = peer(request.extensions());
        let authenticated = {
            let span = debug_span!(target: TARGET, "authenticate");
            let authenticated = authenticate(&self.state, request.headers(), peer, &id);
            let authenticated = authenticated.instrument(span.clone()).await;
            if authenticated.is_err() {
                traces::fail(&span, "refused");
            }
            authenticated
        };
        let principal = authenticated?;
        cross_origin::check(request, &principal, &self.state.settings.cors)?;
        // Without authentication, all clients share one principal, so only the limit per address
        // applies.
        if let (Some(limits), Principal::Identified(identity)) = (limits, &principal) {
            limits.take_for_principal(&identity.id).map_err(ApiError::rate_limited)?;
        }
        let source = source(request.extensions());
        let operation = self.operation(principal, source, request.headers(), id);
        request.extensions_mut().insert(operation);
        Ok(())
    }

    /// Returns the caller for the access log, if it is enabled and the request has one.
    fn caller(&self, request: &Request) -> Option<Principal> {
        let operation = request.extensions().get::<Operation>();
        operation
            .filter(|_| self.state.observer.logs_access())
            .map(|operation| operation.principal.clone())
    }

    /// Returns the current position in the change feed for a request that reads namespaces, tables
    /// or views.
    fn position(&self, request: &Request) -> Option<HeaderValue> {
        let path = request.uri().path();
        let reads = request.method() == Method::GET && path.starts_with("/v1/");
        if !reads || !path.contains("/namespaces") {
            return None;
        }
        let operation = request.extensions().get::<Operation>()?;
        let position = self.state.catalog.watches().position(operation);
        HeaderValue::try_from(position.to_string()).ok()
    }

    /// Creates the operation of a request by this principal.
    fn operation(
        &self,
        principal: Principal,
        source_address: Option<IpAddr>,
        headers: &HeaderMap,
        id: RequestId,
    ) -> Operation {
        let client = headers.get(header::USER_AGENT).and_then(|client| client.to_str().ok());
        let client = client.map(ToOwned::to_owned);
        let now_ms = self.state.catalog.now_ms();
        let context =
            OperationContext { now_ms, source_address, client, referenced_by: Vec::new() };
        Operation { request_id: Some(id), ..Operation::by(principal, context) }
    }

    /// Reserves memory for the body of an admitted request. An unauthenticated request gets memory
    /// only for a form, and only a few unauthenticated requests may wait for their body.
    fn reserve_body(&self, admission: &Admission, request: &mut Request) -> Result<(), AtCapacity> {
        if !has_body(request) {
            return Ok(());
        }
        let bytes_max = self.state.settings.body_bytes_max;
        if request.extensions().get::<Operation>().is_none() {
            let slot = admission.admit_unauthenticated()?;
            let body = admission.body(request, FORM_BYTES_MAX.min(bytes_max))?;
            // The permits are in the request's extensions: the handler drops these soon after the
            // body has arrived.
            request.extensions_mut().insert(Arc::new((slot, body)));
            return Ok(());
        }
        let body = admission.body(request, bytes_max)?;
        // An accepted operation continues after its client has disconnected. So the reserved memory
        // belongs to the operation until the operation ends.
        if let Some(operation) = request.extensions_mut().get_mut::<Operation>() {
            operation.room = Some(body);
        }
        Ok(())
    }

    fn is_public(&self, path: &str) -> bool {
        let open_metrics = !self.state.authn.settings().metrics_need_credential;
        self.public_paths.contains(&path) || (open_metrics && path == METRICS)
    }
}

impl Service<Request> for PortService {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes need no back pressure: they are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Box::pin(self.respond(request).map(Ok))
    }
}

fn at_capacity() -> ApiError {
    catalog::Error::unavailable("Too many requests", "admission is full").into()
}

fn internal_error(panic: &(dyn Any + Send)) -> ApiError {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no text");
    catalog::Error::internal(format!("panic: {text}")).into()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;
    use crate::api::access_log::AccessLog;
    use crate::api::router::observer;
    use slateberg_config::server::Settings;
    use uuid::Uuid;

    fn frame() -> RequestFrame {
        let observer = observer("http", None, AccessLog::default());
        RequestFrame::new(Arc::new(observer), Uuid::nil())
    }

    async fn status(service: &mut PortService, path: &str) -> StatusCode {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        service.call(request).await.expect("it is infallible").status()
    }

    #[tokio::test]
    async fn rejected_head_request_gets_no_body() {
        let settings = Settings { requests_in_flight_max: 0, ..Settings::default() };
        let service =
            PortService::new(Router::new(), frame(), Admission::new(&settings), &[], None);
        for (method, empty) in [(Method::HEAD, true), (Method::GET, false)] {
            let request = Request::builder().method(&method).uri("/").body(Body::empty());
            let response = service.clone().call(request.expect("a request")).await;
            let response = response.expect("it is infallible");
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            let body = to_bytes(response.into_body(), 1000).await.expect("it is short");
            assert_eq!(body.is_empty(), empty, "{method}");
        }
    }

    #[tokio::test]
    async fn panic_is_500_and_exempt_paths_are_served_at_capacity() {
        let panics = || async {
            if true {
                panic!("oh")
            }
        };
        let routes = Router::new().route("/panics", get(panics)).route("/open", get(|| async {}));
        let open = |requests_in_flight_max| {
            let settings = Settings { requests_in_flight_max, ..Settings::default() };
            PortService::new(routes.clone(), frame(), Admission::new(&settings), &["/open"], None)
        };
        assert_eq!(status(&mut open(1), "/panics").await, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(status(&mut open(1), "/open").await, StatusCode::OK);
        assert_eq!(status(&mut open(0), "/panics").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&mut open(0), "/open").await, StatusCode::OK);
    }
}
