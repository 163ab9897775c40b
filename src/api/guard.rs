//! The entry point of a port: rejects requests beyond the limits before any work is done,
//! authenticates the others, and responds with 500 if a handler panics.
//!
//! It wraps the router as a whole. As an axum layer it would wrap each route, and each request
//! would clone it.

use std::any::Any;
use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Version, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use tower_service::Service;
use tracing::{Instrument, debug_span};
use uuid::Uuid;

use super::access_log::AccessPrincipal;
use super::admission::{Admission, Full, has_body};
use super::authenticate::authenticate;
use super::cors::Cors;
use super::cross_origin;
use super::error::ApiError;
use super::host;
use super::oauth::tokens::FORM_BYTES_MAX;
use super::observe::Observer;
use super::peer::{peer, source};
use super::rate_limits::RateLimits;
use super::request_id::REQUEST_ID;
use super::state::ApiState;
use super::unread;
use slateberg_catalog::operation::{Context as Circumstances, RequestId};
use slateberg_catalog::{self as catalog, Operation};
use slateberg_model::principal::Principal;
use slateberg_telemetry::traces::{self, TARGET};

/// The path of the metrics. Prometheus expects it to need no credential.
const METRICS: &str = "/metrics";

/// The routes of a port behind the guard. Cheap to clone.
#[derive(Clone)]
pub struct Guarded {
    routes: Router,
    rules: Arc<Rules>,
    /// CORS, if pages of other origins may send requests.
    cors: Option<Arc<Cors>>,
}

/// The checks before a request reaches its route.
struct Rules {
    admission: Admission,
    /// Paths that are exempt from admission.
    always_open: &'static [&'static str],
    door: Option<Door>,
}

/// Authentication and rate limits.
pub struct Door {
    state: ApiState,
    observer: Arc<Observer>,
    /// Rate limits, if configured.
    limits: Option<Arc<RateLimits>>,
    /// Paths that need no credential.
    for_everybody: &'static [&'static str],
    /// The unique prefix of the request ids that this process generates.
    run: Uuid,
    /// Number of generated request ids.
    requests: AtomicU64,
}

impl Guarded {
    /// Guards these routes. The paths of `always_open` are served regardless of the number of
    /// requests in progress. Without a `door`, no route that needs a principal can be reached.
    pub fn new(
        routes: Router,
        admission: Admission,
        always_open: &'static [&'static str],
        door: Option<Door>,
    ) -> Self {
        let rules = Arc::new(Rules { admission, always_open, door });
        Self { routes, rules, cors: None }
    }

    /// Adds CORS. Preflight requests are answered before authentication, because browsers send them
    /// without a credential.
    #[must_use]
    pub fn with_cors(self, cors: Option<Arc<Cors>>) -> Self {
        Self { cors, ..self }
    }

    /// Responds to a request.
    pub fn respond(mut self, request: Request) -> BoxFuture<'static, Response> {
        match self.cors.take() {
            None => Box::pin(self.answer(request)),
            Some(cors) => cors.answer(self, request),
        }
    }

    /// Responds under the request's id, and repeats the id in the response.
    async fn answer(self, request: Request) -> Response {
        let Self { routes, rules, .. } = self;
        let version = request.version();
        let wants_head = request.method() == Method::HEAD;
        let (request, unread) = unread::watch(request);
        let Some(door) = &rules.door else {
            let response = rules.answer(routes, request, None).await;
            return unread.over(head_if(wants_head, response)).await;
        };
        let id = door.request_id(request.headers());
        let header = header_of(&id);
        let observed = door.observer.begin(&request, &id);
        let answer = rules.answer(routes, request, Some(id.clone()));
        let answer = answer.instrument(observed.span());
        let mut response = answer.await;
        observed.answered(&mut response, &id);
        response.headers_mut().insert(REQUEST_ID, header);
        // HTTP/2 announces the end of a connection itself.
        if version <= Version::HTTP_11 && door.state.leaving.has_begun() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        unread.over(head_if(wants_head, response)).await
    }
}

/// Removes the body if the request is a `HEAD`. The routes do this themselves; the guard does it
/// for responses in their place.
fn head_if(wants_head: bool, response: Response) -> Response {
    if wants_head { response.map(|_| Body::empty()) } else { response }
}

impl Rules {
    async fn answer(
        &self,
        mut routes: Router,
        mut request: Request,
        id: Option<RequestId>,
    ) -> Response {
        let Self { admission, always_open, door } = self;
        let limits = match door {
            Some(door) if !always_open.contains(&request.uri().path()) => door.limits.as_deref(),
            _ => None,
        };
        if let Some(limits) = limits
            && let Err(too_soon) = limits.take_of_address(source(request.extensions()))
        {
            return ApiError::too_soon(too_soon).into_response();
        }
        // Hold the permit until the handler has responded.
        let _place = match always_open.contains(&request.uri().path()) {
            true => None,
            false => match admission.admit() {
                Ok(place) => Some(place),
                Err(_) => return too_many().into_response(),
            },
        };
        if let (Some(door), Some(id)) = (door, id) {
            if let Err(refused) = door.let_in(&mut request, id, limits).await {
                return refused.into_response();
            }
            if let Err(Full) = door.make_room(admission, &mut request) {
                return too_many().into_response();
            }
        }
        let caller = door.as_ref().and_then(|door| door.caller(&request));
        let answer = AssertUnwindSafe(routes.call(request)).catch_unwind();
        match answer.await {
            Ok(Ok(mut response)) => {
                if let Some(caller) = caller {
                    response.extensions_mut().insert(AccessPrincipal(caller.id().to_owned()));
                }
                response
            }
            Ok(Err(impossible)) => match impossible {},
            Err(panic) => panicked(panic.as_ref()).into_response(),
        }
    }
}

