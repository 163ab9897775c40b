//! The change log: one entry for each change, in the batch of the change itself.

use uuid::Uuid;

use super::{Catalog, Operation, Result};
use slateberg_authz::decide::Decision;
use slateberg_store::records::{Allowed, Change};
use slateberg_store::txn::Transaction;

/// A change of one thing.
pub struct Entry<'a> {
    /// The transaction's name.
    pub action: &'static str,
    /// The warehouse's id.
    pub warehouse: Uuid,
    /// The id of the namespace, table or view.
    pub subject: Uuid,
    /// Its dotted name after the change.
    pub name: &'a dyn std::fmt::Display,
    /// The record's version before and after, as far as there is one.
    pub versions: (Option<u64>, Option<u64>),
    /// The decision that allowed it; none where no policy was asked.
    pub decision: Option<&'a Decision>,
}

impl Catalog {
    /// Writes an entry into the change log.
    pub(super) fn log_change(
        &self,
        t: &Transaction,
        operation: &Operation,
        entry: &Entry<'_>,
    ) -> Result<()> {
        t.log(&Change {
            at_ms: self.now_ms(),
            action: entry.action.to_owned(),
            principal: operation.principal.id().to_owned(),
            warehouse: entry.warehouse,
            subject: entry.subject,
            name: entry.name.to_string(),
            version_before: entry.versions.0,
            version_after: entry.versions.1,
            allowed: entry.decision.map(Allowed::from),
            origin: Some(operation.origin()),
        })?;
        Ok(())
    }
}
