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
    /// The answer to somebody who may not do something: that it is forbidden, or, to whoever may not even see
    /// the thing, what is said of one that is not there.
    pub(super) fn refuse(
        &self,
        operation: &Operation,
        denied: &Denied,
        resource: &Resource,
        absent: Option<Error>,
    ) -> Error {
        let answer = if absent.is_some() { Answer::Hidden } else { Answer::Forbidden };
        if self.store().audit().is_on() {
            let (principal, origin) = (&operation.principal, &operation.origin());
            let denial = Denial::of(answer, denied, resource, principal, origin);
            self.store().audit_denial(self.now_ms(), &denial);
        }
        absent.unwrap_or_else(|| {
            Error::Forbidden(format!("Not allowed: {} on {}", denied.action, brief(resource)))
        })
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
}
