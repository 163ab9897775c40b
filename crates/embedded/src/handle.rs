//! The handle of an open catalog: where its calls are done, as whom, and under which key.

use std::sync::Arc;

use tracing::field::display;
use uuid::Uuid;

use super::asked::Asked;
use super::call::{Call, Named, named, told};
use super::house::House;
#[cfg(feature = "iceberg")]
use super::iceberg_catalog::IcebergCatalog;
use super::{Identity, Result, StoreError};
use slateberg_catalog::operation::{Context, Idempotency};
use slateberg_catalog::{Operation, RequestContext};
use slateberg_model::principal::{Method, Principal};
use slateberg_model::warehouse::Warehouse;

/// An open catalog in this process: one warehouse of it, for one principal. Cheap to clone; all clones
/// share the one open catalog.
///
/// Once the last one is dropped without [`EmbeddedCatalog::close`], the catalog closes by itself, as far as
/// the runtime gets to it. A runtime that ends first leaves it as a killed server does: what was answered is
/// durable, and the next opening finishes the rest.
#[derive(Debug, Clone)]
pub struct EmbeddedCatalog {
    house: Arc<House>,
    /// Its name; the default one if there is none.
    warehouse: Option<String>,
    identity: Arc<Identity>,
    /// Under which key changes are made, if they are.
    key: Option<Uuid>,
}

impl EmbeddedCatalog {
    pub(super) fn new(house: Arc<House>, warehouse: Option<String>, identity: Identity) -> Self {
        Self { house, warehouse, identity: embedded(identity), key: None }
    }

    /// The same catalog for another principal. Its policies decide what that may do; how it would have
    /// proven who it is makes no difference, as `embedded` is said of all.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { identity: embedded(identity), ..self.clone() }
    }

    /// The same catalog in another warehouse. Whether there is one is seen by the first call.
    #[must_use]
    pub fn in_warehouse(&self, name: impl Into<String>) -> Self {
        Self { warehouse: Some(name.into()), ..self.clone() }
    }

    /// The same catalog for one change that is made at most once, whoever repeats it with this key, as with
    /// an `Idempotency-Key` over HTTP: within `catalog.idempotency_lifetime_seconds`, by this principal. The
    /// same change again is answered the same again, also by a later version of slateberg; another one is
    /// refused as [`Unprocessable`](super::Error::Unprocessable), and so is a request over HTTP with the key
    /// of a call.
    #[must_use]
    pub fn once(&self, key: Uuid) -> Self {
        Self { key: Some(key), ..self.clone() }
    }

    /// The same catalog for engines that know `iceberg::Catalog`.
    #[cfg(feature = "iceberg")]
    pub fn as_iceberg(&self) -> IcebergCatalog {
        IcebergCatalog::new(self.clone())
    }

    /// Closes the catalog for all handles, in order: background tasks end, what was accepted is durable, and
    /// the directory is free. Calls that are under way had better end first. To close what is closed already
    /// does nothing.
    ///
    /// Fails if the store does not close in order, or has shut before; what was answered is durable all the
    /// same.
    pub async fn close(&self) -> std::result::Result<(), StoreError> {
        Arc::clone(&self.house).close().await
    }

    /// Returns when the store has shut: somebody has closed the catalog, another writer has taken its store
    /// over, or it failed. From then on, every call is answered
    /// [`Unavailable`](super::Error::Unavailable).
    pub async fn closed(&self) -> StoreError {
        self.house.catalog.store_closed().await
    }

    /// Whether the catalog has been closed.
    #[cfg(feature = "iceberg")]
    pub(super) fn is_closed(&self) -> bool {
        self.house.catalog.check_open().is_err()
    }

    /// The warehouse that this handle is in, if its principal may see it.
    pub fn warehouse(&self) -> Result<Arc<Warehouse>> {
        Ok(self.reading(named!("warehouse"))?.cx.warehouse)
    }

    /// A call that only reads.
    pub(super) fn reading(&self, named: Named) -> Result<Call<'_>> {
        let Named { span, .. } = named;
        let principal = Principal::Identified(Arc::clone(&self.identity));
        let catalog = &self.house.catalog;
        let context = Context { now_ms: catalog.now_ms(), ..Context::default() };
        let request_id = self.house.next_request_id();
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
            Err(error) => Err(told(&operation, &span, error)),
        }
    }

    /// A call that changes something. A key belongs to the call's name, its warehouse and what it asks for.
    pub(super) fn changing(&self, named: Named, asked: impl FnOnce() -> Asked) -> Result<Call<'_>> {
        let name = named.name;
        let call = self.reading(named)?;
        let idempotency = self.key.map(|key| {
            let fingerprint = asked().fingerprint(name, &call.cx.warehouse.name);
            Idempotency { key, fingerprint }
        });
        let operation = Operation { idempotency, ..call.cx.operation };
        Ok(Call { cx: RequestContext { operation, ..call.cx }, ..call })
    }
}

/// A principal of whom nobody says that it has proven anything.
fn embedded(identity: Identity) -> Arc<Identity> {
    Arc::new(Identity { method: Method::Embedded, ..identity })
}
