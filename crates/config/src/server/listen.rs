//! Who may ask how often, from which pages, and where operators ask.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use slateberg_base::setting::InvalidSetting;

/// How many requests may come from one address, and from one principal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimitSettings {
    /// Requests per second that one address may send in the long run; 0 for any number.
    pub address_requests_per_second: u32,
    /// Requests that it may send at once; 0 for as many as in a second.
    pub address_burst_requests_max: u32,
    /// Requests per second that one principal may send in the long run; 0 for any number.
    pub principal_requests_per_second: u32,
    /// Requests that it may send at once; 0 for as many as in a second.
    pub principal_burst_requests_max: u32,
    /// Addresses, and principals, that are remembered; beyond that, the least active are forgotten.
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

/// Which pages of other origins may talk to the server in a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorsSettings {
    /// Their origins, such as `https://app.example.com`, or `*` alone for all; none for no such pages.
    pub allowed_origins: Vec<String>,
    /// Seconds for which a browser remembers what it was told.
    pub max_age_seconds: u64,
}

impl Default for CorsSettings {
    fn default() -> Self {
        Self { allowed_origins: Vec::new(), max_age_seconds: 3600 }
    }
}

impl CorsSettings {
    /// Whether pages of all origins may.
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

/// Whether a text is an origin as browsers send it: a scheme, a host and perhaps a port, in lower case.
fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|host| {
        let plain = |c: char| c.is_ascii_graphic() && !c.is_ascii_uppercase();
        !host.is_empty()
            && host.chars().all(|c| plain(c) && !matches!(c, '/' | '?' | '#' | '@' | '*'))
    })
}

/// Where operators ask, if not where clients do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManagementSettings {
    /// Address and port; none if operators ask where clients do.
    #[serde(with = "address_or_empty")]
    pub listen: Option<SocketAddr>,
    /// Whether connections there are not encrypted even if those of clients are.
    pub plain_http: bool,
}

impl ManagementSettings {
    pub(super) fn problem(&self) -> Option<InvalidSetting> {
        let is_useless = self.plain_http && self.listen.is_none();
        let key = "server.management.plain_http";
        is_useless.then(|| InvalidSetting::new(key, "requires server.management.listen"))
    }
}

/// An address, or an empty text for none.
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
    fn an_origin_is_what_browsers_send() {
        for good in ["https://app.example.com", "http://localhost:3000", "http://[::1]:8080"] {
            assert!(is_origin(good), "{good}");
        }
        let bad = ["", "app.example.com", "https://", "https://a/", "https://A", "https://*.a"];
        for bad in bad.into_iter().chain(["ftp://a", "https://a b", "https://u@a", "null"]) {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
