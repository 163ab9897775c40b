//! Creates, changes and deletes warehouses at run time.

use std::collections::BTreeMap;

use super::listing::{WarehouseInfo, info};
use super::served_warehouses::{Entry, ServedWarehouses, storage_of};
use crate::error::{CommitConflict, NameConflict, StateConflict};
use crate::locations::without_trailing_slash;
use crate::pipeline::response::Body;
use crate::serial_lock::SerialGuard;
use crate::warehouses::Warehouses;
use crate::{Error, Operation, Result};
use slateberg_authz::action::{ManageWarehouse, ReadConfig};
use slateberg_authz::authority::Decider;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::Resource;
use slateberg_base::boxed;
use slateberg_model::warehouse::{StorageProfile, validate_name};
use slateberg_objects::location::Location;
use slateberg_objects::stores::Roots;
use slateberg_store::keys::WarehouseKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::{ChangeAction, WarehouseDefinition, WarehouseRecord};

/// The requested properties of a warehouse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWarehouse {
    /// The storage of the warehouse.
    pub storage: StorageProfile,
    /// Configuration defaults for clients.
    pub client_defaults: BTreeMap<String, String>,
    /// Configuration overrides for clients.
    pub client_overrides: BTreeMap<String, String>,
    /// Retention of dropped resources, in seconds. `None` for the retention of the catalog.
    pub dropped_kept_seconds: Option<u64>,
    /// Maintenance properties.
    pub maintenance: BTreeMap<String, String>,
}

/// A change of a warehouse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Creates the warehouse.
    Create(NewWarehouse),
    /// Replaces all properties of the warehouse. The location never changes, and may be empty in
    /// the request.
    Update {
        /// The new properties.
        requested: NewWarehouse,
        /// The version that the caller has read. The change is rejected if this is not the current
        /// version.
        expected_version: Option<u64>,
    },
    /// Deletes the warehouse.
    Delete,
}

impl Edit {
    /// The transaction's name.
    fn action(&self) -> ChangeAction {
        match self {
            Self::Create(_) => ChangeAction::CreateWarehouse,
            Self::Update { .. } => ChangeAction::UpdateWarehouse,
            Self::Delete => ChangeAction::DeleteWarehouse,
        }
    }
}

/// A change that was evaluated and can be written.
pub(super) struct EvaluatedChange {
    pub(super) permit: Permit<ManageWarehouse>,
    pub(super) action: ChangeAction,
    pub(super) name: String,
    /// The record before the change.
    pub(super) before: Option<WarehouseRecord>,
    /// The warehouse after the change. `None` if it is deleted.
    pub(super) after: Option<Entry>,
    /// Whether the object stores of the warehouse must be opened, because they have changed or were
    /// not open.
    pub(super) opens: bool,
}

impl EvaluatedChange {
    /// Returns the response of the change.
    pub(super) fn visible_info(&self, served: &ServedWarehouses) -> Option<WarehouseInfo> {
        self.after.as_ref().map(|entry| info(entry, served.is_default(&self.name)))
    }
}

impl Warehouses {
    /// Creates, changes or deletes a warehouse. Waits until the changed warehouse is served, and
    /// returns it. `None` if it was deleted.
    #[boxed]
    pub async fn change_warehouse(
        &self,
        operation: &Operation,
        name: &str,
        edit: Edit,
    ) -> Result<Option<WarehouseInfo>> {
        if matches!(edit, Edit::Create(_)) {
            validate_name(name)?;
        }
        // Rejects callers without permission before they wait for the lock or trigger a probe. The
        // change is evaluated again under the lock, and that evaluation decides.
        self.may_change(operation, name, &edit)?;
        let name = name.to_owned();
        let change = |warehouses: Self, operation: Operation| async move {
            let changed = warehouses.change_warehouse_once(operation, &name, &edit).await?;
            Ok(changed.map(Body))
        };
        let changed = self.core.mutate(self, operation, change).await?;
        Ok(changed.map(|Body(changed)| changed))
    }

