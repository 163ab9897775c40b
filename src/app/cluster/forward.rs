//! [`Forwarder`]: forwards the requests of clients to the writer.
//!
//! A mutation is executed at most once, even if the writer fails: the forwarder adds an
//! `Idempotency-Key`, which the writer stores together with the change. If a response is lost, the
//! forwarder sends the request again, with the same key, to the writer of that time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::forwarded::Forwarded;
use super::identity::{IdentityError, MemberIdentity};
use super::node::{KnownWriter, Node, PortKind};
use super::responses::{respond_as_writer, unavailable};
use super::retry::Repeatability;
use crate::api::admission::{Admission, has_body};
use crate::api::error::ApiError;
use crate::api::extract::body::read_body;
use crate::api::peer::peer;
use slateberg_authn::client_certificates::PresentedCertificate;
use slateberg_base::error_chain::chain;
use slateberg_base::ids::Ids;
use slateberg_cluster::WriterRecord;
use slateberg_config::server;

/// Pause before a request is sent to the same writer again.
const PAUSE: Duration = Duration::from_millis(50);

/// Maximum size of a response that is read before it is passed on, and of all such responses.
const BUFFERED_BYTES_MAX: u64 = 8 << 20;
const BUFFERS_BYTES_MAX: u64 = 64 << 20;
/// Responses are counted in units of this many bytes.
const UNIT_BYTES: u64 = 1024;

/// Headers that belong to a connection and are not forwarded (RFC 9110, section 7.6.1). The HTTP
/// libraries set the length of a body themselves.
const CONNECTION_HEADERS: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Forwards requests to the writer.
pub(super) struct Forwarder {
    node: Arc<Node>,
    identity: MemberIdentity,
    /// Generates the keys of forwarded mutations.
    ids: Arc<dyn Ids>,
    settings: server::Settings,
    admission: Admission,
    /// Permits for the memory of responses, in units.
    buffers: Semaphore,
    /// The HTTP client for the current writer, with the hash of the writer's certificate.
    client: Mutex<Option<(String, reqwest::Client)>>,
    forward_wait: Duration,
    lease_wait: Duration,
}

/// A request whose body has arrived, so that it can be sent several times.
struct BufferedRequest {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    extensions: axum::http::Extensions,
    version: axum::http::Version,
    repeatability: Repeatability,
}

/// The outcome of one attempt to send a request to the writer.
enum Attempt {
    Response(Response),
    /// The writer has not executed the request.
    NotExecuted,
    /// The response was lost.
    Lost,
}

impl Forwarder {
    /// Creates a forwarder that presents this identity to other members.
    pub(super) fn new(
        node: Arc<Node>,
        identity: MemberIdentity,
        ids: Arc<dyn Ids>,
        settings: &server::Settings,
        (forward_wait, lease_wait): (Duration, Duration),
    ) -> Self {
        let admission = Admission::new(settings);
        let (settings, client) = (settings.clone(), Mutex::default());
        let buffers = Semaphore::new((BUFFERS_BYTES_MAX / UNIT_BYTES) as usize);
        Self { node, identity, ids, settings, admission, buffers, client, forward_wait, lease_wait }
    }

    /// Responds to a request with the response of the writer. Waits while there is no writer.
    pub(super) async fn forward(&self, port: PortKind, request: Request) -> Response {
        let Ok(_permit) = self.admission.admit() else { return at_capacity() };
        let body_max = match has_body(&request) {
            true => self.settings.body_bytes_max,
            false => 0,
        };
        let Ok(_room) = self.admission.body(&request, body_max) else { return at_capacity() };
        match self.buffer(request).await {
            Ok(request) => self.send_until_executed(port, request).await,
            Err(error) => error.into_response(),
        }
    }

    async fn buffer(&self, request: Request) -> Result<BufferedRequest, ApiError> {
        let (mut parts, body) = request.into_parts();
        let settings = &self.settings;
        let body = read_body(&parts, body, settings.body_bytes_max, settings.body_max()).await?;
        let path = parts.uri.path();
        let (headers, ids) = (&mut parts.headers, self.ids.as_ref());
        let repeatability = Repeatability::of(&parts.method, path, headers, ids);
        Ok(BufferedRequest {
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            body,
            extensions: parts.extensions,
            version: parts.version,
            repeatability,
        })
    }

    async fn send_until_executed(&self, port: PortKind, request: BufferedRequest) -> Response {
        let deadline = Instant::now() + self.forward_wait;
        let counters = &self.node.counters;
        let mut writer = self.node.writer();
        loop {
            let known = writer.wait_for(|known| *known != KnownWriter::Unknown);
            let known = match timeout_at(deadline, known).await {
                Ok(Ok(known)) => known.clone(),
                Ok(Err(_)) | Err(_) => break,
            };
            writer.mark_unchanged();
            let record = match known {
                KnownWriter::Remote(record) => record,
                KnownWriter::Local(_) => match self.node.services() {
                    Some(services) => {
                        let (node, wait) = (&self.node, self.lease_wait);
                        let request = request.into_request();
                        return respond_as_writer(node, &services, port, wait, request).await;
                    }
                    None => {
                        sleep(PAUSE).await;
                        continue;
                    }
                },
                KnownWriter::Unknown => continue,
            };
            match self.send(port, &request, &record, &mut writer).await {
                Attempt::Response(response) => {
                    counters.responded.add(1);
                    return response;
                }
                Attempt::Lost if !request.repeatability.is_repeatable() => {
                    counters.unknown.add(1);
                    return unknown_outcome(&record);
                }
                Attempt::Lost => counters.resent.add(1),
                Attempt::NotExecuted => {}
            }
            if Instant::now() >= deadline {
                break;
            }
            // Wait for another writer, or for the same one to respond again.
            let _ = timeout_at(Instant::now() + PAUSE, writer.changed()).await;
        }
        counters.without_writer.add(1);
        let seconds = self.forward_wait.as_secs();
        unavailable(&format!("The cluster has had no writer for {seconds} s"))
    }

