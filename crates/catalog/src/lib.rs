//! Rank 5 (`docs/architecture.md`): the operations of the catalog, independent of HTTP.
//!
//! [`Catalog`] is a facade over parts, each with its own state. The parts share a [`Core`]: the
//! [`environment`] (store, warehouses, settings, clock) and the [access](Access) control of
//! requests.
//!
//! All changes by requests go through the commit [`pipeline`].
//!
//! Reads return durable state. If the metadata file of a version is not written yet, a read waits
//! for the file. The [`version_cache`] caches the parsed metadata of versions.

mod access;
mod admission;
pub mod append_rebase;
mod attributes;
mod changed;
pub mod checkpoints;
mod clones;
pub mod cluster;
mod commit_counts;
mod core;
mod denial_log;
mod denials;
mod detached;
mod disk_space;
pub mod encryption;
mod environment;
pub mod error;
mod expiry;
mod file_permits;
mod function_permits;
pub mod functions;
pub mod history;
pub mod jobs;
pub mod labels;
mod listing_cache;
mod listings;
mod loadable;
mod location_index;
mod locations;
pub mod lookup;
mod maintenance_settings;
pub mod metrics_reports;
pub mod namespaces;
pub mod operation;
mod overlaps;
mod parts;
pub mod past;
mod permits;
mod pipeline;
pub mod planning;
pub mod policies;
pub mod protections;
mod referenced_by;
pub mod replicas;
mod resource_lookup;
pub mod search;
mod serial_lock;
pub mod settings;
mod table_maintenance;
pub mod tables;
mod tabular;
pub mod transfer;
pub mod usage;
mod version_cache;
pub mod views;
pub mod warehouses;
pub mod watch;
pub mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use self::core::Core;
pub use access::Access;
use checkpoints::Checkpoints;
use cluster::Cluster;
use encryption::Encryption;
pub use error::{Error, Result};
use expiry::Maintenance;
use functions::Functions;
use history::History;
use jobs::Jobs;
use labels::Labels;
use listings::Listings;
pub use location_index::ensure_location_index;
pub use maintenance_settings::check_properties as check_maintenance_properties;
use metrics_reports::MetricsReports;
use namespaces::Namespaces;
pub use operation::{Operation, RequestContext};
pub use parts::Parts;
use past::PastStates;
pub use pipeline::publications::FinishedPublications;
use planning::Planning;
use policies::Policies;
use protections::Protections;
use replicas::Replicas;
use search::Search;
use settings::Settings;
pub use table_maintenance::TableMaintenance;
pub use tabular::Tabulars;
use tabular::delegation::Delegations;
pub use tabular::delegation::{AccessMode, DelegatedAccess};
pub use tabular::dropped::undrop::{UndropRequest, UndropResult};
pub use tabular::dropped::{DroppedInfo, DroppedPage};
pub use tabular::expire::{ExpiredSnapshot, ExpiredSnapshots, SnapshotExpiry};
pub use tabular::load::Loaded;
pub use tabular::read_access::{Enforcement, ReadAccess, ReadVersion, Readable};
pub use tabular::recursive_drop::{DroppedTree, RecursiveDrop};
pub use tabular::rewrite::{ManifestRewrite, RewrittenManifests};
pub use tabular::state::TabularState;
use usage::Usage;
use warehouses::Warehouses;
use watch::Watches;
use webhooks::Webhooks;

use slateberg_base::boxed;
use slateberg_base::error_chain::chain;
use slateberg_base::progress::Progress;
use slateberg_store as store;
pub use slateberg_store::records::CloneOf;
use slateberg_store::warm_up::WarmUpProgress;
use slateberg_telemetry::collection::Collection;

/// The catalog: a facade over its parts. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    inner: Arc<Inner>,
}

struct Inner {
    catalog_id: Uuid,
    core: Arc<Core>,
    timeline: Option<Uuid>,
    namespaces: Namespaces,
    functions: Functions,
    tabulars: Tabulars,
    delegations: Delegations,
    planning: Planning,
    listings: Listings,
    warehouses: Warehouses,
    policies: Policies,
    protections: Protections,
    labels: Labels,
    search: Search,
    usage: Usage,
    metrics_reports: MetricsReports,
    history: History,
    past: PastStates,
    watches: Watches,
    webhooks: Webhooks,
    jobs: Jobs,
    checkpoints: Checkpoints,
    cluster: Cluster,
    replicas: Replicas,
    encryption: Encryption,
    maintenance: Maintenance,
    table_maintenance: TableMaintenance,
}