    async fn change_warehouse_once(
        &self,
        operation: Operation,
        name: &str,
        edit: &Edit,
    ) -> Result<Option<WarehouseInfo>> {
        let first = self.evaluate_warehouse(&operation, name, edit).await?;
        let stores = match &first.after {
            Some(entry) if first.opens => {
                Some(self.open_and_probe(&entry.warehouse.storage).await?)
            }
            _ => None,
        };
        let turn = self.lock_warehouses().await?;
        let evaluated = self.evaluate_warehouse(&operation, name, edit).await?;
        if evaluated.before != first.before || evaluated.opens != first.opens {
            return Err(Error::CommitFailed(CommitConflict::ConcurrentWarehouse(name.to_owned())));
        }
        self.execute_warehouse_change(turn, operation, evaluated, stores).await
    }

    /// Opens the object stores and probes whether they are usable.
    async fn open_and_probe(&self, storage: &StorageProfile) -> Result<Roots> {
        let stores = &self.stores;
        let roots = stores.open(storage)?;
        let at_most = self.core.settings().warehouse_probe_max();
        stores.probe(&roots, self.core.ids().random(), at_most, self.core.now_ms()).await?;
        Ok(roots)
    }

    /// Takes the lock on changes of the warehouses.
    async fn lock_warehouses(&self) -> Result<SerialGuard> {
        let busy = "Earlier changes of the warehouses are still in progress";
        self.turns.wait(self.core.settings().commit_deadline(), busy).await
    }

