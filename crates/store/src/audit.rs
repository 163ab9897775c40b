//! From the store to the audit log: a line for each change, once it is known how it ended, and for what was
//! denied.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use uuid::Uuid;

use super::handle::Store;
use super::records::{Allowed, Change, Origin};
use slateberg_authz::decide::Denied;
use slateberg_authz::resource::Resource;
use slateberg_model::members::brief;
use slateberg_model::principal::Principal;
use slateberg_telemetry::audit::AuditLog;

/// How a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// It is durable.
    Done,
    /// It may have happened or not.
    Unknown,
}

/// A line.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Changed<'a> {
    outcome: Outcome,
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
    allowed: &'a Option<Allowed>,
}

/// A line of a denial.
#[derive(Debug, Serialize)]
pub struct Denial<'a> {
    /// What the asker was told.
    pub answer: Answer,
    /// What is not allowed.
    pub action: &'a str,
    /// To what, as policies write it.
    pub resource: String,
    /// To whom.
    pub principal: &'a str,
    /// Where the request came from.
    #[serde(flatten)]
    pub origin: &'a Origin,
    /// The revision of the policies that were asked.
    pub revision: Option<String>,
    /// The policies that forbid it; none if no policy permits it.
    pub policies: &'a [String],
}

impl<'a> Denial<'a> {
    /// What there is to tell of a decision against somebody.
    pub fn of(
        answer: Answer,
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

/// What is told to somebody who may not do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// That it is forbidden.
    Forbidden,
    /// That what it is to be done to is not there.
    Hidden,
}

impl Store {
    /// Tells the audit log of a denial.
    pub fn audit_denial(&self, at_ms: i64, denial: &Denial<'_>) {
        self.audit.write(at_ms, "denial", denial);
    }
}

/// Changes of which the audit log does not know yet how they ended. Those that are given up have an unknown
/// end.
pub(super) struct Unaudited {
    audit: Arc<AuditLog>,
    changes: Mutex<Vec<Change>>,
}

impl Unaudited {
    pub(super) fn new(audit: Arc<AuditLog>, changes: Vec<Change>) -> Self {
        Self { audit, changes: Mutex::new(changes) }
    }

    /// Writes a line for each.
    pub(super) fn end(&self, outcome: Outcome) {
        for change in self.take() {
            let line = Changed {
                outcome,
                action: &change.action,
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

    /// Writes nothing: there was no change.
    pub(super) fn forget(&self) {
        self.take();
    }

    fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Unaudited {
    fn drop(&mut self) {
        self.end(Outcome::Unknown);
    }
}
