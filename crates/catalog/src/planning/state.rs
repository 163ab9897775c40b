//! [`PlanningState`]: the caches and limits of scan planning.

use std::ops::Deref;
use std::sync::Arc;

use super::compute::Compute;
use super::manifests::ManifestCache;
use super::submitted::SubmittedPlans;
use super::token::LongRequests;
use crate::settings::Settings;

/// Divisor of `catalog.manifest_cache_bytes`. The quotient is the memory for long requests.
const REQUESTS_DIVISOR: u64 = 8;
/// Minimum memory for long requests, in bytes. A filter of the maximum size must fit into it.
const REQUESTS_BYTES_MIN: u64 = 2 << 20;

/// Divisor of `catalog.plan_bytes_max`. The quotient is the memory for the results of submitted
/// plans.
const SUBMITTED_DIVISOR: u64 = 4;

/// The caches and limits of scan planning. A process that opens the catalog of the same state again
/// and again keeps them. Cheap to clone.
#[derive(Clone)]
pub struct PlanningState(Arc<PlanningStateParts>);

/// The parts of [`PlanningState`].
pub struct PlanningStateParts {
    pub(super) manifests: ManifestCache,
    pub(super) compute: Compute,
    pub(super) long_requests: LongRequests,
    pub(super) submitted: SubmittedPlans,
}

impl Deref for PlanningState {
    type Target = PlanningStateParts;

    fn deref(&self) -> &PlanningStateParts {
        &self.0
    }
}

impl PlanningState {
    /// Creates empty caches with these limits.
    pub fn new(settings: &Settings) -> Self {
        // Both share `catalog.manifest_cache_bytes`, so that they stay within the memory budget.
        let total = settings.manifest_cache_bytes;
        let requests_bytes = (total / REQUESTS_DIVISOR).max(REQUESTS_BYTES_MIN);
        // Both share `catalog.plan_bytes_max`.
        let plan_bytes_max = settings.plan_bytes_max;
        let submitted_bytes = plan_bytes_max / SUBMITTED_DIVISOR;
        let (plans_max, response_bytes) =
            (settings.plans_parallel_max, plan_bytes_max - submitted_bytes);
        Self(Arc::new(PlanningStateParts {
            manifests: ManifestCache::new(total.saturating_sub(requests_bytes).max(1)),
            compute: Compute::new(plans_max, response_bytes),
            long_requests: LongRequests::new(requests_bytes),
            submitted: SubmittedPlans::new(plans_max, submitted_bytes),
        }))
    }
}
