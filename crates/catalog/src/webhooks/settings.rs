//! Settings of webhooks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Settings of webhooks. `config/default.toml` has the default of each field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Maximum number of webhooks. 0 rejects the creation of webhooks.
    pub max: usize,
    /// Time after which a webhook is suspended if every attempt to send its next events fails, in
    /// seconds.
    pub retry_seconds_max: u64,
    /// Whether URLs may begin with `http:`.
    pub allow_http: bool,
    /// Whether receivers may have any address, such as a private or a loopback address.
    pub allow_private: bool,
    /// Networks such as `10.1.0.0/16` whose addresses receivers may have, in addition to public
    /// addresses.
    pub allowed_networks: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max: 100,
            retry_seconds_max: 3 * 24 * 60 * 60,
            allow_http: false,
            allow_private: false,
            allowed_networks: Vec::new(),
        }
    }
}

impl Settings {
    /// Returns the time after which a webhook without a successful attempt is suspended.
    pub fn retry_max(&self) -> Duration {
        Duration::from_secs(self.retry_seconds_max)
    }
}
