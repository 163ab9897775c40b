//! Host names in the `Host` header of a request and in `server.host_names`.

use std::net::Ipv6Addr;

/// Maximum length of a host name, in bytes (RFC 1035).
const NAME_BYTES_MAX: usize = 255;

/// Whether this can be an entry of `server.host_names`: a name without a port, or `*`.
pub(super) fn is_name(text: &str) -> bool {
    text == "*" || host_of(text) == Some(text)
}

/// Returns the host of a `Host` header's value, without its port.
pub fn host_of(text: &str) -> Option<&str> {
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

/// Whether a host name may contain this byte: `reg-name` of RFC 3986 without percent-encoding.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_an_address_or_name_with_optional_port() {
        for (text, expected) in [
            ("a", "a"),
            ("a.example.com:8181", "a.example.com"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("a:", "a"),
        ] {
            assert_eq!(host_of(text), Some(expected), "{text}");
        }
        for text in
            ["", ":80", "a b", "u@a", "a:b", "a:1:2", "a/b", "[::1", "[x]", "a:123456", "a%41"]
        {
            assert_eq!(host_of(text), None, "{text}");
        }
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
