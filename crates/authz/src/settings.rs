//! Authorization settings. `config/default.toml` documents the default of each field.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Sources of policies, limits, and the size of the decision cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Paths of policy files or directories. If there are none, the default policies are in force.
    pub policy_paths: Vec<PathBuf>,
    /// Interval between checks of those files, in seconds. If it is 0, they are reloaded only on
    /// SIGHUP.
    pub policy_reload_seconds: u64,
    /// Whether policies and grants that were created at run time are in force.
    pub stored_policies: bool,
    /// Capacity of the decision cache, in decisions. A decision of more than 1 KiB counts as
    /// several. If it is 0, the cache has a share of `memory_bytes_max`.
    pub decisions_max: usize,
    /// Maximum number of policies that are created at run time.
    pub policies_max: usize,
    /// Maximum number of grants.
    pub grants_max: usize,
    /// Maximum size of a policy that is created at run time, in bytes.
    pub policy_bytes_max: usize,
}

/// Limits of policies and grants that are created at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of policies.
    pub policies_max: usize,
    /// Maximum number of grants.
    pub grants_max: usize,
    /// Maximum size of a policy, in bytes.
    pub policy_bytes_max: usize,
}

impl Settings {
    /// Returns the interval between checks of the policy files. `None` if they are reloaded only on
    /// SIGHUP.
    pub fn policy_reload(&self) -> Option<Duration> {
        (self.policy_reload_seconds > 0).then(|| Duration::from_secs(self.policy_reload_seconds))
    }

    /// Returns the limits of policies and grants that are created at run time.
    pub fn limits(&self) -> Limits {
        let Self { policies_max, grants_max, policy_bytes_max, .. } = *self;
        Limits { policies_max, grants_max, policy_bytes_max }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy_paths: Vec::new(),
            policy_reload_seconds: 5,
            stored_policies: true,
            decisions_max: 0,
            policies_max: 1_000,
            grants_max: 10_000,
            policy_bytes_max: 64 << 10,
        }
    }
}
