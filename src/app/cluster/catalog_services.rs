//! [`CatalogServices`]: the routes of an open catalog, and the requests in progress.

use std::sync::Arc;

use axum::extract::Request;
use tokio::sync::watch;

use crate::api::observe::Observer;
use crate::api::router::Routers;
use crate::api::service::PortService;
use crate::api::shutdown::ShutdownFlag;
use crate::app::App;
use slateberg_authn::Authenticator;
use slateberg_authn::key_index::KeyIndex;
use slateberg_catalog::Catalog;

/// A port of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortKind {
    /// The port for clients.
    Clients,
    /// The separate port for operators.
    Operators,
}

/// The routes of an open catalog: that of the writer, or that of a replica.
pub(super) struct CatalogServices {
    routers: Routers,
    catalog: Catalog,
    authn: Authenticator,
    observer: Arc<Observer>,
    shutdown: Arc<ShutdownFlag>,
    /// Each request in progress has a receiver.
    in_progress: watch::Sender<()>,
}

impl CatalogServices {
    /// The routes of a port. Without a port for operators, the port for clients has all routes.
    pub(super) fn port(&self, port: PortKind) -> &PortService {
        match (port, &self.routers.operators) {
            (PortKind::Operators, Some(operators)) => operators,
            _ => &self.routers.clients,
        }
    }

    /// The routes of an open catalog.
    pub(super) fn new(app: &App) -> Self {
        Self {
            routers: app.routers(),
            catalog: app.runtime.catalog.clone(),
            authn: app.runtime.authn.clone(),
            observer: Arc::clone(&app.observer),
            shutdown: Arc::clone(&app.shutdown),
            in_progress: watch::Sender::new(()),
        }
    }

    /// The catalog.
    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The API keys.
    pub(super) fn keys(&self) -> &KeyIndex {
        self.authn.keys().index()
    }

    /// Whether a replica can execute this request.
    pub(super) fn is_replicated(&self, request: &Request) -> bool {
        self.observer.routes().is_replicated(request.method(), request.uri().path())
    }

    /// Waits until the catalog begins to shut down.
    pub(super) async fn shutdown(&self) {
        self.shutdown.wait().await;
    }

    /// Counts a request as in progress until the result is dropped.
    pub(super) fn begin(&self) -> watch::Receiver<()> {
        self.in_progress.subscribe()
    }

    /// Waits until no request is in progress.
    pub(super) async fn completed(&self) {
        self.in_progress.closed().await;
    }

    /// Whether the store has closed, for example because another process has fenced it.
    pub(super) fn has_closed(&self) -> bool {
        self.catalog.check_open().is_err()
    }
}
