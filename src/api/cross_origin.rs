//! Protects against cross-site request forgery: rejects a change if a page of another origin
//! requests it and the browser itself supplies the identity of its user.
//!
//! A page must send its credential in a header, which no browser adds on its own. Browsers do
//! present installed client certificates, and a server without authentication needs no credential
//! at all. In both cases, the request names the origin of the page, and the server rejects the
//! request unless that origin is allowed. If the server requires no credential, the module `host`
//! has already verified that the request names the server's own host.

use axum::extract::Request;
use axum::http::{HeaderName, Method, StatusCode, header};

use super::error::ApiError;
use slateberg_config::server::listen::CorsSettings;
use slateberg_model::principal::{self, Principal};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects a change without an explicit credential if it comes from a page whose origin is not
/// allowed.
pub fn check(
    request: &Request,
    principal: &Principal,
    allowed: &CorsSettings,
) -> Result<(), ApiError> {
    let is_ambient = match principal {
        Principal::Anonymous => true,
        Principal::Identified(identity) => identity.method == principal::Method::Mtls,
        Principal::Task(_) => false,
    };
    // Reads are harmless: the browser hides their responses from the page.
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !is_ambient || is_read || is_allowed(request, principal, allowed) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::FORBIDDEN,
        "ForbiddenException",
        "Pages of other origins may not request changes (see server.cors.allowed_origins)",
    ))
}

/// Whether a request comes from an allowed page, or from a client that is not a page.
fn is_allowed(request: &Request, principal: &Principal, allowed: &CorsSettings) -> bool {
    let headers = request.headers();
    // Pages cannot forge this header. It is checked before the `Origin` header, because a proxy may
    // have changed the host with which the origin is compared.
    let site = headers.get(SEC_FETCH_SITE);
    if site.is_some_and(|site| site == "same-origin") {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return site.is_none_or(|site| site != "cross-site");
    };
    let Ok(origin) = origin.to_str() else { return false };
    // The setting `*` allows pages of all origins, but not with the identity of a client
    // certificate.
    let any = allowed.allows_any() && *principal == Principal::Anonymous;
    any || allowed.allowed_origins.iter().any(|it| it == origin) || is_own(origin, request)
}

/// Whether an origin is the server's own: the host of the origin is the host that the request
/// names.
fn is_own(origin: &str, request: &Request) -> bool {
    let in_header = || request.headers().get(header::HOST)?.to_str().ok();
    let own = request.uri().authority().map(|it| it.as_str()).or_else(in_header);
    let host = origin.split_once("://").map(|(_, host)| host);
    host.is_some() && host == own
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn status(method: Method, headers: &[(&str, &str)], allowed: &[&str]) -> u16 {
        let mut request = Request::builder().method(method).uri("/v1/namespaces");
        for (name, value) in headers.iter().chain(&[("host", "catalog:8181")]) {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let allowed_origins = allowed.iter().map(|it| (*it).to_owned()).collect();
        let allowed = CorsSettings { allowed_origins, ..CorsSettings::default() };
        match check(&request, &Principal::Anonymous, &allowed) {
            Ok(()) => 200,
            Err(_) => 403,
        }
    }

    #[test]
    fn change_from_a_page_of_another_origin_is_rejected_unless_allowed() {
        let evil: &[_] = &[("origin", "https://evil.example.com")];
        assert_eq!(status(Method::POST, evil, &[]), 403);
        assert_eq!(status(Method::DELETE, evil, &[]), 403);
        assert_eq!(status(Method::GET, evil, &[]), 200);
        assert_eq!(status(Method::POST, &[("origin", "null")], &[]), 403);
        assert_eq!(status(Method::POST, &[("sec-fetch-site", "cross-site")], &[]), 403);
        assert_eq!(status(Method::POST, evil, &["https://ui.example.com"]), 403);
        assert_eq!(status(Method::POST, evil, &["https://evil.example.com"]), 200);
        assert_eq!(status(Method::POST, evil, &["*"]), 200);
    }

    #[test]
    fn changes_from_programs_and_own_pages_are_allowed() {
        assert_eq!(status(Method::POST, &[], &[]), 200);
        assert_eq!(status(Method::POST, &[("origin", "http://catalog:8181")], &[]), 200);
        assert_eq!(status(Method::POST, &[("sec-fetch-site", "same-origin")], &[]), 200);
        let by_proxy = [("origin", "https://lake.corp"), ("sec-fetch-site", "same-origin")];
        assert_eq!(status(Method::POST, &by_proxy, &[]), 200);
    }
}
