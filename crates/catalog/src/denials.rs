//! Denials: the responses to callers without permission, and their lines in the logs.

use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use serde::Serialize;

use super::{Catalog, Error, Operation};
use slateberg_authz::decide::Denied;
use slateberg_authz::resource::Resource;
use slateberg_model::members::brief;
use slateberg_model::principal::{Identity, IdentityKind, Principal};
use slateberg_store::audit::{Answer, Denial};
use slateberg_telemetry::audit::AuditError;

/// Interval between two log lines about credentials without permissions.
const NOTICE_INTERVAL_MS: i64 = 1_000;

/// Limits the log lines about credentials without permissions.
#[derive(Default)]
pub(super) struct Notices {
    last_ms: AtomicI64,
    suppressed: AtomicU64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RefusedCredential<'a> {
    reason: &'a str,
    source_address: Option<IpAddr>,
    request_id: &'a str,
}

impl Catalog {
    /// Records a denial and returns the error for the caller: `absent`, which is that of a thing that does
    /// not exist, if the caller may not see the thing, or else that the action is forbidden.
    pub(super) fn refuse(
        &self,
        operation: &Operation,
        denied: &Denied,
        resource: &Resource,
        absent: Option<Error>,
    ) -> Error {
        let absent = absent.map(|error| self.without_permissions(operation, error));
        let hidden = absent.as_ref().is_some_and(|error| !matches!(error, Error::Forbidden(_)));
        let answer = if hidden { Answer::Hidden } else { Answer::Forbidden };
        if self.store().audit().is_on() {
            let (principal, origin) = (&operation.principal, &operation.origin());
            let denial = Denial::of(answer, denied, resource, principal, origin);
            self.store().audit_denial(self.now_ms(), &denial);
        }
        absent.unwrap_or_else(|| {
            let action = format!("Not allowed: {} on {}", denied.action, brief(resource));
            self.without_permissions(operation, Error::Forbidden(action))
        })
    }

    /// Returns `error`, unless no policy permits anything to the caller. Such a caller learns exactly that:
    /// "Warehouse does not exist" would send its operator to the wrong place. Existing warehouses must be
    /// reported in the same way as absent ones, so this applies to the errors of both.
    pub(super) fn without_permissions(&self, operation: &Operation, error: Error) -> Error {
        let Principal::Identified(identity) = &operation.principal else { return error };
        let replaced = matches!(error, Error::NoSuchWarehouse(_) | Error::Forbidden(_));
        if !replaced || !self.inner.parts.authority.policies().permits_nothing_to(identity) {
            return error;
        }
        self.inner.notices.log(self.now_ms(), operation, identity);
        Error::Forbidden(no_permissions(identity))
    }

    /// Opens the file of the audit log anew.
    pub fn reopen_audit(&self) -> Result<(), AuditError> {
        self.store().audit().reopen()
    }

    /// Records an invalid credential in the audit log.
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

impl Notices {
    fn log(&self, now_ms: i64, operation: &Operation, identity: &Identity) {
        let last_ms = self.last_ms.load(Ordering::Relaxed);
        let due = now_ms.saturating_sub(last_ms) >= NOTICE_INTERVAL_MS || now_ms < last_ms;
        let order = Ordering::Relaxed;
        if !due || self.last_ms.compare_exchange(last_ms, now_ms, order, order).is_err() {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let suppressed = self.suppressed.swap(0, Ordering::Relaxed);
        let Identity { id, name, roles, .. } = identity;
        let source = operation.context.source_address.map(tracing::field::display);
        tracing::info!(
            principal = id,
            name,
            ?roles,
            source,
            suppressed,
            "request denied: no policy permits anything to this credential"
        );
    }
}

/// The message to a caller to whom no policy permits anything.
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
