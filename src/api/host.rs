//! The host that a request names: exactly one, and the server's own where no credential is asked for.
//!
//! A web page can have its own name resolve to the server's address (DNS rebinding). The browser then
//! takes the server for the origin of that page, which may read and change all that no credential protects.
//! Its requests name the host of the page, and no page can have them name an IP address or `localhost`.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, Version, header};

use super::error::ApiError;

/// Bytes that the name of a host may have (RFC 1035).
const NAME_BYTES_MAX: usize = 255;

/// Rejects a request without a valid host (RFC 9112, section 3.2), and one whose host is a name that is not
/// among `own`, if there are such names.
pub fn check(request: &Request, own: Option<&[String]>) -> Result<(), ApiError> {
    let mut values = request.headers().get_all(header::HOST).iter();
    let in_header = match (values.next(), values.next()) {
        (None, _) => None,
        (Some(value), None) => Some(
            host_of(value).ok_or_else(|| ApiError::bad_request("The Host header is not valid"))?,
        ),
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request("Expected one Host header, got several"));
        }
    };
    if in_header.is_none() && request.version() == Version::HTTP_11 {
        return Err(ApiError::bad_request("Expected a Host header"));
    }
    // The request target and the header of HTTP/2 come before the header of HTTP/1.
    let host = request.uri().authority().map(|authority| authority.host()).or(in_header);
    match (host, own) {
        (Some(host), Some(own)) if !is_own(host, own) => Err(not_own(host)),
        _ => Ok(()),
    }
}

/// Whether this can be an entry of `server.host_names`: a name without a port, or `*`.
pub(super) fn is_name(text: &str) -> bool {
    let value = HeaderValue::from_str(text);
    text == "*" || value.is_ok_and(|value| host_of(&value) == Some(text))
}

/// The host of a header's value, without its port.
fn host_of(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?;
    let end = match text.starts_with('[') {
        true => text.find(']')? + 1,
        false => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(end);
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let has_good_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    let is_good_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.len() <= NAME_BYTES_MAX && host.bytes().all(is_of_name),
    };
    (has_good_port && is_good_host).then_some(host)
}

/// Whether a byte may stand in the name of a host: `reg-name` of RFC 3986 without percent-encoding.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

/// Whether a host is the server's own: an address, this machine, or one of these names.
fn is_own(host: &str, names: &[String]) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let address = host.trim_start_matches('[').trim_end_matches(']');
    // Browsers resolve localhost and the names below it by themselves.
    let last = host.rsplit('.').next().unwrap_or(host);
    address.parse::<IpAddr>().is_ok()
        || last.eq_ignore_ascii_case("localhost")
        || names.iter().any(|name| name == "*" || name.eq_ignore_ascii_case(host))
}

fn not_own(host: &str) -> ApiError {
    let message = format!(
        "Unknown host name '{host}': without authentication, this server accepts its IP addresses, localhost, and \
         the names in server.host_names (SLATEBERG__SERVER__HOST_NAMES='[\"{host}\"]'), so that no web page can \
         reach it under a name of its own"
    );
    ApiError::new(StatusCode::FORBIDDEN, "ForbiddenException", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_or_a_name_with_or_without_a_port() {
        let host = |text: &'static str| {
            let value = HeaderValue::from_static(text);
            host_of(&value).map(str::to_owned)
        };
        for (text, expected) in [
            ("a", "a"),
            ("a.example.com:8181", "a.example.com"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("a:", "a"),
        ] {
            assert_eq!(host(text).as_deref(), Some(expected), "{text}");
        }
        for text in
            ["", ":80", "a b", "u@a", "a:b", "a:1:2", "a/b", "[::1", "[x]", "a:123456", "a%41"]
        {
            assert_eq!(host(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_this_machine_and_configured_names_are_the_own_host() {
        let names = ["Catalog.example.com".to_owned()];
        for own in [
            "127.0.0.1",
            "192.0.2.7",
            "[::1]",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "catalog.example.com",
        ] {
            assert!(is_own(own, &names), "{own}");
        }
        for other in
            ["evil.example", "localhost.evil.example", "1.2.3.4.evil.example", "example.com"]
        {
            assert!(!is_own(other, &names), "{other}");
        }
        assert!(is_own("evil.example", &["*".to_owned()]));
    }

    #[test]
    fn a_setting_of_a_name_has_neither_scheme_nor_port() {
        for good in ["catalog", "catalog.example.com", "*"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "catalog:8181", "http://catalog", "a b"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
