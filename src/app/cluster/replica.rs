//! [`Replica`]: the private copy of the catalog on which a standby executes reads itself.

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::bucket_contact::BucketContact;
use super::catalog_services::{CatalogServices, PortKind};
use super::consistency::{Consistency, state_age, state_sequence};
use super::feed_reader::{Questions, ask};
use super::local_response::{LocalResponse, unavailable};
use super::read_rounds::ReadRounds;
use super::replication_messages::{Changes, Group, Position, Version};
use crate::api::service::Respond;
use slateberg_store::keys::PublicationKey;
use slateberg_store::replication::RowGroup;
use slateberg_store::{self as store, Store};

/// Maximum time until the writer has answered a question or the log has been read, and the replica
/// has applied the state.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Time for which reads in progress may continue after the end of the replica.
const END_GRACE: Duration = Duration::from_secs(1);
/// Interval of the questions of an idle replica, with which it knows the age of its state.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// A replica that executes reads.
pub(super) struct Replica {
    /// The contact of this process with the bucket.
    bucket: Arc<BucketContact>,
    /// The routes of the catalog on this replica. `None` while the catalog is opened.
    services: ArcSwapOption<CatalogServices>,
    /// All transactions of the writer up to this sequence number have been applied.
    applied: watch::Sender<u64>,
    /// The newest answer of the writer.
    position: watch::Sender<Position>,
    /// Whether other policies were in force at the writer when it sent its last message.
    has_other_policies: AtomicBool,
    /// The requests to the writer or to the bucket for the reads of this replica.
    pub(super) rounds: ReadRounds,
    has_ended: watch::Sender<bool>,
}

impl Replica {
    /// Creates a replica that does not execute reads yet.
    pub(super) fn new(bucket: Arc<BucketContact>) -> Self {
        Self {
            bucket,
            services: ArcSwapOption::empty(),
            applied: watch::Sender::new(0),
            position: watch::Sender::default(),
            has_other_policies: AtomicBool::new(false),
            rounds: ReadRounds::default(),
            has_ended: watch::Sender::new(false),
        }
    }

    /// Begins to execute reads with these routes, or stops with `None`.
    pub(super) fn serve(&self, services: Option<Arc<CatalogServices>>) {
        self.services.store(services);
    }

    /// Returns the routes. `None` while the replica executes no reads.
    pub(super) fn services(&self) -> Option<Arc<CatalogServices>> {
        self.services.load_full()
    }

    /// Whether the replica executes reads.
    pub(super) fn executes_reads(&self) -> bool {
        self.services.load().is_some() && !self.has_other_policies()
    }

    /// Whether other policies are in force at the writer. Their files may differ.
    pub(super) fn has_other_policies(&self) -> bool {
        self.has_other_policies.load(Ordering::Acquire)
    }

    /// Compares the policies in force with those of the writer, which have this hash.
    fn compare_policies(&self, services: &CatalogServices, of_writer: &str) {
        let own = services.catalog().policies().policy_hash();
        let is_different = !of_writer.is_empty() && own != of_writer;
        self.has_other_policies.store(is_different, Ordering::Release);
    }

    /// Executes a read.
    pub(super) async fn respond(&self, port: PortKind, request: Request) -> LocalResponse {
        let Ok(consistency) = Consistency::of(request.headers()) else {
            return LocalResponse::NotBegun(request);
        };
        // A client that has an older or newer version than this replica gets the newest one.
        let copy = (consistency != Consistency::Linearizable
            && request.method().is_safe()
            && request.headers().contains_key(header::IF_NONE_MATCH))
        .then(|| copy(&request));
        let response = self.respond_with(consistency, port, request).await;
        match (copy, response) {
            (Some(copy), LocalResponse::Complete(response)) if response.status().is_success() => {
                self.respond_with(Consistency::Linearizable, port, copy).await
            }
            (_, response) => response,
        }
    }

    async fn respond_with(
        &self,
        consistency: Consistency,
        port: PortKind,
        request: Request,
    ) -> LocalResponse {
        if self.services.load().is_none() {
            return LocalResponse::NotBegun(request);
        }
        // A decision must not depend on the member that receives the request.
        if self.has_other_policies() {
            return LocalResponse::NotBegun(request);
        }
        let required = consistency.at(self.visible_sequence());
        let (mut age, mut is_stale) = (self.rounds.wait(required).await, false);
        if age.is_none() && self.bucket.outage().is_some() {
            // The state cannot be confirmed, and the operator prefers old state to no response.
            (age, is_stale) = (self.rounds.age(), true);
        }
        let Some(age) = age else { return LocalResponse::NotBegun(request) };
        // Loaded after the round: a change of the policies that the round has seen stops the routes
        // that have loaded earlier policies.
        let Some(services) = self.services() else { return LocalResponse::NotBegun(request) };
        if self.has_other_policies() {
            return LocalResponse::NotBegun(request);
        }
        let _in_progress = services.begin();
        let began = Instant::now();
        let mut response = tokio::select! {
            response = services.port(port).respond(request) => response,
            () = self.end_of_reads() => unavailable("The replica of this member has ended"),
        };
        if response.status().is_server_error() {
            return LocalResponse::Failed(response);
        }
        if is_stale || consistency != Consistency::Linearizable {
            state_age(&mut response, age + began.elapsed());
            if let Some(sequence) = services.catalog().replicas().sequence() {
                state_sequence(&mut response, sequence);
            }
        }
        LocalResponse::Complete(response)
    }

