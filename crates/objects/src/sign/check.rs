//! Checks the requests that clients want signed. Only the kinds of requests that engines send for
//! the files of a table are signed.
//!
//! Hosts, methods with their query parameters, and `x-amz-*` headers must be on allow-lists. A key
//! is decoded once, as S3 does, and must be below one of the table's locations. A proxy between the
//! client and the store may decode the key again. So a key is rejected if further decoding would
//! turn it into `..` or similar.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use super::checked::{CheckedRequest, Payload};
use super::delete_objects::keys_of;
use super::request::{Allowed, Headers, SignError, SignRequest};
use crate::location::Location;
use crate::vend::s3_store::S3Store;

/// Effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestEffect {
    Read,
    List,
    Write,
    /// Deletes one object.
    Delete,
    /// Deletes several objects, whose keys are in the body.
    DeleteObjects,
}

/// A parsed URI.
struct ParsedUri {
    /// Scheme and host, as sent.
    origin: String,
    /// Path before the key: `/bucket/` or `/`.
    base: String,
    /// Decoded key of the object. `None` for a request to the bucket.
    key: Option<String>,
    /// Decoded parameters of the query.
    query: Vec<(String, String)>,
}

/// Maximum length of a URI in bytes. A key has at most 1024 bytes, and percent-encoding turns a
/// byte into up to three bytes.
const URI_BYTES_MAX: usize = 8 << 10;
/// Characters that are percent-encoded in the query of a signed request: all except letters, digits
/// and `-_.~`.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Characters that are percent-encoded in the path of a signed request: the same, except `/`.
const PATH: &AsciiSet = &QUERY.remove(b'/');
/// Parameters of a listing.
const LISTING: [&str; 8] = [
    "list-type",
    "prefix",
    "delimiter",
    "max-keys",
    "continuation-token",
    "start-after",
    "encoding-type",
    "fetch-owner",
];
/// Values of the parameter `x-id`, which only names the operation.
const OPERATIONS: [&str; 10] = [
    "GetObject",
    "HeadObject",
    "PutObject",
    "DeleteObject",
    "DeleteObjects",
    "UploadPart",
    "CreateMultipartUpload",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
    "ListParts",
];
/// S3 headers that are signed. Other headers could copy an object from elsewhere, grant access to
/// others, or act on behalf of another principal.
const AMZ_HEADERS: [&str; 16] = [
    "x-amz-checksum-algorithm",
    "x-amz-checksum-mode",
    "x-amz-checksum-type",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-expected-bucket-owner",
    "x-amz-mp-object-size",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
    "x-amz-storage-class",
    "x-amz-te",
    "x-amz-trailer",
];
/// Prefixes of further S3 headers that are signed. `x-amz-meta-` is not included: with some
/// metadata, such as `x-amz-meta-snowball-auto-extract`, a store unpacks an uploaded archive into
/// other keys.
const AMZ_HEADER_PREFIXES: [&str; 2] =
    ["x-amz-checksum-", "x-amz-server-side-encryption-customer-"];
/// Further headers that are signed if present.
const OTHER_HEADERS: [&str; 2] = ["content-md5", "content-type"];