    /// Returns the permit for this change. If the caller may not see the warehouse, the error is
    /// the same as for a missing warehouse.
    fn may_change(
        &self,
        operation: &Operation,
        name: &str,
        edit: &Edit,
    ) -> Result<Permit<ManageWarehouse>> {
        let asking = match self.core.access.ask(operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let resource = Resource::warehouse(name);
        let absent = || Error::no_such_warehouse(name);
        if matches!(edit, Edit::Create(_)) {
            let permit = asking.permit(&resource);
            return permit
                .map_err(|denied| self.core.access.refuse(operation, &denied, &resource, None));
        }
        asking.permit::<ReadConfig>(&resource).map_err(|denied| {
            self.core.access.refuse(operation, &denied, &resource, Some(absent()))
        })?;
        asking.permit(&resource).map_err(|denied| {
            let absent = (!self.core.warehouses().has(name)).then(absent);
            self.core.access.refuse(operation, &denied, &resource, absent)
        })
    }

    async fn evaluate_warehouse(
        &self,
        operation: &Operation,
        name: &str,
        edit: &Edit,
    ) -> Result<EvaluatedChange> {
        let permit = self.may_change(operation, name, edit)?;
        let (before, after, opens) = match edit {
            Edit::Create(requested) => {
                let (before, entry) = self.evaluate_create(operation, name, requested).await?;
                (before, Some(entry), true)
            }
            Edit::Update { requested, expected_version } => {
                let was = self.changeable(name)?;
                let entry =
                    self.evaluate_update(operation, &was, requested, *expected_version).await?;
                let opens = was.shut.is_some() || was.warehouse.storage != entry.warehouse.storage;
                (Some(WarehouseRecord::clone(&was.record)), Some(entry), opens)
            }
            Edit::Delete => {
                let was = self.changeable(name)?;
                (Some(WarehouseRecord::clone(&was.record)), None, false)
            }
        };
        let (action, name) = (edit.action(), name.to_owned());
        Ok(EvaluatedChange { permit, action, name, before, after, opens })
    }

    async fn evaluate_create(
        &self,
        operation: &Operation,
        name: &str,
        requested: &NewWarehouse,
    ) -> Result<(Option<WarehouseRecord>, Entry)> {
        if self.core.warehouses().has(name) {
            return Err(Error::AlreadyExists(NameConflict::Warehouse(name.to_owned())));
        }
        let requested = normal(requested);
        self.check_definition(operation, name, &requested).await?;
        let left = self.core.store().latest().get(&WarehouseKey(name.to_owned())).await?;
        // If a warehouse with this name was removed from the configuration, the new warehouse takes
        // over its contents and location. In the same way, the configuration takes over a warehouse
        // that was created through the API.
        if let Some(left) = &left
            && !is_same_location(&left.location, &requested.storage.location)
        {
            return Err(Error::AlreadyExists(NameConflict::FormerWarehouse(name.to_owned())));
        }
        if left.is_none() {
            self.check_count().await?;
        }
        let by = operation.principal.id().to_owned();
        let definition = define(&requested, 1, by.clone(), (self.core.now_ms(), by));
        let record = WarehouseRecord {
            id: left.as_ref().map_or_else(|| self.core.ids().random(), |left| left.id),
            location: requested.storage.location,
            created_ms: left.as_ref().map_or_else(|| self.core.now_ms(), |left| left.created_ms),
            definition: Some(definition.clone()),
        };
        Ok((left, Entry::from_record(name, record, &definition)))
    }

    async fn evaluate_update(
        &self,
        operation: &Operation,
        was: &Entry,
        requested: &NewWarehouse,
        expected_version: Option<u64>,
    ) -> Result<Entry> {
        let (name, record) = (&was.warehouse.name, &was.record);
        let old = record.definition.as_ref();
        let old =
            old.ok_or_else(|| Error::internal(format!("{name} is defined in the configuration")))?;
        if let Some(expected) = expected_version.filter(|expected| *expected != old.version) {
            return Err(Error::CommitFailed(CommitConflict::Warehouse {
                name: name.clone(),
                expected,
                current: old.version,
            }));
        }
        let mut requested = normal(requested);
        if requested.storage.location.is_empty() {
            requested.storage.location.clone_from(&record.location);
        }
        if requested.storage.location != record.location {
            return Err(Error::Invalid(format!(
                "Cannot move warehouse {name}: the location of a warehouse never changes"
            )));
        }
        let by = operation.principal.id().to_owned();
        let mut definition =
            define(&requested, old.version + 1, old.created_by.clone(), (self.core.now_ms(), by));
        if storage_of(&record.location, &definition) == was.warehouse.storage
            && definition.client_defaults == old.client_defaults
            && definition.client_overrides == old.client_overrides
            && definition.dropped_kept_seconds == old.dropped_kept_seconds
            && definition.maintenance == old.maintenance
        {
            definition = old.clone();
        } else {
            self.check_definition(operation, name, &requested).await?;
        }
        let record = WarehouseRecord {
            definition: Some(definition.clone()),
            ..WarehouseRecord::clone(record)
        };
        Ok(Entry::from_record(name, record, &definition))
    }

    /// Returns a warehouse that the API may change: it was created at run time and is not the
    /// default warehouse.
    fn changeable(&self, name: &str) -> Result<Entry> {
        let served = self.core.warehouses();
        let entry = served.find(Some(name))?;
        if entry.is_configured() || served.is_default(name) {
            return Err(Error::Conflict(StateConflict::ConfiguredWarehouse(name.to_owned())));
        }
        Ok(entry.clone())
    }
}

/// Normalizes the locations.
fn normal(requested: &NewWarehouse) -> NewWarehouse {
    let mut requested = requested.clone();
    let storage = &mut requested.storage;
    storage.location = without_trailing_slash(&storage.location);
    for location in &mut storage.allowed_locations {
        *location = without_trailing_slash(location);
    }
    requested
}

fn define(
    requested: &NewWarehouse,
    version: u64,
    created_by: String,
    (changed_ms, changed_by): (i64, String),
) -> WarehouseDefinition {
    let NewWarehouse {
        storage,
        client_defaults,
        client_overrides,
        dropped_kept_seconds,
        maintenance,
    } = requested;
    WarehouseDefinition {
        version,
        created_by,
        changed_ms,
        changed_by,
        allowed_locations: storage.allowed_locations.clone(),
        options: storage.options.clone(),
        credentials: storage.credentials.clone(),
        client_defaults: client_defaults.clone(),
        client_overrides: client_overrides.clone(),
        dropped_kept_seconds: *dropped_kept_seconds,
        maintenance: maintenance.clone(),
        access: storage.access.clone(),
    }
}

/// Whether two locations are the same.
pub fn is_same_location(one: &str, other: &str) -> bool {
    match (Location::parse(one), Location::parse(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
