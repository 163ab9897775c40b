//! [`Replication`]: passes the rows of durable transactions to replicas, in the order of their
//! sequence numbers.
//!
//! A **replica** is a private copy of the store in another process ([`replica`](super::replica)).
//!
//! A transaction knows its rows before it commits, and its sequence number only after SlateDB has
//! accepted it. SlateDB may report this number as durable even before the transaction's task has
//! learned it. So each transaction takes a **ticket** before it commits. After a flush, the rows up
//! to the durable number are **released** as soon as all earlier tickets have been returned. If the
//! outcome of a transaction is unknown, no further rows are released, and all subscriptions end.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::key_space::{KeySpace, ReplicaRule};
use super::keys::{Key, PublicationKey};

/// Maximum size of the rows that wait for one replica. The subscription of a slower replica ends.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// A written or deleted record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub key: Bytes,
    /// The encoded record. `None` if it was deleted.
    pub value: Option<Bytes>,
}

/// The rows of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroup {
    /// The sequence number of the transaction.
    pub sequence: u64,
    /// The rows, in the order in which the transaction wrote them.
    pub rows: Vec<Row>,
}

impl RowGroup {
    /// Returns the versions whose metadata files these rows announce.
    pub fn new_publications(&self) -> impl Iterator<Item = PublicationKey> {
        self.rows.iter().filter(|row| row.value.is_some()).filter_map(publication)
    }

    /// Returns the versions of which these rows state that their metadata files exist.
    pub fn completed_publications(&self) -> impl Iterator<Item = PublicationKey> {
        self.rows.iter().filter(|row| row.value.is_none()).filter_map(publication)
    }

    /// Whether a catalog keeps any of these records in memory, in addition to its caches.
    pub fn changes_loaded_records(&self) -> bool {
        // A key space that this binary does not know belongs to a newer version.
        let rule = |row: &Row| KeySpace::of(&row.key).map(|space| space.rules().replica);
        self.rows.iter().any(|row| rule(row) != Some(ReplicaRule::Read))
    }

    /// Returns the size of the keys and records.
    pub fn bytes(&self) -> usize {
        let of_row = |row: &Row| row.key.len() + row.value.as_ref().map_or(0, Bytes::len);
        self.rows.iter().map(of_row).sum()
    }
}

/// An event for replicas.
#[derive(Debug, Clone)]
pub enum ReplicationEvent {
    /// A durable transaction.
    Rows(Arc<RowGroup>),
    /// All rows up to this sequence number have been sent.
    Released(u64),
    /// The metadata file of a version exists. The rows of the version precede this event.
    Published(PublicationKey),
}