/// Checks a request for a store's bucket against the client's access.
pub(super) fn check(
    store: &S3Store,
    request: &SignRequest,
    allowed: &Allowed<'_>,
) -> Result<CheckedRequest, SignError> {
    let bucket = store.bucket.as_str();
    if request.region != store.region {
        return invalid(format!("Invalid region: expected {}", store.region));
    }
    let target = target(store, bucket, &request.uri)?;
    let method = method(&request.method)?;
    let act = act(method, &target)?;
    let (what, is_allowed) = match act {
        RequestEffect::Read | RequestEffect::List => ("reading", allowed.privileges.read),
        RequestEffect::Write => ("writing", allowed.privileges.write),
        RequestEffect::Delete | RequestEffect::DeleteObjects => {
            ("deleting", allowed.privileges.delete)
        }
    };
    if !is_allowed {
        return reject(format!("Not allowed: {what} files of this table"));
    }
    let within = |key: &str| is_within(bucket, key, allowed.locations);
    let (mut payload, headers) = headers(&request.headers, &target)?;
    match act {
        RequestEffect::Read | RequestEffect::Write | RequestEffect::Delete => {
            let key = target.key.as_deref().unwrap_or_default();
            if !within(key) {
                return reject("Not allowed: the key is outside of the table's location".into());
            }
        }
        RequestEffect::List => {
            let prefix = parameter(&target.query, "prefix").unwrap_or_default();
            if !within(prefix) {
                return reject("Not allowed: the prefix is outside of the table's location".into());
            }
        }
        RequestEffect::DeleteObjects => {
            let body = request.body.as_ref().ok_or_else(|| {
                SignError::Invalid("Deleting several objects needs the request's body".to_owned())
            })?;
            if !keys_of(body)?.iter().all(|key| within(key)) {
                return reject("Not allowed: a key is outside of the table's location".into());
            }
            // Without a signed body, the client could send another body.
            payload = Payload::Text(body.clone());
        }
    }
    let cacheable = act == RequestEffect::Read;
    let key = target.key.as_ref().filter(|_| act == RequestEffect::Read);
    let read_object = key.map(|key| format!("{bucket}/{key}"));
    Ok(CheckedRequest { method, uri: written(&target), headers, payload, cacheable, read_object })
}

fn invalid<T>(message: String) -> Result<T, SignError> {
    Err(SignError::Invalid(message))
}

fn reject<T>(message: String) -> Result<T, SignError> {
    Err(SignError::NotAllowed(message))
}

fn method(requested: &str) -> Result<&'static str, SignError> {
    let known = ["GET", "HEAD", "PUT", "POST", "DELETE"];
    let found = known.into_iter().find(|method| *method == requested);
    found.ok_or_else(|| {
        SignError::Invalid("Invalid method: expected GET, HEAD, PUT, POST or DELETE".into())
    })
}

/// Parses a URI. Does not use a URL library for the path, because URL libraries resolve `..`.
fn target(store: &S3Store, bucket: &str, uri: &str) -> Result<ParsedUri, SignError> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#');
    if uri.len() > URI_BYTES_MAX || !uri.bytes().all(plain) {
        return invalid("Invalid URI: it is too long, or a character is not encoded".into());
    }
    let (scheme, rest) =
        uri.split_once("://").ok_or_else(|| SignError::Invalid("Invalid URI".into()))?;
    let (authority, path_and_query) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let (style, origin) = style(store, bucket, scheme, authority)?;
    let path = path.strip_prefix('/').unwrap_or(path);
    let (base, raw_key) = match style {
        AddressingStyle::VirtualHosted => ("/".to_owned(), path),
        AddressingStyle::Path => {
            let (first, key) = path.split_once('/').unwrap_or((path, ""));
            if decoded(first)? != bucket {
                return reject("Not allowed: the bucket is not the table's".into());
            }
            (format!("/{bucket}/"), key)
        }
    };
    let key = decoded(raw_key)?;
    let query = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            // Some clients encode a space as `+`. A literal `+` is always sent as `%2B`.
            Ok((decoded(name)?, decoded(&value.replace('+', "%20"))?))
        })
        .collect::<Result<Vec<_>, SignError>>()?;
    Ok(ParsedUri { origin, base, key: Some(key).filter(|key| !key.is_empty()), query })
}

enum AddressingStyle {
    Path,
    VirtualHosted,
}

