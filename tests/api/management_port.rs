//! A separate port for operators.

use tokio::sync::watch;

use crate::support::app::TestApp;
use crate::support::served_app::serve_both_ports;

/// Returns a catalog with a separate port for operators, and both ports.
async fn served() -> (TestApp, [String; 2], watch::Sender<bool>) {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.management.listen = Some(([127, 0, 0, 1], 0).into());
    })
    .await;
    let (stop, stopping) = watch::channel(false);
    let routers = app.app.routers();
    let operators = routers.operators.expect("operators have routes of their own");
    let urls = serve_both_ports(&app, (routers.clients, operators), &stopping).await;
    (app, urls, stop)
}

#[tokio::test]
async fn each_port_serves_only_its_own_routes() {
    let (app, [clients, operators], _stop) = served().await;
    let client = reqwest::Client::new();
    let status = async |url: &str, path: &str| {
        let response = client.get(format!("{url}{path}")).bearer_auth(app.credential());
        response.send().await.expect("it answers").status().as_u16()
    };
    for (path, of_clients, of_operators) in [
        ("/health", 200, 200),
        ("/ready", 200, 200),
        ("/v1/config", 200, 404),
        ("/v1/namespaces", 200, 404),
        ("/v1/oauth/jwks", 200, 404),
        ("/metrics", 404, 200),
        ("/management/v1/whoami", 404, 200),
        ("/management/v1/api-keys", 404, 200),
        ("/management/v1/openapi.json", 404, 200),
    ] {
        assert_eq!(status(&clients, path).await, of_clients, "{path} of clients");
        assert_eq!(status(&operators, path).await, of_operators, "{path} of operators");
    }
    // The port for operators requires credentials too.
    let response = client.get(format!("{operators}/management/v1/whoami")).send().await;
    assert_eq!(response.expect("it answers").status().as_u16(), 401);
}

#[tokio::test]
async fn both_ports_serve_the_same_catalog() {
    let (_app, [clients, operators], _stop) = served().await;
    let client = reqwest::Client::new();
    let response = client.get(format!("{clients}/v1/config")).bearer_auth("sb_no").send().await;
    assert_eq!(response.expect("it answers").status().as_u16(), 401);
    let metrics = client.get(format!("{operators}/metrics")).send().await.expect("it answers");
    let text = metrics.text().await.expect("text");
    assert!(text.contains("slateberg_authentication_failures_total 1"), "{text}");
}
