//! [`ServedApp`]: a test catalog on a port, with its background tasks.

use std::process::Output;
use std::sync::Arc;

use reqwest::{Certificate, Client, ClientBuilder, Identity, RequestBuilder};
use serde_json::Value;
use slateberg::api::service::PortService;
use slateberg::app::connections::{self, Limits, Stop};
use slateberg::app::run;
use slateberg::app::tls::Tls;
use slateberg::app::tls::handshake::Handshakes;
use slateberg::app::webhooks;
use slateberg_runtime::tasks;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::app::TestApp;
use super::certificates::{TestCa, TestCertificate};
use super::program::slateberg;

/// A catalog that is accessed over TCP. Its tasks end when this is dropped.
pub struct ServedApp {
    /// The catalog.
    pub app: TestApp,
    /// `http://127.0.0.1:PORT`, or `https`.
    pub uri: String,
    client: Client,
    _stop: watch::Sender<bool>,
}

/// Serves the routes of clients and of operators on ports of their own, without TLS. Returns the URLs.
pub async fn serve_both_ports(
    app: &TestApp,
    (clients, operators): (PortService, PortService),
    stopping: &watch::Receiver<bool>,
) -> [String; 2] {
    let (settings, connections) =
        (&app.app.runtime.settings, &app.app.runtime.measures.connections);
    let ports = [
        (clients, Limits::for_clients(settings, connections)),
        (operators, Limits::for_operators(settings, connections)),
    ];
    let mut urls = Vec::new();
    for (routes, limits) in ports {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        urls.push(format!("http://{}", listener.local_addr().expect("an address")));
        let stop = Stop::of_server(&Arc::default(), stopping);
        connections::serve(routes, listener, None, limits, stop);
    }
    urls.try_into().expect("two")
}

impl ServedApp {
    /// Serves a catalog, with TLS if configured.
    pub async fn start(app: TestApp) -> Self {
        let (stop, stopping) = watch::channel(false);
        tasks::spawn(&app.app.runtime, &stopping);
        webhooks::spawn(&app.app, stopping.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let tls = Tls::open(&app.app.runtime.settings).expect("the files are good");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let uri = format!("{scheme}://{}", listener.local_addr().expect("an address"));
        if let Some(tls) = &tls {
            run::watch_certificates(&app.app, tls, stopping.clone());
        }
        let tls = tls.map(|tls| tls as Arc<dyn Handshakes>);
        let limits =
            Limits::for_clients(&app.app.runtime.settings, &app.app.runtime.measures.connections);
        let stop_of_port = Stop::of_server(&Arc::default(), &stopping);
        connections::serve(app.router.clone(), listener, tls, limits, stop_of_port);
        Self { app, uri, client: Client::new(), _stop: stop }
    }

    /// Runs a subcommand against the catalog.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = slateberg(&std::env::temp_dir(), arguments);
        command.env("SLATEBERG_URL", &self.uri);
        let run = move || command.output().expect("it runs");
        tokio::task::spawn_blocking(run).await.expect("it does not panic")
    }

    /// Runs a subcommand that succeeds, and returns what it prints.
    pub async fn stdout_of(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns a new client that trusts this CA and presents this certificate.
    pub fn client(ca: &TestCa, shows: Option<&TestCertificate>) -> Client {
        Self::client_with(ca, shows, |client| client)
    }

    /// Like [`client`](Self::client), with changes.
    pub fn client_with(
        ca: &TestCa,
        shows: Option<&TestCertificate>,
        change: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        let ca = Certificate::from_pem(ca.pem().as_bytes()).expect("a certificate");
        let mut client = Client::builder().tls_certs_only([ca]);
        if let Some(shown) = shows {
            let identity = Identity::from_pem(shown.pem().as_bytes());
            client = client.identity(identity.expect("a certificate and a key"));
        }
        change(client).build().expect("a client")
    }

    /// Returns the builder of a `GET`.
    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.uri))
    }

    /// Returns the builder of a `POST`.
    pub fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.uri))
    }

    /// Returns the status of `GET /v1/config` with this credential.
    pub async fn status(&self, credential: &str) -> u16 {
        let response = self.get("/v1/config").bearer_auth(credential).send().await;
        response.expect("it answers").status().as_u16()
    }

    /// Returns the principal of a credential.
    pub async fn whoami(&self, credential: &str) -> Value {
        let response = self.get("/management/v1/whoami").bearer_auth(credential).send().await;
        response.expect("it answers").json().await.expect("JSON")
    }
}
