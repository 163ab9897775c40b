//! [`Access`]: checks the permissions of requests, and returns the errors of denied requests.

use std::sync::Arc;

use tokio::sync::watch;

use crate::denial_log::DenialLog;
use crate::environment::Environment;
use slateberg_authz::authority::Authority;
use slateberg_authz::policy_set::PolicySet;

/// Evaluates policies for requests, and records denials.
pub struct Access {
    pub(crate) environment: Arc<Environment>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) denial_log: DenialLog,
    policy_changes: watch::Sender<()>,
}

impl Access {
    pub(crate) fn new(environment: Arc<Environment>, authority: Arc<Authority>) -> Self {
        let policy_changes = watch::Sender::new(());
        Self { environment, authority, denial_log: DenialLog::default(), policy_changes }
    }

    /// Puts policies in force.
    pub(crate) fn put_policies_in_force(&self, policies: PolicySet) {
        self.authority.replace(policies);
        self.policy_changes.send_replace(());
    }

    /// Returns a channel that is notified when other policies come into force.
    pub(crate) fn policy_changes(&self) -> watch::Receiver<()> {
        self.policy_changes.subscribe()
    }
}
