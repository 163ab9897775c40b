//! Authentication: derives a request's principal from its credential, or rejects the request.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, header};

use super::error::ApiError;
use super::peer::Peer;
use super::state::ApiState;
use slateberg_authn::error::RejectionReason;
use slateberg_catalog::operation::RequestId;
use slateberg_model::principal::Principal;

/// `WWW-Authenticate` for a request without a credential.
pub const CHALLENGE: &str = r#"Bearer realm="slateberg""#;
/// `WWW-Authenticate` for a request with an invalid credential.
const INVALID: &str = r#"Bearer realm="slateberg", error="invalid_token""#;
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Returns the principal of a request, or the error response. The client certificate of the
/// connection counts only if the request has no other credential. A proxy may send requests of
/// several principals over one connection, and a valid certificate must not replace an invalid
/// credential.
pub async fn authenticate(
    state: &ApiState,
    headers: &HeaderMap,
    peer: Option<&Peer>,
    request_id: &RequestId,
) -> Result<Principal, ApiError> {
    if state.authn.is_open() {
        return Ok(Principal::Anonymous);
    }
    let principal = match credential(headers) {
        Ok(Some(credential)) => state.authn.principal(credential).await,
        Ok(None) => match peer.and_then(|peer| peer.certificate.as_ref()) {
            Some(presented) => state.authn.certified(presented),
            None => return Err(ApiError::unauthorized(CHALLENGE)),
        },
        Err(rejection) => Err(rejection),
    };
    match principal {
        Ok(principal) => Ok(principal),
        Err(rejection) => {
            let source = peer.map(|peer| peer.address.ip());
            record_failure(state, rejection, source, &request_id.to_string()).await?;
            Err(ApiError::unauthorized(INVALID))
        }
    }
}

/// Counts an invalid credential. Delays the response if the source of the request often sends
/// invalid credentials.
pub async fn record_failure(
    state: &ApiState,
    rejection: RejectionReason,
    source: Option<IpAddr>,
    request_id: &str,
) -> Result<(), ApiError> {
    state.catalog.access().audit_rejected_credential(source, request_id, rejection.0);
    state.counters.authentication_failures.add(1);
    state.rejections.log(source, request_id, rejection.0);
    state.authn.note_failure(source).await.map_err(|_| ApiError::too_many_failures())
}

/// Returns the credential of a request. Rejects a request with two different credentials: a proxy
/// may have checked one of them, and the server would use the other.
fn credential(headers: &HeaderMap) -> Result<Option<&str>, RejectionReason> {
    let bearer = single(headers, &header::AUTHORIZATION)?.map(bearer).transpose()?;
    let api_key = single(headers, &API_KEY)?;
    match (bearer, api_key) {
        (Some(bearer), Some(api_key)) if bearer != api_key => {
            Err(RejectionReason("two credentials"))
        }
        (bearer, api_key) => Ok(bearer.or(api_key)),
    }
}

fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, RejectionReason> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            value.to_str().map(Some).map_err(|_| RejectionReason("a header that is not text"))
        }
        (Some(_), Some(_)) => Err(RejectionReason("a header that occurs more than once")),
    }
}

fn bearer(value: &str) -> Result<&str, RejectionReason> {
    let (scheme, rest) =
        value.split_once(' ').ok_or(RejectionReason("an Authorization header without a scheme"))?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| rest.trim_matches(' '))
        .filter(|token| !token.is_empty())
        .ok_or(RejectionReason("an Authorization scheme other than Bearer"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn parsed(pairs: &[(&'static str, &'static str)]) -> Result<Option<String>, RejectionReason> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        credential(&headers).map(|parsed| parsed.map(str::to_owned))
    }

    #[test]
    fn request_with_two_credentials_is_rejected() {
        assert_eq!(parsed(&[]), Ok(None));
        for value in ["Bearer x", "bearer x", "BEARER  x "] {
            assert_eq!(parsed(&[("authorization", value)]), Ok(Some("x".to_owned())), "{value}");
        }
        assert_eq!(parsed(&[("x-api-key", "x")]), Ok(Some("x".to_owned())));
        let both = [("authorization", "Bearer x"), ("x-api-key", "x")];
        assert_eq!(parsed(&both), Ok(Some("x".to_owned())));
        for wrong in ["", "Bearer", "Bearer ", "Basic eDp5", "x", " Bearer x"] {
            assert!(parsed(&[("authorization", wrong)]).is_err(), "{wrong}");
        }
        assert!(parsed(&[("authorization", "Bearer x"), ("x-api-key", "y")]).is_err());
        assert!(parsed(&[("authorization", "Bearer x"), ("authorization", "Bearer x")]).is_err());
        assert!(parsed(&[("x-api-key", "x"), ("x-api-key", "x")]).is_err());
    }
}
