//! What warehouses there are, told to whoever may see them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::served::Entry;
use crate::warehouses::Warehouses;
use crate::{Operation, Result};
use slateberg_authz::action::{ManageWarehouse, ReadConfig};
use slateberg_authz::resource::Resource;
use slateberg_model::page::PageRequest;
use slateberg_model::warehouse::StorageProfile;

/// Where a warehouse comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The configuration.
    Configuration,
    /// It was made at run time.
    Api,
}

/// A warehouse, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarehouseInfo {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: Uuid,
    /// Where it comes from.
    pub source: Source,
    /// Whether paths without a prefix mean it.
    pub default: bool,
    /// Whether it is served.
    pub open: bool,
    /// What clients get as defaults.
    pub client_defaults: BTreeMap<String, String>,
    /// What clients get as overrides.
    pub client_overrides: BTreeMap<String, String>,
    /// When it was made.
    pub created_ms: i64,
    /// All the rest, for whoever may manage it.
    pub managed: Option<Managed>,
}

/// What those alone are told of a warehouse who may manage it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Managed {
    /// Where its files are. No option is in it that could be a secret.
    pub storage: StorageProfile,
    /// Why it is not served, if it is not.
    pub problem: Option<String>,
    /// Who made it and changed it last, if it was made at run time.
    pub history: Option<History>,
}

/// Who made a warehouse, and changed it last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Grows by one with each change.
    pub version: u64,
    /// Who made it.
    pub created_by: String,
    /// When it was changed last, or made.
    pub changed_ms: i64,
    /// By whom.
    pub changed_by: String,
}

/// A page of warehouses, in the order of their names.
#[derive(Debug, Clone)]
pub struct WarehousePage {
    /// The warehouses.
    pub warehouses: Vec<WarehouseInfo>,
    /// The token of the next page, or none if this is the last.
    pub next: Option<String>,
}

/// All that there is to tell of a warehouse.
pub(super) fn info(entry: &Entry, default: bool) -> WarehouseInfo {
    let Entry { warehouse, record, shut } = entry;
    let history = record.definition.as_ref().map(|definition| History {
        version: definition.version,
        created_by: definition.created_by.clone(),
        changed_ms: definition.changed_ms,
        changed_by: definition.changed_by.clone(),
    });
    let managed = Managed {
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
        created_ms: record.created_ms,
        managed: Some(managed),
    }
}

impl Warehouses {
    /// The warehouses that somebody may see.
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
                self.told(operation, info(entry, served.is_default(&entry.warehouse.name)))
            })
            .collect();
        let limit = page.limit.unwrap_or(seen.len());
        let further = seen.len() > limit;
        seen.truncate(limit);
        let next = seen.last().filter(|_| further).map(|last| page.token(&last.name));
        WarehousePage { warehouses: seen, next }
    }

    /// A warehouse that somebody may see.
    pub fn load_warehouse(&self, operation: &Operation, name: &str) -> Result<WarehouseInfo> {
        let served = self.core.warehouses();
        let entry = served.find(Some(name));
        let entry =
            entry.map_err(|absent| self.core.access.without_permissions(operation, absent))?;
        let _permit =
            self.core.access.permit_warehouse::<ReadConfig>(operation, &entry.warehouse, name)?;
        Ok(self.told(operation, info(entry, served.is_default(name))))
    }

    /// Whether somebody may see that a warehouse is there.
    pub(super) fn sees_warehouse(&self, operation: &Operation, name: &str) -> bool {
        self.core.access.may::<ReadConfig>(operation, &Resource::warehouse(name))
    }

    /// As much of it as somebody may be told.
    fn told(&self, operation: &Operation, info: WarehouseInfo) -> WarehouseInfo {
        let manages =
            self.core.access.may::<ManageWarehouse>(operation, &Resource::warehouse(&info.name));
        WarehouseInfo { managed: info.managed.filter(|_| manages), ..info }
    }
}
