//! Signatures for single requests to S3, for clients without credentials of their own.
//!
//! What a client wants to send is taken apart and checked ([`check`]), put together anew, and that is what is
//! signed (Signature Version 4): a client that sends something else sends something without a signature.

mod check;
mod delete_objects;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_sts::config::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use check::{Checked, Payload};

use super::location::Location;
use super::vend::Rights;
use super::vend::aws::S3Store;

/// Headers, each with its values.
pub type Headers = BTreeMap<String, Vec<String>>;

/// A request that a client wants to send to S3.
#[derive(Debug, Clone, Default)]
pub struct SignRequest {
    /// Its method.
    pub method: String,
    /// The region that it goes to.
    pub region: String,
    /// Its URI, as it would be sent.
    pub uri: String,
    /// Its headers.
    pub headers: Headers,
    /// Its body, where it says what is to be done.
    pub body: Option<String>,
}

/// What the client sends instead.
#[derive(Clone, PartialEq, Eq)]
pub struct Signed {
    /// The URI.
    pub uri: String,
    /// Headers that it sends with it.
    pub headers: Headers,
    /// Whether the same signature is good for the same request, sent again.
    pub cacheable: bool,
}

/// Why nothing is signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The request is none that could be signed.
    #[error("{0}")]
    Invalid(String),
    /// The request goes beyond what the client may do.
    #[error("{0}")]
    NotAllowed(String),
    /// There is nothing to sign with. For the operator.
    #[error("{0}")]
    Unavailable(String),
}

/// What a client may do, and where.
pub struct Allowed<'a> {
    /// The places of the table's files.
    pub places: &'a [Location],
    /// What may be done there.
    pub rights: Rights,
}

/// Signs requests to one bucket.
pub struct Signer {
    store: S3Store,
    bucket: String,
}

impl Signer {
    /// Signs with what this store is opened with.
    pub fn new(store: S3Store, bucket: &str) -> Self {
        Self { store, bucket: bucket.to_owned() }
    }

    /// Signs a request, if it stays within what is allowed.
    pub async fn sign(
        &self,
        request: &SignRequest,
        allowed: &Allowed<'_>,
        now_ms: i64,
    ) -> Result<Signed, SignError> {
        let checked = check::check(&self.store, &self.bucket, request, allowed)?;
        let credentials = self.store.credentials().await;
        let credentials = credentials.map_err(|error| SignError::Unavailable(error.to_string()))?;
        signed(&checked, &self.store.region, credentials, now_ms)
    }
}

fn signed(
    checked: &Checked,
    region: &str,
    credentials: Credentials,
    now_ms: i64,
) -> Result<Signed, SignError> {
    let failed = |error: &dyn std::error::Error| SignError::Unavailable(error.to_string());
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let since_epoch = Duration::from_millis(u64::try_from(now_ms).unwrap_or_default());
    let identity = credentials.into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("s3")
        .time(UNIX_EPOCH + since_epoch)
        .settings(settings)
        .build()
        .map_err(|error| failed(&error))?
        .into();
    let body = match &checked.payload {
        Payload::Unsigned => SignableBody::UnsignedPayload,
        Payload::UnsignedWithTrailer => SignableBody::StreamingUnsignedPayloadTrailer,
        Payload::Hash(hash) => SignableBody::Precomputed(hash.clone()),
        Payload::Text(text) => SignableBody::Bytes(text.as_bytes()),
    };
    let headers = checked.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let request = SignableRequest::new(checked.method, &checked.uri, headers, body)
        .map_err(|error| failed(&error))?;
    let output = sign(request, &params).map_err(|error| failed(&error))?;
    let mut headers: Headers =
        checked.headers.iter().map(|(name, value)| (name.clone(), vec![value.clone()])).collect();
    for (name, value) in output.output().headers() {
        headers.insert(name.to_owned(), vec![value.to_owned()]);
    }
    Ok(Signed { uri: checked.uri.clone(), headers, cacheable: checked.cacheable })
}
