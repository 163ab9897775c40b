//! Who may ask how often, from which pages, and where operators ask.

use std::net::SocketAddr;

use axum::http::HeaderValue;
use serde::{Deserialize, Serialize};

use super::host::is_name;

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
    fn check(&self) -> Result<(), String> {
        let pairs = [
            ("address", self.address_requests_per_second, self.address_burst_requests_max),
            ("principal", self.principal_requests_per_second, self.principal_burst_requests_max),
        ];
        for (who, per_second, burst) in pairs {
            if per_second == 0 && burst > 0 {
                return Err(format!(
                    "server.rate_limits.{who}_burst_requests_max: there is no \
                     {who}_requests_per_second"
                ));
            }
        }
        match self.remembered_max {
            0 => Err("server.rate_limits.remembered_max: expected at least 1, got 0".to_owned()),
            _ => Ok(()),
        }
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
    pub(super) fn allows_any(&self) -> bool {
        self.allowed_origins == ["*"]
    }

    fn check(&self) -> Result<(), String> {
        if self.allows_any() {
            return Ok(());
        }
        match self.allowed_origins.iter().find(|origin| !is_origin(origin)) {
            None => Ok(()),
            Some(origin) => Err(format!(
                "server.cors.allowed_origins: expected origins such as https://app.example.com, or \
                 \"*\" alone, got '{origin}'"
            )),
        }
    }
}

/// Whether a text is an origin as browsers send it: a scheme, a host and perhaps a port, in lower case.
fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|host| {
        let plain = |c: char| c.is_ascii_graphic() && !c.is_ascii_uppercase();
        !host.is_empty()
            && host.chars().all(|c| plain(c) && !matches!(c, '/' | '?' | '#' | '@' | '*'))
            && HeaderValue::from_str(text).is_ok()
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
    fn check(&self) -> Result<(), String> {
        match self.listen {
            None if self.plain_http => {
                Err("server.management.plain_http: there is no server.management.listen".to_owned())
            }
            _ => Ok(()),
        }
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

impl super::settings::Settings {
    /// Rejects values that cannot work.
    pub fn check(&self) -> Result<(), String> {
        let seconds = [
            ("header_seconds_max", self.header_seconds_max),
            ("idle_seconds_max", self.idle_seconds_max),
        ];
        if let Some((name, _)) = seconds.iter().find(|(_, seconds)| *seconds == 0) {
            return Err(format!("server.{name}: expected at least 1, got 0"));
        }
        if let Some(wrong) = self.host_names.iter().find(|name| !is_name(name)) {
            return Err(format!(
                "server.host_names: expected names such as catalog.example.com, without a port, got '{wrong}'"
            ));
        }
        self.rate_limits.check()?;
        self.cors.check()?;
        self.management.check()
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Settings;
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
        assert_eq!(Settings::default().check(), Ok(()));
        for (name, change) in wrong {
            let mut settings = Settings::default();
            change(&mut settings);
            let error = settings.check().expect_err(name);
            assert!(error.starts_with(&format!("server.{name}: ")), "{error}");
        }
    }

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
