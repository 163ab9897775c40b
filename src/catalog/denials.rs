//! Denials: what is answered to whoever may not do something, and what the audit log is told of it.

use std::net::IpAddr;

use serde::Serialize;

use super::{Catalog, Error, Operation};
use crate::authz::decide::Denied;
use crate::authz::resource::Resource;
use crate::model::members::brief;
use crate::store::audit::{Answer, Denial};
use crate::telemetry::audit::AuditError;

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RefusedCredential<'a> {
    reason: &'a str,
    source_address: Option<IpAddr>,
    request_id: &'a str,
}

impl Catalog {
    /// The answer to somebody who sees a thing and may not do this to it.
    pub(super) fn deny(
        &self,
        operation: &Operation,
        denied: &Denied,
        resource: &Resource,
    ) -> Error {
        self.audit_denial(operation, denied, resource, Answer::Forbidden);
        Error::Forbidden(format!("Not allowed: {} on {}", denied.action, brief(resource)))
    }

    /// The answer to somebody who may not see a thing: what is said of one that is not there.
    pub(super) fn deny_as_absent(
        &self,
        operation: &Operation,
        denied: &Denied,
        resource: &Resource,
        absent: Error,
    ) -> Error {
        self.audit_denial(operation, denied, resource, Answer::Hidden);
        absent
    }

    /// Opens the file of the audit log anew.
    pub fn reopen_audit(&self) -> Result<(), AuditError> {
        self.store().audit().reopen()
    }

    /// Tells the audit log of a credential that was not good.
    pub fn audit_refused_credential(
        &self,
        source_address: Option<IpAddr>,
        request_id: &str,
        reason: &str,
    ) {
        let line = RefusedCredential { reason, source_address, request_id };
        self.store().audit().write(self.now_ms(), "refused-credential", &line);
    }

    fn audit_denial(
        &self,
        operation: &Operation,
        denied: &Denied,
        resource: &Resource,
        answer: Answer,
    ) {
        if !self.store().audit().is_on() {
            return;
        }
        let decision = denied.decision.as_deref();
        let denial = Denial {
            answer,
            action: denied.action,
            resource: brief(resource),
            principal: operation.principal.id(),
            origin: &operation.origin(),
            revision: decision.map(|decision| decision.revision.to_string()),
            policies: decision.map_or(&[], |decision| &decision.policies),
        };
        self.store().audit_denial(self.now_ms(), &denial);
    }
}
