//! Validates the host that a request names. If the server requires no credential, the host must be
//! the server's own.
//!
//! The owner of a web page can make the page's host name resolve to the server's address (DNS
//! rebinding). The browser then treats the server as part of the page's origin, and the page can
//! read and change everything that no credential protects. But the requests of the page name the
//! page's host. The page cannot make them name an IP address or `localhost`.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{StatusCode, Version, header};

use super::error::ApiError;
use slateberg_config::server::host::host_of;

/// Rejects an invalid or repeated host and, in HTTP/1.1, a missing host (RFC 9112, section 3.2). If
/// `own` is given, only `localhost`, IP addresses and the names in `own` are accepted.
pub fn check(request: &Request, own: Option<&[String]>) -> Result<(), ApiError> {
    let mut values = request.headers().get_all(header::HOST).iter();
    let in_header = match (values.next(), values.next()) {
        (None, _) => None,
        (Some(value), None) => Some(
            value
                .to_str()
                .ok()
                .and_then(host_of)
                .ok_or_else(|| ApiError::bad_request("The Host header is not valid"))?,
        ),
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request("Expected one Host header, got several"));
        }
    };
    if in_header.is_none() && request.version() == Version::HTTP_11 {
        return Err(ApiError::bad_request("Expected a Host header"));
    }
    // The host in the request target (in HTTP/2, the authority) takes precedence over the `Host`
    // header.
    let host = request.uri().authority().map(|authority| authority.host()).or(in_header);
    match (host, own) {
        (Some(host), Some(own)) if !is_own(host, own) => Err(unknown_host(host)),
        _ => Ok(()),
    }
}

/// Whether a host is the server's own: an IP address, `localhost`, or one of these names.
fn is_own(host: &str, names: &[String]) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let address = host.trim_start_matches('[').trim_end_matches(']');
    // Browsers resolve `localhost` and its subdomains without DNS.
    let last = host.rsplit('.').next().unwrap_or(host);
    address.parse::<IpAddr>().is_ok()
        || last.eq_ignore_ascii_case("localhost")
        || names.iter().any(|name| name == "*" || name.eq_ignore_ascii_case(host))
}

fn unknown_host(host: &str) -> ApiError {
    let message = format!(
        "Unknown host name '{host}': this server requires no authentication. To keep web pages of other hosts out, it \
         accepts only IP addresses, localhost and the names in server.host_names. To allow this name, set \
         SLATEBERG__SERVER__HOST_NAMES='[\"{host}\"]'"
    );
    ApiError::new(StatusCode::FORBIDDEN, "ForbiddenException", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_hosts_are_addresses_localhost_and_configured_names() {
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
}
