//! Converts webhooks to the form of responses.

use slateberg_base::secret::Secret;
use slateberg_catalog::webhooks::{WebhookInfo, WebhookSuspension};
use slateberg_management::webhooks::{Webhook, WebhookDelivery, WebhookState, WebhookWithSecret};

/// Returns a webhook without its secret.
pub fn webhook(info: WebhookInfo) -> Webhook {
    let WebhookInfo { record, position, lag_changes, delivery } = info;
    let state = match record.suspended {
        None => WebhookState::Active,
        Some(_) => WebhookState::Suspended,
    };
    let suspended = record.suspended.map(|it| {
        let WebhookSuspension { at_ms, reason, by } = it;
        (at_ms, reason, by)
    });
    let (suspended_at_ms, suspended_reason, suspended_by) = match suspended {
        None => (None, None, None),
        Some((at_ms, reason, by)) => (Some(at_ms), Some(reason), by),
    };
    let (owner, owner_name, owner_roles) = match record.owner {
        None => (None, None, Vec::new()),
        Some(owner) => (Some(owner.id), Some(owner.name), owner.roles.into_iter().collect()),
    };
    Webhook {
        id: record.id,
        name: record.name,
        url: record.url,
        resource: record.resource,
        types: record.types,
        state,
        suspended_reason,
        suspended_at_ms,
        suspended_by,
        owner,
        owner_name,
        owner_roles,
        created_at_ms: record.created_ms,
        created_by: record.created_by,
        previous_secret_expires_at_ms: record.previous_secret.map(|it| it.expires_ms),
        delivery: WebhookDelivery {
            position,
            lag_changes,
            delivered_at_ms: delivery.delivered_ms,
            failures: delivery.failures,
            last_error: delivery.last_error,
            failing_since_ms: delivery.failing_since_ms,
            next_attempt_at_ms: delivery.next_attempt_ms,
        },
    }
}

/// Returns a webhook with its new secret.
pub fn webhook_with_secret((secret, info): (Secret, WebhookInfo)) -> WebhookWithSecret {
    WebhookWithSecret { secret: secret.reveal().to_owned(), details: webhook(info) }
}
