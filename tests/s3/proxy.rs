//! [`Proxy`]: a proxy in front of a real S3 store that sometimes responds in its place.
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
pub enum Meddling {
    /// It has no effect, and the response is a conflict with another request, as from S3.
    Conflict,
    /// It takes effect, and the response is lost.
    LoseAnswer,
    /// It takes effect, and the response is a failure.
    FailAfterwards,
}

struct Rule {
    part: String,
    meddling: Meddling,
}

struct Shared {
    upstream: String,
    client: Client,
    rules: Mutex<Vec<Rule>>,
}

/// A proxy on its own port. It ends with the runtime of the test.
pub struct Proxy {
    /// Its URL.
    pub url: String,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Starts a proxy in front of this endpoint.
    pub async fn start(upstream: &str) -> Self {
        let client = Client::builder().no_proxy().build().expect("a client");
        let shared =
            Arc::new(Shared { upstream: upstream.to_owned(), client, rules: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address: SocketAddr = listener.local_addr().expect("an address");
        let routes = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url: format!("http://{address}"), shared }
    }

    /// Injects these faults into the next puts whose path contains `part`, one after the other.
    pub fn meddle(&self, part: &str, meddlings: &[Meddling]) {
        let mut rules = self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let part = part.to_owned();
        rules.extend(meddlings.iter().map(|it| Rule { part: part.clone(), meddling: *it }));
    }

    /// Returns the number of faults that have not occurred yet.
    pub fn left(&self) -> usize {
        self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Shared {
    fn meddling_for(&self, request: &Request) -> Option<Meddling> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let path = request.uri().path();
        let at = rules.iter().position(|it| path.contains(&it.part))?;
        (request.method() == Method::PUT).then(|| rules.remove(at).meddling)
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let meddling = shared.meddling_for(&request);
    if meddling == Some(Meddling::Conflict) {
        let body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>ConditionalRequestConflict\
                    </Code><Message>The conditional request cannot succeed due to a conflicting operation \
                    against this resource.</Message></Error>";
        return (StatusCode::CONFLICT, body).into_response();
    }
    let answer = forward(&shared, request).await;
    match meddling {
        Some(Meddling::LoseAnswer) => std::future::pending().await,
        Some(Meddling::FailAfterwards) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        _ => answer,
    }
}

async fn forward(shared: &Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let body = to_bytes(body, usize::MAX).await.expect("the request is whole");
    let request = shared.client.request(parts.method, format!("{}{path}", shared.upstream));
    let answer = request.headers(parts.headers).body(body).send().await;
    let Ok(answer) = answer else { return StatusCode::BAD_GATEWAY.into_response() };
    let (status, headers) = (answer.status(), without_framing(answer.headers()));
    let body = answer.bytes().await.unwrap_or_default();
    (status, headers, Body::from(body)).into_response()
}

/// Removes the headers on framing. The response to a `HEAD` needs the original length of the body.
fn without_framing(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    headers
}
