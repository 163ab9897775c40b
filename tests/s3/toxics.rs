//! [`Link`]: a connection to the store through toxiproxy, which can inject network faults.

use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::support::bucket::{fresh_id, variable};

/// A separate link to the store. It ends with the proxy.
pub struct Link {
    /// The endpoint of the store for a server.
    pub endpoint: String,
    api: String,
    client: Client,
}

impl Link {
    /// Opens a link without faults.
    pub async fn open() -> Self {
        let toxiproxy = variable("TOXIPROXY_URL").expect("TOXIPROXY_URL is set");
        let upstream = variable("AWS_ENDPOINT").expect("AWS_ENDPOINT is set");
        let client = Client::builder().no_proxy().build().expect("a client");
        let name = format!("link-{}", fresh_id().simple());
        let mut link =
            Self { endpoint: String::new(), api: format!("{toxiproxy}/proxies/{name}"), client };
        let request = json!({
            "name": name,
            "listen": "127.0.0.1:0",
            "upstream": upstream.trim_start_matches("http://"),
            "enabled": true,
        });
        let message = link.send(Method::POST, &format!("{toxiproxy}/proxies"), &request).await;
        link.endpoint = format!("http://{}", message["listen"].as_str().expect("an address"));
        link
    }

    async fn send(&self, method: Method, url: &str, body: &Value) -> Value {
        let answer = self.client.request(method, url).json(body).send().await;
        let answer = answer.expect("toxiproxy answers");
        let status = answer.status();
        let text = answer.text().await.expect("it is whole");
        assert!(status.is_success(), "toxiproxy: {status} {text}");
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") }
    }

    /// Injects this fault into this share of connections.
    pub async fn poison(&self, toxic: &Toxic) {
        let request = json!({
            "name": "toxic",
            "type": toxic.kind,
            "stream": "downstream",
            "toxicity": toxic.share,
            "attributes": toxic.attributes,
        });
        self.send(Method::POST, &format!("{}/toxics", self.api), &request).await;
    }

    /// Removes the fault.
    pub async fn heal(&self) {
        self.send(Method::DELETE, &format!("{}/toxics/toxic", self.api), &Value::Null).await;
    }

    /// Closes or opens the port of the link.
    pub async fn set_up(&self, is_up: bool) {
        self.send(Method::POST, &self.api, &json!({ "enabled": is_up })).await;
    }
}

/// A fault of a link, in the terms of toxiproxy. It affects responses, not requests.
pub struct Toxic {
    /// Its type.
    pub kind: &'static str,
    /// The share of affected connections.
    pub share: f64,
    /// Its parameters.
    pub attributes: Value,
}