impl Door {
    /// Requires credentials, except at the paths of `for_everybody`.
    pub fn new(
        state: ApiState,
        observer: Arc<Observer>,
        limits: Option<Arc<RateLimits>>,
        for_everybody: &'static [&'static str],
    ) -> Self {
        let run = state.catalog.new_run_id();
        Self { state, observer, limits, for_everybody, run, requests: AtomicU64::new(1) }
    }

    /// Authenticates a request and attaches its operation. At a path without authentication,
    /// attaches only the request's id.
    async fn let_in(
        &self,
        request: &mut Request,
        id: RequestId,
        limits: Option<&RateLimits>,
    ) -> Result<(), ApiError> {
        let is_open = self.is_for_everybody(request.uri().path());
        let is_unprotected = !is_open && self.state.authn.lets_everybody_in();
        let own = is_unprotected.then_some(self.state.settings.host_names.as_slice());
        host::check(request, own)?;
        if is_open {
            // The handler reads the id from the header, as if the client had sent it.
            request.headers_mut().insert(REQUEST_ID, header_of(&id));
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
        // Without authentication all callers share one principal, so that only the limit per
        // address applies.
        if let (Some(limits), Principal::Identified(identity)) = (limits, &principal) {
            limits.take_of_principal(&identity.id).map_err(ApiError::too_soon)?;
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
            .filter(|_| self.state.access_log.is_on())
            .map(|operation| operation.principal.clone())
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
        let context = Circumstances { now_ms, source_address, client };
        Operation { request_id: Some(id), ..Operation::by(principal, context) }
    }

    /// The client's id of the request if it is safe to log, or else a generated one.
    fn request_id(&self, headers: &HeaderMap) -> RequestId {
        let given = headers.get(REQUEST_ID).and_then(|id| RequestId::given(id.as_bytes()));
        given.unwrap_or_else(|| {
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            RequestId::Numbered { run: self.run, number }
        })
    }

    /// Reserves memory for the body of an admitted request. An unauthenticated request gets memory
    /// for a form only, and few of them may wait for their body.
    fn make_room(&self, admission: &Admission, request: &mut Request) -> Result<(), Full> {
        if !has_body(request) {
            return Ok(());
        }
        let bytes_max = self.state.settings.body_bytes_max;
        if request.extensions().get::<Operation>().is_none() {
            let stranger = admission.stranger()?;
            let body = admission.body(request, FORM_BYTES_MAX.min(bytes_max))?;
            // Dropped with the head of the request, which is not used after the body has arrived.
            request.extensions_mut().insert(Arc::new((stranger, body)));
            return Ok(());
        }
        let body = admission.body(request, bytes_max)?;
        // An accepted operation continues after its client has disconnected, and holds the memory
        // for as long.
        if let Some(operation) = request.extensions_mut().get_mut::<Operation>() {
            operation.room = Some(body);
        }
        Ok(())
    }

    fn is_for_everybody(&self, path: &str) -> bool {
        let open_metrics = !self.state.authn.settings().metrics_need_credential;
        self.for_everybody.contains(&path) || (open_metrics && path == METRICS)
    }
}

impl Service<Request> for Guarded {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes need no back pressure: they are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Box::pin(self.clone().respond(request).map(Ok))
    }
}

fn header_of(id: &RequestId) -> HeaderValue {
    HeaderValue::try_from(id.to_string()).expect("it is printable")
}

fn too_many() -> ApiError {
    catalog::Error::unavailable("Too many requests", "admission is full").into()
}

fn panicked(panic: &(dyn Any + Send)) -> ApiError {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no text");
    catalog::Error::internal(format!("panic: {text}")).into()
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;
    use slateberg_config::server::Settings;

    async fn status(guarded: &mut Guarded, path: &str) -> StatusCode {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        guarded.call(request).await.expect("it is infallible").status()
    }

    #[tokio::test]
    async fn who_wants_the_head_alone_gets_no_body_of_a_refusal() {
        let settings = Settings { requests_in_flight_max: 0, ..Settings::default() };
        let guarded = Guarded::new(Router::new(), Admission::new(&settings), &[], None);
        for (method, empty) in [(Method::HEAD, true), (Method::GET, false)] {
            let request = Request::builder().method(&method).uri("/").body(Body::empty());
            let answer = guarded.clone().call(request.expect("a request")).await;
            let answer = answer.expect("it is infallible");
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            let body = to_bytes(answer.into_body(), 1000).await.expect("it is short");
            assert_eq!(body.is_empty(), empty, "{method}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_answered_and_a_full_house_only_lets_operators_in() {
        let panics = || async {
            if true {
                panic!("oh")
            }
        };
        let routes = Router::new().route("/panics", get(panics)).route("/open", get(|| async {}));
        let open = |requests_in_flight_max| {
            let settings = Settings { requests_in_flight_max, ..Settings::default() };
            Guarded::new(routes.clone(), Admission::new(&settings), &["/open"], None)
        };
        assert_eq!(status(&mut open(1), "/panics").await, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(status(&mut open(1), "/open").await, StatusCode::OK);
        assert_eq!(status(&mut open(0), "/panics").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&mut open(0), "/open").await, StatusCode::OK);
    }
}
