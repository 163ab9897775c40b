//! Bodies of `/management/v1/webhooks`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::string_enum::string_enum;

/// Body of `POST /management/v1/webhooks`. Unknown members are rejected: if a typo such as `type`
/// were ignored, the webhook would send all events.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CreateWebhookRequest {
    /// Unique name. It consists of letters, digits, '-', '_', '.' and ':'.
    pub name: String,
    /// URL of the receiver, which begins with `https://`.
    pub url: String,
    /// Send only events about this resource or its contents, such as `namespace:prod/sales`.
    /// Without it, the webhook sends the events of the whole catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Send only events of these types, such as `table.committed`, or `table` for all types of
    /// tables. Empty for all types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Position of the change feed after which the webhook begins, or `oldest`. Without it, the
    /// webhook sends the events that occur after the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

string_enum! {
    /// State of a webhook.
    WebhookState {
        /// The server sends events.
        Active = "active",
        /// The server sends no events, and the webhook keeps its position.
        Suspended = "suspended",
    }
}

/// A webhook, without its secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Webhook {
    /// Id of the webhook.
    pub id: Uuid,
    /// Name.
    pub name: String,
    /// URL of the receiver.
    pub url: String,
    /// Resource whose events are sent; null for the whole catalog.
    #[schema(required)]
    pub resource: Option<String>,
    /// Types of events that are sent; empty for all types.
    pub types: Vec<String>,
    /// State of the webhook.
    pub state: WebhookState,
    /// Reason of the suspension; null if the webhook is active.
    #[schema(required)]
    pub suspended_reason: Option<String>,
    /// Time of the suspension, in milliseconds since the Unix epoch; null if the webhook is active.
    #[schema(required)]
    pub suspended_at_ms: Option<i64>,
    /// Id of the principal that suspended the webhook; null if the server did, or if the webhook is
    /// active.
    #[schema(required)]
    pub suspended_by: Option<String>,
    /// Id of the principal whose permissions determine the events; null for a server without
    /// authentication.
    #[schema(required)]
    pub owner: Option<String>,
    /// Display name of the owner.
    #[schema(required)]
    pub owner_name: Option<String>,
    /// Roles of the owner when it created or resumed the webhook.
    pub owner_roles: Vec<String>,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Id of the principal that created the webhook.
    pub created_by: String,
    /// Time until which the previous secret also signs, in milliseconds since the Unix epoch; null
    /// if there is no previous secret.
    #[schema(required)]
    pub previous_secret_expires_at_ms: Option<i64>,
    /// State of the delivery.
    pub delivery: WebhookDelivery,
}

/// State of the delivery of a webhook. Times and failures are those since the start of the server.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WebhookDelivery {
    /// Position after the last event that the receiver has accepted.
    pub position: String,
    /// Number of changes after the position, including those that the webhook does not select. Null
    /// if the catalog was restored since then.
    #[schema(required)]
    pub lag_changes: Option<u64>,
    /// Time of the last accepted request, in milliseconds since the Unix epoch.
    #[schema(required)]
    pub delivered_at_ms: Option<i64>,
    /// Number of failed attempts since the last accepted request.
    pub failures: u32,
    /// Reason why the last attempt failed; null if it succeeded.
    #[schema(required)]
    pub last_error: Option<String>,
    /// Time since which all attempts fail, in milliseconds since the Unix epoch.
    #[schema(required)]
    pub failing_since_ms: Option<i64>,
    /// Time of the next attempt, in milliseconds since the Unix epoch; null if no attempt has failed.
    #[schema(required)]
    pub next_attempt_at_ms: Option<i64>,
}

/// Response of `POST /management/v1/webhooks` and `.../rotate`.
// No `Debug`: the secret must not appear in a log.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct WebhookWithSecret {
    /// The secret, which begins with `whsec_`. No later response contains it.
    pub secret: String,
    /// The webhook without its secret.
    #[serde(flatten)]
    pub details: Webhook,
}

/// Response of `GET /management/v1/webhooks`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookList {
    /// The webhooks, oldest first.
    pub webhooks: Vec<Webhook>,
}

/// Body of `POST /management/v1/webhooks/{webhook}/suspend`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SuspendWebhookRequest {
    /// Reason for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of `POST /management/v1/webhooks/{webhook}/rotate`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RotateWebhookSecretRequest {
    /// Time for which the previous secret also signs, in seconds: 86400 (one day) by default, at
    /// most 2592000. With 0, only the new secret signs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_seconds: Option<u64>,
}

/// Response of `POST /management/v1/webhooks/{webhook}/test`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WebhookTest {
    /// Whether the receiver accepted the event.
    pub accepted: bool,
    /// Reason why the receiver did not get or did not accept the event.
    #[schema(required)]
    pub error: Option<String>,
}
