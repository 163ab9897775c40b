//! The warehouses of the catalog. The configuration defines some of them. Others are created,
//! changed and deleted at run time.
//!
//! The served warehouses are one set ([`served_warehouses`]), which a change replaces as a whole. A
//! change:
//! 1. is evaluated, and the location of the warehouse is probed. The change does this before it
//!    takes the lock, because object stores are slow;
//! 2. waits for the lock on warehouse changes, and is evaluated again ([`change`]);
//! 3. is written, together with its entry in the change log, in one transaction. The transaction of
//!    a deletion scans for contents of the warehouse. A transaction that creates something in the
//!    warehouse reads the record of the warehouse. So a deletion and a concurrent creation
//!    conflict;
//! 4. takes effect when it is durable, and before the response is sent.
//!
//! After a failure in step 3, the change holds the lock until the server has read the record from
//! the store and serves the warehouse accordingly. [`listing`] lists the warehouses.

pub mod change;
mod check;
pub mod listing;
mod reconcile;
pub(crate) mod registry;
pub mod served_warehouses;

use std::sync::Arc;

use served_warehouses::{Entry, ServedWarehouses};

use super::core::Core;
use super::serial_lock::SerialLock;
use super::{Error, Operation, Result};
use slateberg_authz::action::ReadConfig;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::stores::Stores;

/// The warehouses, for requests. Cheap to clone.
#[derive(Clone)]
pub struct Warehouses {
    core: Arc<Core>,
    stores: Stores,
    turns: SerialLock,
}

impl Warehouses {
    pub(crate) fn new(core: &Arc<Core>, stores: Stores) -> Self {
        Self { core: Arc::clone(core), stores, turns: SerialLock::default() }
    }

    /// Returns the current set of warehouses.
    pub fn served(&self) -> Arc<ServedWarehouses> {
        self.core.warehouses()
    }
}

impl Warehouses {
    /// Returns the warehouse that a client requests in `GET /v1/config`.
    pub fn configured_warehouse(
        &self,
        operation: &Operation,
        requested: Option<&str>,
    ) -> Result<Arc<Warehouse>> {
        let served_warehouses = self.core.warehouses();
        let entry = served_warehouses.by_client_name(requested);
        let entry =
            entry.map_err(|absent| self.core.access.without_permissions(operation, absent))?;
        let requested = requested.filter(|requested| !requested.is_empty());
        self.usable(operation, entry, requested)
    }

    /// Returns the warehouse of a path prefix. `None` for the default warehouse. Callers that may
    /// not see the warehouse get the error for a missing warehouse, even if they have permissions
    /// on its contents.
    pub fn warehouse_for(
        &self,
        operation: &Operation,
        prefix: Option<&str>,
    ) -> Result<Arc<Warehouse>> {
        let served_warehouses = self.core.environment.warehouses.peek();
        let entry = served_warehouses.find(prefix);
        let entry =
            entry.map_err(|absent| self.core.access.without_permissions(operation, absent))?;
        self.usable(operation, entry, prefix)
    }

    /// Returns a warehouse if the caller may see it and its stores are open.
    fn usable(
        &self,
        operation: &Operation,
        entry: &Entry,
        requested: Option<&str>,
    ) -> Result<Arc<Warehouse>> {
        let Entry { warehouse, shut, .. } = entry;
        let requested = requested.unwrap_or("default");
        let _permit =
            self.core.access.permit_warehouse::<ReadConfig>(operation, warehouse, requested)?;
        match shut {
            None => Ok(Arc::clone(warehouse)),
            Some(reason) => {
                Err(Error::unavailable("The warehouse's object store cannot be opened", &**reason))
            }
        }
    }
}
