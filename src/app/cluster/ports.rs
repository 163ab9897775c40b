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

use super::forward::Forwarder;
use super::node::{KnownWriter, Node, PortKind};
use super::responses::{WriterResponse, respond_as_writer, unavailable};
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
    /// The maximum time that a request waits for the renewal of an expired lease.
    pub(super) lease_wait: Duration,
}

impl Respond for ClusterPort {
    fn respond(&self, request: Request) -> BoxFuture<'static, Response> {
        let (node, kind) = (Arc::clone(&self.node), self.kind);
        if let Some(services) = node.services() {
            let (lease_wait, forwarder) = (self.lease_wait, Arc::clone(&self.forwarder));
            return Box::pin(async move {
                let mut request = request;
                let copy = forwarder.copy(&mut request);
                match respond_as_writer(&node, &services, kind, lease_wait, request).await {
                    WriterResponse::Complete(response) => response,
                    WriterResponse::NotBegun(request) => forwarder.forward(kind, request).await,
                    WriterResponse::TermLost(failure) => {
                        forwarder.finish(kind, copy, failure).await
                    }
                }
            });
        }
        match request.uri().path() {
            "/health" => ready_response(Json(json!({ "status": "ok" })).into_response()),
            "/ready" => ready_response(ready(&node)),
            "/metrics" if self.metrics.is_some() => {
                let metrics = self.metrics.as_deref().map(Registry::collect).unwrap_or_default();
                let content_type = [(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)];
                ready_response((content_type, prometheus::render(&metrics)).into_response())
            }
            _ => {
                let forwarder = Arc::clone(&self.forwarder);
                Box::pin(async move { forwarder.forward(kind, request).await })
            }
        }
    }
}

/// 200 if this member knows the writer, to which it forwards requests.
fn ready(node: &Node) -> Response {
    match &*node.writer().borrow() {
        KnownWriter::Remote(record) => {
            let writer = &record.holder.name;
            Json(json!({ "status": "ready", "role": "standby", "writer": writer })).into_response()
        }
        KnownWriter::Unknown | KnownWriter::Local(_) => {
            unavailable("The cluster has no writer at the moment")
        }
    }
}

fn ready_response(response: Response) -> BoxFuture<'static, Response> {
    Box::pin(std::future::ready(response))
}
