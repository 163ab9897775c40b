//! Handlers for webhooks.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponseParts;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::path::PathParams;
use crate::api::respond::NO_STORE;
use crate::api::state::ApiState;
use crate::api::wire::webhooks::{webhook as wire, webhook_with_secret};
use slateberg_catalog::Operation;
use slateberg_catalog::watch::WatchRequest;
use slateberg_catalog::webhooks::NewWebhook;
use slateberg_management::webhooks::{
    CreateWebhookRequest, RotateWebhookSecretRequest, SuspendWebhookRequest, Webhook, WebhookList,
    WebhookTest, WebhookWithSecret,
};

/// Time for which a previous secret also signs, unless the client requests another time.
const PREVIOUS_SECONDS: u64 = 24 * 60 * 60;

/// `POST /management/v1/webhooks`. Only this response and that of a rotation contain a secret.
pub async fn create(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<CreateWebhookRequest>,
) -> Result<(StatusCode, impl IntoResponseParts, Json<WebhookWithSecret>)> {
    check_not_idempotent(&operation)?;
    let CreateWebhookRequest { name, url, resource, types, after } = body;
    let new = NewWebhook {
        name,
        url,
        events: WatchRequest { resource, types, after, ..WatchRequest::default() },
    };
    let created = state.catalog.webhooks().create_webhook(&operation, new).await?;
    Ok((StatusCode::CREATED, NO_STORE, Json(webhook_with_secret(created))))
}

/// `GET /management/v1/webhooks`.
pub async fn list(
    State(state): State<ApiState>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<WebhookList>> {
    let all = state.catalog.webhooks().webhooks(&operation).await?;
    Ok(Json(WebhookList { webhooks: all.into_iter().map(wire).collect() }))
}

/// `GET /management/v1/webhooks/{webhook}`.
pub async fn load(
    State(state): State<ApiState>,
    PathParams(webhook): PathParams<String>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<Webhook>> {
    Ok(Json(wire(state.catalog.webhooks().webhook(&operation, &webhook).await?)))
}

/// `DELETE /management/v1/webhooks/{webhook}`.
pub async fn delete(
    State(state): State<ApiState>,
    PathParams(webhook): PathParams<String>,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    state.catalog.webhooks().delete_webhook(&operation, &webhook).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /management/v1/webhooks/{webhook}/suspend`.
pub async fn suspend(
    State(state): State<ApiState>,
    PathParams(webhook): PathParams<String>,
    MutationWithBody(operation, body): MutationWithBody<SuspendWebhookRequest>,
) -> Result<Json<Webhook>> {
    let webhooks = state.catalog.webhooks();
    Ok(Json(wire(webhooks.suspend_webhook(&operation, &webhook, body.reason).await?)))
}

/// `POST /management/v1/webhooks/{webhook}/resume`.
pub async fn resume(
    State(state): State<ApiState>,
    PathParams(webhook): PathParams<String>,
    Mutation(operation): Mutation,
) -> Result<Json<Webhook>> {
    Ok(Json(wire(state.catalog.webhooks().resume_webhook(&operation, &webhook).await?)))
}

/// `POST /management/v1/webhooks/{webhook}/rotate`.
pub async fn rotate(
    State(state): State<ApiState>,
    PathParams(webhook): PathParams<String>,
    MutationWithBody(operation, body): MutationWithBody<RotateWebhookSecretRequest>,
) -> Result<(impl IntoResponseParts, Json<WebhookWithSecret>)> {
    check_not_idempotent(&operation)?;
    let seconds = body.previous_seconds.unwrap_or(PREVIOUS_SECONDS);
    let webhooks = state.catalog.webhooks();
    let rotated = webhooks.rotate_webhook_secret(&operation, &webhook, seconds).await?;
    Ok((NO_STORE, Json(webhook_with_secret(rotated))))
}

/// `POST /management/v1/webhooks/{webhook}/test`. Changes nothing in the catalog.
pub async fn test(
    State(state): State<ApiState>,
    PathParams(webhook): PathParams<String>,
    Mutation(operation): Mutation,
) -> Result<Json<WebhookTest>> {
    let record = state.catalog.webhooks().record(&operation, &webhook).await?;
    let error = state.webhooks.send_test(&record).await.err();
    Ok(Json(WebhookTest { accepted: error.is_none(), error }))
}

/// Rejects an `Idempotency-Key`: the server cannot repeat a response with a secret, because it does
/// not store responses with secrets.
fn check_not_idempotent(operation: &Operation) -> Result<()> {
    match operation.idempotency {
        None => Ok(()),
        Some(_) => Err(ApiError::bad_request(
            "Responses with the secret of a webhook do not support Idempotency-Key. Send the request without the \
             header; list the webhooks to see what an earlier request changed",
        )),
    }
}
