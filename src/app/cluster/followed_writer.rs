//! [`FollowedWriter`]: the writer that a standby follows.

use std::sync::{Arc, Mutex, PoisonError};

use super::node::{KnownWriter, Node};
use slateberg_cluster::WriterRecord;

/// The writer that a standby follows. Cheap to clone.
#[derive(Clone)]
pub(super) struct FollowedWriter {
    /// The record of the writer when the standby began to follow it. `None` if there is no writer.
    pub(super) record: Option<Arc<WriterRecord>>,
    newest: Arc<Mutex<WriterReport>>,
}

/// A report of the writer about its state.
#[derive(Debug, Clone, Default)]
pub(super) struct WriterReport {
    /// The writer knows all transactions up to this sequence number as durable.
    pub(super) sequence: u64,
    /// The hash of the policies in force. Empty if it is unknown.
    pub(super) policy_hash: String,
}

impl FollowedWriter {
    /// Begins to follow the writer with this record.
    pub(super) fn new(record: Option<Arc<WriterRecord>>) -> Self {
        Self { record, newest: Arc::default() }
    }

    /// Begins to follow the state that the last writer has left for a pause.
    pub(super) fn paused(last: &WriterRecord) -> Self {
        let paused = Self::new(None);
        paused.note(last.sequence, &last.policy_hash);
        paused
    }

    /// Notes a report.
    pub(super) fn note(&self, sequence: u64, policy_hash: &str) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if sequence >= newest.sequence {
            newest.sequence = sequence;
            policy_hash.clone_into(&mut newest.policy_hash);
        }
    }

    /// Returns the newest report, from the feed or from the record of the writer.
    pub(super) fn newest(&self, node: &Node) -> WriterReport {
        if let Some(followed) = &self.record
            && let KnownWriter::Remote(record) = &*node.writer().borrow()
            && record.holder.node == followed.holder.node
        {
            self.note(record.sequence, &record.policy_hash);
        }
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
