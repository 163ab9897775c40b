//! Signs a checked request.

use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_sts::config::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;

use super::checked::{CheckedRequest, Payload};
use super::request::{Headers, SignError};

/// The signed request.
#[derive(Clone, PartialEq, Eq)]
pub struct Signed {
    /// URI to send.
    pub uri: String,
    /// Headers to send.
    pub headers: Headers,
    /// Whether the client may reuse the signature for the same request.
    pub cacheable: bool,
}

pub(super) fn signed(
    checked: &CheckedRequest,
    region: &str,
    credentials: Credentials,
    now_ms: i64,
) -> Result<Signed, SignError> {
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
        .map_err(SignError::unavailable)?
        .into();
    let body = match &checked.payload {
        Payload::Unsigned => SignableBody::UnsignedPayload,
        Payload::UnsignedWithTrailer => SignableBody::StreamingUnsignedPayloadTrailer,
        Payload::Hash(hash) => SignableBody::Precomputed(hash.clone()),
        Payload::Text(text) => SignableBody::Bytes(text.as_bytes()),
    };
    let headers = checked.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let request = SignableRequest::new(checked.method, &checked.uri, headers, body)
        .map_err(SignError::unavailable)?;
    let output = sign(request, &params).map_err(SignError::unavailable)?;
    let mut headers: Headers =
        checked.headers.iter().map(|(name, value)| (name.clone(), vec![value.clone()])).collect();
    for (name, value) in output.output().headers() {
        headers.insert(name.to_owned(), vec![value.to_owned()]);
    }
    Ok(Signed { uri: checked.uri.clone(), headers, cacheable: checked.cacheable })
}
