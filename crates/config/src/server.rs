//! How the HTTP server listens, and what it bounds.

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

/// Settings of the server; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Bytes that a request's body may have.
    pub body_bytes_max: usize,
    /// Names under which clients reach a server without authentication, besides IP addresses and localhost;
    /// `*` for any name.
    pub host_names: Vec<String>,
    /// Connections that may be open at once; further ones wait in the system's backlog. 0 derives the number
    /// from the limit of open files.
    pub connections_max: usize,
    /// Seconds that the header of a request may take to come.
    pub header_seconds_max: u64,
    /// Seconds that a connection may be open without a request, or without its client reading the response.
    pub idle_seconds_max: u64,
    /// Seconds that a request's body may take to come; later ones are answered 408.
    pub body_seconds_max: u64,
    /// Bytes that the bodies of all requests under way may have together; further requests are
    /// answered 503. 0 for a share of `memory_bytes_max`.
    pub bodies_bytes_max: usize,
    /// Requests that are worked on at the same time; further ones are answered 503.
    pub requests_in_flight_max: usize,
    /// Bytes of memory for answers to `loadTable` that are ready to be sent again; 0 for a share of
    /// `memory_bytes_max`.
    pub answer_cache_bytes: u64,
    /// Bytes from which on an answer to `loadTable` is compressed for clients that want it.
    pub compression_bytes_min: usize,
    /// Maximum time for requests in flight to complete when the server stops, in seconds.
    pub drain_seconds_max: u64,
    /// How connections are encrypted.
    pub tls: TlsSettings,
    /// How many requests may come from one address, and from one principal.
    pub rate_limits: RateLimitSettings,
    /// Which pages of other origins may talk to the server in a browser.
    pub cors: CorsSettings,
    /// Where operators ask, if not where clients do.
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
    /// How long the header of a request may take to come.
    pub fn header_max(&self) -> Duration {
        Duration::from_secs(self.header_seconds_max.max(1))
    }

    /// How long a connection may wait for a request, or for its client to read.
    pub fn idle_max(&self) -> Duration {
        Duration::from_secs(self.idle_seconds_max.max(1))
    }

    /// How long a request's body may take to come.
    pub fn body_max(&self) -> Duration {
        Duration::from_secs(self.body_seconds_max.max(1))
    }

    /// Returns every setting that is wrong in itself or together with others.
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
    fn settings_that_do_not_fit_together_are_named() {
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
