//! The warehouses that the catalog serves: those of the configuration, and those that are made, changed and
//! deleted while the server runs.
//!
//! What is served is one set ([`served`]), which a change replaces as a whole. A change:
//! 1. is checked, and its place tried out, before it has its turn: object stores take their time;
//! 2. waits for its turn, one change after the other, and is checked again ([`change`]);
//! 3. is written with its entry in the change log, in one transaction. A delete scans there for whatever is
//!    in the warehouse, and what is made in a warehouse reads its record: the two conflict;
//! 4. is served once it is durable, and before anybody is told.
//!
//! Whatever fails in between, the turn does not end before it is known what the store says, and that is
//! served. [`listing`] tells what there is.

pub mod change;
mod check;
pub mod listing;
pub(crate) mod registry;
pub mod served;
mod settle;

use std::sync::Arc;

use served::{Entry, Served};

use super::core::Core;
use super::turns::Turns;
use super::{Error, Operation, Result};
use slateberg_authz::action::ReadConfig;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::stores::Stores;

/// The warehouses, as requests see and change them. Cheap to clone.
#[derive(Clone)]
pub struct Warehouses {
    core: Arc<Core>,
    stores: Stores,
    turns: Turns,
}

impl Warehouses {
    pub(crate) fn new(core: &Arc<Core>, stores: Stores) -> Self {
        Self { core: Arc::clone(core), stores, turns: Turns::default() }
    }

    /// Returns the warehouses that are served at this moment.
    pub fn served(&self) -> Arc<Served> {
        self.core.warehouses()
    }
}

impl Warehouses {
    /// The warehouse that a client's configuration names, for `GET /v1/config`.
    pub fn configured_warehouse(
        &self,
        operation: &Operation,
        word: Option<&str>,
    ) -> Result<Arc<Warehouse>> {
        let served = self.core.warehouses();
        let entry = served.by_client_word(word);
        let entry =
            entry.map_err(|absent| self.core.access.without_permissions(operation, absent))?;
        let word = word.filter(|word| !word.is_empty());
        self.usable(operation, entry, word)
    }

    /// The warehouse that a path's prefix names, or the default one, for whoever may see it: nothing in a
    /// warehouse is there for anybody else, whatever their rights in it.
    pub fn warehouse_for(
        &self,
        operation: &Operation,
        prefix: Option<&str>,
    ) -> Result<Arc<Warehouse>> {
        let served = self.core.environment.warehouses.peek();
        let entry = served.find(prefix);
        let entry =
            entry.map_err(|absent| self.core.access.without_permissions(operation, absent))?;
        self.usable(operation, entry, prefix)
    }

    /// A warehouse, for whoever may see it, and if its stores are open.
    fn usable(
        &self,
        operation: &Operation,
        entry: &Entry,
        word: Option<&str>,
    ) -> Result<Arc<Warehouse>> {
        let Entry { warehouse, shut, .. } = entry;
        let word = word.unwrap_or("default");
        let _permit =
            self.core.access.permit_warehouse::<ReadConfig>(operation, warehouse, word)?;
        match shut {
            None => Ok(Arc::clone(warehouse)),
            Some(reason) => {
                Err(Error::unavailable("The warehouse's object store cannot be opened", reason))
            }
        }
    }
}
