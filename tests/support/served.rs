//! [`Served`]: a catalog of a test, on a port, with its background tasks.

use std::net::SocketAddr;

use axum::ServiceExt;
use axum::extract::Request;
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use slateberg::app::tasks;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::app::TestApp;

/// A catalog that is spoken to over TCP. Its tasks end when this is dropped.
pub struct Served {
    /// The catalog.
    pub app: TestApp,
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub uri: String,
    client: Client,
    _stop: watch::Sender<bool>,
}

impl Served {
    /// Serves a catalog.
    pub async fn start(app: TestApp) -> Self {
        let (stop, stopping) = watch::channel(false);
        tasks::spawn(&app.app, &stopping);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let uri = format!("http://{}", listener.local_addr().expect("an address"));
        let router = app.router.clone();
        let service =
            ServiceExt::<Request>::into_make_service_with_connect_info::<SocketAddr>(router);
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { app, uri, client: Client::new(), _stop: stop }
    }

    /// The beginning of a `GET`.
    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.uri))
    }

    /// The beginning of a `POST`.
    pub fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.uri))
    }

    /// The status of `GET /v1/config` with this credential.
    pub async fn status(&self, credential: &str) -> u16 {
        let answer = self.get("/v1/config").bearer_auth(credential).send().await;
        answer.expect("it answers").status().as_u16()
    }

    /// Whom a credential speaks for.
    pub async fn whoami(&self, credential: &str) -> Value {
        let answer = self.get("/management/v1/whoami").bearer_auth(credential).send().await;
        answer.expect("it answers").json().await.expect("JSON")
    }
}
