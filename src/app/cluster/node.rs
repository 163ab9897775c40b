//! [`Node`]: what the ports of a member of a cluster know about the election.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, mpsc, watch};
use uuid::Uuid;

use super::bucket_contact::BucketContact;
use super::catalog_services::CatalogServices;
use super::counters::ClusterCounters;
use super::lease::Lease;
use super::replica::Replica;
use crate::api::shutdown::ShutdownFlag;
use slateberg_base::clock::Clock;
use slateberg_base::rate::LogThrottle;
use slateberg_cluster::{Member, Role, SharedSettings, Successor, WriterRecord};
use slateberg_management::cluster::ClusterRole;
use slateberg_telemetry::collection::{Collection, attributes};

/// Minimum time between two reads of the record of the writer because another member did not
/// respond as the writer.
const SUSPECT_EVERY: Duration = Duration::from_millis(100);

/// A request to the election of this process.
pub(super) enum Command {
    /// Give the term to another member.
    Transfer(Successor),
    /// End the term so that no member takes over.
    Pause,
}

/// The writer, as far as this member knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KnownWriter {
    /// No writer is known.
    Unknown,
    /// This process, in this term.
    Local(u64),
    /// Another member.
    Remote(Arc<WriterRecord>),
    /// There is no writer, because an operator has paused the cluster. The record is that of the last
    /// writer.
    Paused(Arc<WriterRecord>),
}

impl KnownWriter {
    /// Whether there is a writer, and it is not the one of this record.
    pub(super) fn is_other_than(&self, record: &WriterRecord) -> bool {
        match self {
            // The last writer completes its requests, also before a pause.
            Self::Unknown | Self::Paused(_) => false,
            Self::Local(_) => true,
            Self::Remote(known) => {
                (known.term, known.holder.node) != (record.term, record.holder.node)
            }
        }
    }
}

/// The state that the election shares with the ports of a member.
pub(super) struct Node {
    /// The lease of this process.
    pub(super) lease: Lease,
    /// The counters of the cluster.
    pub(super) counters: ClusterCounters,
    /// The id of this process.
    pub(super) id: Uuid,
    /// The name of this process.
    pub(super) name: String,
    /// Hashes of the settings of this process.
    pub(super) settings: SharedSettings,
    /// The contact of this process with the bucket.
    pub(super) bucket: Arc<BucketContact>,
    /// The shutdown of this process. After its begin, this process cannot become the writer.
    pub(super) shutdown: Arc<ShutdownFlag>,
    /// Notified if the record of the writer may have changed.
    pub(super) record_changed: Notify,
    suspicions: LogThrottle,
    commands: mpsc::UnboundedSender<Command>,
    services: ArcSwapOption<CatalogServices>,
    /// The replica of a standby.
    replica: ArcSwapOption<Replica>,
    replica_changes: watch::Sender<()>,
    writer: watch::Sender<KnownWriter>,
    role: watch::Sender<Role>,
}

