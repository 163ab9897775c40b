//! Writes the lines of the audit log: one for each change when its outcome is known, and one for
//! each denied request.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use uuid::Uuid;

use super::handle::Store;
use super::records::{AllowedBy, Change, Origin};
use slateberg_authz::decide::Denied;
use slateberg_authz::resource::Resource;
use slateberg_model::members::brief;
use slateberg_model::principal::Principal;
use slateberg_telemetry::audit::AuditLog;

/// Outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChangeOutcome {
    /// The change is durable.
    Done,
    /// The change may or may not have happened.
    Unknown,
}

/// An audit log line of a change.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ChangeLine<'a> {
    outcome: ChangeOutcome,
    action: &'a str,
    principal: &'a str,
    #[serde(flatten)]
    origin: &'a Option<Origin>,
    #[serde(skip_serializing_if = "Uuid::is_nil")]
    warehouse: Uuid,
    subject: Uuid,
    name: &'a str,
    version_before: Option<u64>,
    version_after: Option<u64>,
    #[serde(flatten)]
    allowed: &'a Option<AllowedBy>,
}

/// An audit log line of a denial.
#[derive(Debug, Serialize)]
pub struct Denial<'a> {
    /// The response of the server.
    pub answer: DenialResponse,
    /// The denied action.
    pub action: &'a str,
    /// The resource, in the notation of policies.
    pub resource: String,
    /// The principal.
    pub principal: &'a str,
    /// Origin of the request.
    #[serde(flatten)]
    pub origin: &'a Origin,
    /// Revision of the evaluated policies.
    pub revision: Option<String>,
    /// Ids of the policies that forbid the request. Empty if the request was denied because no
    /// permit policy matches it.
    pub policies: &'a [String],
}

impl<'a> Denial<'a> {
    /// Creates the line of a denial.
    pub fn of(
        answer: DenialResponse,
        denied: &'a Denied,
        resource: &Resource,
        principal: &'a Principal,
        origin: &'a Origin,
    ) -> Self {
        let decision = denied.decision.as_deref();
        Self {
            answer,
            action: denied.action,
            resource: brief(resource),
            principal: principal.id(),
            origin,
            revision: decision.map(|decision| decision.revision.to_string()),
            policies: decision.map_or(&[], |decision| &decision.policies),
        }
    }
}

/// Response to a denied request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DenialResponse {
    /// The response states that the request is forbidden.
    Forbidden,
    /// The response pretends that the resource does not exist.
    Hidden,
}

impl Store {
    /// Writes a denial to the audit log.
    pub fn audit_denial(&self, at_ms: i64, denial: &Denial<'_>) {
        self.audit.write(at_ms, "denial", denial);
    }
}

/// Changes whose outcome is not in the audit log yet. If this value is dropped before `record` or
/// `discard` was called, the audit log reports an unknown outcome for the changes.
pub(super) struct UnauditedChanges {
    audit: Arc<AuditLog>,
    changes: Mutex<Option<Arc<[Arc<Change>]>>>,
}

impl UnauditedChanges {
    pub(super) fn new(audit: Arc<AuditLog>, changes: Option<Arc<[Arc<Change>]>>) -> Self {
        let changes = changes.filter(|_| audit.is_on());
        Self { audit, changes: Mutex::new(changes) }
    }

    /// Writes a line with this outcome for each change.
    pub(super) fn record(&self, outcome: ChangeOutcome) {
        for change in self.take().iter().flat_map(|changes| changes.iter()) {
            let line = ChangeLine {
                outcome,
                action: change.action.as_str(),
                principal: &change.principal,
                origin: &change.origin,
                warehouse: change.warehouse,
                subject: change.subject,
                name: &change.name,
                version_before: change.version_before,
                version_after: change.version_after,
                allowed: &change.allowed,
            };
            self.audit.write(change.at_ms, "change", &line);
        }
    }

    /// Drops the changes without writing a line, because they did not happen.
    pub(super) fn discard(&self) {
        self.take();
    }

    fn take(&self) -> Option<Arc<[Arc<Change>]>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for UnauditedChanges {
    fn drop(&mut self) {
        self.record(ChangeOutcome::Unknown);
    }
}
