//! [`Access`]: permission checks of requests, and the errors of denied ones.

use std::sync::Arc;

use crate::denial_log::DenialLog;
use crate::environment::Environment;
use slateberg_authz::authority::Authority;

/// Evaluates policies for requests, and records denials.
pub struct Access {
    pub(crate) environment: Arc<Environment>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) denial_log: DenialLog,
}

impl Access {
    pub(crate) fn new(environment: Arc<Environment>, authority: Arc<Authority>) -> Self {
        Self { environment, authority, denial_log: DenialLog::default() }
    }
}