/// Returns the addressing style and the origin of a URI. Errors if the host is not the store's: in
/// virtual-hosted style, the name of the host contains the bucket, so a signature for another host
/// would be valid for another bucket. AWS supports both styles. Another store may support only one
/// style, and misread a URI of the other style: it would take the bucket for the first part of the
/// key, or the first part of the key for the bucket. So for stores other than AWS, only the
/// configured style is accepted. Clients get this style in their configuration
/// (`s3.path-style-access`).
fn style(
    store: &S3Store,
    bucket: &str,
    scheme: &str,
    authority: &str,
) -> Result<(AddressingStyle, String), SignError> {
    let no = || SignError::NotAllowed("Not allowed: the host is not the store's".to_owned());
    let request_url = Url::parse(&format!("{scheme}://{authority}/")).map_err(|_| no())?;
    if authority.contains('@') || !request_url.username().is_empty() {
        return Err(no());
    }
    let host = request_url.host_str().ok_or_else(no)?;
    let (own, hosts, (by_path, by_host)) = match &store.endpoint {
        Some(endpoint) => {
            let host = endpoint.host_str().unwrap_or_default();
            let own = (endpoint.scheme(), endpoint.port_or_known_default());
            (own, vec![host.to_owned()], (!store.virtual_hosted, store.virtual_hosted))
        }
        None => (("https", Some(443)), hosts_of_aws(&store.region), (true, true)),
    };
    if (request_url.scheme(), request_url.port_or_known_default()) != own {
        return Err(no());
    }
    // The same host can be written in several ways, for example in upper case or with the default
    // port. The normalized form is signed.
    let origin = request_url.origin().ascii_serialization();
    for own in hosts {
        if by_path && host == own {
            return Ok((AddressingStyle::Path, origin));
        }
        let before = host.strip_suffix(&own).and_then(|it| it.strip_suffix('.'));
        if by_host && before == Some(bucket) {
            return Ok((AddressingStyle::VirtualHosted, origin));
        }
    }
    Err(no())
}

fn hosts_of_aws(region: &str) -> Vec<String> {
    let suffix = match region {
        region if region.starts_with("cn-") => "amazonaws.com.cn",
        _ => "amazonaws.com",
    };
    let mut hosts =
        vec![format!("s3.{region}.{suffix}"), format!("s3.dualstack.{region}.{suffix}")];
    if region == "us-east-1" {
        hosts.push(format!("s3.{suffix}"));
    }
    hosts
}

/// Decodes a string exactly once. The result is used literally.
fn decoded(raw: &str) -> Result<String, SignError> {
    let wrong =
        || SignError::Invalid("Invalid URI: expected UTF-8, with two digits after each %".into());
    let whole = raw
        .split('%')
        .skip(1)
        .all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()));
    if !whole {
        return Err(wrong());
    }
    let text = percent_decode_str(raw).decode_utf8().map_err(|_| wrong())?;
    if text.chars().any(char::is_control) { Err(wrong()) } else { Ok(text.into_owned()) }
}

/// Returns the effect of a request with this method and target. Rejects requests that engines do
/// not send.
fn act(method: &str, target: &ParsedUri) -> Result<RequestEffect, SignError> {
    let names: Vec<&str> =
        target.query.iter().map(|(name, _)| name.as_str()).filter(|name| *name != "x-id").collect();
    let operation = parameter(&target.query, "x-id");
    let mut seen = std::collections::HashSet::new();
    let unique = target.query.iter().all(|(name, _)| seen.insert(name));
    let known = operation.is_none_or(|operation| OPERATIONS.contains(&operation));
    let of = |allowed: &[&str]| names.iter().all(|name| allowed.contains(name));
    let found = match (method, &target.key) {
        _ if !unique || !known => None,
        ("GET" | "HEAD", Some(_)) if of(&["partNumber"]) => Some(RequestEffect::Read),
        // Only writers may list the parts of an upload in progress.
        ("GET", Some(_)) if names.contains(&"uploadId") => {
            of(&["uploadId", "max-parts", "part-number-marker"]).then_some(RequestEffect::Write)
        }
        ("GET", None) if parameter(&target.query, "list-type") == Some("2") => {
            of(&LISTING).then_some(RequestEffect::List)
        }
        ("PUT", Some(_)) if names.is_empty() => Some(RequestEffect::Write),
        ("PUT", Some(_)) if names.len() == 2 => {
            of(&["partNumber", "uploadId"]).then_some(RequestEffect::Write)
        }
        ("POST", Some(_)) => {
            (names == ["uploads"] || names == ["uploadId"]).then_some(RequestEffect::Write)
        }
        ("POST", None) => (names == ["delete"]).then_some(RequestEffect::DeleteObjects),
        ("DELETE", Some(_)) if names.is_empty() => Some(RequestEffect::Delete),
        ("DELETE", Some(_)) => of(&["uploadId"]).then_some(RequestEffect::Write),
        _ => None,
    };
    found.ok_or_else(|| SignError::NotAllowed("Not allowed: this kind of request".to_owned()))
}

