//! Rate limits, CORS, and the port for operators.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use slateberg_base::setting::InvalidSetting;

/// Limits on the rate of requests per address and per principal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimitSettings {
    /// Sustained rate per address, in requests per second. 0: unlimited.
    pub address_requests_per_second: u32,
    /// Burst per address, in requests. 0: the number of requests of one second.
    pub address_burst_requests_max: u32,
    /// Sustained rate per principal, in requests per second. 0: unlimited.
    pub principal_requests_per_second: u32,
    /// Burst per principal, in requests. 0: the number of requests of one second.
    pub principal_burst_requests_max: u32,
    /// Maximum number of tracked addresses, and of tracked principals. The least active ones are
    /// evicted.
    pub remembered_max: usize,
}

impl Default for RateLimitSettings {
    fn default() -> Self {
        Self {
            address_requests_per_second: 0,
            address_burst_requests_max: 0,
            principal_requests_per_second: 0,
            principal_burst_requests_max: 0,
            remembered_max: 65_536,
        }
    }
}

impl RateLimitSettings {
    pub(super) fn problems(&self) -> Vec<InvalidSetting> {
        let pairs = [
            ("address", self.address_requests_per_second, self.address_burst_requests_max),
            ("principal", self.principal_requests_per_second, self.principal_burst_requests_max),
        ];
        let without_rate = pairs.into_iter().filter(|(_, rate, burst)| *rate == 0 && *burst > 0);
        let without_rate = without_rate.map(|(who, ..)| {
            let key = format!("server.rate_limits.{who}_burst_requests_max");
            InvalidSetting::new(key, format!("requires {who}_requests_per_second"))
        });
        let remembered = (self.remembered_max == 0).then(|| {
            let key = "server.rate_limits.remembered_max";
            InvalidSetting::new(key, "expected at least 1, got 0")
        });
        without_rate.chain(remembered).collect()
    }
}

/// Access by web pages of other origins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorsSettings {
    /// Allowed origins, such as `https://app.example.com`, or only `*` for all. Empty: no other
    /// origin.
    pub allowed_origins: Vec<String>,
    /// Time for which browsers cache the result of a preflight request, in seconds.
    pub max_age_seconds: u64,
}

impl Default for CorsSettings {
    fn default() -> Self {
        Self { allowed_origins: Vec::new(), max_age_seconds: 3600 }
    }
}

impl CorsSettings {
    /// Whether all origins are allowed.
    pub fn allows_any(&self) -> bool {
        self.allowed_origins == ["*"]
    }

    pub(super) fn problem(&self) -> Option<InvalidSetting> {
        if self.allows_any() {
            return None;
        }
        let origin = self.allowed_origins.iter().find(|origin| !is_origin(origin))?;
        let message = format!(
            "expected origins such as https://app.example.com, or only \"*\", got '{origin}'"
        );
        Some(InvalidSetting::new("server.cors.allowed_origins", message))
    }
}

/// Whether a string is an origin as browsers send it: scheme, host and optional port, in lower
/// case.
fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|host| {
        let plain = |c: char| c.is_ascii_graphic() && !c.is_ascii_uppercase();
        !host.is_empty()
            && host.chars().all(|c| plain(c) && !matches!(c, '/' | '?' | '#' | '@' | '*'))
    })
}

/// A separate port for operators.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManagementSettings {
    /// Address and port. If it is `None`, operators use the port for clients.
    #[serde(with = "address_or_empty")]
    pub listen: Option<SocketAddr>,
    /// Whether this port accepts unencrypted connections even if the port for clients uses TLS.
    pub plain_http: bool,
}

impl ManagementSettings {
    pub(super) fn problem(&self) -> Option<InvalidSetting> {
        let is_useless = self.plain_http && self.listen.is_none();
        let key = "server.management.plain_http";
        is_useless.then(|| InvalidSetting::new(key, "requires server.management.listen"))
    }
}

/// Serializes an optional address; the empty string is `None`.
mod address_or_empty {
    use std::net::SocketAddr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        address: &Option<SocketAddr>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match address {
            Some(address) => serializer.collect_str(address),
            None => serializer.serialize_str(""),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SocketAddr>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = |_| D::Error::custom(format!("expected an address and a port, got '{text}'"));
        text.parse().map(Some).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_has_scheme_host_and_port_only() {
        for good in ["https://app.example.com", "http://localhost:3000", "http://[::1]:8080"] {
            assert!(is_origin(good), "{good}");
        }
        let bad = ["", "app.example.com", "https://", "https://a/", "https://A", "https://*.a"];
        for bad in bad.into_iter().chain(["ftp://a", "https://a b", "https://u@a", "null"]) {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
