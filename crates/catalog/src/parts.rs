//! [`Parts`]: the components that a catalog is built from.

use std::sync::Arc;

use uuid::Uuid;

use super::planning::state::PlanningState;
use super::policies::sources::Sources;
use super::settings::Settings;
use super::warehouses::served_warehouses::ServedWarehouses;
use super::webhooks::target::TargetRules;
use slateberg_authz::authority::Authority;
use slateberg_authz::settings::Limits;
use slateberg_base::clock::Clock;
use slateberg_base::ids::Ids;
use slateberg_objects::stores::Stores;
use slateberg_store::Store;
use slateberg_store::records::CloneOf;

/// The components of a [`Catalog`](super::Catalog).
pub struct Parts {
    /// The store of the records.
    pub store: Store,
    /// The warehouses at the start, and their object stores.
    pub warehouses: ServedWarehouses,
    /// Opens the object stores of warehouses that are created at run time.
    pub stores: Stores,
    /// Evaluates policies.
    pub authority: Arc<Authority>,
    /// The sources of the policies in force.
    pub policy_sources: Sources,
    /// The limits for policies and grants that are created at run time.
    pub policy_limits: Limits,
    /// The parent, if this catalog is a clone.
    pub clone_of: Option<CloneOf>,
    /// The catalog's id.
    pub catalog_id: Uuid,
    /// The timeline id ([`Catalog::timeline`](super::Catalog::timeline)).
    pub timeline: Option<Uuid>,
    /// Limits and durations.
    pub settings: Settings,
    /// The settings of webhooks, and the rules for their receivers.
    pub webhooks: TargetRules,
    /// The caches and limits of scan planning.
    pub planning: PlanningState,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of new identifiers.
    pub ids: Arc<dyn Ids>,
}
