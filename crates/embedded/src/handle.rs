//! The handle of an open catalog: its warehouse, principal and idempotency key.

use std::sync::Arc;

use tracing::field::display;
use uuid::Uuid;

use super::call::{Call, NamedCall, named, record_failure};
use super::fingerprint::RequestMembers;
use super::shared::SharedCatalog;
use super::{Identity, Result, StoreError};
use slateberg_catalog::operation::{Context, Idempotency};
use slateberg_catalog::{Operation, RequestContext};
use slateberg_model::principal::{Method, Principal};
use slateberg_model::warehouse::Warehouse;

/// An open catalog in this process: a handle for one warehouse and one principal. Cheap to clone;
/// all clones share the open catalog.
///
/// If the last handle is dropped without [`EmbeddedCatalog::close`], the catalog closes itself in
/// the background. If the Tokio runtime ends before that, the effect is the same as if a server is
/// killed: acknowledged changes are durable, and the next opening writes the missing metadata
/// files.
#[derive(Debug, Clone)]
pub struct EmbeddedCatalog {
    shared: Arc<SharedCatalog>,
    /// The name of the warehouse. `None` for the default warehouse.
    warehouse: Option<String>,
    identity: Arc<Identity>,
    /// The idempotency key of changes, if any.
    key: Option<Uuid>,
}

impl EmbeddedCatalog {
    pub(super) fn new(
        shared: Arc<SharedCatalog>,
        warehouse: Option<String>,
        identity: Identity,
    ) -> Self {
        Self { shared, warehouse, identity: embedded(identity), key: None }
    }

    /// Returns a handle for another principal. Policies decide what this principal may do. The
    /// authentication method is always `embedded`, whatever `identity` contains.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { identity: embedded(identity), ..self.clone() }
    }

    /// Returns a handle for another warehouse. The first call fails if the warehouse does not
    /// exist.
    #[must_use]
    pub fn in_warehouse(&self, name: impl Into<String>) -> Self {
        Self { warehouse: Some(name.into()), ..self.clone() }
    }

    /// Returns a handle with an idempotency key for one change, like an `Idempotency-Key` over
    /// HTTP. The catalog applies the change at most once. The key is valid only for this principal,
    /// and expires after `catalog.idempotency_lifetime_seconds`. If the host repeats the change
    /// with the key, it gets the same result, even after an upgrade of slateberg. A different
    /// change or an HTTP request with the same key is rejected as
    /// [`Unprocessable`](super::Error::Unprocessable).
    #[must_use]
    pub fn once(&self, key: Uuid) -> Self {
        Self { key: Some(key), ..self.clone() }
    }

    /// Closes the catalog for all handles: background tasks end, accepted changes become durable,
    /// and the directory is unlocked. Active calls should end first. Closing a closed catalog does
    /// nothing.
    ///
    /// Errors if the store does not close cleanly, or if it has already closed because of a
    /// failure. In both cases, acknowledged changes are durable.
    pub async fn close(&self) -> std::result::Result<(), StoreError> {
        Arc::clone(&self.shared).close().await
    }

    /// Waits until the store has closed, because the host has closed the catalog, another writer
    /// has fenced the store, or the store has failed. Every later call fails with
    /// [`Unavailable`](super::Error::Unavailable).
    pub async fn closed(&self) -> StoreError {
        self.shared.catalog.store_closed().await
    }

    /// Whether the catalog has been closed.
    #[cfg(feature = "iceberg")]
    pub(super) fn is_closed(&self) -> bool {
        self.shared.catalog.check_open().is_err()
    }

    /// Returns the handle's warehouse, if the principal may see it.
    pub fn warehouse(&self) -> Result<Arc<Warehouse>> {
        Ok(self.reading(named!("warehouse"))?.cx.warehouse)
    }

    /// Begins a call that only reads.
    pub(super) fn reading(&self, named: NamedCall) -> Result<Call<'_>> {
        let NamedCall { span, .. } = named;
        let principal = Principal::Identified(Arc::clone(&self.identity));
        let catalog = &self.shared.catalog;
        let context = Context { now_ms: catalog.now_ms(), ..Context::default() };
        let request_id = self.shared.next_request_id();
        span.record("slateberg.request_id", display(&request_id));
        let operation =
            Operation { request_id: Some(request_id), ..Operation::by(principal, context) };
        let found = span
            .in_scope(|| catalog.warehouses().warehouse_for(&operation, self.warehouse.as_deref()));
        match found {
            Ok(warehouse) => {
                span.record("slateberg.warehouse", warehouse.name.as_str());
                Ok(Call { catalog, cx: RequestContext::new(operation, warehouse), span })
            }
            Err(error) => Err(record_failure(&operation, &span, error)),
        }
    }

    /// Begins a call that changes something. Binds the idempotency key to the call's name,
    /// warehouse and arguments.
    pub(super) fn changing(
        &self,
        named: NamedCall,
        members: impl FnOnce() -> RequestMembers,
    ) -> Result<Call<'_>> {
        let name = named.name;
        let call = self.reading(named)?;
        let idempotency = self.key.map(|key| {
            let fingerprint = members().fingerprint(name, &call.cx.warehouse.name);
            Idempotency { key, fingerprint }
        });
        let operation = Operation { idempotency, ..call.cx.operation };
        Ok(Call { cx: RequestContext { operation, ..call.cx }, ..call })
    }
}

/// Sets the authentication method to `embedded`, because the host vouches for the identity.
fn embedded(identity: Identity) -> Arc<Identity> {
    Arc::new(Identity { method: Method::Embedded, ..identity })
}
