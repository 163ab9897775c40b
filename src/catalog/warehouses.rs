//! The warehouses that the catalog serves.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::{Catalog, Error, Operation, Result};
use crate::authz::action::ReadConfig;
use crate::model::members::brief;
use crate::model::warehouse::Warehouse;

/// All warehouses, by name and by location.
#[derive(Clone)]
pub struct Warehouses {
    by_name: HashMap<String, Arc<Warehouse>>,
    default: Option<Arc<Warehouse>>,
}

impl Warehouses {
    /// These warehouses, and the name of the one that paths without a prefix mean.
    pub fn new(warehouses: Vec<Warehouse>, default: &str) -> Self {
        let by_name: HashMap<_, _> = warehouses
            .into_iter()
            .map(|warehouse| (warehouse.name.clone(), Arc::new(warehouse)))
            .collect();
        let default = by_name.get(default).cloned();
        Self { by_name, default }
    }

    /// The warehouse that a path's prefix names, or the default one.
    pub fn by_prefix(&self, prefix: Option<&str>) -> Result<Arc<Warehouse>> {
        match prefix {
            Some(name) => self.by_name.get(name).cloned(),
            None => self.default.clone(),
        }
        .ok_or_else(|| Error::NoSuchWarehouse(brief(prefix.unwrap_or("default"))))
    }

    /// The one with this id.
    pub fn by_id(&self, id: Uuid) -> Option<Arc<Warehouse>> {
        self.by_name.values().find(|warehouse| warehouse.id == id).cloned()
    }

    /// Names, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// By what a client calls its `warehouse`: a name or a location; the default one if it says nothing.
    fn by_client_word(&self, word: Option<&str>) -> Result<Arc<Warehouse>> {
        let Some(word) = word.filter(|word| !word.is_empty()) else {
            return self.by_prefix(None);
        };
        if let Some(warehouse) = self.by_name.get(word) {
            return Ok(Arc::clone(warehouse));
        }
        let location = word.trim_end_matches('/');
        self.by_name
            .values()
            .find(|warehouse| warehouse.location == location)
            .cloned()
            .ok_or_else(|| Error::NoSuchWarehouse(brief(word)))
    }
}

impl Catalog {
    /// The warehouse that a client's configuration names, for `GET /v1/config`.
    pub fn configured_warehouse(
        &self,
        operation: &Operation,
        word: Option<&str>,
    ) -> Result<Arc<Warehouse>> {
        let warehouse = self.warehouses().by_client_word(word)?;
        let word = word.filter(|word| !word.is_empty());
        self.visible(operation, warehouse, word)
    }

    /// The warehouse that a path's prefix names, or the default one, for whoever may see it: nothing in a
    /// warehouse is there for anybody else, whatever their rights in it.
    pub fn warehouse_for(
        &self,
        operation: &Operation,
        prefix: Option<&str>,
    ) -> Result<Arc<Warehouse>> {
        self.visible(operation, self.warehouses().by_prefix(prefix)?, prefix)
    }

    fn visible(
        &self,
        operation: &Operation,
        warehouse: Arc<Warehouse>,
        word: Option<&str>,
    ) -> Result<Arc<Warehouse>> {
        let word = word.unwrap_or("default");
        let _permit = self.permit_warehouse::<ReadConfig>(operation, &warehouse, word)?;
        Ok(warehouse)
    }
}
