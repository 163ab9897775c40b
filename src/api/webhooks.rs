//! [`WebhookTester`]: sends a test event to the receiver of a webhook.

use futures::future::BoxFuture;

use slateberg_catalog::webhooks::WebhookRecord;

/// The part of the server that sends the events of webhooks.
pub trait WebhookTester: Send + Sync + 'static {
    /// Sends a test event. Errors with the reason if the receiver does not accept it.
    fn send_test<'a>(&'a self, record: &'a WebhookRecord) -> BoxFuture<'a, Result<(), String>>;
}
