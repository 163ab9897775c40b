//! Lists the warehouses that a caller may see.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::served_warehouses::Entry;
use crate::warehouses::Warehouses;
use crate::{Operation, Result};
use slateberg_authz::action::{ManageWarehouse, ReadConfig};
use slateberg_authz::resource::Resource;
use slateberg_model::page::PageRequest;
use slateberg_model::warehouse::StorageProfile;

/// The origin of a warehouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The configuration.
    Configuration,
    /// The API, at run time.
    Api,
}

/// A warehouse, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarehouseInfo {
    /// The name of the warehouse.
    pub name: String,
    /// The id of the warehouse.
    pub id: Uuid,
    /// The origin of the warehouse.
    pub source: Source,
    /// Whether it is the default warehouse, for paths without a prefix.
    pub default: bool,
    /// Whether the warehouse is served.
    pub open: bool,
    /// Configuration defaults for clients.
    pub client_defaults: BTreeMap<String, String>,
    /// Configuration overrides for clients.
    pub client_overrides: BTreeMap<String, String>,
    /// Retention of dropped resources, in seconds. `None` for the retention of the catalog. Stored
    /// responses of earlier versions do not contain this field.
    #[serde(default)]
    pub dropped_kept_seconds: Option<u64>,
    /// Maintenance properties. Stored responses of earlier versions do not contain this field.
    #[serde(default)]
    pub maintenance: BTreeMap<String, String>,
    /// The time of its creation.
    pub created_ms: i64,
    /// Further details. `None` for callers that may not manage the warehouse.
    pub managed: Option<ManagedWarehouse>,
}

/// Details of a warehouse that are visible only to callers that may manage it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedWarehouse {
    /// The storage of the warehouse, without secret options.
    pub storage: StorageProfile,
    /// The reason why the warehouse is not served. `None` if it is served.
    pub problem: Option<String>,
    /// The history of a warehouse that was created at run time.
    pub history: Option<History>,
}

/// Authors of a warehouse and of its last change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Incremented by each change.
    pub version: u64,
    /// The principal that created the warehouse.
    pub created_by: String,
    /// The time of the last change, or of the creation.
    pub changed_ms: i64,
    /// The principal that made the last change.
    pub changed_by: String,
}

/// A page of warehouses, ordered by name.
#[derive(Debug, Clone)]
pub struct WarehousePage {
    /// The warehouses.
    pub warehouses: Vec<WarehouseInfo>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

/// Returns a warehouse with all details.
pub(super) fn info(entry: &Entry, default: bool) -> WarehouseInfo {
    let Entry { warehouse, record, shut } = entry;
    let history = record.definition.as_ref().map(|definition| History {
        version: definition.version,
        created_by: definition.created_by.clone(),
        changed_ms: definition.changed_ms,
        changed_by: definition.changed_by.clone(),
    });
    let managed = ManagedWarehouse {
        storage: warehouse.storage.clone(),
        problem: shut.as_ref().map(ToString::to_string),
        history,
    };
    WarehouseInfo {
        name: warehouse.name.clone(),
        id: warehouse.id,
        source: if entry.is_configured() { Source::Configuration } else { Source::Api },
        default,
        open: shut.is_none(),
        client_defaults: warehouse.client_defaults.clone(),
        client_overrides: warehouse.client_overrides.clone(),
        dropped_kept_seconds: warehouse.dropped_kept_seconds,
        maintenance: warehouse.maintenance.clone(),
        created_ms: record.created_ms,
        managed: Some(managed),
    }
}

impl Warehouses {
    /// Returns the warehouses that the caller may see.
    pub fn list_warehouses(&self, operation: &Operation, page: &PageRequest) -> WarehousePage {
        let served = self.core.warehouses();
        let is_behind =
            |entry: &&Entry| page.after.as_ref().is_none_or(|after| entry.warehouse.name > *after);
        let mut seen: Vec<_> = served
            .all()
            .filter(is_behind)
            .filter(|entry| self.sees_warehouse(operation, &entry.warehouse.name))
            .take(page.read_limit().unwrap_or(usize::MAX))
            .map(|entry| {
                self.visible_info(operation, info(entry, served.is_default(&entry.warehouse.name)))
            })
            .collect();
        let limit = page.limit.unwrap_or(seen.len());
        let further = seen.len() > limit;
        seen.truncate(limit);
        let next = seen.last().filter(|_| further).map(|last| page.token(&last.name));
        WarehousePage { warehouses: seen, next }
    }

    /// Returns a warehouse. Errors with `NoSuchWarehouse` if the caller may not see it.
    pub fn load_warehouse(&self, operation: &Operation, name: &str) -> Result<WarehouseInfo> {
        let served = self.core.warehouses();
        let entry = served.find(Some(name));
        let entry =
            entry.map_err(|absent| self.core.access.without_permissions(operation, absent))?;
        let _permit =
            self.core.access.permit_warehouse::<ReadConfig>(operation, &entry.warehouse, name)?;
        Ok(self.visible_info(operation, info(entry, served.is_default(name))))
    }

    /// Whether the caller may see a warehouse.
    pub(super) fn sees_warehouse(&self, operation: &Operation, name: &str) -> bool {
        self.core.access.may::<ReadConfig>(operation, &Resource::warehouse(name))
    }

    /// Removes the details that the caller may not see.
    fn visible_info(&self, operation: &Operation, info: WarehouseInfo) -> WarehouseInfo {
        let manages =
            self.core.access.may::<ManageWarehouse>(operation, &Resource::warehouse(&info.name));
        WarehouseInfo { managed: info.managed.filter(|_| manages), ..info }
    }
}
