//! [`Operation`]: one request in the form that the operations of the catalog use, with its
//! principal and its `Idempotency-Key`.

use std::fmt;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

pub use slateberg_authz::context::Context;
use slateberg_model::principal::Principal;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::records::Origin;

/// A request in the form that the operations of the catalog use.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The caller.
    pub principal: Principal,
    /// The context that policies evaluate.
    pub context: Context,
    /// The request's `X-Request-Id`, from the client or generated.
    pub request_id: Option<RequestId>,
    /// The request's `Idempotency-Key`, if it has one.
    pub idempotency: Option<Idempotency>,
    /// The memory that is reserved for the body. It stays reserved until the mutation ends, even if
    /// the client disconnects earlier.
    pub room: Option<Arc<OwnedSemaphorePermit>>,
}

/// A request in a warehouse.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// The request and its caller.
    pub operation: Operation,
    /// The warehouse in the path of the request. The caller may see it.
    pub warehouse: Arc<Warehouse>,
}

impl RequestContext {
    /// Binds a request to its warehouse.
    pub fn new(operation: Operation, warehouse: Arc<Warehouse>) -> Self {
        Self { operation, warehouse }
    }
}

/// A request that changes the catalog, with or without a warehouse.
pub(crate) trait Request: Clone + Send + Sync + 'static {
    /// Returns the request and its caller.
    fn operation(&self) -> &Operation;
}

impl Request for Operation {
    fn operation(&self) -> &Operation {
        self
    }
}

impl Request for RequestContext {
    fn operation(&self) -> &Operation {
        &self.operation
    }
}

/// Id of a request in the logs of client and server, in printable ASCII. The id is stored
/// unformatted to avoid the allocation of a string. Most requests need the string only once, in a
/// response header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestId {
    /// The id that the client sent.
    Given(Box<str>),
    /// The id that the server assigned, because the client sent none.
    Numbered {
        /// The run of the server.
        run: Uuid,
        /// The sequence number of the request in this run.
        number: u64,
    },
}

/// An `Idempotency-Key`, and the fingerprint of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The header's value.
    pub key: Uuid,
    /// SHA-256 of method, path and body, in hexadecimal.
    pub fingerprint: String,
}

impl Operation {
    /// Returns an anonymous request.
    pub fn anonymous() -> Self {
        Self::by(Principal::Anonymous, Context::default())
    }

    /// Returns a request by this principal.
    pub fn by(principal: Principal, context: Context) -> Self {
        Self { principal, context, request_id: None, idempotency: None, room: None }
    }

    /// Returns the origin of the request, for the change log and the audit log.
    pub fn origin(&self) -> Origin {
        let identity = match &self.principal {
            Principal::Identified(identity) => Some(identity),
            Principal::Anonymous | Principal::Task(_) => None,
        };
        Origin {
            principal_name: identity.map(|identity| identity.name.clone()),
            method: identity.map(|identity| identity.method.name().to_owned()),
            source_address: self.context.source_address.map(|address| address.to_string()),
            request_id: self.request_id.as_ref().map(ToString::to_string),
        }
    }

    /// Returns the owner of resources that the request creates. `None` for anonymous requests and
    /// tasks.
    pub(super) fn owner(&self) -> Option<String> {
        match &self.principal {
            Principal::Identified(identity) => Some(identity.id.clone()),
            Principal::Anonymous | Principal::Task(_) => None,
        }
    }
}

impl RequestId {
    /// Maximum size of an id that a client sends, in bytes.
    const GIVEN_BYTES_MAX: usize = 128;

    /// Returns the id that a client sent, if it is safe to log.
    pub fn given(name: &[u8]) -> Option<Self> {
        let lengths = 1..=Self::GIVEN_BYTES_MAX;
        let fit = lengths.contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
        let name = fit.then(|| std::str::from_utf8(name).ok()).flatten()?;
        Some(Self::Given(name.into()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(name) => f.write_str(name),
            Self::Numbered { run, number } => write!(f, "{}-{number:x}", run.simple()),
        }
    }
}
