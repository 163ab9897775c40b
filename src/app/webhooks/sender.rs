//! [`Sender`]: sends requests to the receivers of webhooks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde_json::json;
use tokio::sync::OnceCell;

use super::batch::MEDIA_TYPE;
use crate::api::webhooks::WebhookTester;
use slateberg_base::error_chain::chain;
use slateberg_base::secret::{Secret, random_text};
use slateberg_base::version::VERSION;
use slateberg_catalog::Catalog;
use slateberg_catalog::webhooks::WebhookRecord;
use slateberg_catalog::webhooks::target::{TargetRules, not_permitted};

/// Timeout of a request, with its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a response that are read. A longer response closes the connection.
const RESPONSE_BYTES_MAX: usize = 64 << 10;
/// Number of random characters in the id of a test.
const TEST_ID_CHARS: usize = 22;

/// Sends signed requests. It creates the HTTP client for the first request.
pub struct Sender {
    catalog: Catalog,
    client: OnceCell<Client>,
}

/// The reason why a receiver has not accepted a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// The receiver wants no further requests.
    #[error("the receiver responded 410 Gone")]
    Gone,
    /// A later attempt may succeed.
    #[error("{0}")]
    Failed(String),
}

impl Sender {
    /// Creates a sender for the webhooks of a catalog.
    pub fn new(catalog: Catalog) -> Self {
        Self { catalog, client: OnceCell::new() }
    }

    /// Sends a body and waits for the response.
    pub(super) async fn send(
        &self,
        record: &WebhookRecord,
        id: &str,
        body: Bytes,
    ) -> Result<(), SendError> {
        let webhooks = self.catalog.webhooks();
        // The resolver of the client does not see an address in a URL.
        let url = webhooks.rules().parse(&record.url).map_err(SendError::Failed)?;
        let now_ms = webhooks.now_ms();
        let timestamp = (now_ms / 1000).to_string();
        let signature = signatures(record, now_ms, &[id, &timestamp], &body)?;
        let client = self.client.get_or_try_init(async || self.build_client()).await?;
        let request = client.post(url);
        let request = request
            .header(CONTENT_TYPE, MEDIA_TYPE)
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(body);
        let sent = request.send().await;
        let mut response = sent.map_err(|error| SendError::Failed(chain(&error.without_url())))?;
        let status = response.status();
        let mut read = 0;
        // The server needs only the status. It reads a short body so that it can use the connection
        // again.
        while let Ok(Some(chunk)) = response.chunk().await {
            read += chunk.len();
            if read > RESPONSE_BYTES_MAX {
                break;
            }
        }
        match status {
            _ if status.is_success() => Ok(()),
            StatusCode::GONE => Err(SendError::Gone),
            _ => Err(SendError::Failed(format!("the receiver responded {status}"))),
        }
    }

    fn build_client(&self) -> Result<Client, SendError> {
        let rules = self.catalog.webhooks().rules().clone();
        Client::builder()
            .user_agent(format!("slateberg/{VERSION}"))
            .timeout(REQUEST_TIMEOUT)
            .redirect(Policy::none())
            // A proxy would resolve the name itself, so the server could not check the address.
            .no_proxy()
            .dns_resolver(Arc::new(PermittedAddresses(Arc::new(rules))))
            .build()
            .map_err(|error| SendError::Failed(chain(&error)))
    }
}

impl WebhookTester for Sender {
    fn send_test<'a>(&'a self, record: &'a WebhookRecord) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let id = format!("test-{}", random_text(TEST_ID_CHARS));
            let event = json!([{
                "specversion": "1.0",
                "id": id,
                "source": format!("urn:uuid:{}", record.id),
                "type": "webhook.test",
                "datacontenttype": "application/json",
                "data": { "type": "webhook.test", "webhook": record.name },
            }]);
            let sent = self.send(record, &id, event.to_string().into()).await;
            sent.map_err(|error| error.to_string())
        }
        .boxed()
    }
}

/// Returns the signatures of a request with all valid secrets, as Standard Webhooks defines them:
/// over the id, the timestamp and the body, separated by dots.
fn signatures(
    record: &WebhookRecord,
    now_ms: i64,
    before: &[&str; 2],
    body: &[u8],
) -> Result<String, SendError> {
    let previous = record.previous_secret.as_ref().filter(|it| it.expires_ms > now_ms);
    let secrets = [Some(&record.secret), previous.map(|it| &it.secret)];
    let signed = secrets.into_iter().flatten().map(|secret| signature(secret, before, body));
    Ok(signed.collect::<Result<Vec<_>, _>>()?.join(" "))
}

fn signature(secret: &Secret, before: &[&str; 2], body: &[u8]) -> Result<String, SendError> {
    let key = STANDARD.decode(secret.reveal());
    let key = key.map_err(|_| SendError::Failed("the stored secret is damaged".to_owned()))?;
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &key));
    for part in before {
        context.update(part.as_bytes());
        context.update(b".");
    }
    context.update(body);
    Ok(format!("v1,{}", STANDARD.encode(context.sign())))
}

/// Resolves names to those of their addresses to which webhooks may connect. The client connects
/// only to these addresses, so a later change in the DNS has no effect on a request.
struct PermittedAddresses(Arc<TargetRules>);

impl Resolve for PermittedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = Arc::clone(&self.0);
        Box::pin(async move {
            let all = tokio::net::lookup_host((name.as_str(), 0)).await?.collect::<Vec<_>>();
            let permitted = all
                .iter()
                .copied()
                .filter(|it| rules.permits(it.ip()))
                .collect::<Vec<SocketAddr>>();
            match all.first() {
                Some(first) if permitted.is_empty() => Err(not_permitted(first.ip()).into()),
                _ => Ok(Box::new(permitted.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn signature_is_that_of_the_example_in_the_specification() {
        let secret = Secret::new("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let before = ["msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330"];
        let body = br#"{"test": 2432232314}"#;
        let signed = signature(&secret, &before, body).expect("the secret is valid");
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
