//! [`ServedWarehouses`]: one consistent set of warehouses with their object stores.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::{Error, Result};
use slateberg_model::warehouse::{StorageProfile, Warehouse};
use slateberg_objects::Objects;
use slateberg_objects::stores::Roots;
use slateberg_objects::warehouse_files::Root;
use slateberg_store::records::{WarehouseDefinition, WarehouseRecord};

/// All warehouses by name, with their object stores. A clone is cheap: it copies the names and
/// shares the rest.
#[derive(Clone, Default)]
pub struct ServedWarehouses {
    by_name: BTreeMap<String, Entry>,
    default: String,
    /// The object stores of the warehouses.
    pub objects: Objects,
}

/// A warehouse with its record and state.
#[derive(Clone)]
pub struct Entry {
    /// The warehouse in the form that requests use.
    pub warehouse: Arc<Warehouse>,
    /// The record of the warehouse.
    pub record: Arc<WarehouseRecord>,
    /// The reason why the warehouse cannot be served. `None` if it is served.
    pub shut: Option<Arc<str>>,
}

impl Entry {
    /// Returns a warehouse that was created at run time, from its record.
    pub fn from_record(
        name: &str,
        record: WarehouseRecord,
        definition: &WarehouseDefinition,
    ) -> Self {
        let warehouse = Warehouse {
            id: record.id,
            name: name.to_owned(),
            storage: storage_of(&record.location, definition),
            client_defaults: definition.client_defaults.clone(),
            client_overrides: definition.client_overrides.clone(),
            dropped_kept_seconds: definition.dropped_kept_seconds,
            maintenance: definition.maintenance.clone(),
            version: definition.version,
        };
        Self { warehouse: Arc::new(warehouse), record: Arc::new(record), shut: None }
    }

    /// Whether the warehouse is defined in the configuration.
    pub fn is_configured(&self) -> bool {
        self.record.definition.is_none()
    }
}

/// Returns the storage of a warehouse that was created at run time.
pub fn storage_of(location: &str, definition: &WarehouseDefinition) -> StorageProfile {
    StorageProfile {
        location: location.to_owned(),
        allowed_locations: definition.allowed_locations.clone(),
        options: definition.options.clone(),
        credentials: definition.credentials.clone(),
        access: definition.access.clone(),
    }
}

impl ServedWarehouses {
    /// Returns an empty set. Paths without a prefix refer to the warehouse named `default`.
    pub fn new(default: &str) -> Self {
        Self { default: default.to_owned(), ..Self::default() }
    }

    /// Returns a copy in which a warehouse is added or replaced. `stores` are its open object
    /// stores, or the reason why they cannot be opened.
    #[must_use]
    pub fn with(&self, entry: Entry, stores: std::result::Result<Roots, String>) -> Self {
        self.with_roots(entry, stores.map(|roots| roots.all))
    }

    /// Like [`with`](Self::with), for locations that are not probed.
    #[must_use]
    pub fn with_roots(&self, entry: Entry, stores: std::result::Result<Vec<Root>, String>) -> Self {
        let mut served = self.clone();
        let id = entry.warehouse.id;
        let shut = match stores {
            Ok(roots) => {
                served.objects = served.objects.with(id, roots);
                None
            }
            Err(reason) => {
                served.objects = served.objects.with_unavailable(id, reason.clone());
                Some(reason.into())
            }
        };
        served.by_name.insert(entry.warehouse.name.clone(), Entry { shut, ..entry });
        served
    }

    /// Returns a copy with new settings of a warehouse. Its object stores stay the same.
    #[must_use]
    pub fn with_settings(&self, entry: Entry) -> Self {
        let mut served = self.clone();
        served.by_name.insert(entry.warehouse.name.clone(), entry);
        served
    }

    /// Returns a copy without a warehouse.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut served = self.clone();
        if let Some(gone) = served.by_name.remove(name) {
            served.objects = served.objects.without(gone.warehouse.id);
        }
        served
    }

    /// Returns the warehouse of a path prefix. `None` refers to the default warehouse.
    pub fn find(&self, prefix: Option<&str>) -> Result<&Entry> {
        let requested = prefix.unwrap_or(&self.default);
        let absent = || Error::no_such_warehouse(prefix.unwrap_or("default"));
        self.by_name.get(requested).ok_or_else(absent)
    }

    /// Whether there is a warehouse with this name.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the warehouse of a path prefix, for requests.
    pub fn by_prefix(&self, prefix: Option<&str>) -> Result<Arc<Warehouse>> {
        Ok(Arc::clone(&self.find(prefix)?.warehouse))
    }

    /// Returns the warehouse with this id.
    pub fn by_id(&self, id: Uuid) -> Option<Arc<Warehouse>> {
        let found = self.by_name.values().find(|entry| entry.warehouse.id == id);
        found.map(|entry| Arc::clone(&entry.warehouse))
    }

    /// Returns all warehouses, ordered by name.
    pub fn all(&self) -> impl Iterator<Item = &Entry> {
        self.by_name.values()
    }

    /// Returns the ids of all warehouses.
    pub fn ids(&self) -> Vec<Uuid> {
        self.all().map(|entry| entry.warehouse.id).collect()
    }

    /// Whether this is the name of the default warehouse.
    pub(crate) fn is_default(&self, name: &str) -> bool {
        self.default == name
    }

    /// Returns the warehouse for a client's property `warehouse`. The value of the property is the
    /// name or the location of the warehouse. `None` or an empty string refers to the default
    /// warehouse.
    pub(super) fn by_client_name(&self, requested: Option<&str>) -> Result<&Entry> {
        let Some(requested) = requested.filter(|requested| !requested.is_empty()) else {
            return self.find(None);
        };
        if let Some(entry) = self.by_name.get(requested) {
            return Ok(entry);
        }
        let location = requested.trim_end_matches('/');
        let mut entries = self.by_name.values();
        let found = entries.find(|entry| entry.warehouse.storage.location == location);
        found.ok_or_else(|| Error::no_such_warehouse(requested))
    }
}
