//! The warehouses of the catalog: those in the configuration, and those that are created, changed
//! and deleted at run time.
//!
//! The served warehouses are one set ([`served_warehouses`]), which a change replaces as a whole. A
//! change:
//! 1. is evaluated, and its location probed, before it takes the lock, because object stores are
//!    slow;
//! 2. waits for the lock on warehouse changes, and is evaluated again ([`change`]);
//! 3. is written with its entry in the change log, in one transaction. The transaction of a
//!    deletion scans for contents, and a creation in the warehouse reads its record, so the two
//!    conflict;
//! 4. is served when it is durable, before the response is sent.
//!
//! After a failure in step 3, the change holds the lock until the content of the store is known and
//! served. [`listing`] lists the warehouses.

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
    /// Returns the warehouse that a client's configuration names, for `GET /v1/config`.
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

    /// Returns the warehouse of a path prefix (`None`: the default one). Callers that may not see
    /// the warehouse get the error for a missing one, regardless of their permissions on its
    /// contents.
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
