//! [`Proxy`]: a proxy in front of a real S3 store. It responds to some requests itself.
//!
//! All other requests are forwarded unchanged, with their signatures: the host header is preserved.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reqwest::Client;
use tokio::net::TcpListener;

/// Fault of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutFault {
    /// The put has no effect, and the response reports a conflict with another request, as from S3.
    Conflict,
    /// The put takes effect, and the response is lost.
    LoseResponse,
    /// The put takes effect, and the response is a failure.
    FailAfterwards,
}

struct Rule {
    part: String,
    fault: PutFault,
}

struct ProxyState {
    upstream: String,
    client: Client,
    rules: Mutex<Vec<Rule>>,
}

/// A proxy on its own port. It ends with the runtime of the test.
pub struct Proxy {
    /// Its URL.
    pub url: String,
    state: Arc<ProxyState>,
}

impl Proxy {
    /// Starts a proxy in front of this endpoint.
    pub async fn start(upstream: &str) -> Self {
        let client = Client::builder().no_proxy().build().expect("a client");
        let state =
            Arc::new(ProxyState { upstream: upstream.to_owned(), client, rules: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address: SocketAddr = listener.local_addr().expect("an address");
        let routes = Router::new().fallback(handle).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url: format!("http://{address}"), state }
    }

    /// Injects these faults into the next puts whose path contains `part`, one after the other.
    pub fn inject(&self, part: &str, faults: &[PutFault]) {
        let mut rules = self.state.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let part = part.to_owned();
        rules.extend(faults.iter().map(|it| Rule { part: part.clone(), fault: *it }));
    }

    /// Returns the number of faults that have not occurred yet.
    pub fn remaining(&self) -> usize {
        self.state.rules.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl ProxyState {
    fn fault_for(&self, request: &Request) -> Option<PutFault> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let path = request.uri().path();
        let at = rules.iter().position(|it| path.contains(&it.part))?;
        (request.method() == Method::PUT).then(|| rules.remove(at).fault)
    }
}

async fn handle(State(state): State<Arc<ProxyState>>, request: Request) -> Response {
    let fault = state.fault_for(&request);
    if fault == Some(PutFault::Conflict) {
        let body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>ConditionalRequestConflict\
                    </Code><Message>The conditional request cannot succeed due to a conflicting operation \
                    against this resource.</Message></Error>";
        return (StatusCode::CONFLICT, body).into_response();
    }
    let response = forward(&state, request).await;
    match fault {
        Some(PutFault::LoseResponse) => std::future::pending().await,
        Some(PutFault::FailAfterwards) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        _ => response,
    }
}

async fn forward(state: &ProxyState, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let body = to_bytes(body, usize::MAX).await.expect("the request is whole");
    let request = state.client.request(parts.method, format!("{}{path}", state.upstream));
    let response = request.headers(parts.headers).body(body).send().await;
    let Ok(response) = response else { return StatusCode::BAD_GATEWAY.into_response() };
    let (status, headers) = (response.status(), without_framing(response.headers()));
    let body = response.bytes().await.unwrap_or_default();
    (status, headers, Body::from(body)).into_response()
}

/// Removes the headers on framing. The response to a `HEAD` needs the original length of the body.
fn without_framing(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    headers
}
