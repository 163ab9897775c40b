//! [`Forwarder`]: forwards the requests of clients to the writer.
//!
//! A mutation is executed at most once, even if the writer fails: the forwarder adds an
//! `Idempotency-Key`, which the writer stores together with the change. If a response is lost, the
//! forwarder sends the request again, with the same key, to the writer of that time.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::buffered::{BufferedRequest, RequestCopy, remove_connection_headers};
use super::catalog_services::PortKind;
use super::local_response::{LocalResponse, paused, unavailable};
use super::member_port::TERM_LOST;
use super::node::{KnownWriter, Node};
use super::peers::Peers;
use super::responses::respond_as_writer;
use super::unverified::{Credential, UnverifiedBodies};
use crate::api::admission::{Admission, AtCapacity, has_body};
use crate::api::error::ApiError;
use crate::api::extract::body::read_body;
use crate::api::oauth::tokens::FORM_BYTES_MAX;
use crate::api::observe::Observer;
use crate::api::peer::{peer, source};
use crate::api::rate_limits::RateLimits;
use crate::api::request_id::REQUEST_ID;
use crate::api::route_index::{Repeatability, RouteIndex};
use slateberg_base::error_chain::chain;
use slateberg_base::ids::Ids;
use slateberg_cluster::WriterRecord;
use slateberg_config::{Settings, server};

/// Pause before a read is executed on the same replica again.
const REPLICA_PAUSE: Duration = Duration::from_millis(100);
/// Pause before a request is sent to the same writer again.
const PAUSE: Duration = Duration::from_millis(50);

/// Maximum size of a response that is read before it is passed on, and of all such responses.
const BUFFERED_BYTES_MAX: u64 = 8 << 20;
const BUFFERS_BYTES_MAX: u64 = 64 << 20;
/// Responses are counted in units of this many bytes.
const UNIT_BYTES: u64 = 1024;

/// Forwards requests to the writer.
pub(super) struct Forwarder {
    node: Arc<Node>,
    peers: Arc<Peers>,
    /// Generates the keys of forwarded mutations.
    ids: Arc<dyn Ids>,
    observer: Arc<Observer>,
    settings: server::Settings,
    admission: Admission,
    /// Rate limits by address, if configured. The writer has limits of its own.
    limits: Option<RateLimits>,
    /// Whether clients must have a credential.
    requires_credential: bool,
    /// Permits for the memory of responses, in units.
    buffers: Arc<Semaphore>,
    /// Bounds the bodies of requests whose credentials no writer has accepted yet.
    unverified: UnverifiedBodies,
    forward_wait: Duration,
    lease_wait: Duration,
    /// Whether this member keeps a replica.
    local_reads: bool,
}

/// The body of a response. Its memory is reserved until the client has received it.
struct BufferedBody {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for BufferedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
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
    /// Creates a forwarder.
    pub(super) fn new(
        node: Arc<Node>,
        peers: Arc<Peers>,
        ids: Arc<dyn Ids>,
        observer: Arc<Observer>,
        all_settings: &Settings,
        (forward_wait, lease_wait): (Duration, Duration),
    ) -> Self {
        let settings = all_settings.server.clone();
        Self {
            node,
            peers,
            ids,
            observer,
            admission: Admission::new(&settings),
            limits: RateLimits::new(&settings.rate_limits),
            requires_credential: !all_settings.authn.insecure_no_auth,
            buffers: Arc::new(Semaphore::new((BUFFERS_BYTES_MAX / UNIT_BYTES) as usize)),
            unverified: UnverifiedBodies::new(&settings),
            settings,
            forward_wait,
            lease_wait,
            local_reads: all_settings.cluster.local_reads,
        }
    }

    /// The routes of all ports.
    pub(super) fn routes(&self) -> &RouteIndex {
        self.observer.routes()
    }

    /// Copies a request that this process is about to execute as the writer.
    pub(super) fn copy(&self, request: &mut Request) -> RequestCopy {
        RequestCopy::of(request, self.observer.routes(), self.ids.as_ref())
    }

