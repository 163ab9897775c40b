//! [`ClusterPort`]: a port for clients or operators. Each member responds to every request: the
//! writer itself, and all other members by forwarding it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use serde_json::json;

use super::buffered::RequestCopy;
use super::catalog_services::{CatalogServices, PortKind};
use super::consistency::Consistency;
use super::forward::Forwarder;
use super::local_response::{LocalResponse, unavailable};
use super::node::{KnownWriter, Node};
use super::responses::respond_as_writer;
use crate::api::frame::{RequestFrame, request_id_header};
use crate::api::probes::{HEALTH, METRICS, READY};
use crate::api::request_id::REQUEST_ID;
use crate::api::service::Respond;
use slateberg_telemetry::prometheus;
use slateberg_telemetry::registry::Registry;

/// A port of a member.
pub(super) struct ClusterPort {
    /// The state of the election.
    pub(super) node: Arc<Node>,
    /// The kind of the port.
    pub(super) kind: PortKind,
    /// Forwards requests to the writer.
    pub(super) forwarder: Arc<Forwarder>,
    /// The metrics of this member while it is not the writer. `None` if this port has no metrics.
    pub(super) metrics: Option<Arc<Registry>>,
    /// Observes the requests to which this process does not respond as the writer.
    pub(super) frame: Arc<RequestFrame>,
    /// The maximum time that a request waits for the renewal of an expired lease.
    pub(super) lease_wait: Duration,
}

impl Respond for Arc<ClusterPort> {
    fn respond(&self, request: Request) -> BoxFuture<'static, Response> {
        let port = Self::clone(self);
        Box::pin(async move { port.handle(request).await })
    }
}

impl ClusterPort {
    async fn handle(&self, request: Request) -> Response {
        // Even if the writer still executes requests, no further clients should connect to it.
        if self.node.shutdown.has_begun() && request.uri().path() == READY {
            return Box::pin(self.respond_as_standby(request)).await;
        }
        if let Err(error) = Consistency::of(request.headers()) {
            return error.into_response();
        }
        match self.node.services() {
            Some(services) => self.execute(&services, request).await,
            None => self.respond_as_replica(request).await,
        }
    }

    /// Executes a request as the writer. Forwards it if this process is no longer the writer.
    async fn execute(&self, services: &Arc<CatalogServices>, mut request: Request) -> Response {
        let copy = self.forwarder.copy(&mut request);
        let executing =
            respond_as_writer(&self.node, services, self.kind, self.lease_wait, request);
        self.complete(executing.await, copy).await
    }

    /// Executes reads on the replica, if there is one. The writer executes all other requests.
    async fn respond_as_replica(&self, mut request: Request) -> Response {
        let routes = self.forwarder.routes();
        if let Some(replica) = self.node.replica()
            && routes.is_replicated(request.method(), request.uri().path())
        {
            let copy = self.forwarder.copy(&mut request);
            let response = replica.respond(self.kind, request).await;
            if let LocalResponse::Complete(_) = response {
                self.node.counters.replica_reads.add(1);
            }
            return self.complete(response, copy).await;
        }
        Box::pin(self.respond_as_standby(request)).await
    }

    /// Forwards a request that this process cannot execute.
    async fn complete(&self, response: LocalResponse, copy: RequestCopy) -> Response {
        match response {
            LocalResponse::Complete(response) => response,
            // Boxed, because most requests do not need the space of these futures.
            LocalResponse::NotBegun(request) => Box::pin(self.respond_as_standby(request)).await,
            LocalResponse::Failed(failure) => {
                Box::pin(self.forwarder.finish(self.kind, copy, failure)).await
            }
        }
    }

    /// Responds to probes, and forwards all other requests. The writer logs a forwarded request under
    /// the same id.
    async fn respond_as_standby(&self, request: Request) -> Response {
        let respond = async |mut request: Request, id| match (request.uri().path(), &self.metrics) {
            (HEALTH, _) => Json(json!({ "status": "ok" })).into_response(),
            (READY, _) => ready(&self.node),
            (METRICS, Some(registry)) => {
                let content_type = [(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)];
                (content_type, prometheus::render(&registry.collect())).into_response()
            }
            _ => {
                request.headers_mut().insert(REQUEST_ID, request_id_header(&id));
                self.forwarder.forward(self.kind, request).await
            }
        };
        self.frame.respond(request, respond).await
    }
}

/// 200 if this member knows the writer, to which it forwards requests. Also 200 while the cluster is
/// paused: the member executes reads, and its response to a change names the reason. 503 while this member
/// stops.
fn ready(node: &Node) -> Response {
    if node.shutdown.has_begun() {
        return unavailable("This member of the cluster is stopping");
    }
    match &*node.writer().borrow() {
        KnownWriter::Remote(record) => {
            let writer = &record.holder.name;
            Json(json!({ "status": "ready", "role": "standby", "writer": writer })).into_response()
        }
        KnownWriter::Paused(_) => {
            Json(json!({ "status": "paused", "role": "standby" })).into_response()
        }
        KnownWriter::Unknown | KnownWriter::Local(_) => {
            unavailable("The cluster has no writer at the moment")
        }
    }
}
