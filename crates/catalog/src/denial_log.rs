//! [`DenialLog`]: log lines about credentials without permissions.

use std::time::Duration;

use crate::Operation;
use slateberg_base::rate::LogThrottle;
use slateberg_model::principal::Identity;

/// Interval between two log lines about credentials without permissions.
const INTERVAL: Duration = Duration::from_secs(1);

/// Limits the log lines about credentials without permissions.
pub(crate) struct DenialLog(LogThrottle);

impl Default for DenialLog {
    fn default() -> Self {
        Self(LogThrottle::new(INTERVAL))
    }
}

impl DenialLog {
    pub(crate) fn write(&self, operation: &Operation, identity: &Identity) {
        let Some(suppressed) = self.0.next_line() else { return };
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
