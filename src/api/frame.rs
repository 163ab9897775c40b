//! [`RequestFrame`]: what every request gets, whether this process executes it or forwards it to the
//! writer of the cluster: an id, telemetry, and a connection that stays usable after a body that the
//! handler did not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::Response;
use tracing::Instrument;
use uuid::Uuid;

use super::body_drain;
use super::observe::Observer;
use super::request_id::REQUEST_ID;
use slateberg_catalog::operation::RequestId;

/// Assigns the ids of requests, and records their telemetry.
pub struct RequestFrame {
    observer: Arc<Observer>,
    /// The unique prefix of the request ids that this frame generates.
    run: Uuid,
    /// Number of generated request ids.
    requests: AtomicU64,
}

impl RequestFrame {
    /// Creates a frame. `run` must differ from that of every other frame.
    pub fn new(observer: Arc<Observer>, run: Uuid) -> Self {
        Self { observer, run, requests: AtomicU64::new(1) }
    }

    /// Responds to a request with the response of `respond`, and adds the request's id to it.
    pub async fn respond<F>(
        &self,
        request: Request,
        respond: impl FnOnce(Request, RequestId) -> F,
    ) -> Response
    where
        F: Future<Output = Response>,
    {
        let wants_head = request.method() == Method::HEAD;
        let (request, unread_body) = body_drain::track(request);
        let id = self.request_id(request.headers());
        let header = request_id_header(&id);
        let telemetry = self.observer.begin(&request, &id);
        let response = respond(request, id.clone()).instrument(telemetry.span());
        let mut response = response.await;
        telemetry.finish(&mut response, &id);
        response.headers_mut().insert(REQUEST_ID, header);
        unread_body.drain(without_body_if_head(wants_head, response)).await
    }

    /// Returns the request id that the client sent if it is safe to log. Otherwise, returns a
    /// generated request id.
    fn request_id(&self, headers: &HeaderMap) -> RequestId {
        let from_client = headers.get(REQUEST_ID).and_then(|id| RequestId::given(id.as_bytes()));
        from_client.unwrap_or_else(|| {
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            RequestId::Numbered { run: self.run, number }
        })
    }
}

/// Formats a request id as the value of a header.
pub fn request_id_header(id: &RequestId) -> HeaderValue {
    HeaderValue::try_from(id.to_string()).expect("a request id is printable")
}

/// Removes the body if the request is a `HEAD`. The routes do this themselves, but a request that
/// was rejected by a check does not reach its route.
fn without_body_if_head(wants_head: bool, response: Response) -> Response {
    if wants_head { response.map(|_| Body::empty()) } else { response }
}