/// The events for one replica.
pub struct Subscription {
    /// All earlier rows are in the bucket.
    pub from: u64,
    /// Versions whose metadata files may be missing, although their rows are in the bucket.
    pub unpublished: Vec<PublicationKey>,
    events: mpsc::UnboundedReceiver<ReplicationEvent>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Subscription {
    /// Waits for the next event. `None` if the subscription has ended. Can be cancelled.
    pub async fn next(&mut self) -> Option<ReplicationEvent> {
        let event = self.events.recv().await?;
        Some(self.received(event))
    }

    /// Returns the next event, if it has been sent already.
    pub fn try_next(&mut self) -> Option<ReplicationEvent> {
        let event = self.events.try_recv().ok()?;
        Some(self.received(event))
    }

    fn received(&self, event: ReplicationEvent) -> ReplicationEvent {
        if let ReplicationEvent::Rows(group) = &event {
            self.queued_bytes.fetch_sub(group.bytes(), Ordering::Relaxed);
        }
        event
    }
}

/// Collects the rows of transactions for replicas.
#[derive(Default)]
pub(super) struct Replication(Option<Mutex<State>>);

#[derive(Default)]
struct State {
    next_ticket: u64,
    /// Tickets of transactions that are committing, each with a key that the transaction writes.
    committing: BTreeMap<u64, Option<Bytes>>,
    /// Accepted transactions whose rows are not released yet, by sequence number.
    accepted: BTreeMap<u64, Arc<RowGroup>>,
    /// Durable sequence numbers, each with the first ticket that was taken afterwards.
    durable: VecDeque<(u64, u64)>,
    released: u64,
    /// Versions whose metadata files may be missing.
    unpublished: HashSet<PublicationKey>,
    /// Versions whose metadata files exist, but whose rows may not be released yet.
    published: Vec<PublicationKey>,
    /// Whether the outcome of a transaction is unknown.
    is_broken: bool,
    subscribers: Vec<Subscriber>,
}

struct Subscriber {
    events: mpsc::UnboundedSender<ReplicationEvent>,
    queued_bytes: Arc<AtomicUsize>,
}

/// A transaction that is committing. If it is dropped, the outcome of the transaction is unknown.
#[must_use = "the transaction blocks all later rows"]
pub(super) struct Ticket<'a> {
    number: Option<(&'a Mutex<State>, u64)>,
}

impl Replication {
    /// Starts to collect the rows that follow this sequence number. `unpublished` are the versions
    /// whose metadata files may be missing.
    pub(super) fn start(
        released: u64,
        unpublished: impl IntoIterator<Item = PublicationKey>,
    ) -> Self {
        let unpublished = unpublished.into_iter().collect();
        Self(Some(Mutex::new(State { released, unpublished, ..State::default() })))
    }

    /// Whether rows are collected.
    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the ticket of a transaction that is about to commit.
    pub(super) fn take_ticket(&self, rows: &[Row]) -> Ticket<'_> {
        let number = self.0.as_ref().map(|state| {
            let mut locked = lock(state);
            let ticket = locked.next_ticket;
            locked.next_ticket += 1;
            locked.committing.insert(ticket, written_key(rows));
            (state, ticket)
        });
        Ticket { number }
    }

    /// Returns a key of each transaction whose rows have not been released, with its sequence number
    /// if it is known. The transactions are in the order of their sequence numbers, and those
    /// without one come last.
    pub(super) fn unreleased(&self) -> Vec<(Option<u64>, Bytes)> {
        let Some(state) = &self.0 else { return Vec::new() };
        let state = lock(state);
        let accepted = state.accepted.iter().map(|(sequence, group)| {
            let key = written_key(&group.rows);
            Some((Some(*sequence), key?))
        });
        let committing = state.committing.values().map(|key| Some((None, key.clone()?)));
        accepted.chain(committing).flatten().collect()
    }

    /// Records that everything up to this sequence number is durable.
    pub(super) fn mark_durable(&self, sequence: u64) {
        let Some(state) = &self.0 else { return };
        let mut state = lock(state);
        let ticket = state.next_ticket;
        state.durable.push_back((sequence, ticket));
        state.release();
    }

    /// Records that the metadata file of a version exists.
    pub(super) fn mark_published(&self, key: PublicationKey) {
        let Some(state) = &self.0 else { return };
        let mut state = lock(state);
        state.published.push(key);
        state.announce_published();
    }

    /// Begins a subscription. `None` if no rows are collected, or if the outcome of a transaction is
    /// unknown.
    pub(super) fn subscribe(&self) -> Option<Subscription> {
        let mut state = lock(self.0.as_ref()?);
        if state.is_broken {
            return None;
        }
        let (sender, events) = mpsc::unbounded_channel();
        let queued_bytes = Arc::<AtomicUsize>::default();
        let subscriber = Subscriber { events: sender, queued_bytes: Arc::clone(&queued_bytes) };
        state.subscribers.push(subscriber);
        let unpublished = state.unpublished.iter().copied().collect();
        Some(Subscription { from: state.released, unpublished, events, queued_bytes })
    }
}

