//! [`Replica`]: the private copy of the catalog on which a standby executes reads itself.

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::response::Response;
use tokio::sync::watch;
use tokio::time::timeout;

use super::catalog_services::{CatalogServices, PortKind};
use super::feed_reader::{Questions, ask};
use super::read_rounds::{Consistency, ReadRounds, STALENESS};
use super::replication_messages::{Changes, Group, Position, Version};
use crate::api::service::Respond;
use slateberg_store::keys::PublicationKey;
use slateberg_store::replication::RowGroup;
use slateberg_store::{self as store, Store};

/// Maximum time until the writer has answered a question, and the replica has applied its state.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A replica that executes reads.
pub(super) struct Replica {
    /// The routes of the catalog on this replica. `None` while the catalog is opened.
    services: ArcSwapOption<CatalogServices>,
    /// All transactions of the writer up to this sequence number have been applied.
    applied: watch::Sender<u64>,
    /// The newest answer of the writer.
    position: watch::Sender<Position>,
    /// The requests to the writer for the reads of this replica.
    pub(super) rounds: ReadRounds,
}

impl Replica {
    /// Creates a replica that does not execute reads yet.
    pub(super) fn new() -> Self {
        Self {
            services: ArcSwapOption::empty(),
            applied: watch::Sender::new(0),
            position: watch::Sender::default(),
            rounds: ReadRounds::default(),
        }
    }

    /// Begins to execute reads with these routes, or stops with `None`. Returns the former routes.
    pub(super) fn serve(
        &self,
        services: Option<Arc<CatalogServices>>,
    ) -> Option<Arc<CatalogServices>> {
        self.services.swap(services)
    }

    /// Returns the routes, for requests that need no current state.
    pub(super) fn services(&self) -> Option<Arc<CatalogServices>> {
        self.services.load_full()
    }

    /// Executes a read. Returns a copy of the request if this replica cannot execute it, so that the
    /// writer has to.
    pub(super) async fn respond(
        &self,
        port: PortKind,
        consistency: Consistency,
        request: Request,
    ) -> Result<Response, Request> {
        if self.services.load().is_none() {
            return Err(request);
        }
        let Some(mut age) = self.rounds.wait(consistency).await else { return Err(request) };
        // Loaded after the round: a change of the policies that the round has seen stops the routes
        // that have loaded earlier policies.
        let Some(services) = self.services() else { return Err(request) };
        let _in_progress = services.begin();
        let began = tokio::time::Instant::now();
        let copy = copy(&request);
        let mut response = services.port(port).respond(request).await;
        if response.status().is_server_error() {
            return Err(copy);
        }
        if let Consistency::Bounded(_) = consistency {
            age += began.elapsed();
            let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            response.headers_mut().insert(STALENESS, HeaderValue::from(age_ms));
        }
        Ok(response)
    }

    /// Executes rounds until this future is dropped.
    pub(super) async fn run_rounds(&self, questions: &Questions) -> Infallible {
        for question in 1.. {
            let round = self.rounds.begin().await;
            ask(questions, question);
            let is_confirmed = timeout(ANSWER_MAX, self.catch_up(question)).await;
            self.rounds.end(round, is_confirmed.unwrap_or(false));
        }
        pending().await
    }

    /// Waits until the replica has applied the state of the writer after a question. Returns `false`
    /// if another member may be the writer.
    async fn catch_up(&self, question: u64) -> bool {
        let (mut answers, mut applied) = (self.position.subscribe(), self.applied.subscribe());
        // The senders belong to this replica.
        let position = match answers.wait_for(|answer| answer.question >= question).await {
            Ok(position) => *position,
            Err(_) => return false,
        };
        let Position { sequence, change_horizon, is_valid, .. } = position;
        if !is_valid || applied.wait_for(|applied| *applied >= sequence).await.is_err() {
            return false;
        }
        if let Some(services) = &*self.services.load() {
            services.catalog().replicas().follow_change_horizon(change_horizon);
        }
        true
    }
}

/// Copies a read. Its body has no meaning.
fn copy(request: &Request) -> Request {
    let mut copy = Request::new(Body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    copy
}

/// Applies the changes of the writer to the store of a replica.
pub(super) struct ReplicaStore {
    /// The store.
    pub(super) store: Store,
    /// Versions whose metadata files may be missing.
    unpublished: HashSet<PublicationKey>,
    /// Versions whose metadata files exist, and whose rows have not arrived yet.
    published_early: HashSet<PublicationKey>,
    /// All transactions up to this sequence number have been received.
    pub(super) released: u64,
    /// The size of the rows that were applied.
    pub(super) applied_bytes: usize,
}

impl ReplicaStore {
    /// Creates a store that begins with the first message of the writer.
    pub(super) fn new(store: Store, start: &Changes) -> Self {
        let unpublished = start.start.iter().flat_map(|start| &start.unpublished);
        Self {
            store,
            unpublished: unpublished.filter_map(Version::key).collect(),
            published_early: HashSet::new(),
            released: start.released,
            applied_bytes: 0,
        }
    }

    /// Applies a message. Requests see its changes when this function returns. If the message changes
    /// records that the catalog has loaded, the replica stops to execute reads, and this function
    /// returns the former routes: the catalog has to be opened again.
    pub(super) async fn apply(
        &mut self,
        replica: &Replica,
        changes: Changes,
    ) -> Result<Option<Arc<CatalogServices>>, store::Error> {
        let groups = changes.groups.into_iter().map(Group::into_rows);
        let groups: Vec<Arc<RowGroup>> = groups.map(Arc::new).collect();
        let reopens = groups.iter().any(|group| group.changes_loaded_records());
        let stopped = if reopens { replica.serve(None) } else { None };
        let serving = replica.services();
        let catalog = serving.as_ref().map(|services| services.catalog().replicas());
        for group in &groups {
            self.applied_bytes += group.bytes();
            for key in group.new_publications() {
                if !self.published_early.remove(&key) && self.unpublished.insert(key) {
                    catalog.inspect(|catalog| catalog.await_publications([key]));
                }
            }
        }
        self.store.apply(&groups).await?;
        for key in changes.published.iter().filter_map(Version::key) {
            if !self.unpublished.remove(&key) {
                self.published_early.insert(key);
            }
            catalog.inspect(|catalog| catalog.mark_published(key));
        }
        for key in groups.iter().flat_map(|group| group.completed_publications()) {
            self.unpublished.remove(&key);
            catalog.inspect(|catalog| catalog.mark_published(key));
        }
        self.released = self.released.max(changes.released);
        replica.applied.send_replace(self.released);
        if let Some(position) = changes.position {
            replica.position.send_replace(position);
        }
        Ok(stopped)
    }

    /// Returns the versions whose metadata files may be missing.
    pub(super) fn unpublished(&self) -> impl Iterator<Item = PublicationKey> {
        self.unpublished.iter().copied()
    }
}
