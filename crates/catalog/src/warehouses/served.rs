//! The warehouses that are served at one moment, with their files: one consistent set.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::{Error, Result};
use slateberg_model::warehouse::{StorageProfile, Warehouse};
use slateberg_objects::Objects;
use slateberg_objects::stores::Roots;
use slateberg_objects::warehouse_files::Root;
use slateberg_store::records::{WarehouseDefinition, WarehouseRecord};

/// All warehouses, by name, and their files. Cheap to clone but for the names.
#[derive(Clone, Default)]
pub struct Served {
    by_name: BTreeMap<String, Entry>,
    default: String,
    /// Their files.
    pub objects: Objects,
}

/// A warehouse, and what there is to say of it.
#[derive(Clone)]
pub struct Entry {
    /// What requests need of it.
    pub warehouse: Arc<Warehouse>,
    /// Its record.
    pub record: Arc<WarehouseRecord>,
    /// Why it cannot be served, if it cannot.
    pub shut: Option<Arc<str>>,
}

impl Entry {
    /// A warehouse that was made at run time, from its record.
    pub fn made(name: &str, record: WarehouseRecord, definition: &WarehouseDefinition) -> Self {
        let warehouse = Warehouse {
            id: record.id,
            name: name.to_owned(),
            storage: storage_of(&record.location, definition),
            client_defaults: definition.client_defaults.clone(),
            client_overrides: definition.client_overrides.clone(),
            version: definition.version,
        };
        Self { warehouse: Arc::new(warehouse), record: Arc::new(record), shut: None }
    }

    /// Whether it comes from the configuration.
    pub fn is_configured(&self) -> bool {
        self.record.definition.is_none()
    }
}

/// Where a warehouse is stored that was made at run time.
pub fn storage_of(location: &str, definition: &WarehouseDefinition) -> StorageProfile {
    StorageProfile {
        location: location.to_owned(),
        allowed_locations: definition.allowed_locations.clone(),
        options: definition.options.clone(),
        credentials: definition.credentials.clone(),
        access: definition.access.clone(),
    }
}

impl Served {
    /// None yet. Paths without a prefix will mean the one with this name.
    pub fn new(default: &str) -> Self {
        Self { default: default.to_owned(), ..Self::default() }
    }

    /// These and one more, or one that has become another, with its open stores or the reason why there are
    /// none.
    #[must_use]
    pub fn with(&self, entry: Entry, stores: std::result::Result<Roots, String>) -> Self {
        self.with_roots(entry, stores.map(|roots| roots.all))
    }

    /// The same with places that nobody is going to try out.
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
                served.objects = served.objects.with_shut(id, reason.clone());
                Some(reason.into())
            }
        };
        served.by_name.insert(entry.warehouse.name.clone(), Entry { shut, ..entry });
        served
    }

    /// These, and one of them with other settings, whose stores stay as they are.
    #[must_use]
    pub fn with_settings(&self, entry: Entry) -> Self {
        let mut served = self.clone();
        served.by_name.insert(entry.warehouse.name.clone(), entry);
        served
    }

    /// These without one.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut served = self.clone();
        if let Some(gone) = served.by_name.remove(name) {
            served.objects = served.objects.without(gone.warehouse.id);
        }
        served
    }

    /// The one that a path's prefix names, or the default one.
    pub fn find(&self, prefix: Option<&str>) -> Result<&Entry> {
        let word = prefix.unwrap_or(&self.default);
        let absent = || Error::no_such_warehouse(prefix.unwrap_or("default"));
        self.by_name.get(word).ok_or_else(absent)
    }

    /// Whether there is one with this name.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The one that a path's prefix names, or the default one, for requests.
    pub fn by_prefix(&self, prefix: Option<&str>) -> Result<Arc<Warehouse>> {
        Ok(Arc::clone(&self.find(prefix)?.warehouse))
    }

    /// The one with this id.
    pub fn by_id(&self, id: Uuid) -> Option<Arc<Warehouse>> {
        let found = self.by_name.values().find(|entry| entry.warehouse.id == id);
        found.map(|entry| Arc::clone(&entry.warehouse))
    }

    /// All of them, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Entry> {
        self.by_name.values()
    }

    /// Their ids.
    pub fn ids(&self) -> Vec<Uuid> {
        self.all().map(|entry| entry.warehouse.id).collect()
    }

    /// Whether this is the name of the one that paths without a prefix mean.
    pub fn is_default(&self, name: &str) -> bool {
        self.default == name
    }

    /// By what a client calls its `warehouse`: a name or a location; the default one if it says nothing.
    pub(super) fn by_client_word(&self, word: Option<&str>) -> Result<&Entry> {
        let Some(word) = word.filter(|word| !word.is_empty()) else {
            return self.find(None);
        };
        if let Some(entry) = self.by_name.get(word) {
            return Ok(entry);
        }
        let location = word.trim_end_matches('/');
        let mut entries = self.by_name.values();
        let found = entries.find(|entry| entry.warehouse.storage.location == location);
        found.ok_or_else(|| Error::no_such_warehouse(word))
    }
}