    /// Sends a request once. Gives up if another process becomes the writer before the response
    /// arrives. A writer that stops still completes the requests in progress.
    async fn send(
        &self,
        port: PortKind,
        request: &BufferedRequest,
        record: &WriterRecord,
        writer: &mut watch::Receiver<KnownWriter>,
    ) -> Attempt {
        let client = match self.client(record) {
            Ok(client) => client,
            Err(error) => {
                let error = chain(&error);
                tracing::error!(error, "cannot connect to the writer of the cluster");
                return Attempt::NotExecuted;
            }
        };
        let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
        let sending = client
            .request(request.method.clone(), format!("{}{path}", record.peer.url))
            .headers(request.forwarded_headers(port))
            .body(request.body.clone())
            .send();
        let responding = async { self.with_body(sending.await?).await };
        let sent = tokio::select! {
            sent = responding => sent,
            _ = writer.wait_for(|known| known.is_other_than(record)) => return Attempt::Lost,
        };
        match sent {
            Ok(response) if response.status() == StatusCode::MISDIRECTED_REQUEST => {
                Attempt::NotExecuted
            }
            Ok(response) => Attempt::Response(response),
            Err(error) => {
                let (writer, text) = (&record.holder.name, chain(&error));
                tracing::debug!(writer, error = text, "the writer of the cluster did not respond");
                if error.is_connect() { Attempt::NotExecuted } else { Attempt::Lost }
            }
        }
    }

    /// Reads the body of a response, so that a response of which only a part arrives counts as lost.
    /// Passes on a body of unknown length, a very long body, and a body for which there is no memory
    /// while it arrives.
    async fn with_body(&self, response: reqwest::Response) -> reqwest::Result<Response> {
        let length = response.content_length().filter(|length| *length <= BUFFERED_BYTES_MAX);
        let units = length.and_then(|length| u32::try_from(length / UNIT_BYTES + 1).ok());
        let room = units.and_then(|units| self.buffers.try_acquire_many(units).ok());
        let response = axum::http::Response::<reqwest::Body>::from(response);
        let (mut parts, body) = response.into_parts();
        remove_connection_headers(&mut parts.headers);
        if room.is_none() {
            return Ok(Response::from_parts(parts, Body::new(body)));
        }
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(parts, Body::from(body)))
    }

    /// The HTTP client for a writer.
    fn client(&self, record: &WriterRecord) -> Result<reqwest::Client, IdentityError> {
        let certificate = &record.peer.public_key_sha256;
        let mut cached = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, client)) = &*cached
            && known == certificate
        {
            return Ok(client.clone());
        }
        let client = self.identity.client(certificate)?;
        *cached = Some((certificate.clone(), client.clone()));
        Ok(client)
    }
}

impl BufferedRequest {
    /// The headers for the writer, with the connection of the client.
    fn forwarded_headers(&self, port: PortKind) -> HeaderMap {
        let mut headers = self.headers.clone();
        remove_connection_headers(&mut headers);
        headers.remove(header::CONTENT_LENGTH);
        let authority = self.uri.authority().map(|it| it.as_str().parse().ok());
        let host = authority.unwrap_or_else(|| self.headers.get(header::HOST).cloned());
        let client = peer(&self.extensions);
        let forwarded = Forwarded {
            // Without a connection, as in tests of the router, there is no address.
            address: client.map_or(([0, 0, 0, 0], 0).into(), |peer| peer.address),
            certificate: client
                .and_then(|peer| peer.certificate.as_deref())
                .and_then(PresentedCertificate::trusted_der),
            host,
            port,
        };
        forwarded.add(&mut headers);
        headers
    }

    /// The request for the routes of this process.
    fn into_request(self) -> Request {
        let mut request = Request::new(Body::from(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        *request.extensions_mut() = self.extensions;
        *request.version_mut() = self.version;
        request
    }
}

fn remove_connection_headers(headers: &mut HeaderMap) {
    for name in CONNECTION_HEADERS {
        headers.remove(name);
    }
}

fn at_capacity() -> Response {
    unavailable("Too many requests")
}

/// 500: the request may have been executed.
fn unknown_outcome(record: &WriterRecord) -> Response {
    let message = format!(
        "The writer '{}' of the cluster failed before it responded: it is unknown whether the request was executed",
        record.holder.name
    );
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    ApiError::new(status, "CommitStateUnknownException", message).into_response()
}
