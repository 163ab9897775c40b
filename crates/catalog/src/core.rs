//! [`Core`]: the state that all parts of the catalog share. The module
//! [`pipeline::request`](crate::pipeline) adds methods that execute mutations.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::access::Access;
use crate::attributes::attributes_of_levels;
use crate::environment::Environment;
use crate::maintenance_settings::effective;
use crate::pipeline::Pipeline;
use crate::settings::Settings;
use crate::usage::counters::Use;
use crate::warehouses::served_warehouses::ServedWarehouses;
use crate::{Error, Operation, Parts, RequestContext, Result};
use slateberg_base::ids::Ids;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::Objects;
use slateberg_store::Store;
use slateberg_store::read::StoreRead;

/// The environment, and the permission checks of requests.
pub(crate) struct Core {
    pub(crate) environment: Arc<Environment>,
    pub(crate) access: Access,
}

impl Core {
    pub(crate) fn new(parts: &Parts) -> Self {
        let environment = Arc::new(Environment::new(parts));
        let access = Access::new(Arc::clone(&environment), Arc::clone(&parts.authority));
        Self { environment, access }
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.environment.settings()
    }

    pub(crate) fn store(&self) -> &Store {
        self.environment.store()
    }

    pub(crate) fn pipeline(&self) -> &Arc<Pipeline> {
        self.environment.pipeline()
    }

    pub(crate) fn warehouses(&self) -> Arc<ServedWarehouses> {
        self.environment.warehouses()
    }

    pub(crate) fn objects(&self) -> Objects {
        self.environment.objects()
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.environment.now_ms()
    }

    /// Returns the retention of dropped resources of a warehouse, in milliseconds. 0 for no
    /// retention. The retention of a warehouse that is missing from the settings is unknown, so it
    /// does not end until the warehouse is served again.
    pub(crate) fn dropped_kept_ms(&self, warehouse: Uuid) -> i64 {
        let Some(warehouse) = self.warehouses().by_id(warehouse) else { return i64::MAX };
        let default_seconds = self.settings().dropped_kept_seconds;
        let kept_seconds = warehouse.dropped_kept_seconds.unwrap_or(default_seconds);
        let kept_ms = kept_seconds.saturating_mul(1000);
        i64::try_from(kept_ms).unwrap_or(i64::MAX)
    }

    /// Returns the maintenance properties that the tables of a namespace inherit from its levels and
    /// from the warehouse.
    pub(crate) async fn inherited_maintenance(
        &self,
        store: &impl StoreRead,
        warehouse: &Warehouse,
        namespace: &NamespaceIdent,
    ) -> Result<BTreeMap<String, String>> {
        let levels = attributes_of_levels(store, warehouse, namespace).await?;
        let levels = levels.iter().map(|level| &level.properties);
        Ok(effective(std::iter::once(&warehouse.maintenance).chain(levels)))
    }

    /// Returns the warehouse and the name of a table such as `table:prod/sales/orders`. `of_views` is
    /// the reason why the request applies to no view.
    pub(crate) fn table_named(
        &self,
        operation: &Operation,
        resource: &str,
        of_views: &str,
    ) -> Result<(RequestContext, TabularIdent)> {
        let (name, kind, ident) = self.access.tabular_named(resource)?;
        if kind != TabularKind::Table {
            return Err(Error::Invalid(format!("{of_views}: '{}'", brief(resource))));
        }
        let warehouse = self.warehouses().by_prefix(Some(&name));
        let warehouse =
            warehouse.map_err(|absent| self.access.without_permissions(operation, absent))?;
        Ok((RequestContext::new(operation.clone(), warehouse), ident))
    }

    /// Counts a use of a table or view by the principal of a request.
    pub(crate) fn count_use(&self, id: Uuid, used: Use, operation: &Operation) {
        self.environment.usage.count(id, used, operation, self.now_ms());
    }

    pub(crate) fn ids(&self) -> &dyn Ids {
        self.environment.ids()
    }
}
