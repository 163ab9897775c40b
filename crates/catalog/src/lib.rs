//! Rank 5: the use cases. Everything that a client can cause happens here, and nothing here knows HTTP.
//!
//! Requests change the catalog through the commit [`pipeline`] alone.
//!
//! Reads see durable state, and wait for a metadata file that is still on its way. What is known of a
//! version is kept ([`version_cache`]).

mod attributes;
pub mod checkpoints;
pub mod clones;
pub mod delegation;
mod denials;
mod described;
mod detached;
pub mod encryption;
pub mod error;
mod exception;
mod expiry;
mod file_permits;
pub mod jobs;
mod known_pages;
mod listings;
mod loadable;
mod locations;
pub mod lookup;
pub mod namespaces;
pub mod operation;
mod overlaps;
mod permits;
mod pipeline;
mod places;
pub mod policies;
mod reading;
pub mod settings;
mod space;
pub mod tables;
mod tabular;
pub mod transfer;
mod turns;
mod version_cache;
pub mod views;
pub mod warehouses;

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

pub use error::Error;
pub use operation::Operation;
pub use pipeline::publications::FinishedPublications;
use pipeline::{Pipeline, PipelineParts};
pub use places::ensure_whereabouts;
pub use reading::{ReadAccess, ReadVersion, Readable};
use tabular::group::CommitGroups;
pub use tabular::load::Loaded;
pub use tabular::state::TabularState;
use warehouses::Warehouses;
use warehouses::served::Served;

use slateberg_authz::authority::Authority;
use slateberg_authz::settings::Limits;
use slateberg_base::clock::Clock;
use slateberg_base::ids::Ids;
use slateberg_objects::Objects;
use slateberg_objects::stores::Stores;
use slateberg_objects::vend::cache::VendCache;
use slateberg_store::warm::Warmed;
use slateberg_store::{self as store, Store};
use slateberg_telemetry::collection::Collection;

/// The result of a use case.
pub type Result<T> = std::result::Result<T, Error>;

/// The catalog. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    inner: Arc<Inner>,
}

/// What a catalog is made of.
pub struct Parts {
    /// The records.
    pub store: Store,
    /// The warehouses that it begins with, and their files.
    pub warehouses: Served,
    /// How the stores of those are opened that are made at run time.
    pub stores: Stores,
    /// Who may do what.
    pub authority: Arc<Authority>,
    /// What the policies in force are made of.
    pub policy_sources: policies::Sources,
    /// How many policies and grants may be made at run time.
    pub policy_limits: Limits,
    /// Of what it is a clone; none if it is none.
    pub clone_of: Option<clones::CloneOf>,
    /// What tells its versions from those of the same tables that were counted elsewhere, if any were.
    pub timeline: Option<Uuid>,
    /// Its bounds and times.
    pub settings: settings::Settings,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New identifiers.
    pub ids: Arc<dyn Ids>,
}

struct Inner {
    parts: Parts,
    pipeline: Arc<Pipeline>,
    /// The commits that wait for their lanes, by table and view.
    groups: CommitGroups,
    known_pages: known_pages::KnownPages,
    jobs: jobs::Jobs,
    policies: policies::Policies,
    warehouses: Arc<Warehouses>,
    vended: VendCache,
    staged: delegation::StagedTables,
    notices: denials::Notices,
}

impl Catalog {
    /// Puts a catalog together.
    pub fn new(parts: Parts) -> Self {
        let settings = &parts.settings;
        let warehouses = Arc::new(Warehouses::new(parts.warehouses.clone()));
        let pipeline = Pipeline::new(PipelineParts {
            store: parts.store.clone(),
            warehouses: Arc::clone(&warehouses),
            clock: Arc::clone(&parts.clock),
            settings,
        });
        let inner = Inner {
            pipeline: Arc::new(pipeline),
            groups: CommitGroups::new(settings.commit_lane_depth_max),
            known_pages: known_pages::KnownPages::new(settings.listing_cache_bytes),
            jobs: jobs::Jobs::new(settings),
            policies: policies::Policies::new(parts.policy_sources.clone()),
            warehouses,
            vended: VendCache::new(settings.vended_credentials_max),
            staged: delegation::StagedTables::default(),
            notices: denials::Notices::default(),
            parts,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The catalog's bounds and times.
    pub fn settings(&self) -> &settings::Settings {
        &self.inner.parts.settings
    }

    /// What tells its versions from those of the same tables that were counted elsewhere, if any were: before
    /// a restore, where an export comes from, in the parent of a clone.
    pub fn timeline(&self) -> Option<Uuid> {
        self.inner.parts.timeline
    }

    /// The warehouses that it serves at this moment.
    pub fn warehouses(&self) -> Arc<Served> {
        self.inner.warehouses.served()
    }

    /// Tells what is measured.
    pub fn collect(&self, into: &mut Collection) {
        self.pipeline().metrics.collect(into);
        self.inner.groups.collect(into);
        self.inner.jobs.counters.collect(into);
        self.pipeline().versions.usage().collect(into, "version", "Versions of tables and views");
        let pages = self.inner.known_pages.usage();
        pages.collect(into, "listing", "Pages of names that policies filter");
        self.inner.parts.authority.collect(into);
        self.store().collect(into);
        self.pipeline().space.collect(into);
    }

    /// Whether the catalog's store is open for writing, or why not.
    pub fn check_open(&self) -> std::result::Result<(), store::Error> {
        self.store().check_open()
    }

    /// Returns when the catalog's store has shut, whoever shut it.
    pub async fn store_closed(&self) -> store::Error {
        self.store().closed().await
    }

    /// Fetches what reads need from the store's bucket, for at most so long.
    pub async fn warm_up(&self, at_most: Duration) -> Warmed {
        self.store().warm_up(at_most).await
    }

    /// Turns the log into a file of level 0, so that the next start has little to replay.
    pub async fn flush(&self) -> Result<()> {
        Ok(self.store().flush().await?)
    }

    /// Closes the catalog: what was accepted is durable before this returns.
    pub async fn close(&self) -> std::result::Result<(), store::Error> {
        self.give_up_on_space();
        if let Err(error) = self.forget_landed().await {
            tracing::warn!(?error, "markers of landed publications are left to the next start");
        }
        self.store().close().await
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        &self.inner.pipeline
    }

    fn store(&self) -> &Store {
        &self.inner.parts.store
    }

    fn objects(&self) -> Objects {
        self.warehouses().objects.clone()
    }

    /// The time, in milliseconds since 1970 (UTC).
    pub fn now_ms(&self) -> i64 {
        self.inner.parts.clock.now_ms()
    }

    /// A name for this run of the server.
    pub fn new_run_id(&self) -> Uuid {
        self.ids().ordered()
    }

    fn ids(&self) -> &dyn Ids {
        self.inner.parts.ids.as_ref()
    }
}
