//! Tests whether a store rejects unsigned headers.
//!
//! AWS rejects a request with an unsigned S3 header. Some stores accept such a request. In these
//! stores, a client with a signature for writing one object could add a header to the request. The
//! header could copy any object of the bucket into that object. For such stores, the server signs
//! only with credentials for one table.

use super::checked::{CheckedRequest, Payload};
use super::request::SignError;
use super::signature::signed;
use crate::vend::http::client;
use crate::vend::s3_store::S3Store;

/// A header that no store uses.
const HEADER: &str = "x-amz-slateberg-probe";
/// Lists at most one key with an unused prefix.
const QUERY: &str = "list-type=2&max-keys=1&prefix=.slateberg-probe%2F";

/// Whether a store rejects an unsigned header. Sends the same request without and with such a
/// header.
pub(super) async fn rejects_unsigned_headers(
    store: &S3Store,
    now_ms: i64,
) -> Result<bool, SignError> {
    let Some(uri) = bucket_uri(store) else { return Ok(true) };
    let credentials = store.credentials().await.map_err(SignError::unavailable)?;
    let checked = CheckedRequest {
        method: "GET",
        uri: format!("{uri}?{QUERY}"),
        headers: Vec::new(),
        payload: Payload::Unsigned,
        cacheable: false,
        read_object: None,
    };
    let signed = signed(&checked, &store.region, credentials, now_ms)?;
    let client = client().map_err(SignError::unavailable)?;
    let send = async |header: Option<&str>| {
        let mut request = client.get(&signed.uri);
        for (name, values) in &signed.headers {
            request = values.iter().fold(request, |request, value| request.header(name, value));
        }
        let request = header.into_iter().fold(request, |request, name| request.header(name, "1"));
        let answer =
            request.send().await.map_err(|error| SignError::unavailable(error.without_url()))?;
        Ok::<_, SignError>(answer.status().as_u16())
    };
    match (send(None).await?, send(Some(HEADER)).await?) {
        (200, 400..=403) => Ok(true),
        (200, 200) => Ok(false),
        (plain, with) => Err(SignError::unavailable(format!(
            "the store returns {plain} for a signed listing, but {with} for the same request with an unsigned \
             header"
        ))),
    }
}

/// URI of the bucket. `None` for AWS, whose behavior is known.
fn bucket_uri(store: &S3Store) -> Option<String> {
    let mut uri = store.endpoint.clone()?;
    if store.virtual_hosted {
        let host = format!("{}.{}", store.bucket, uri.host_str()?);
        uri.set_host(Some(&host)).ok()?;
        uri.set_path("/");
    } else {
        uri.set_path(&format!("/{}", store.bucket));
    }
    Some(uri.to_string())
}
