//! Responses of the writer, and of members that cannot respond.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;

use super::catalog_services::{CatalogServices, PortKind};
use super::consistency::{Consistency, state_age, state_sequence};
use super::local_response::LocalResponse;
use super::node::Node;
use crate::api::probes::PROBES;
use crate::api::service::Respond;

/// Maximum time that a request waits for the renewal of the lease during an outage of the bucket.
const OUTAGE_WAIT: Duration = Duration::from_millis(200);

/// Responds as the writer, once the lease proves that no other member has become the writer.
pub(super) async fn respond_as_writer(
    node: &Node,
    services: &Arc<CatalogServices>,
    port: PortKind,
    lease_wait: Duration,
    request: Request,
) -> LocalResponse {
    // Each member responds to probes itself. They need no lease.
    if PROBES.contains(&request.uri().path()) {
        return LocalResponse::Complete(services.port(port).respond(request).await);
    }
    let _in_progress = services.begin();
    let is_outage = node.bucket.outage().is_some();
    let lease_wait = if is_outage { OUTAGE_WAIT } else { lease_wait };
    let is_valid = node.lease.is_valid() || node.lease.wait_valid(lease_wait).await;
    if !is_valid
        && let Some(age) = node.bucket.outage()
        && node.is_current(services)
        && services.is_replicated(&request)
    {
        // No other member has become the writer before the last request to the bucket.
        let mut response = services.port(port).respond(request).await;
        state_age(&mut response, age);
        return LocalResponse::Complete(response);
    }
    if !is_valid || !node.is_current(services) {
        return LocalResponse::NotBegun(request);
    }
    let is_mutation = !request.method().is_safe();
    let may_be_bounded = Consistency::is_stated(request.headers());
    let mut response = services.port(port).respond(request).await;
    let replicas = services.catalog().replicas();
    if is_mutation {
        // An acknowledged change is durable.
        state_sequence(&mut response, replicas.durable_sequence());
    } else if may_be_bounded && let Some(sequence) = replicas.sequence() {
        state_sequence(&mut response, sequence);
    }
    let is_failure = matches!(
        response.status(),
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::SERVICE_UNAVAILABLE
    );
    let has_term = || node.lease.is_valid() && node.is_current(services) && !services.has_closed();
    if is_failure && !has_term() {
        return LocalResponse::Failed(response);
    }
    LocalResponse::Complete(response)
}
