//! `GET /`: the page for a person who only knows the address.

use axum::http::Method;
use serde_json::Value;

use crate::support::app::TestApp;

#[tokio::test]
async fn the_root_describes_the_server_to_everybody_and_links_to_routes_that_exist() {
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
async fn the_root_is_a_page_for_browsers() {
    let app = TestApp::secured().await;
    let accept = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let page = app.request(Method::GET, "/", &accept, &Value::Null).await.expect(200);
    assert!(page.header("content-type").starts_with("text/html"));
    let text = page.body.as_str().expect("text");
    assert!(text.contains("<a href=\"/v1/config\">"), "{text}");
}

#[tokio::test]
async fn the_root_of_each_port_links_to_what_that_port_serves() {
    let mut app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.management.listen = Some(([127, 0, 0, 1], 0).into());
    })
    .await;
    let routers = app.app.routers();
    for router in [routers.clients, routers.operators.expect("they have a port")] {
        app.router = router;
        let about = app.get("/").await.expect(200);
        for link in about.body["links"].as_array().expect("a list") {
            app.get(link["path"].as_str().expect("a path")).await.expect(200);
        }
    }
}
