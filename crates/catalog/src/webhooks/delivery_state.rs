//! [`DeliveryState`]: the state of the delivery of a webhook.

use crate::watch::Position;

/// The state of the delivery of a webhook since the start of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryState {
    /// Position after the last event that the receiver has accepted. `None` while the server sends
    /// no events of the webhook.
    pub position: Option<Position>,
    /// Time of the last successful request.
    pub delivered_ms: Option<i64>,
    /// The reason why the last attempt failed. `None` after a successful one.
    pub last_error: Option<String>,
    /// Number of failed attempts since the last success.
    pub failures: u32,
    /// Time of the first of these failures.
    pub failing_since_ms: Option<i64>,
    /// Time of the next attempt.
    pub next_attempt_ms: Option<i64>,
}
