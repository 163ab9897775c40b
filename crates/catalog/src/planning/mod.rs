//! Scan planning: the server determines which files a client has to read for a filter.
//!
//! The plan of a small scan contains all files of the scan. The plan of a larger scan contains the
//! first files, and plan tasks for the others. A plan id or plan task is a [`token`] that contains
//! the request. It grants no rights: each use is authorized again. So the server needs to store
//! nothing for most tokens, and these tokens stay valid after a restart. It stores only requests
//! that are too long for a token and the results of [`submitted`] plans, in memory.
//!
//! A caller needs the permit to load the table and the privilege to read its files. A caller with a
//! read restriction gets a plan only if it is trusted to apply the restriction, or if the plan has
//! only files in which the row filter [permits](permitted_files) every row, because file names, partition
//! values and statistics disclose rows. The server reads manifests only at the table's own
//! locations ([`table`]), because writers choose the paths in the metadata of a table.

mod candidates;
mod compute;
mod deletes;
mod evaluation;
mod files;
mod health;
mod manifests;
mod permitted;
mod permitted_files;
mod plan;
mod planned_manifest;
mod prepare;
mod readable_rows;
mod reads;
mod recently_planned;
mod report;
mod request;
mod residual;
mod sign;
pub(crate) mod state;
mod submitted;
mod table;
mod table_health;
mod token;
mod warming;

use std::ops::Deref;
use std::sync::Arc;

pub use deletes::DeleteFiles;
pub use files::{FileTask, PlannedFiles, PruneCounts};
pub use health::{
    Advice, AdviceAction, DataFileCounts, DeleteFileCounts, Growth, ManifestCounts, MetadataCounts,
    SnapshotCounts, TableHealth,
};
pub use planned_manifest::PlannedManifest;
pub use report::ScanReport;
pub use request::ScanRequest;
pub use state::PlanningState;

use recently_planned::RecentlyPlanned;

use crate::core::Core;
use crate::tabular::delegation::{DelegatedAccess, Delegations};
use slateberg_telemetry::collection::Collection;

/// Scan planning. Cheap to clone.
#[derive(Clone)]
pub struct Planning(Arc<PlanningParts>);

/// The parts of [`Planning`].
pub struct PlanningParts {
    core: Arc<Core>,
    delegations: Delegations,
    recently_planned: RecentlyPlanned,
    shared: PlanningState,
}

impl Deref for Planning {
    type Target = PlanningParts;

    fn deref(&self) -> &PlanningParts {
        &self.0
    }
}

/// A plan.
#[derive(Debug)]
pub struct ScanPlan {
    /// Its id.
    pub id: String,
    /// The files of the plan.
    pub files: PlannedFiles,
    /// Plan tasks for the remaining files.
    pub plan_tasks: Vec<String>,
    /// Access to the table's files, if the client requested it.
    pub delegated: Option<DelegatedAccess>,
}

/// The state of a plan.
#[derive(Debug)]
pub enum PlanResult {
    /// The plan is complete.
    Completed(Box<ScanPlan>),
    /// The plan with this id is not complete yet. The client has to ask for the result.
    Submitted(String),
    /// The client cancelled it.
    Cancelled,
}

impl Planning {
    pub(crate) fn new(core: &Arc<Core>, delegations: &Delegations, shared: PlanningState) -> Self {
        Self(Arc::new(PlanningParts {
            core: Arc::clone(core),
            delegations: delegations.clone(),
            recently_planned: RecentlyPlanned::default(),
            shared,
        }))
    }

    /// Empties the cache of manifests. Plans of clients stay.
    pub(crate) fn clear_cache(&self) {
        self.shared.manifests.clear();
    }

    /// Collects the metrics of the caches and of the responses.
    pub(crate) fn collect(&self, into: &mut Collection) {
        self.shared.manifests.collect(into);
        self.shared.compute.collect(into);
        self.shared.long_requests.collect(into);
    }
}
