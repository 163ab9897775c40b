//! Metrics and their registration.

use std::sync::Arc;

use slateberg_objects::hedged::hedged_opener;
use slateberg_objects::measured::measured_opener;
use slateberg_objects::open::Opener;
use slateberg_telemetry::connections::Connections;
use slateberg_telemetry::counters::Counters;
use slateberg_telemetry::issuers::IssuerFetches;
use slateberg_telemetry::process;
use slateberg_telemetry::registry::Registry;
use slateberg_telemetry::requests::{HedgedPuts, RequestMetrics, TaskRuns};

/// The metrics of a catalog and of its start.
pub struct CatalogMetrics {
    /// The sources of metrics.
    pub registry: Arc<Registry>,
    /// Counters of rare events.
    pub counters: Arc<Counters>,
    /// Open connections.
    pub connections: Arc<Connections>,
    pub(super) task_runs: Arc<TaskRuns>,
    pub(super) object_stores: Arc<RequestMetrics>,
    pub(super) hedged_puts: Arc<HedgedPuts>,
    pub(super) kms: Arc<RequestMetrics>,
    pub(super) issuers: Arc<IssuerFetches>,
}

impl Default for CatalogMetrics {
    fn default() -> Self {
        Self {
            registry: Arc::default(),
            counters: Arc::default(),
            connections: Arc::default(),
            task_runs: Arc::default(),
            object_stores: Arc::new(RequestMetrics::to_object_stores()),
            hedged_puts: Arc::default(),
            kms: Arc::new(RequestMetrics::to_kms()),
            issuers: Arc::default(),
        }
    }
}

impl CatalogMetrics {
    /// Wraps an opener so that requests to warehouses are measured, and puts are hedged.
    pub(super) fn warehouses(&self, opener: &Opener) -> Opener {
        let (opener, store) = (Arc::clone(opener), "warehouse");
        let opener = measured_opener(opener, Arc::clone(&self.object_stores), store);
        hedged_opener(opener, Arc::clone(&self.hedged_puts), store)
    }

    /// Registers the metric sources.
    pub(super) fn register(&self) {
        let counters = Arc::clone(&self.counters);
        self.registry.register("counters", move |into| counters.collect(into));
        self.registry.register("process", process::collect);
        let issuers = Arc::clone(&self.issuers);
        self.registry.register("issuers", move |into| issuers.collect(into));
        let connections = Arc::clone(&self.connections);
        self.registry.register("connections", move |into| connections.collect(into));
        let hedged_puts = Arc::clone(&self.hedged_puts);
        self.registry.register("hedged_puts", move |into| hedged_puts.collect(into));
        let task_runs = Arc::clone(&self.task_runs);
        self.registry.register("background", move |into| task_runs.collect(into));
        for (name, requests) in [("object_stores", &self.object_stores), ("kms", &self.kms)] {
            let requests = Arc::clone(requests);
            self.registry.register(name, move |into| requests.collect(into));
        }
    }
}