    /// Responds to a request with the response of the writer. Waits while there is no writer.
    pub(super) async fn forward(&self, port: PortKind, request: Request) -> Response {
        if let Some(limits) = &self.limits
            && let Err(limited) = limits.take_for_address(source(request.extensions()))
        {
            return ApiError::rate_limited(limited).into_response();
        }
        let Ok(_permit) = self.admission.admit() else { return at_capacity() };
        // Like the writer, ignore the bodies of reads.
        let has_body = has_body(&request);
        let request = if has_body { request } else { request.map(|_| Body::empty()) };
        let is_anonymous = self.requires_credential && !has_credential(&request);
        let (slot, bytes_max) = match (has_body, is_anonymous) {
            (false, _) => (None, 0),
            (true, false) => (None, self.settings.body_bytes_max),
            (true, true) => match self.admission.admit_unauthenticated() {
                Ok(slot) => (Some(slot), FORM_BYTES_MAX.min(self.settings.body_bytes_max)),
                Err(AtCapacity) => return at_capacity(),
            },
        };
        let Ok(_room) = self.admission.body(&request, bytes_max) else { return at_capacity() };
        let credential = Credential::of(&request);
        let Ok(_share) = self.unverified.admit(&request, credential.as_ref(), bytes_max) else {
            return at_capacity();
        };
        let buffered = self.buffer(request, bytes_max).await;
        drop(slot);
        match buffered {
            Ok(request) => {
                let is_mutation = request.repeatability == Repeatability::Keyed;
                let response = self.send_until_executed(port, request, None).await;
                // Every mutation requires a valid credential.
                if is_mutation && response.status().is_success() {
                    self.unverified.accept(credential);
                }
                response
            }
            Err(error) => error.into_response(),
        }
    }

    async fn buffer(
        &self,
        request: Request,
        bytes_max: usize,
    ) -> Result<BufferedRequest, ApiError> {
        let (parts, body) = request.into_parts();
        let body = read_body(&parts, body, bytes_max, self.settings.body_max()).await?;
        Ok(BufferedRequest::new(parts, body, self.observer.routes(), self.ids.as_ref()))
    }

    /// Responds to a request that this process has begun to execute as the writer, before it lost
    /// its term. `failure` is the response of this process.
    pub(super) async fn finish(
        &self,
        port: PortKind,
        copy: RequestCopy,
        failure: Response,
    ) -> Response {
        let may_be_written = failure.status() != StatusCode::SERVICE_UNAVAILABLE;
        let Ok(_permit) = self.admission.admit() else { return failure };
        let Some(request) = copy.into_request() else { return failure };
        let request = match failure.headers().get(REQUEST_ID) {
            Some(id) => request.with_request_id(id.clone()),
            None => request,
        };
        if may_be_written && request.repeatability == Repeatability::Never {
            return failure;
        }
        let is_mutation = request.repeatability != Repeatability::ReadOnly;
        let lost = (may_be_written && is_mutation).then(|| self.node.name.clone());
        self.node.counters.resent.add(1);
        self.send_until_executed(port, request, lost).await
    }

    /// Sends a request until a writer has executed it, or a replica if it is a read. `lost` is the
    /// name of the writer that may have executed it already.
    async fn send_until_executed(
        &self,
        port: PortKind,
        request: BufferedRequest,
        lost: Option<String>,
    ) -> Response {
        tokio::select! {
            response = self.send_to_writers(port, &request, lost) => response,
            response = self.read_on_replicas(port, &request) => response,
        }
    }

    /// Whether a replica of this member can execute a request.
    fn is_replicated(&self, request: &BufferedRequest) -> bool {
        self.local_reads && self.routes().is_replicated(&request.method, request.path())
    }

    /// Executes a read on the first replica that can. Returns nothing for other requests.
    async fn read_on_replicas(&self, port: PortKind, request: &BufferedRequest) -> Response {
        if !self.is_replicated(request) {
            return pending().await;
        }
        let mut changes = self.node.replica_changes();
        loop {
            if let Some(replica) = self.node.replica()
                && let LocalResponse::Complete(response) =
                    replica.respond(port, request.to_request()).await
            {
                self.node.counters.replica_reads.add(1);
                return response;
            }
            // Wait for another replica, or for the same one to execute reads again.
            let _ = timeout_at(Instant::now() + REPLICA_PAUSE, changes.changed()).await;
        }
    }