fn parameter<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Whether a key, or a prefix of keys, is below one of these locations.
fn is_within(bucket: &str, key: &str, locations: &[Location]) -> bool {
    let below = |location: &Location| {
        let path = location.path();
        location.authority() == bucket
            && !path.is_empty()
            && key.strip_prefix(&path).is_some_and(|rest| rest.starts_with('/'))
    };
    locations.iter().any(below) && is_plain(key)
}

/// Whether a key has no empty segments, no `..` and similar, even after it is decoded repeatedly.
fn is_plain(key: &str) -> bool {
    /// Number of times that a client may encode a key. No client encodes it more often on purpose.
    const TIMES_MAX: usize = 4;
    let mut text = key.to_owned();
    for _ in 0..=TIMES_MAX {
        let segments: Vec<_> = text.split('/').collect();
        let (last, others) = segments.split_last().expect("a split text has a part");
        let odd = |segment: &&str| matches!(*segment, "." | "..");
        if text.chars().any(|c| c.is_control() || c == '\\')
            || others.iter().any(|segment| segment.is_empty() || odd(segment))
            || odd(last)
        {
            return false;
        }
        let Ok(next) = percent_decode_str(&text).decode_utf8() else { return false };
        if next == text {
            return true;
        }
        text = next.into_owned();
    }
    false
}

/// Returns the signed headers, and the payload that they describe.
fn headers(
    given: &Headers,
    target: &ParsedUri,
) -> Result<(Payload, Vec<(String, String)>), SignError> {
    let mut payload = Payload::Unsigned;
    let mut signed: Vec<(String, String)> = Vec::new();
    for (name, values) in given {
        let name = name.to_ascii_lowercase();
        if name == "host" {
            let host = target.origin.split_once("://").map(|(_, host)| host);
            if values.iter().any(|value| Some(value.as_str()) != host) {
                return reject("Not allowed: the header Host differs from the URI".into());
            }
            continue;
        }
        let of_s3 = name.starts_with("x-amz-");
        if of_s3 && !is_known_header(&name) {
            return reject(format!("Not allowed: the header {}", excerpt(&name)));
        }
        if !of_s3 && !OTHER_HEADERS.contains(&name.as_str()) {
            continue;
        }
        let value = values.join(",");
        if !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return invalid(format!("Invalid header {}: expected ASCII", excerpt(&name)));
        }
        match name.as_str() {
            // The client's date is omitted, because each signature has a new date.
            "x-amz-date" => {}
            "x-amz-content-sha256" => payload = payload_of(&value)?,
            _ if signed.iter().any(|(other, _)| *other == name) => {
                return invalid(format!("Invalid headers: {} occurs twice", excerpt(&name)));
            }
            _ => signed.push((name, value)),
        }
    }
    Ok((payload, signed))
}

fn is_known_header(name: &str) -> bool {
    AMZ_HEADERS.contains(&name) || AMZ_HEADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn payload_of(value: &str) -> Result<Payload, SignError> {
    match value {
        "UNSIGNED-PAYLOAD" => Ok(Payload::Unsigned),
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Ok(Payload::UnsignedWithTrailer),
        hash if hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(Payload::Hash(hash.to_ascii_lowercase()))
        }
        _ => invalid(
            "Invalid header x-amz-content-sha256: expected a hash or UNSIGNED-PAYLOAD".into(),
        ),
    }
}

fn excerpt(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    text.chars().filter(char::is_ascii_graphic).take(CHARS_MAX).collect()
}

/// Formats the URI in the canonical form that is signed.
fn written(target: &ParsedUri) -> String {
    let ParsedUri { origin, base, key, query } = target;
    let key = key.as_deref().unwrap_or_default();
    let mut uri = format!("{origin}{base}{}", utf8_percent_encode(key, PATH));
    for (n, (name, value)) in query.iter().enumerate() {
        uri.push(if n == 0 { '?' } else { '&' });
        uri.extend(utf8_percent_encode(name, QUERY));
        uri.push('=');
        uri.extend(utf8_percent_encode(value, QUERY));
    }
    uri
}
