//! `GET /`: the page for a person who knows only the address of the server.

use axum::http::Method;
use serde_json::Value;

use crate::support::app::TestApp;

#[tokio::test]
async fn root_describes_the_server_without_a_credential_and_links_to_existing_routes() {
    let app = TestApp::secured().await;
    let about = app.get_as("", "/").await.expect(200);
    assert_eq!(about.body["name"], "slateberg");
    assert_eq!(about.body["version"], env!("CARGO_PKG_VERSION"));
    let links = about.body["links"].as_array().expect("a list");
    assert!(links.iter().any(|link| link["path"] == "/v1/config"), "{}", about.body);
    for link in links {
        app.get(link["path"].as_str().expect("a path")).await.expect(200);
    }
    app.request_as("", Method::POST, "/", &Value::Null).await.expect(405);
}

#[tokio::test]
async fn root_is_html_for_browsers() {
    let app = TestApp::secured().await;
    let accept = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let page = app.request(Method::GET, "/", &accept, &Value::Null).await.expect(200);
    assert!(page.header("content-type").starts_with("text/html"));
    let text = page.body.as_str().expect("text");
    assert!(text.contains("<a href=\"/v1/config\">"), "{text}");
}

#[tokio::test]
async fn root_of_each_port_links_to_its_own_routes() {
    let mut app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.management.listen = Some(([127, 0, 0, 1], 0).into());
    })
    .await;
    let routers = app.app.routers();
    for router in [routers.clients, routers.operators.expect("operators have a port")] {
        app.router = router;
        let about = app.get("/").await.expect(200);
        for link in about.body["links"].as_array().expect("a list") {
            app.get(link["path"].as_str().expect("a path")).await.expect(200);
        }
    }
}
