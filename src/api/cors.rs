//! CORS: what a browser asks before a web page of another origin gets to talk to the server.
//!
//! A page brings its credential in a header, as every client does. What a page sends without one is looked at
//! in `cross_origin`, so that none does anything in somebody's name without having been given a key.

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
use slateberg_config::server::listen::CorsSettings;

/// What pages of other origins may do.
pub struct Cors(CorsLayer);

impl Cors {
    /// What these settings let them do; none if that is nothing.
    pub fn new(settings: &CorsSettings) -> Option<Self> {
        if settings.allowed_origins.is_empty() {
            return None;
        }
        let origins = settings.allowed_origins.iter();
        let origins = match settings.allows_any() {
            true => AllowOrigin::any(),
            // The settings were checked before: whatever is no header is no origin.
            false => AllowOrigin::list(origins.filter_map(|it| HeaderValue::from_str(it).ok())),
        };
        let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE];
        let exposed = [header::ETAG, header::RETRY_AFTER, header::WWW_AUTHENTICATE, REQUEST_ID];
        let layer = CorsLayer::new()
            .allow_origin(origins)
            .allow_methods(methods)
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(exposed)
            .max_age(Duration::from_secs(settings.max_age_seconds));
        Some(Self(layer))
    }

    /// Answers a preflight request, or has the server respond and adds which pages may read the response.
    pub(super) fn answer<S>(&self, server: S, request: Request) -> BoxFuture<'static, Response>
    where
        S: Service<Request, Response = Response, Error = Infallible>,
        S::Future: Send + 'static,
    {
        let response = self.0.layer(server).call(request);
        Box::pin(response.map(|Ok(response)| response))
    }
}
