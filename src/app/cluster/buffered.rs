//! [`BufferedRequest`]: a request of a client that can be sent several times.

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, header};
use url::Url;

use super::catalog_services::PortKind;
use super::forwarded::Forwarded;
use crate::api::admission::has_body;
use crate::api::extract::body::{BodySlot, IDEMPOTENCY_KEY};
use crate::api::peer::{Peer, peer};
use crate::api::request_id::REQUEST_ID;
use crate::api::route_index::{Repeatability, RouteIndex};
use slateberg_authn::client_certificates::PresentedCertificate;
use slateberg_base::ids::Ids;
use slateberg_telemetry::traces;

/// Headers that belong to a connection and are not forwarded (RFC 9110, section 7.6.1). The HTTP
/// libraries set the length of a body themselves.
const CONNECTION_HEADERS: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A request whose body has arrived, so that it can be sent several times.
pub(super) struct BufferedRequest {
    /// The method.
    pub(super) method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// The body.
    pub(super) body: Bytes,
    /// The client. `None` without a connection.
    client: Option<Peer>,
    version: Version,
    /// Whether the request may be sent again if its response is lost.
    pub(super) repeatability: Repeatability,
}

/// A copy of a request that this process executes itself. If this process is no longer the writer
/// at the end, it forwards the copy.
pub(super) struct RequestCopy {
    request: BufferedRequest,
    /// Gets the body when the handler has read it. `None` for a request without a body.
    body: Option<BodySlot>,
}

impl RequestCopy {
    /// Copies a request. Adds an `Idempotency-Key` to a mutation that accepts one and has none, so
    /// that the copy can be sent to another writer.
    pub(super) fn of(request: &mut Request, routes: &RouteIndex, ids: &dyn Ids) -> Self {
        let repeatability = routes.repeatability(request.method(), request.uri().path());
        add_key(repeatability, request.headers_mut(), ids);
        let copy = BufferedRequest {
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: request.headers().clone(),
            body: Bytes::new(),
            client: peer(request.extensions()).cloned(),
            version: request.version(),
            repeatability,
        };
        let body = has_body(request).then(BodySlot::default);
        if let Some(slot) = &body {
            request.extensions_mut().insert(slot.clone());
        }
        Self { request: copy, body }
    }

    /// Returns the request with its body. `None` if the handler has not read the whole body.
    pub(super) fn into_request(self) -> Option<BufferedRequest> {
        let body = match self.body {
            Some(slot) => slot.body()?,
            None => Bytes::new(),
        };
        Some(BufferedRequest { body, ..self.request })
    }
}

impl BufferedRequest {
    /// Creates a request from its parts. Adds an `Idempotency-Key` to a mutation that accepts one
    /// and has none.
    pub(super) fn new(mut parts: Parts, body: Bytes, routes: &RouteIndex, ids: &dyn Ids) -> Self {
        let repeatability = routes.repeatability(&parts.method, parts.uri.path());
        add_key(repeatability, &mut parts.headers, ids);
        Self {
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            body,
            client: peer(&parts.extensions).cloned(),
            version: parts.version,
            repeatability,
        }
    }

    /// Sets the request id, under which the writer logs the request.
    #[must_use]
    pub(super) fn with_request_id(mut self, id: HeaderValue) -> Self {
        self.headers.insert(REQUEST_ID, id);
        self
    }

    /// The headers for the writer, with the connection of the client. In the trace of a request, the
    /// span of the writer is a part of the current span.
    pub(super) fn forwarded_headers(&self, port: PortKind) -> HeaderMap {
        let mut headers = self.headers.clone();
        remove_connection_headers(&mut headers);
        headers.remove(header::CONTENT_LENGTH);
        for (name, value) in traces::outgoing_headers() {
            let name = HeaderName::try_from(name).expect("it is a name of a header");
            headers.insert(name, HeaderValue::try_from(value).expect("it is printable"));
        }
        let authority = self.uri.authority().map(|it| it.as_str().parse().ok());
        let host = authority.unwrap_or_else(|| self.headers.get(header::HOST).cloned());
        let client = self.client.as_ref();
        let forwarded = Forwarded {
            // Without a connection, as in tests of the router, there is no address.
            address: client.map_or(([0, 0, 0, 0], 0).into(), |peer| peer.address),
            certificate: client
                .and_then(|peer| peer.certificate.as_deref())
                .and_then(PresentedCertificate::trusted_der),
            host,
            port,
        };
        forwarded.add(&mut headers);
        headers
    }

    /// The path of the request.
    pub(super) fn path(&self) -> &str {
        self.uri.path()
    }

    /// The URL of the request at the writer. `None` if the URL would have another path or query than
    /// the request, because the URL parser resolves dots and encodes some characters.
    pub(super) fn url_at(&self, base: &str) -> Option<Url> {
        let target = self.uri.path_and_query()?;
        let url = Url::parse(&format!("{base}{target}")).ok()?;
        let is_same = url.path() == target.path() && url.query() == target.query();
        is_same.then_some(url)
    }

    /// The request for the routes of this process.
    pub(super) fn to_request(&self) -> Request {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        if let Some(client) = &self.client {
            request.extensions_mut().insert(ConnectInfo(client.clone()));
        }
        *request.version_mut() = self.version;
        request
    }
}

/// Adds an `Idempotency-Key` to a mutation that accepts one and has none.
fn add_key(repeatability: Repeatability, headers: &mut HeaderMap, ids: &dyn Ids) {
    if repeatability == Repeatability::Keyed {
        headers.entry(IDEMPOTENCY_KEY).or_insert_with(|| {
            let key = ids.ordered().to_string();
            HeaderValue::try_from(key).expect("a UUID is printable ASCII")
        });
    }
}

/// Removes the headers that belong to one connection.
pub(super) fn remove_connection_headers(headers: &mut HeaderMap) {
    let listed = headers.get_all(header::CONNECTION).iter();
    let listed = listed.filter_map(|value| value.to_str().ok()).flat_map(|names| names.split(','));
    let listed: Vec<_> = listed.filter_map(|name| name.trim().parse::<HeaderName>().ok()).collect();
    for name in listed {
        headers.remove(name);
    }
    for name in CONNECTION_HEADERS {
        headers.remove(name);
    }
}
