//! [`Dependencies`]: parts of a catalog that tests replace.

use std::sync::Arc;

use crate::policies::FilePolicies;
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::ids::{Ids, RandomIds};
use slateberg_objects::open::{Opener, opener};

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
}

impl Default for Dependencies {
    fn default() -> Self {
        Self {
            opener: opener(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            policies: None,
        }
    }
}
