//! Settings of this room; each field's default stands in `config/default.toml`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Where policies come from, and how much is remembered of what they said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Policy files, and directories of them; none for the policies that come with the program.
    pub policy_paths: Vec<PathBuf>,
    /// Seconds between two looks at those files; 0 for a look at SIGHUP alone.
    pub policy_reload_seconds: u64,
    /// Whether what was made of policies and grants at run time is in force.
    pub stored_policies: bool,
    /// Decisions that are remembered. One that takes more than 1 KiB counts as several. 0 for a share of
    /// `memory_bytes_max`.
    pub decisions_max: usize,
    /// Policies that may be made at run time.
    pub policies_max: usize,
    /// Grants that there may be.
    pub grants_max: usize,
    /// Bytes that a policy made at run time may have.
    pub policy_bytes_max: usize,
}

/// How much may be made at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Policies that there may be.
    pub policies_max: usize,
    /// Grants that there may be.
    pub grants_max: usize,
    /// Bytes that a policy may have.
    pub policy_bytes_max: usize,
}

impl Settings {
    /// How long it is until the next look at the policy files; none if only a signal brings it.
    pub fn policy_reload(&self) -> Option<Duration> {
        (self.policy_reload_seconds > 0).then(|| Duration::from_secs(self.policy_reload_seconds))
    }

    /// How much may be made at run time.
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
