//! CORS: responds to preflight requests, with which browsers check whether a page of another origin
//! may call the server.
//!
//! Like all clients, pages send their credential in a header. The module `cross_origin` checks
//! requests without such a credential, because the browser may supply an identity for them.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tower_layer::Layer;
use tower_service::Service;

use super::request_id::REQUEST_ID;
use super::watchers::POSITION;
use slateberg_config::server::listen::CorsSettings;

/// The layer that decides which pages of other origins may call the server.
pub struct Cors(CorsLayer);

impl Cors {
    /// Creates the layer of these settings. Returns `None` if they allow no origin.
    pub fn new(settings: &CorsSettings) -> Option<Self> {
        if settings.allowed_origins.is_empty() {
            return None;
        }
        let origins = settings.allowed_origins.iter();
        let origins = match settings.allows_any() {
            true => AllowOrigin::any(),
            // Validated settings contain only origins that are valid header values, so none is
            // skipped here.
            false => AllowOrigin::list(origins.filter_map(|it| HeaderValue::from_str(it).ok())),
        };
        let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE];
        let exposed =
            [header::ETAG, header::RETRY_AFTER, header::WWW_AUTHENTICATE, POSITION, REQUEST_ID];
        let layer = CorsLayer::new()
            .allow_origin(origins)
            .allow_methods(methods)
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(exposed)
            .max_age(Duration::from_secs(settings.max_age_seconds));
        Some(Self(layer))
    }

    /// Responds to a preflight request. Passes any other request to `server`, and adds the CORS
    /// headers to the response.
    pub(super) fn handle<S>(&self, server: S, request: Request) -> BoxFuture<'static, Response>
    where
        S: Service<Request, Response = Response, Error = Infallible>,
        S::Future: Send + 'static,
    {
        let response = self.0.layer(server).call(request);
        Box::pin(response.map(|Ok(response)| response))
    }
}