    /// Returns a sequence number up to which readers see all transactions.
    fn visible_sequence(&self) -> u64 {
        let services = self.services.load();
        services.as_ref().map_or(0, |services| services.catalog().replicas().durable_sequence())
    }

    /// Ends all reads that wait, and soon those in progress, so that they are forwarded.
    pub(super) fn end(&self) {
        self.serve(None);
        self.rounds.close();
        self.has_ended.send_replace(true);
    }

    /// Waits until the replica has ended some time ago. A read can wait for a metadata file that this
    /// replica will never see.
    async fn end_of_reads(&self) {
        // The sender belongs to this replica.
        let _ = self.has_ended.subscribe().wait_for(|has_ended| *has_ended).await;
        sleep(END_GRACE).await;
    }

    /// Executes rounds until this future is dropped.
    pub(super) async fn run_rounds(&self, questions: &Questions) -> Infallible {
        for question in 1.. {
            let round = self.rounds.begin(Some(ASK_EVERY)).await;
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
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    copy
}

/// Applies the changes of the writer to the store of a replica.
pub(super) struct ReplicaStore {
    /// The store.
    pub(super) store: Store,
    /// Versions whose metadata files may be missing.
    unpublished: HashSet<PublicationKey>,
    /// All transactions up to this sequence number have been received.
    pub(super) released: u64,
    /// The size of the rows that were applied.
    pub(super) applied_bytes: usize,
    /// The hash of the writer's policies. Empty if it is unknown.
    pub(super) policy_hash: String,
}

impl ReplicaStore {
    /// Creates a store that follows the state in which it was opened. The policies of the writer have
    /// this hash.
    pub(super) fn new(store: Store, policy_hash: String) -> Self {
        Self { store, unpublished: HashSet::new(), released: 0, applied_bytes: 0, policy_hash }
    }

    /// Creates a store that begins with the first message of the writer.
    pub(super) fn following(store: Store, start: &Changes) -> Self {
        let mut new = Self::new(store, start.policy_hash.clone());
        let unpublished = start.start.iter().flat_map(|start| &start.unpublished);
        new.add_unpublished(unpublished.filter_map(Version::key));
        Self { released: start.released, ..new }
    }

    /// Adds versions whose metadata files may be missing.
    pub(super) fn add_unpublished(&mut self, keys: impl IntoIterator<Item = PublicationKey>) {
        self.unpublished.extend(keys);
    }

    /// Applies a message of the writer. See [`apply_groups`](Self::apply_groups).
    pub(super) async fn apply(
        &mut self,
        replica: &Replica,
        changes: Changes,
    ) -> Result<bool, store::Error> {
        let groups = changes.groups.into_iter().map(Group::into_rows).collect();
        let reopens = self.apply_groups(replica, groups).await?;
        self.mark_published(replica, changes.published.iter().filter_map(Version::key));
        self.released = self.released.max(changes.released);
        replica.applied.send_replace(self.released);
        self.note_policies(replica, changes.policy_hash);
        if let Some(position) = changes.position {
            replica.position.send_replace(position);
        }
        Ok(reopens)
    }

    /// Notes the hash of the writer's policies, and compares them with those of the replica.
    pub(super) fn note_policies(&mut self, replica: &Replica, policy_hash: String) {
        self.policy_hash = policy_hash;
        if let Some(services) = replica.services() {
            replica.compare_policies(&services, &self.policy_hash);
        }
    }

    /// Applies transactions of the writer. Requests see them when this function returns. Returns
    /// whether the transactions change records that the catalog has loaded. The replica then stops to
    /// execute reads, until the catalog is opened again.
    pub(super) async fn apply_groups(
        &mut self,
        replica: &Replica,
        groups: Vec<RowGroup>,
    ) -> Result<bool, store::Error> {
        let reopens = groups.iter().any(RowGroup::changes_loaded_records);
        if reopens {
            replica.serve(None);
        }
        let serving = replica.services();
        for group in &groups {
            self.applied_bytes += group.bytes();
            for key in group.new_publications() {
                if self.unpublished.insert(key)
                    && let Some(services) = &serving
                {
                    services.catalog().replicas().await_publications([key]);
                }
            }
        }
        self.store.apply(&groups).await?;
        self.mark_published(replica, groups.iter().flat_map(RowGroup::completed_publications));
        Ok(reopens)
    }

    /// Readers no longer wait for the metadata files of these versions, because they exist.
    pub(super) fn mark_published(
        &mut self,
        replica: &Replica,
        published: impl IntoIterator<Item = PublicationKey>,
    ) {
        let serving = replica.services();
        for key in published {
            self.unpublished.remove(&key);
            if let Some(services) = &serving {
                services.catalog().replicas().mark_published(key);
            }
        }
    }

    /// Begins to execute reads with these routes.
    pub(super) fn serve(&self, replica: &Replica, services: &Arc<CatalogServices>) {
        services.catalog().replicas().await_publications(self.unpublished());
        replica.compare_policies(services, &self.policy_hash);
        replica.serve(Some(Arc::clone(services)));
    }

    /// Returns the versions whose metadata files may be missing.
    pub(super) fn unpublished(&self) -> impl Iterator<Item = PublicationKey> {
        self.unpublished.iter().copied()
    }
}
