//! Tables and views. The catalog handles both in the same way: as a name, a record, and metadata
//! that each commit replaces with a new version.
//! [`TabularMetadata`](metadata::TabularMetadata) contains the differences.

pub(crate) mod append;
mod apply;
pub(crate) mod builder;
pub(crate) mod change;
pub(crate) mod commit;
pub(crate) mod create;
mod delegated_access;
pub(crate) mod delegation;
pub(crate) mod dropped;
pub(crate) mod expire;
pub(crate) mod group;
pub(crate) mod groups;
pub(crate) mod head;
pub(crate) mod load;
pub(crate) mod metadata;
pub(crate) mod read_access;
pub(crate) mod recursive_drop;
pub(crate) mod register;
pub(crate) mod removal;
pub(crate) mod rename;
pub(crate) mod rewrite;
pub(crate) mod state;
pub(crate) mod target;
pub(crate) mod transaction;
pub(crate) mod turns;
pub(crate) mod write;

use std::sync::Arc;

use tokio::sync::Semaphore;

use self::append::lists::ManifestLists;
use self::delegation::Delegations;
use self::groups::CommitGroups;
use self::turns::Turns;
use crate::commit_counts::CommitCounts;
use crate::core::Core;
use crate::jobs::Jobs;
use crate::listings::Listings;
use slateberg_telemetry::collection::Collection;

/// Maximum number of rewrites of manifests that run concurrently. Each holds new manifests in memory.
const REWRITES_MAX: usize = 2;

/// Tables and views, for requests. Cheap to clone.
#[derive(Clone)]
pub struct Tabulars {
    pub(crate) core: Arc<Core>,
    /// Commits that wait for the lanes of tables and views.
    groups: Arc<CommitGroups>,
    listings: Listings,
    delegations: Delegations,
    pub(crate) jobs: Jobs,
    manifest_lists: Arc<ManifestLists>,
    turns: Arc<Turns>,
    /// Bounds the memory of rewrites of manifests.
    rewrites: Arc<Semaphore>,
    /// Counts the commits to tables, if the server maintains tables.
    pub(crate) commit_counts: Arc<CommitCounts>,
}

impl Tabulars {
    pub(crate) fn new(
        core: &Arc<Core>,
        listings: &Listings,
        delegations: &Delegations,
        jobs: &Jobs,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            groups: Arc::new(CommitGroups::new(core.settings().commit_lane_depth_max)),
            listings: listings.clone(),
            delegations: delegations.clone(),
            jobs: jobs.clone(),
            manifest_lists: Arc::new(ManifestLists::new(core.settings())),
            turns: Arc::new(Turns::new(core.settings().append_rebase_turn())),
            rewrites: Arc::new(Semaphore::new(REWRITES_MAX)),
            commit_counts: Arc::default(),
        }
    }

    /// Collects the metrics of waiting commits.
    pub(crate) fn collect(&self, into: &mut Collection) {
        self.groups.collect(into);
        self.manifest_lists.collect(into);
        self.turns.collect(into);
    }
}
