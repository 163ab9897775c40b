//! The guard at the door: turns requests away while too much is under way, before any work is done, asks
//! the others for their credential, and answers in the place of a handler that panics.
//!
//! It stands in front of all routes together. As a layer it would be put around each of them, and each
//! request would pay for a copy of it.

use std::any::Any;
use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use tower_service::Service;

use super::admission::Admission;
use super::authenticate::{authenticate, peer, source};
use super::error::ApiError;
use super::state::ApiState;
use super::unread;
use crate::catalog::operation::Context as Circumstances;
use crate::catalog::{self, Operation};
use crate::model::principal::Principal;

/// By what client and server call one request in their logs.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Bytes that a client's name for a request may have.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// Where metrics are, which Prometheus expects to be open.
const METRICS: &str = "/metrics";

/// Routes with the guard in front of them: the whole server. Cheap to clone.
#[derive(Clone)]
pub struct Guarded {
    routes: Router,
    admission: Arc<Admission>,
    /// Paths of which no request is turned away.
    always_open: &'static [&'static str],
    door: Option<Arc<Door>>,
}

/// Where credentials are asked for.
struct Door {
    state: ApiState,
    /// Paths at which they are not.
    for_everybody: &'static [&'static str],
    /// What the names of this process's requests begin with, which no other process's do.
    run: String,
    /// Requests that were given a name.
    requests: AtomicU64,
}

impl Guarded {
    /// Guards these routes. An operator's questions, at the paths of `always_open`, are let in however many
    /// requests are under way.
    pub fn new(routes: Router, admission: Admission, always_open: &'static [&'static str]) -> Self {
        Self { routes, admission: Arc::new(admission), always_open, door: None }
    }

    /// The same, asking for credentials but at the paths of `for_everybody`. Nothing that wants a principal
    /// is served by one that does not ask.
    pub fn asking(self, state: ApiState, for_everybody: &'static [&'static str]) -> Self {
        let run = state.catalog.new_run_id().simple().to_string();
        let requests = AtomicU64::new(1);
        Self { door: Some(Arc::new(Door { state, for_everybody, run, requests })), ..self }
    }

    /// Answers under the request's id, which the answer repeats.
    async fn answer(self, request: Request) -> Response {
        let (request, unread) = unread::watch(request);
        let Some(id) = self.door.as_ref().map(|door| door.request_id(request.headers())) else {
            return unread.over(self.answer_as(request, "").await).await;
        };
        let mut response = self.answer_as(request, id.to_str().unwrap_or_default()).await;
        response.headers_mut().insert(REQUEST_ID, id);
        unread.over(response).await
    }

    async fn answer_as(mut self, mut request: Request, id: &str) -> Response {
        // The room is held until the answer is made.
        let _room = match self.always_open.contains(&request.uri().path()) {
            true => None,
            false => match self.admission.admit(&request) {
                Ok(room) => Some(room),
                Err(_) => return too_many().into_response(),
            },
        };
        if let Some(door) = &self.door
            && let Err(refused) = door.let_in(&mut request, id).await
        {
            return refused.into_response();
        }
        let answer = AssertUnwindSafe(self.routes.call(request)).catch_unwind();
        match answer.await {
            Ok(Ok(response)) => response,
            Ok(Err(impossible)) => match impossible {},
            Err(panic) => panicked(panic.as_ref()).into_response(),
        }
    }
}

impl Door {
    /// Lets a request in as what its credential makes it, or as nobody's where that is for everybody.
    async fn let_in(&self, request: &mut Request, id: &str) -> Result<(), ApiError> {
        if self.is_for_everybody(request.uri().path()) {
            // Whoever serves it finds the request's id where a client would have put it.
            if let Ok(id) = HeaderValue::from_str(id) {
                request.headers_mut().insert(REQUEST_ID, id);
            }
            return Ok(());
        }
        let peer = peer(request.extensions());
        let principal = authenticate(&self.state, request.headers(), peer, id).await?;
        let source = source(request.extensions());
        let operation = self.operation(principal, source, request.headers(), id);
        request.extensions_mut().insert(operation);
        Ok(())
    }

    /// What a request by this principal is.
    fn operation(
        &self,
        principal: Principal,
        source_address: Option<IpAddr>,
        headers: &HeaderMap,
        id: &str,
    ) -> Operation {
        let client = headers.get(header::USER_AGENT).and_then(|client| client.to_str().ok());
        let client = client.map(ToOwned::to_owned);
        let now_ms = self.state.catalog.now_ms();
        let context = Circumstances { now_ms, source_address, client };
        Operation { request_id: Some(id.to_owned()), ..Operation::by(principal, context) }
    }

    /// What the client calls the request, if that is fit to stand in a log, or a name of our own.
    fn request_id(&self, headers: &HeaderMap) -> HeaderValue {
        let printable = |id: &&HeaderValue| {
            let id = id.as_bytes();
            (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
        };
        headers.get(REQUEST_ID).filter(printable).cloned().unwrap_or_else(|| {
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            let id = format!("{}-{number:x}", self.run);
            HeaderValue::try_from(id).expect("hexadecimal is printable")
        })
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
        // Routes are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Box::pin(self.clone().answer(request).map(Ok))
    }
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
    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;
    use crate::api::settings::Settings;

    async fn status(guarded: &mut Guarded, path: &str) -> StatusCode {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        guarded.call(request).await.expect("it is infallible").status()
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
            Guarded::new(routes.clone(), Admission::new(&settings), &["/open"])
        };
        assert_eq!(status(&mut open(1), "/panics").await, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(status(&mut open(1), "/open").await, StatusCode::OK);
        assert_eq!(status(&mut open(0), "/panics").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&mut open(0), "/open").await, StatusCode::OK);
    }
}
