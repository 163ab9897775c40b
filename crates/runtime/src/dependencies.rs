//! [`Dependencies`]: parts of a catalog that tests replace.

use std::sync::Arc;

use crate::policies::FilePolicies;
use slateberg_authn::issuers::Issuers;
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::ids::{Ids, RandomIds};
use slateberg_catalog::planning::PlanningState;
use slateberg_catalog::settings::Settings as CatalogSettings;
use slateberg_objects::open::{Opener, opener};
use slateberg_store::Store;
use slateberg_store::encryption::Encryption;
use slateberg_telemetry::connections::Connections;

/// The replaceable parts.
pub struct Dependencies {
    /// Opens the object store of a URL.
    pub opener: Opener,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The generator of ids.
    pub ids: Arc<dyn Ids>,
    /// The policies of the configured files, if they were loaded before.
    pub policies: Option<FilePolicies>,
    /// The token issuers, if they were read before. All catalogs of a process share their keys.
    pub issuers: Option<Issuers>,
    /// The caches and limits of scan planning, if the process opens several catalogs of the same
    /// state, one after the other.
    pub planning: Option<PlanningState>,
    /// The encryption of the state, if the process has unlocked its keys before.
    pub encryption: Option<Encryption>,
    /// The open connections of the process.
    pub connections: Arc<Connections>,
    /// The part of this process in a cluster.
    pub part: ClusterPart,
}

/// The part of a process in a cluster. A member of a cluster has probed the object stores at its
/// start.
#[derive(Clone, Default)]
pub enum ClusterPart {
    /// No other process opens the store.
    #[default]
    Alone,
    /// The process was elected as the writer.
    Writer {
        /// The epoch of the previous writer. The catalog is not opened if another process has
        /// opened the store since this epoch was read. `None` if the epoch could not be read.
        previous_epoch: Option<u64>,
    },
    /// The process executes reads on this replica of the store.
    Standby(Store),
}

impl Dependencies {
    /// Returns the caches and limits of scan planning. Creates them unless there are shared ones.
    pub(super) fn planning(&self, settings: &CatalogSettings) -> PlanningState {
        self.planning.clone().unwrap_or_else(|| PlanningState::new(settings))
    }

    /// Returns the same parts for another catalog of this process.
    pub fn share(&self) -> Self {
        Self {
            opener: Arc::clone(&self.opener),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            policies: None,
            issuers: self.issuers.clone(),
            planning: self.planning.clone(),
            encryption: self.encryption.clone(),
            connections: Arc::clone(&self.connections),
            part: self.part.clone(),
        }
    }
}

impl Default for Dependencies {
    fn default() -> Self {
        Self {
            opener: opener(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            policies: None,
            issuers: None,
            planning: None,
            encryption: None,
            connections: Arc::default(),
            part: ClusterPart::Alone,
        }
    }
}
