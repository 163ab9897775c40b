//! Settings of the HTTP server.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub mod host;
pub mod listen;
pub mod tls;

use host::is_name;
use listen::{CorsSettings, ManagementSettings, RateLimitSettings};
use slateberg_base::setting::InvalidSetting;
use tls::TlsSettings;

/// Settings of the server. The defaults are equal to those in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Address and port to listen on. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Maximum size of a request's body, in bytes.
    pub body_bytes_max: usize,
    /// Host names that a server without authentication accepts in requests, in addition to IP
    /// addresses and `localhost`. `*` allows any name.
    pub host_names: Vec<String>,
    /// Maximum number of open connections. Further ones wait in the system's backlog. 0 derives the
    /// number from the limit of open files.
    pub connections_max: usize,
    /// Maximum time to receive a request's header, in seconds.
    pub header_seconds_max: u64,
    /// Maximum time, in seconds, that a connection stays open while no request is in progress, or
    /// while its client does not read the response.
    pub idle_seconds_max: u64,
    /// Maximum time to receive a request's body, in seconds. The server responds 408 after that.
    pub body_seconds_max: u64,
    /// Maximum total size of the bodies of all active requests, in bytes. The server responds 503
    /// to further requests. 0: a share of `memory_bytes_max`.
    pub bodies_bytes_max: usize,
    /// Maximum number of concurrently processed requests. The server responds 503 to further ones.
    pub requests_in_flight_max: usize,
    /// Maximum number of concurrent watches. The server responds 503 to further ones.
    pub watchers_max: usize,
    /// Maximum number of concurrent watches of one principal. The server responds 429 to further
    /// ones.
    pub watchers_per_principal_max: usize,
    /// Maximum duration of a stream of events, in seconds. After that, its client has to connect
    /// again with a valid credential.
    pub watch_seconds_max: u64,
    /// Total size of the cache of rendered `loadTable` responses and of the cache of their
    /// file-access configurations, in bytes. 0: a share of `memory_bytes_max`.
    pub answer_cache_bytes: u64,
    /// `loadTable` responses of at least this size, in bytes, are compressed for clients that
    /// accept compression. Also the minimum for responses to commits of tables with chunks.
    pub compression_bytes_min: usize,
    /// Maximum time for active requests to complete when the server stops, in seconds.
    pub drain_seconds_max: u64,
    /// TLS settings.
    pub tls: TlsSettings,
    /// Limits on the rate of requests per address and per principal.
    pub rate_limits: RateLimitSettings,
    /// Access by web pages of other origins.
    pub cors: CorsSettings,
    /// A separate port for operators.
    pub management: ManagementSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8181)),
            body_bytes_max: 32 << 20,
            host_names: Vec::new(),
            connections_max: 0,
            header_seconds_max: 15,
            idle_seconds_max: 120,
            body_seconds_max: 60,
            bodies_bytes_max: 0,
            requests_in_flight_max: 4096,
            watchers_max: 10_000,
            watchers_per_principal_max: 100,
            watch_seconds_max: 900,
            answer_cache_bytes: 0,
            compression_bytes_min: 16 << 10,
            drain_seconds_max: 30,
            tls: TlsSettings::default(),
            rate_limits: RateLimitSettings::default(),
            cors: CorsSettings::default(),
            management: ManagementSettings::default(),
        }
    }
}

impl Settings {
    /// Returns the size of the cache of file-access configurations, in bytes: a quarter of
    /// `answer_cache_bytes`.
    pub fn delegation_cache_bytes(&self) -> u64 {
        self.answer_cache_bytes / 4
    }

    /// Returns the size of the cache of responses, in bytes: the remainder of
    /// `answer_cache_bytes`.
    pub fn response_cache_bytes(&self) -> u64 {
        self.answer_cache_bytes - self.delegation_cache_bytes()
    }

    /// Returns the maximum time to receive a request's header.
    pub fn header_max(&self) -> Duration {
        Duration::from_secs(self.header_seconds_max.max(1))
    }

    /// Returns the maximum time that a connection waits for a request, or for its client to read.
    pub fn idle_max(&self) -> Duration {
        Duration::from_secs(self.idle_seconds_max.max(1))
    }

    /// Returns the maximum duration of a stream of events.
    pub fn watch_max(&self) -> Duration {
        Duration::from_secs(self.watch_seconds_max.max(1))
    }

    /// Returns the maximum time to receive a request's body.
    pub fn body_max(&self) -> Duration {
        Duration::from_secs(self.body_seconds_max.max(1))
    }

    /// Returns all settings that are invalid, alone or in combination.
    pub fn problems(&self) -> Vec<InvalidSetting> {
        let seconds = [
            ("header_seconds_max", self.header_seconds_max),
            ("idle_seconds_max", self.idle_seconds_max),
        ];
        let zeros = seconds.iter().filter(|(_, seconds)| *seconds == 0);
        let mut found: Vec<_> = zeros
            .map(|(name, _)| {
                InvalidSetting::new(format!("server.{name}"), "expected at least 1, got 0")
            })
            .collect();
        found.extend(self.host_names.iter().find(|name| !is_name(name)).map(|wrong| {
            let message = format!(
                "expected names such as catalog.example.com, without a port, got '{wrong}'"
            );
            InvalidSetting::new("server.host_names", message)
        }));
        found.extend(self.rate_limits.problems());
        found.extend(self.cors.problem());
        found.extend(self.management.problem());
        found.extend(self.tls.problems());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictory_settings_are_reported() {
        type Change<'a> = &'a dyn Fn(&mut Settings);
        let wrong: [(&str, Change<'_>); 8] = [
            ("host_names", &|settings| settings.host_names = vec!["http://a".into()]),
            ("header_seconds_max", &|settings| settings.header_seconds_max = 0),
            ("idle_seconds_max", &|settings| settings.idle_seconds_max = 0),
            ("rate_limits.address_burst_requests_max", &|settings| {
                settings.rate_limits.address_burst_requests_max = 1;
            }),
            ("rate_limits.principal_burst_requests_max", &|settings| {
                settings.rate_limits.principal_burst_requests_max = 1;
            }),
            ("rate_limits.remembered_max", &|settings| settings.rate_limits.remembered_max = 0),
            ("cors.allowed_origins", &|settings| {
                settings.cors.allowed_origins = vec!["https://a".into(), "*".into()];
            }),
            ("management.plain_http", &|settings| settings.management.plain_http = true),
        ];
        assert_eq!(Settings::default().problems(), []);
        for (name, change) in wrong {
            let mut settings = Settings::default();
            change(&mut settings);
            let keys: Vec<_> = settings.problems().into_iter().map(|it| it.key).collect();
            assert_eq!(keys, [format!("server.{name}")]);
        }
    }
}