impl Ticket<'_> {
    /// SlateDB accepted the transaction.
    pub(super) fn accept(mut self, sequence: u64, rows: Vec<Row>) {
        let Some((state, number)) = self.number.take() else { return };
        let mut state = lock(state);
        let group = RowGroup { sequence, rows };
        state.unpublished.extend(group.new_publications());
        state.accepted.insert(sequence, Arc::new(group));
        state.committing.remove(&number);
        state.release();
    }

    /// The transaction wrote nothing.
    pub(super) fn reject(mut self) {
        let Some((state, number)) = self.number.take() else { return };
        let mut state = lock(state);
        state.committing.remove(&number);
        state.release();
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let Some((state, _)) = self.number else { return };
        let mut state = lock(state);
        state.is_broken = true;
        state.subscribers.clear();
    }
}

impl State {
    /// Releases the rows up to the durable sequence number, except those behind a ticket.
    fn release(&mut self) {
        if self.is_broken {
            return;
        }
        let oldest =
            self.committing.first_key_value().map_or(self.next_ticket, |(ticket, _)| *ticket);
        let mut durable = None;
        while let Some((sequence, _)) =
            self.durable.pop_front_if(|(_, first_later_ticket)| *first_later_ticket <= oldest)
        {
            durable = Some(sequence);
        }
        let Some(durable) = durable.filter(|durable| *durable > self.released) else { return };
        self.released = durable;
        while let Some(oldest) = self.accepted.first_entry()
            && *oldest.key() <= durable
        {
            let group = oldest.remove();
            self.send(&ReplicationEvent::Rows(group));
        }
        self.send(&ReplicationEvent::Released(durable));
        self.announce_published();
    }

    /// Reports the versions whose metadata files exist, once their rows are released.
    fn announce_published(&mut self) {
        for key in std::mem::take(&mut self.published) {
            let is_unreleased =
                self.accepted.values().any(|group| group.new_publications().any(|it| it == key));
            if is_unreleased {
                self.published.push(key);
            } else {
                self.unpublished.remove(&key);
                self.send(&ReplicationEvent::Published(key));
            }
        }
    }

    /// Sends an event to all replicas. Ends the subscriptions of those that are too slow.
    fn send(&mut self, event: &ReplicationEvent) {
        let bytes = match event {
            ReplicationEvent::Rows(group) => group.bytes(),
            ReplicationEvent::Released(_) | ReplicationEvent::Published(_) => 0,
        };
        self.subscribers.retain(|subscriber| {
            let queued = subscriber.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
            queued <= QUEUED_BYTES_MAX && subscriber.events.send(event.clone()).is_ok()
        });
    }
}

/// Returns a key to which a transaction writes a record. `None` if it only deletes records. Such
/// transactions remove markers and expired records, which no read of a replica shows.
fn written_key(rows: &[Row]) -> Option<Bytes> {
    rows.iter().find(|row| row.value.is_some()).map(|row| row.key.clone())
}