impl Node {
    /// Creates the state of a member that has not read the record of the writer yet.
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        member: &Member,
        bucket: BucketContact,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Command>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let node = Arc::new(Self {
            lease: Lease::new(clock),
            counters: ClusterCounters::default(),
            id: member.node,
            name: member.name.clone(),
            settings: member.settings.clone(),
            bucket: Arc::new(bucket),
            shutdown: Arc::default(),
            record_changed: Notify::new(),
            suspicions: LogThrottle::new(SUSPECT_EVERY),
            commands,
            services: ArcSwapOption::empty(),
            replica: ArcSwapOption::empty(),
            replica_changes: watch::Sender::new(()),
            writer: watch::Sender::new(KnownWriter::Unknown),
            role: watch::Sender::new(Role::Standby),
        });
        (node, receiver)
    }

    /// Sends a command to the election.
    pub(super) fn command(&self, command: Command) {
        // Without a receiver, the election has ended, and with it this process.
        let _ = self.commands.send(command);
    }

    /// Reports that the known writer did not respond as the writer.
    pub(super) fn suspect_writer(&self) {
        if self.suspicions.is_due() {
            self.record_changed.notify_one();
        }
    }

    /// Whether requests are processed by these routes, and not by those of a later term.
    pub(super) fn is_current(&self, services: &Arc<CatalogServices>) -> bool {
        self.services.load().as_ref().is_some_and(|now| Arc::ptr_eq(now, services))
    }

    /// The role of this process, for operators.
    pub(super) fn cluster_role(&self) -> ClusterRole {
        match self.role() {
            _ if self.shutdown.has_begun() => ClusterRole::Changing,
            Role::Writer => ClusterRole::Writer,
            Role::Standby => ClusterRole::Standby,
            _ => ClusterRole::Changing,
        }
    }

    /// The term of the writer; 0 if this process knows no writer.
    pub(super) fn term(&self) -> u64 {
        match &*self.writer.borrow() {
            KnownWriter::Unknown | KnownWriter::Paused(_) => 0,
            KnownWriter::Local(term) => *term,
            KnownWriter::Remote(record) => record.term,
        }
    }

    /// Whether an operator has paused the cluster.
    pub(super) fn is_paused(&self) -> bool {
        matches!(&*self.writer.borrow(), KnownWriter::Paused(_))
    }

    /// The role of this process, and its changes.
    pub(super) fn roles(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// The routes of the open catalog, if this process is the writer.
    pub(super) fn services(&self) -> Option<Arc<CatalogServices>> {
        self.services.load_full()
    }

    /// The replica on which this process executes reads as a standby.
    pub(super) fn replica(&self) -> Option<Arc<Replica>> {
        self.replica.load_full()
    }

    /// Begins to execute reads on this replica, or stops with `None`.
    pub(super) fn replicate(&self, replica: Option<Arc<Replica>>) {
        self.replica.store(replica);
        self.replica_changes.send_replace(());
    }

    /// Is notified when another replica begins to execute reads.
    pub(super) fn replica_changes(&self) -> watch::Receiver<()> {
        self.replica_changes.subscribe()
    }

    /// The current role of this process.
    pub(super) fn role(&self) -> Role {
        *self.role.borrow()
    }

    /// The writer, as far as this process knows.
    pub(super) fn writer(&self) -> watch::Receiver<KnownWriter> {
        self.writer.subscribe()
    }

    /// Collects the metrics of the cluster.
    pub(super) fn collect(&self, into: &mut Collection) {
        let is_writer = self.role() == Role::Writer;
        let help = "The role of this process in its cluster: 1 for the current role.";
        for (name, is_current) in [("writer", is_writer), ("standby", !is_writer)] {
            let value = f64::from(u8::from(is_current));
            into.gauge("slateberg.cluster.role", "1", help, attributes([("role", name)]), value);
        }
        let term = self.term();
        let help = "The term of the cluster's writer; 0 if there is no writer.";
        into.gauge("slateberg.cluster.term", "1", help, Vec::new(), term as f64);
        let help = "Whether an operator has paused the cluster, so that it has no writer.";
        let value = f64::from(u8::from(self.is_paused()));
        into.gauge("slateberg.cluster.paused", "1", help, Vec::new(), value);
        let help = "Sections of the settings in which this member differs from the writer.";
        let different = self.settings_unlike_writer().map_or(0, |(_, sections)| sections.len());
        into.gauge(
            "slateberg.cluster.settings_different",
            "{section}",
            help,
            Vec::new(),
            different as f64,
        );
        let is_replica = self.replica().is_some_and(|replica| replica.executes_reads());
        let help = "Whether this standby executes reads on its replica.";
        let value = f64::from(u8::from(is_replica));
        into.gauge("slateberg.cluster.replica", "1", help, Vec::new(), value);
        let has_other_policies = self.replica().is_some_and(|replica| replica.has_other_policies());
        let help = "Whether other policies are in force at the writer than at this standby.";
        let value = f64::from(u8::from(has_other_policies));
        into.gauge("slateberg.cluster.policies_different", "1", help, Vec::new(), value);
        self.counters.collect(into);
    }

    /// Returns the name of the writer and the sections of the settings in which this member differs
    /// from it. `None` if this process is the writer or knows none.
    fn settings_unlike_writer(&self) -> Option<(String, Vec<String>)> {
        let KnownWriter::Remote(record) = &*self.writer.borrow() else { return None };
        let different = self.settings.different_sections(&record.holder.settings);
        Some((record.holder.name.clone(), different))
    }

    /// Begins to serve requests with these routes, or stops with `None`.
    pub(super) fn serve(&self, services: Option<Arc<CatalogServices>>) {
        self.services.store(services);
    }

    /// Publishes the result of a step of the election.
    pub(super) fn publish(&self, role: Role, writer: KnownWriter) {
        let changed = self.role.send_if_modified(|known| {
            let changed = *known != role;
            *known = role;
            changed
        });
        if changed && role == Role::Writer {
            self.counters.elections.add(1);
        }
        let is_other_writer = self.writer.send_if_modified(|known| {
            // Each renewal changes the record, but not the writer.
            let is_same = match (&*known, &writer) {
                (KnownWriter::Remote(_), KnownWriter::Remote(record)) => {
                    !known.is_other_than(record)
                }
                (KnownWriter::Paused(known), KnownWriter::Paused(record)) => {
                    known.is_same_put(record)
                }
                (known, writer) => known == writer,
            };
            *known = writer;
            !is_same
        });
        if is_other_writer && self.is_paused() {
            tracing::warn!(
                "an operator has paused the cluster: no member becomes the writer until `slateberg cluster resume`"
            );
        }
        if is_other_writer
            && let Some((writer, sections)) = self.settings_unlike_writer()
            && !sections.is_empty()
        {
            let sections = sections.join(", ");
            tracing::warn!(
                writer,
                sections,
                "this member and the writer of the cluster have different settings"
            );
        }
    }
}
