//! Every change writes two more records: its entry in the change log, and the response for repeated
//! requests with the same `Idempotency-Key`.

use uuid::Uuid;

use super::Pipeline;
use super::response::Response;
use crate::Result;
use crate::operation::{Idempotency, Operation};
use slateberg_authz::decide::Decision;
use slateberg_store::keys::IdempotencyKey;
use slateberg_store::records::{
    AllowedBy, Change, ChangeAction, ChangedResource, IdempotencyRecord, MutationOutcome,
};
use slateberg_store::txn::RequestRecords;

/// An entry of the change log: the change of one resource.
pub(crate) struct Entry<'a> {
    /// Kind of the change.
    pub(crate) action: ChangeAction,
    /// The id of the warehouse, or nil for a resource outside of warehouses.
    pub(crate) warehouse: Uuid,
    /// The id of the resource.
    pub(crate) subject: Uuid,
    /// The name of the resource after the change.
    pub(crate) name: &'a (dyn std::fmt::Display + Sync),
    /// Versions of the record before and after the change. `None` if there is no record, or if the
    /// record has no version.
    pub(crate) versions: (Option<u64>, Option<u64>),
    /// The decision that allowed the change. `None` if no policy was evaluated.
    pub(crate) decision: Option<&'a Decision>,
    /// The resource as readers of the change feed see it. `None` if it is not a warehouse,
    /// namespace, table or view.
    pub(crate) resource: Option<ChangedResource>,
}

impl Pipeline {
    /// Returns the records of a request that changes one resource. `entry` is `None` if the request
    /// has no effect.
    pub(crate) fn records(
        &self,
        operation: &Operation,
        entry: Option<Entry<'_>>,
        response: &impl Response,
    ) -> Result<RequestRecords> {
        self.records_of_all(operation, entry, response)
    }

    /// Returns the records of a request that changes several resources.
    pub(crate) fn records_of_all<'a>(
        &self,
        operation: &Operation,
        entries: impl IntoIterator<Item = Entry<'a>>,
        response: &impl Response,
    ) -> Result<RequestRecords> {
        let response = match &operation.idempotency {
            Some(idempotency) => {
                let publications = response.publications();
                let record = self.idempotency_record(idempotency, response.outcome()?);
                let record = IdempotencyRecord { publications, ..record };
                Some((idempotency_key(operation, idempotency), record))
            }
            None => None,
        };
        let mut changes = entries.into_iter().map(|entry| self.change(operation, entry));
        Ok(match changes.next() {
            Some(first) => RequestRecords::of_changes(first, changes, response),
            None => RequestRecords::without_change(response),
        })
    }

    fn change(&self, operation: &Operation, entry: Entry<'_>) -> Change {
        Change {
            at_ms: self.clock.now_ms(),
            action: entry.action.into(),
            principal: operation.principal.id().to_owned(),
            warehouse: entry.warehouse,
            subject: entry.subject,
            name: entry.name.to_string(),
            version_before: entry.versions.0,
            version_after: entry.versions.1,
            allowed: entry.decision.map(AllowedBy::from),
            origin: Some(operation.origin()),
            resource: entry.resource,
            group: None,
        }
    }

    pub(super) fn idempotency_record(
        &self,
        idempotency: &Idempotency,
        outcome: MutationOutcome,
    ) -> IdempotencyRecord {
        let lifetime = i64::try_from(self.idempotency_lifetime.as_millis()).unwrap_or(i64::MAX);
        IdempotencyRecord {
            fingerprint: idempotency.fingerprint.clone(),
            outcome,
            publications: Vec::new(),
            expires_ms: self.clock.now_ms().saturating_add(lifetime),
        }
    }
}

/// Returns the key of the idempotency record of a request.
pub(super) fn idempotency_key(operation: &Operation, idempotency: &Idempotency) -> IdempotencyKey {
    IdempotencyKey { key: idempotency.key, principal: operation.principal.id().to_owned() }
}
