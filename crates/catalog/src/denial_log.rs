//! [`DenialLog`]: log lines about credentials without permissions.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::Operation;
use slateberg_model::principal::Identity;

/// Interval between two log lines about credentials without permissions.
const INTERVAL_MS: i64 = 1_000;

/// Limits the log lines about credentials without permissions.
#[derive(Default)]
pub(crate) struct DenialLog {
    last_ms: AtomicI64,
    suppressed: AtomicU64,
}

impl DenialLog {
    pub(crate) fn write(&self, now_ms: i64, operation: &Operation, identity: &Identity) {
        let last_ms = self.last_ms.load(Ordering::Relaxed);
        let due = now_ms.saturating_sub(last_ms) >= INTERVAL_MS || now_ms < last_ms;
        let order = Ordering::Relaxed;
        if !due || self.last_ms.compare_exchange(last_ms, now_ms, order, order).is_err() {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let suppressed = self.suppressed.swap(0, Ordering::Relaxed);
        let Identity { id, name, roles, .. } = identity;
        let source = operation.context.source_address.map(tracing::field::display);
        tracing::info!(
            principal = id,
            name,
            ?roles,
            source,
            suppressed,
            "request denied: no policy permits anything to this credential"
        );
    }
}
