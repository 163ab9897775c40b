//! [`FollowedWriter`]: the writer that a standby follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::node::{KnownWriter, Node};
use slateberg_cluster::WriterRecord;

/// The writer that a standby follows. Cheap to clone.
#[derive(Clone)]
pub(super) struct FollowedWriter {
    /// The record of the writer when the standby began to follow it. `None` if there is no writer.
    pub(super) record: Option<Arc<WriterRecord>>,
    /// The writer has reported that all transactions up to this sequence number are durable.
    reported: Arc<AtomicU64>,
}

impl FollowedWriter {
    /// Begins to follow the writer with this record.
    pub(super) fn new(record: Option<Arc<WriterRecord>>) -> Self {
        Self { record, reported: Arc::default() }
    }

    /// Notes that the writer knows all transactions up to this sequence number as durable.
    pub(super) fn note_durable(&self, sequence: u64) {
        self.reported.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Returns the newest sequence number that the writer has reported, with its feed or in its
    /// record.
    pub(super) fn durable(&self, node: &Node) -> u64 {
        if let Some(followed) = &self.record
            && let KnownWriter::Remote(record) = &*node.writer().borrow()
            && record.holder.node == followed.holder.node
        {
            self.note_durable(record.sequence);
        }
        self.reported.load(Ordering::Acquire)
    }
}