impl Catalog {
    /// Creates a catalog.
    pub fn new(parts: Parts) -> Self {
        let core = Arc::new(Core::new(&parts));
        let (listings, jobs) = (Listings::new(&core), Jobs::new(&core));
        let delegations = Delegations::new(&core);
        let tabulars = Tabulars::new(&core, &listings, &delegations, &jobs);
        let watches = Watches::new(&core, parts.timeline.unwrap_or(parts.catalog_id));
        let inner = Inner {
            catalog_id: parts.catalog_id,
            timeline: parts.timeline,
            namespaces: Namespaces::new(&core, &listings),
            functions: Functions::new(&core, &listings),
            maintenance: Maintenance::new(&core, &tabulars),
            table_maintenance: TableMaintenance::new(&core, &tabulars, &jobs),
            metrics_reports: MetricsReports::new(&core, &tabulars),
            tabulars,
            planning: Planning::new(&core, &delegations, parts.planning),
            delegations,
            search: Search::new(&core, &listings),
            usage: Usage::new(&core, &listings),
            listings,
            warehouses: Warehouses::new(&core, parts.stores),
            protections: Protections::new(&core),
            labels: Labels::new(&core),
            history: History::new(&core),
            past: PastStates::new(&core, &watches),
            webhooks: Webhooks::new(&core, &watches, parts.webhooks),
            watches,
            policies: Policies::new(&core, parts.policy_sources, parts.policy_limits),
            jobs,
            checkpoints: Checkpoints::new(&core),
            cluster: Cluster::new(&core),
            replicas: Replicas::new(&core),
            encryption: Encryption::new(&core),
            core,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Namespaces.
    pub fn namespaces(&self) -> &Namespaces {
        &self.inner.namespaces
    }

    /// Functions.
    pub fn functions(&self) -> &Functions {
        &self.inner.functions
    }

    /// Tables and views.
    pub fn tabulars(&self) -> &Tabulars {
        &self.inner.tabulars
    }

    /// File access for clients: credentials and signatures for the files of tables.
    pub fn delegations(&self) -> &Delegations {
        &self.inner.delegations
    }

    /// Scan planning.
    pub fn planning(&self) -> &Planning {
        &self.inner.planning
    }

    /// Warehouses.
    pub fn warehouses(&self) -> &Warehouses {
        &self.inner.warehouses
    }

    /// Policies and grants.
    pub fn policies(&self) -> &Policies {
        &self.inner.policies
    }

    /// Labels of tables, views and their columns.
    pub fn labels(&self) -> &Labels {
        &self.inner.labels
    }

    /// Protections against removal.
    pub fn protections(&self) -> &Protections {
        &self.inner.protections
    }

    /// The use of tables and views.
    pub fn usage(&self) -> &Usage {
        &self.inner.usage
    }

    /// The metrics reports of clients.
    pub fn metrics_reports(&self) -> &MetricsReports {
        &self.inner.metrics_reports
    }

    /// The search for names, columns and comments.
    pub fn search(&self) -> &Search {
        &self.inner.search
    }

    /// The change log.
    pub fn history(&self) -> &History {
        &self.inner.history
    }

    /// Earlier states.
    pub fn past(&self) -> &PastStates {
        &self.inner.past
    }

    /// The id of the catalog.
    pub fn id(&self) -> Uuid {
        self.inner.catalog_id
    }

    /// The change feed.
    pub fn watches(&self) -> &Watches {
        &self.inner.watches
    }

    /// Webhooks.
    pub fn webhooks(&self) -> &Webhooks {
        &self.inner.webhooks
    }

    /// Background jobs.
    pub fn jobs(&self) -> &Jobs {
        &self.inner.jobs
    }

    /// Checkpoints of the store.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.inner.checkpoints
    }

    /// The cluster of which this catalog is the writer.
    pub fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    /// The replicas of this catalog, or the writer of which this catalog is a replica.
    pub fn replicas(&self) -> &Replicas {
        &self.inner.replicas
    }

    /// The key ring of the store.
    pub fn encryption(&self) -> &Encryption {
        &self.inner.encryption
    }

    /// Removal of expired records.
    pub fn maintenance(&self) -> &Maintenance {
        &self.inner.maintenance
    }

    /// Scheduled maintenance of tables.
    pub fn table_maintenance(&self) -> &TableMaintenance {
        &self.inner.table_maintenance
    }

    /// Permissions of requests, and the audit log.
    pub fn access(&self) -> &Access {
        &self.inner.core.access
    }

    /// Returns the limits and durations of the catalog.
    pub fn settings(&self) -> &Settings {
        self.inner.core.settings()
    }

    /// Returns the timeline id. A restore, import or clone changes it, so that earlier `ETag`s
    /// cannot match.
    pub fn timeline(&self) -> Option<Uuid> {
        self.inner.timeline
    }

    /// Returns the parent, if this catalog is a clone.
    pub fn clone_of(&self) -> Option<&CloneOf> {
        self.inner.core.environment.clone_of.as_ref()
    }

    /// Returns the number of requests to the caches of records so far. Every request for a
    /// namespace, table or view makes some. Background tasks make none while nothing changes.
    pub fn cache_requests(&self) -> u64 {
        self.inner.core.store().cache_requests()
    }

    /// Empties the large caches, to release their memory.
    pub fn clear_caches(&self) {
        let Inner { core, planning, .. } = &*self.inner;
        core.store().clear_caches();
        core.pipeline().versions.clear();
        planning.clear_cache();
    }

    /// Collects the metrics of the catalog.
    pub fn collect(&self, into: &mut Collection) {
        let Inner { core, tabulars, planning, listings, search, jobs, metrics_reports, .. } =
            &*self.inner;
        let pipeline = core.pipeline();
        pipeline.metrics.collect(into);
        tabulars.collect(into);
        jobs.collect(into);
        pipeline.versions.usage().collect(into, "version", "Versions of tables and views");
        listings.collect(into);
        search.collect(into);
        planning.collect(into);
        metrics_reports.collect(into);
        core.access.authority.collect(into);
        core.store().collect(into);
        pipeline.space.collect(into);
    }

    /// Returns an error if the store is not open for writing.
    pub fn check_open(&self) -> std::result::Result<(), store::Error> {
        self.inner.core.store().check_open()
    }

    /// Waits until the store has closed and returns the reason.
    #[boxed]
    pub async fn store_closed(&self) -> store::Error {
        self.inner.core.store().wait_closed().await
    }

    /// Fetches those parts of the store that every read needs. Stops after `at_most`.
    #[boxed]
    pub async fn warm_up(&self, at_most: Duration) -> WarmUpProgress {
        self.inner.core.store().warm_up(at_most).await
    }

    /// Writes the memtable to level 0, so that the next start replays less of the log.
    #[boxed]
    pub async fn flush(&self) -> Result<()> {
        Ok(self.inner.core.store().flush().await?)
    }

    /// Finishes the publications that an earlier process left unfinished. If a file of a warehouse
    /// cannot be written within `patience`, a background task retries the files of this warehouse.
    #[boxed]
    pub async fn finish_publications(
        &self,
        patience: Duration,
        progress: &Progress,
    ) -> Result<FinishedPublications> {
        self.inner.core.pipeline().finish_publications(None, patience, progress).await
    }

    /// Stops the retries of writes that fail for lack of disk space, because the catalog is about
    /// to close.
    pub fn give_up_on_space(&self) {
        self.inner.core.store().give_up_on_space();
    }

    /// Returns the reason why writes are rejected at present, in all warehouses or in one.
    pub fn shortage(&self) -> Option<String> {
        let core = &self.inner.core;
        match core.store().check_writable() {
            Ok(()) => core.pipeline().space.shortage(),
            Err(error) => Some(Error::from(error).to_string()),
        }
    }

    /// Closes the catalog. Accepted changes are durable before this returns.
    #[boxed]
    pub async fn close(&self) -> std::result::Result<(), store::Error> {
        self.give_up_on_space();
        self.inner.core.pipeline().complete_publications().await;
        if let Err(error) = self.store_usage().await {
            tracing::warn!(
                error = chain(&error),
                "cannot store how tables were used since the last minute"
            );
        }
        self.inner.core.store().close().await
    }

    /// Adds the counted uses of tables and views, and the metrics reports that wait, to the store.
    /// Returns the number of records.
    #[boxed]
    pub async fn store_usage(&self) -> Result<usize> {
        let Inner { usage, metrics_reports, .. } = &*self.inner;
        let counts = usage.store_counts().await?;
        Ok(counts + metrics_reports.store().await?)
    }

    /// Returns the time, in milliseconds since 1970 (UTC).
    pub fn now_ms(&self) -> i64 {
        self.inner.core.now_ms()
    }

    /// Returns a new id for this run of the server.
    pub fn new_run_id(&self) -> Uuid {
        self.inner.core.ids().ordered()
    }
}
