//! [`Seams`]: parts of a catalog that tests replace.

use std::sync::Arc;

use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::ids::{Ids, RandomIds};
use slateberg_objects::open::{Opener, opener};

/// The parts that a test may replace.
pub struct Seams {
    /// From URLs to object stores.
    pub opener: Opener,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New identifiers.
    pub ids: Arc<dyn Ids>,
}

impl Default for Seams {
    fn default() -> Self {
        Self { opener: opener(), clock: Arc::new(SystemClock), ids: Arc::new(RandomIds) }
    }
}
