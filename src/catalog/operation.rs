//! One request, as the use cases see it: who asks, and under which `Idempotency-Key`.

use uuid::Uuid;

pub use crate::authz::context::Context;
use crate::model::principal::Principal;
use crate::store::records::Origin;

/// What a use case knows of the request that it runs for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Who asks.
    pub principal: Principal,
    /// Under which circumstances.
    pub context: Context,
    /// The request's `X-Request-Id`: the client's, or ours.
    pub request_id: Option<String>,
    /// The request's `Idempotency-Key`, if it has one.
    pub idempotency: Option<Idempotency>,
}

/// An `Idempotency-Key`, and the request that it came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The header's value.
    pub key: Uuid,
    /// SHA-256 over method, path and body, in hexadecimal.
    pub fingerprint: String,
}

impl Operation {
    /// A request by nobody in particular.
    pub fn anonymous() -> Self {
        Self::by(Principal::Anonymous, Context::default())
    }

    /// A request by this principal.
    pub fn by(principal: Principal, context: Context) -> Self {
        Self { principal, context, request_id: None, idempotency: None }
    }

    /// Where the request comes from, for the change log and the audit log.
    pub fn origin(&self) -> Origin {
        let method = match &self.principal {
            Principal::Identified(identity) => Some(identity.method.word().to_owned()),
            Principal::Anonymous | Principal::Task(_) => None,
        };
        Origin {
            method,
            source_address: self.context.source_address.map(|address| address.to_string()),
            request_id: self.request_id.clone(),
        }
    }

    /// Whom what is made belongs to; nobody where nobody is known.
    pub(super) fn owner(&self) -> Option<String> {
        match &self.principal {
            Principal::Identified(identity) => Some(identity.id.clone()),
            Principal::Anonymous | Principal::Task(_) => None,
        }
    }
}
