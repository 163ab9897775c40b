//! Denials: the responses to callers without permission, and their lines in the logs.

use std::net::IpAddr;

use serde::Serialize;

use super::{Error, Operation};
use crate::access::Access;
use slateberg_authz::decide::Denied;
use slateberg_authz::resource::Resource;
use slateberg_model::members::brief;
use slateberg_model::principal::{Identity, IdentityKind, Principal};
use slateberg_store::audit::{Denial, DenialResponse};
use slateberg_telemetry::audit::AuditError;

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RejectedCredential<'a> {
    reason: &'a str,
    source_address: Option<IpAddr>,
    request_id: &'a str,
}

impl Access {
    /// Records a denial and returns the error for the caller. If the caller may see the resource,
    /// `absent` is `None` and the error is `Forbidden`. Otherwise, `absent` is the error for a
    /// missing resource, and this function returns `absent`.
    pub(super) fn refuse(
        &self,
        operation: &Operation,
        denied: &Denied,
        resource: &Resource,
        absent: Option<Error>,
    ) -> Error {
        let absent = absent.map(|error| self.without_permissions(operation, error));
        let hidden = absent.as_ref().is_some_and(|error| !matches!(error, Error::Forbidden(_)));
        let answer = if hidden { DenialResponse::Hidden } else { DenialResponse::Forbidden };
        if self.environment.store().audit().is_on() {
            let (principal, origin) = (&operation.principal, &operation.origin());
            let denial = Denial::of(answer, denied, resource, principal, origin);
            self.environment.store().audit_denial(self.environment.now_ms(), &denial);
        }
        absent.unwrap_or_else(|| {
            let action = format!("Not allowed: {} on {}", denied.action, brief(resource));
            self.without_permissions(operation, Error::Forbidden(action))
        })
    }

    /// Returns `error`, or a special error if no policy permits anything to the caller. For such a
    /// caller, "Warehouse does not exist" would be misleading. The special error replaces
    /// `Forbidden` as well, so that the caller cannot distinguish existing from missing warehouses.
    pub(super) fn without_permissions(&self, operation: &Operation, error: Error) -> Error {
        let Principal::Identified(identity) = &operation.principal else { return error };
        let replaced = matches!(error, Error::NoSuchWarehouse(_) | Error::Forbidden(_));
        if !replaced || !self.authority.policies().permits_nothing_to(identity) {
            return error;
        }
        self.denial_log.write(operation, identity);
        Error::Forbidden(no_permissions(identity))
    }

    /// Reopens the file of the audit log.
    pub fn reopen_audit(&self) -> Result<(), AuditError> {
        self.environment.store().audit().reopen()
    }

    /// Records an invalid credential in the audit log.
    pub fn audit_rejected_credential(
        &self,
        source_address: Option<IpAddr>,
        request_id: &str,
        reason: &str,
    ) {
        let line = RejectedCredential { reason, source_address, request_id };
        self.environment.store().audit().write(
            self.environment.now_ms(),
            "refused-credential",
            &line,
        );
    }
}

/// Returns the message to a caller without any permission.
fn no_permissions(identity: &Identity) -> String {
    let Identity { kind, id, name, roles, .. } = identity;
    let grantee = match kind {
        IdentityKind::User => "user",
        IdentityKind::ServiceAccount => "service-account",
    };
    let roles = if roles.is_empty() {
        "it has no role and no grant".to_owned()
    } else {
        let names: Vec<_> = roles.iter().map(String::as_str).collect();
        let names = brief(names.join(", "));
        format!("no policy permits anything to its roles ({names}), and it has no grant")
    };
    format!(
        "Not allowed: this credential, {} ({id}), has no permissions in this catalog: {roles}. \
         An administrator can grant some, such as: slateberg grant read --to {grantee}:{id} \
         --on warehouse:NAME",
        brief(name)
    )
}