fn publication(row: &Row) -> Option<PublicationKey> {
    let is_marker = KeySpace::of(&row.key) == Some(KeySpace::Publications);
    is_marker.then(|| PublicationKey::decode(&row.key)).flatten()
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &'static str) -> Row {
        Row { key: Bytes::from_static(key.as_bytes()), value: Some(Bytes::new()) }
    }

    /// Returns the events that have been sent so far: keys, and `<n>` for released numbers.
    fn events(subscription: &mut Subscription) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some(event) = subscription.try_next() {
            match event {
                ReplicationEvent::Rows(group) => seen.extend(
                    group.rows.iter().map(|row| String::from_utf8_lossy(&row.key).into_owned()),
                ),
                ReplicationEvent::Released(sequence) => seen.push(format!("<{sequence}>")),
                ReplicationEvent::Published(_) => seen.push("published".to_owned()),
            }
        }
        seen
    }

    #[test]
    fn rows_are_sent_in_order_once_they_are_durable() {
        let replication = Replication::start(0, []);
        let mut subscription = replication.subscribe().expect("rows are collected");
        let (first, second) = (replication.take_ticket(&[]), replication.take_ticket(&[]));
        second.accept(2, vec![row("b")]);
        first.accept(1, vec![row("a")]);
        assert_eq!(events(&mut subscription), Vec::<String>::new());
        replication.mark_durable(1);
        assert_eq!(events(&mut subscription), ["a", "<1>"]);
        replication.mark_durable(2);
        assert_eq!(events(&mut subscription), ["b", "<2>"]);
    }

    #[test]
    fn durable_rows_wait_for_transactions_that_may_precede_them() {
        let replication = Replication::start(0, []);
        let mut subscription = replication.subscribe().expect("rows are collected");
        let (slow, rejected) = (replication.take_ticket(&[]), replication.take_ticket(&[]));
        replication.take_ticket(&[]).accept(2, vec![row("b")]);
        replication.mark_durable(2);
        let later = replication.take_ticket(&[]);
        assert_eq!(events(&mut subscription), Vec::<String>::new());
        rejected.reject();
        slow.accept(1, vec![row("a")]);
        assert_eq!(events(&mut subscription), ["a", "b", "<2>"]);
        later.reject();
        assert_eq!(events(&mut subscription), Vec::<String>::new());
    }

    #[test]
    fn unknown_outcome_ends_all_subscriptions() {
        let replication = Replication::start(0, []);
        let mut subscription = replication.subscribe().expect("rows are collected");
        drop(replication.take_ticket(&[]));
        replication.take_ticket(&[]).accept(2, vec![row("b")]);
        replication.mark_durable(2);
        assert_eq!(events(&mut subscription), Vec::<String>::new());
        assert!(subscription.events.is_closed());
        assert!(replication.subscribe().is_none());
    }

    #[test]
    fn subscription_of_a_slow_replica_ends() {
        let replication = Replication::start(0, []);
        let mut slow = replication.subscribe().expect("rows are collected");
        for sequence in 1..=4 {
            let value = Some(Bytes::from(vec![0; QUEUED_BYTES_MAX / 2]));
            let rows = vec![Row { value, ..row("a") }];
            replication.take_ticket(&[]).accept(sequence, rows);
            replication.mark_durable(sequence);
        }
        assert!(slow.events.is_closed());
        assert_eq!(events(&mut slow), ["a", "<1>", "a"]);
    }

    #[test]
    fn version_is_published_only_after_its_rows() {
        let replication = Replication::start(0, []);
        let mut subscription = replication.subscribe().expect("rows are collected");
        let key = PublicationKey { id: uuid::Uuid::nil(), version: 1 };
        let marker = Row { key: key.encode().into(), value: Some(Bytes::new()) };
        let slow = replication.take_ticket(&[]);
        replication.take_ticket(&[]).accept(2, vec![marker, row("b")]);
        replication.mark_durable(2);
        replication.mark_published(key);
        assert_eq!(events(&mut subscription), Vec::<String>::new());
        assert_eq!(replication.subscribe().expect("rows are collected").unpublished, [key]);
        slow.reject();
        let events = events(&mut subscription);
        assert_eq!(events[1..], ["b", "<2>", "published"]);
        assert!(replication.subscribe().expect("rows are collected").unpublished.is_empty());
    }

    #[test]
    fn subscription_begins_with_the_versions_whose_files_may_be_missing() {
        let key = |version| PublicationKey { id: uuid::Uuid::nil(), version };
        let replication = Replication::start(7, [key(1)]);
        let marker = |version| {
            let row = Row { key: key(version).encode().into(), value: Some(Bytes::new()) };
            replication.take_ticket(&[]).accept(8 + version, vec![row]);
        };
        marker(2);
        marker(3);
        replication.mark_durable(11);
        replication.mark_published(key(2));
        let subscription = replication.subscribe().expect("rows are collected");
        let mut versions: Vec<_> = subscription.unpublished.iter().map(|key| key.version).collect();
        versions.sort_unstable();
        assert_eq!((subscription.from, versions), (11, vec![1, 3]));
    }
}
