//! [`WarehouseRegistry`]: the current set of warehouses, which a change replaces as a whole.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::served_warehouses::ServedWarehouses;

/// The current set of warehouses.
pub(crate) struct WarehouseRegistry(ArcSwap<ServedWarehouses>);

impl WarehouseRegistry {
    pub(crate) fn new(served: ServedWarehouses) -> Self {
        Self(ArcSwap::from_pointee(served))
    }

    /// Returns the set.
    pub(crate) fn served(&self) -> Arc<ServedWarehouses> {
        self.0.load_full()
    }

    /// Returns the set without the cost of counting a reference. Only for short accesses.
    pub(super) fn peek(&self) -> Guard<Arc<ServedWarehouses>> {
        self.0.load()
    }

    /// Replaces the set. The caller must hold the lock on changes of the warehouses.
    pub(super) fn serve(&self, served: ServedWarehouses) {
        self.0.store(Arc::new(served));
    }
}
