//! [`Peers`]: requests of this member to other members, except forwarded requests of clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderName, Method};
use futures::future::join_all;
use reqwest::RequestBuilder;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use uuid::Uuid;

use super::identity::{IdentityError, MemberIdentity};
use slateberg_base::error_chain::{Cause, chain};
use slateberg_cluster::{Peer, WriterRecord};
use slateberg_management::cluster::ClusterRole;
use slateberg_runtime::cluster::{MemberRecord, Members};
use slateberg_store::usage::UsageRecord;

/// Marks a request of a member itself. Members remove this header from the requests of clients.
pub(super) const MEMBER_REQUEST: HeaderName = HeaderName::from_static("slateberg-member-request");
/// The member responds with its [`PeerState`].
pub(super) const STATE: &str = "state";
/// The record of the writer has changed.
pub(super) const CHANGED: &str = "changed";
/// The writer responds with its changes from now on, without an end.
pub(super) const FEED: &str = "feed";
/// The body of the request is a [`UsageReport`] for the writer.
pub(super) const USAGE: &str = "usage";

/// Timeout of a request to another member.
const REQUEST_MAX: Duration = Duration::from_secs(2);
/// Maximum number of HTTP clients. Each process of the cluster has a certificate of its own.
const CLIENTS_MAX: usize = 256;

/// The current state of a member, in its own words.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct PeerState {
    /// The id of the process.
    pub(super) node: Uuid,
    /// The current role of the process.
    pub(super) role: ClusterRole,
}

/// The uses that a replica has counted since its last report.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct UsageReport {
    /// Uses of tables and views.
    pub(super) tabulars: Vec<(Uuid, UsageRecord)>,
    /// The last uses of API keys, in milliseconds since 1970.
    pub(super) keys: Vec<(Uuid, i64)>,
}

/// Sends requests to other members.
pub(super) struct Peers {
    identity: MemberIdentity,
    members: Members,
    own: Uuid,
    /// HTTP clients by the hash of the certificate of the other member.
    clients: Mutex<HashMap<String, reqwest::Client>>,
}

impl Peers {
    /// Sends requests to these members, except to this process.
    pub(super) fn new(identity: MemberIdentity, members: Members, own: Uuid) -> Arc<Self> {
        Arc::new(Self { identity, members, own, clients: Mutex::default() })
    }

    /// The certificate of this member.
    pub(super) fn identity(&self) -> &MemberIdentity {
        &self.identity
    }

    /// Returns the records of all members, including this process.
    pub(super) async fn list(&self) -> Result<Vec<MemberRecord>, Cause> {
        self.members.list().await
    }

    /// Returns the current state of another member. `None` if it does not respond.
    pub(super) async fn state(&self, peer: &Peer) -> Option<PeerState> {
        let response = self.send(peer, STATE).await?;
        response.json().await.ok()
    }

    /// Notifies this member that the record of the writer has changed.
    async fn notify(&self, peer: &Peer) {
        self.send(peer, CHANGED).await;
    }

    /// Notifies the holder of the term, unless it is this process.
    pub(super) async fn notify_holder(&self, record: &WriterRecord) {
        if record.holder.node != self.own {
            self.notify(&record.peer).await;
        }
    }

    /// Notifies all other members that the record of the writer has changed. They also notice the
    /// change without this notice, but later.
    pub(super) async fn notify_all(&self) {
        let members = match self.members.list().await {
            Ok(members) => members,
            Err(error) => {
                let error = chain(&error);
                tracing::debug!(error, "cannot notify the members of the cluster");
                return;
            }
        };
        let others = members.iter().filter(|member| member.member.node != self.own);
        join_all(others.map(|member| self.notify(&member.peer))).await;
    }

    /// Requests the changes of the writer. Neither the request nor the response has an end.
    pub(super) async fn feed(
        &self,
        writer: &Peer,
        questions: reqwest::Body,
    ) -> Result<reqwest::Response, Cause> {
        let sending = self.request(writer, FEED)?.body(questions).send();
        let response = timeout(REQUEST_MAX, sending).await.map_err(Cause::new)?;
        response.and_then(reqwest::Response::error_for_status).map_err(Cause::new)
    }

    /// Sends a report to the writer. Returns whether the writer has accepted it.
    pub(super) async fn report(&self, writer: &Peer, report: &UsageReport) -> bool {
        let request = self.request(writer, USAGE).map(|request| request.json(report));
        self.response(writer, request).await.is_some()
    }

    async fn send(&self, peer: &Peer, request: &'static str) -> Option<reqwest::Response> {
        self.response(peer, self.request(peer, request)).await
    }

    fn request(&self, peer: &Peer, request: &'static str) -> Result<RequestBuilder, Cause> {
        let client = self.client(&peer.certificate_sha256).map_err(Cause::new)?;
        Ok(client.request(Method::GET, &peer.url).header(MEMBER_REQUEST, request))
    }

    async fn response(
        &self,
        peer: &Peer,
        request: Result<RequestBuilder, Cause>,
    ) -> Option<reqwest::Response> {
        let sending = request.ok()?.timeout(REQUEST_MAX).send();
        match sending.await.and_then(reqwest::Response::error_for_status) {
            Ok(response) => Some(response),
            Err(error) => {
                let (error, url) = (chain(&error), &peer.url);
                tracing::debug!(url, error, "a member of the cluster did not respond");
                None
            }
        }
    }

    /// The HTTP client for the member whose certificate has this hash.
    pub(super) fn client(&self, certificate: &str) -> Result<reqwest::Client, IdentityError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(certificate) {
            return Ok(client.clone());
        }
        let client = self.identity.client(certificate)?;
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(certificate.to_owned(), client.clone());
        Ok(client)
    }
}
