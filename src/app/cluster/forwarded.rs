//! [`Forwarded`]: the connection of a forwarded request, which a member describes in headers.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::catalog_services::PortKind;
use super::peers::MEMBER_REQUEST;
use crate::api::error::ApiError;

/// The address of the client.
const ADDRESS: HeaderName = HeaderName::from_static("slateberg-forwarded-for");
/// The certificate of the client, in Base64.
const CERTIFICATE: HeaderName = HeaderName::from_static("slateberg-forwarded-certificate");
/// The host that the client's request names.
const HOST: HeaderName = HeaderName::from_static("slateberg-forwarded-host");
/// The port that received the request.
const PORT: HeaderName = HeaderName::from_static("slateberg-forwarded-port");
const OPERATORS: &str = "operators";
const CLIENTS: &str = "clients";

/// All headers with a meaning for members. A client must not be able to set them.
const ALL: [HeaderName; 5] = [ADDRESS, CERTIFICATE, HOST, PORT, MEMBER_REQUEST];

/// The connection of a forwarded request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Forwarded {
    /// The address of the client.
    pub(super) address: SocketAddr,
    /// The certificate that the client presented, in DER.
    pub(super) certificate: Option<Vec<u8>>,
    /// The host that the client's request names.
    pub(super) host: Option<HeaderValue>,
    /// The port that received the request.
    pub(super) port: PortKind,
}

impl Forwarded {
    /// Removes these headers from a request of a client.
    pub(super) fn remove(headers: &mut HeaderMap) {
        for name in ALL {
            headers.remove(name);
        }
    }

    /// Adds the headers to a request. Its `Host` header is replaced.
    pub(super) fn add(&self, headers: &mut HeaderMap) {
        Self::remove(headers);
        headers.remove(header::HOST);
        let mut insert = |name, text: &str| {
            let value = HeaderValue::try_from(text).expect("the value is printable ASCII");
            headers.insert(name, value);
        };
        insert(ADDRESS, &self.address.to_string());
        let port = match self.port {
            PortKind::Clients => CLIENTS,
            PortKind::Operators => OPERATORS,
        };
        insert(PORT, port);
        if let Some(certificate) = &self.certificate {
            insert(CERTIFICATE, &STANDARD.encode(certificate));
        }
        if let Some(host) = &self.host {
            headers.insert(HOST, host.clone());
        }
    }

    /// Reads the headers of a forwarded request, and removes them.
    pub(super) fn take(headers: &mut HeaderMap) -> Result<Self, ApiError> {
        let text = |name: &HeaderName| {
            headers.get(name).map(|value| value.to_str().map_err(|_| invalid(name))).transpose()
        };
        let address = text(&ADDRESS)?.ok_or_else(|| invalid(&ADDRESS))?;
        let address = address.parse().map_err(|_| invalid(&ADDRESS))?;
        let certificate = text(&CERTIFICATE)?
            .map(|encoded| STANDARD.decode(encoded).map_err(|_| invalid(&CERTIFICATE)))
            .transpose()?;
        let port = match text(&PORT)? {
            Some(CLIENTS) => PortKind::Clients,
            Some(OPERATORS) => PortKind::Operators,
            _ => return Err(invalid(&PORT)),
        };
        let host = headers.get(HOST).cloned();
        Self::remove(headers);
        Ok(Self { address, certificate, host, port })
    }
}

fn invalid(name: &HeaderName) -> ApiError {
    ApiError::bad_request(format!("The header {name} of a forwarded request is missing or invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded() -> Forwarded {
        Forwarded {
            address: "[2001:db8::7]:4711".parse().expect("an address"),
            certificate: Some(vec![0, 1, 255]),
            host: Some(HeaderValue::from_static("lake.example.com")),
            port: PortKind::Operators,
        }
    }

    #[test]
    fn headers_of_a_forwarded_request_are_read_and_removed() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("lake.example.com"));
        forwarded().add(&mut headers);
        assert!(!headers.contains_key(header::HOST));
        assert_eq!(Forwarded::take(&mut headers).expect("they are valid"), forwarded());
        assert!(headers.is_empty(), "{headers:?}");
    }

    #[test]
    fn client_cannot_set_the_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(CERTIFICATE, HeaderValue::from_static("AAEC"));
        let without = Forwarded { certificate: None, ..forwarded() };
        without.add(&mut headers);
        assert_eq!(Forwarded::take(&mut headers).expect("they are valid"), without);
    }

    #[test]
    fn invalid_headers_are_rejected() {
        for (name, value) in [(ADDRESS, "here"), (CERTIFICATE, "%"), (PORT, "members")] {
            let mut headers = HeaderMap::new();
            forwarded().add(&mut headers);
            headers.insert(name, HeaderValue::from_static(value));
            assert!(Forwarded::take(&mut headers).is_err(), "{value}");
        }
        assert!(Forwarded::take(&mut HeaderMap::new()).is_err());
    }
}
