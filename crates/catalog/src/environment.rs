//! [`Environment`]: the state and services that every part of the catalog uses.

use std::sync::Arc;

use crate::Parts;
use crate::metrics_reports::buffer::ReportBuffer;
use crate::pipeline::{Pipeline, PipelineParts};
use crate::settings::Settings;
use crate::usage::counters::UsageCounters;
use crate::warehouses::registry::WarehouseRegistry;
use crate::warehouses::served_warehouses::ServedWarehouses;
use slateberg_base::clock::Clock;
use slateberg_base::ids::Ids;
use slateberg_objects::Objects;
use slateberg_store::Store;
use slateberg_store::records::CloneOf;

/// The store, the warehouses, the commit pipeline, the settings, and the sources of time and ids.
pub(crate) struct Environment {
    store: Store,
    pipeline: Arc<Pipeline>,
    pub(crate) warehouses: Arc<WarehouseRegistry>,
    pub(crate) clone_of: Option<CloneOf>,
    settings: Settings,
    /// The uses of tables and views that are not stored yet.
    pub(crate) usage: UsageCounters,
    /// The metrics reports that are not stored yet.
    pub(crate) metrics_reports: ReportBuffer,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Environment {
    pub(crate) fn new(parts: &Parts) -> Self {
        let Parts { store, warehouses, settings, clock, ids, clone_of, .. } = parts;
        let warehouses = Arc::new(WarehouseRegistry::new(warehouses.clone()));
        let pipeline = Pipeline::new(PipelineParts {
            store: store.clone(),
            warehouses: Arc::clone(&warehouses),
            clock: Arc::clone(clock),
            settings,
            deletes_files: clone_of.is_none(),
        });
        Self {
            store: store.clone(),
            pipeline: Arc::new(pipeline),
            warehouses,
            clone_of: clone_of.clone(),
            settings: settings.clone(),
            usage: UsageCounters::new(),
            metrics_reports: ReportBuffer::default(),
            clock: Arc::clone(clock),
            ids: Arc::clone(ids),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Returns the current set of warehouses.
    pub(crate) fn warehouses(&self) -> Arc<ServedWarehouses> {
        self.warehouses.served()
    }

    /// Returns the object stores of the current set of warehouses.
    pub(crate) fn objects(&self) -> Objects {
        self.warehouses().objects.clone()
    }

    /// Returns the time, in milliseconds since 1970 (UTC).
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub(crate) fn ids(&self) -> &dyn Ids {
        self.ids.as_ref()
    }
}