    async fn send_to_writers(
        &self,
        port: PortKind,
        request: &BufferedRequest,
        mut lost: Option<String>,
    ) -> Response {
        let deadline = Instant::now() + self.forward_wait;
        let counters = &self.node.counters;
        let mut writer = self.node.writer();
        while Instant::now() < deadline {
            let known = writer.wait_for(|known| *known != KnownWriter::Unknown);
            let known = match timeout_at(deadline, known).await {
                Ok(Ok(known)) => known.clone(),
                Ok(Err(_)) | Err(_) => break,
            };
            let attempt = match &known {
                KnownWriter::Remote(record) => self.send(port, request, record, &mut writer).await,
                KnownWriter::Local(_) => self.respond_here(port, request).await,
                KnownWriter::Paused(_) if !self.is_replicated(request) => break,
                KnownWriter::Paused(_) | KnownWriter::Unknown => Attempt::NotExecuted,
            };
            match (attempt, known) {
                // An earlier attempt may have been executed in spite of this response.
                (Attempt::Response(response), _)
                    if lost.is_some() && is_before_execution(response.status()) => {}
                (Attempt::Response(response), _) => {
                    counters.responded.add(1);
                    return response;
                }
                (Attempt::Lost, known) => {
                    if request.repeatability != Repeatability::ReadOnly {
                        lost = Some(match known {
                            KnownWriter::Remote(record) => record.holder.name.clone(),
                            _ => self.node.name.clone(),
                        });
                    }
                    if request.repeatability == Repeatability::Never {
                        break;
                    }
                    counters.resent.add(1);
                }
                (Attempt::NotExecuted, KnownWriter::Remote(_)) => self.node.suspect_writer(),
                (Attempt::NotExecuted, _) => {}
            }
            // Wait for another writer, or for the same one to respond again.
            let _ = timeout_at(Instant::now() + PAUSE, writer.changed()).await;
        }
        if let Some(writer) = lost {
            counters.unknown.add(1);
            return unknown_outcome(&writer);
        }
        counters.without_writer.add(1);
        if self.node.is_paused() {
            return paused();
        }
        let seconds = self.forward_wait.as_secs();
        unavailable(&format!("The cluster has had no writer for {seconds} s"))
    }

    /// Responds as the writer, if this process is the writer.
    async fn respond_here(&self, port: PortKind, request: &BufferedRequest) -> Attempt {
        let Some(services) = self.node.services() else { return Attempt::NotExecuted };
        let request = request.to_request();
        match respond_as_writer(&self.node, &services, port, self.lease_wait, request).await {
            LocalResponse::Complete(response) => Attempt::Response(response),
            LocalResponse::NotBegun(_) => Attempt::NotExecuted,
            LocalResponse::Failed(failure) if is_before_execution(failure.status()) => {
                Attempt::NotExecuted
            }
            LocalResponse::Failed(_) => Attempt::Lost,
        }
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
        let client = match self.peers.client(&record.peer.certificate_sha256) {
            Ok(client) => client,
            Err(error) => {
                let error = chain(&error);
                tracing::error!(error, "cannot connect to the writer of the cluster");
                return Attempt::NotExecuted;
            }
        };
        let Some(url) = request.url_at(&record.peer.url) else {
            let message = "The request target is invalid: percent-encode its special characters";
            return Attempt::Response(ApiError::bad_request(message).into_response());
        };
        let sending = client
            .request(request.method.clone(), url)
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
            Ok(response) if response.headers().contains_key(TERM_LOST) => Attempt::Lost,
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
        let buffers = || Arc::clone(&self.buffers);
        let room = units.and_then(|units| buffers().try_acquire_many_owned(units).ok());
        let response = axum::http::Response::<reqwest::Body>::from(response);
        let (mut parts, body) = response.into_parts();
        remove_connection_headers(&mut parts.headers);
        let Some(room) = room else { return Ok(Response::from_parts(parts, Body::new(body))) };
        let bytes = body.collect().await?.to_bytes();
        let body = Bytes::from_owner(BufferedBody { bytes, _room: room });
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

/// Whether a request has a credential. The writer checks whether the credential is valid.
fn has_credential(request: &Request) -> bool {
    let has_certificate = || peer(request.extensions()).is_some_and(|it| it.certificate.is_some());
    request.headers().contains_key(header::AUTHORIZATION) || has_certificate()
}

/// Whether the writer sends this status before it executes a request, or looks for its key.
fn is_before_execution(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
    )
}

fn at_capacity() -> Response {
    unavailable("Too many requests")
}

/// 500: the request may have been executed.
fn unknown_outcome(writer: &str) -> Response {
    let message = format!(
        "The writer '{writer}' of the cluster failed before it responded: it is unknown whether the request was executed"
    );
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    ApiError::new(status, "CommitStateUnknownException", message).into_response()
}
