//! [`Node`]: what the ports of a member of a cluster know about the election.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use super::counters::ClusterCounters;
use super::lease::Lease;
use crate::api::service::PortService;
use slateberg_base::clock::Clock;
use slateberg_cluster::{Role, WriterRecord};
use slateberg_telemetry::collection::{Collection, attributes};

/// A port of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortKind {
    /// The port for clients.
    Clients,
    /// The separate port for operators.
    Operators,
}

/// The routes of the open catalog.
pub(super) struct WriterServices {
    /// The port for clients.
    pub(super) clients: PortService,
    /// The port for operators, if it is separate.
    pub(super) operators: Option<PortService>,
}

impl WriterServices {
    /// The routes of a port. Without a port for operators, the port for clients has all routes.
    pub(super) fn port(&self, port: PortKind) -> &PortService {
        match (port, &self.operators) {
            (PortKind::Operators, Some(operators)) => operators,
            _ => &self.clients,
        }
    }
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
}

impl KnownWriter {
    /// Whether there is a writer, and it is not the one of this record.
    pub(super) fn is_other_than(&self, record: &WriterRecord) -> bool {
        match self {
            Self::Unknown => false,
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
    services: ArcSwapOption<WriterServices>,
    writer: watch::Sender<KnownWriter>,
    role: watch::Sender<Role>,
}

impl Node {
    /// Creates the state of a member that has not read the record of the writer yet.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            lease: Lease::new(clock),
            counters: ClusterCounters::default(),
            services: ArcSwapOption::empty(),
            writer: watch::Sender::new(KnownWriter::Unknown),
            role: watch::Sender::new(Role::Standby),
        })
    }

    /// The routes of the open catalog, if this process is the writer.
    pub(super) fn services(&self) -> Option<Arc<WriterServices>> {
        self.services.load_full()
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
        let term = match &*self.writer.borrow() {
            KnownWriter::Unknown => 0,
            KnownWriter::Local(term) => *term,
            KnownWriter::Remote(record) => record.term,
        };
        let help = "The term of the cluster's writer; 0 if there is no writer.";
        into.gauge("slateberg.cluster.term", "1", help, Vec::new(), term as f64);
        self.counters.collect(into);
    }

    /// Begins to serve requests with these routes, or stops with `None`.
    pub(super) fn serve(&self, services: Option<Arc<WriterServices>>) {
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
        self.writer.send_if_modified(|known| {
            // Each renewal changes the record, but not the writer.
            let is_same = match (&*known, &writer) {
                (KnownWriter::Remote(_), KnownWriter::Remote(record)) => {
                    !known.is_other_than(record)
                }
                (known, writer) => known == writer,
            };
            *known = writer;
            !is_same
        });
    }
}
