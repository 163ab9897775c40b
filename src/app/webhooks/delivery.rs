//! [`Delivery`]: sends the events of one webhook, in the order of the change feed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::sleep;
use uuid::Uuid;

use super::batch::{Batch, EVENTS_MAX, batches};
use super::deliveries::Deliveries;
use super::sender::SendError;
use slateberg_base::error_chain::chain;
use slateberg_base::retry::Backoff;
use slateberg_base::write_interval::WriteInterval;
use slateberg_catalog::error::Kind;
use slateberg_catalog::watch::{Event, EventType, Position, Watch};
use slateberg_catalog::webhooks::{DeliveryState, OwnerMethod, WebhookCursor, WebhookRecord};
use slateberg_catalog::{self as catalog};

/// The shortest and the longest wait before the next attempt to send a request.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(60 * 60);
/// Wait after an error of the store.
const STORE_RETRY: Duration = Duration::from_secs(5);
/// Shortest time between two writes of the position.
const STORE_PERIOD: Duration = Duration::from_secs(1);
/// Time after which a position is stored that is after changes that the webhook does not select.
const STORE_PROGRESS_AFTER: Duration = Duration::from_secs(30);

/// Sends the events of one webhook.
pub(super) struct Delivery {
    all: Arc<Deliveries>,
    record: WebhookRecord,
    cursor: WebhookCursor,
    /// The cursor in the store.
    stored: WebhookCursor,
    /// The times at which `cursor` is stored.
    writes: WriteInterval,
    backoff: Backoff,
}

/// The reason why a watch has ended.
enum Ended {
    /// The change feed no longer reaches the position.
    Lost,
    /// The store does not respond.
    Failed(String),
    /// The webhook has to be suspended.
    Suspended(String),
}

impl From<catalog::Error> for Ended {
    fn from(error: catalog::Error) -> Self {
        match error.kind() {
            Kind::PositionGone => Self::Lost,
            _ if error.is_final() => Self::Suspended(format!("the watch has ended: {error}")),
            _ => Self::Failed(chain(&error)),
        }
    }
}

fn backoff() -> Backoff {
    Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX)
}

/// Sends the events of a webhook until the server stops, its record changes, or it is suspended.
pub(super) async fn run(all: Arc<Deliveries>, record: WebhookRecord, mut stopping: Receiver<bool>) {
    let mut delivery = tokio::select! {
        _ = stopping.wait_for(|stop| *stop) => return,
        cursor = stored_cursor(&all, record.id) => match cursor {
            Some(cursor) => Delivery {
                all,
                record,
                stored: cursor.clone(),
                cursor,
                writes: WriteInterval::new(STORE_PERIOD),
                backoff: backoff(),
            },
            None => return,
        },
    };
    let reason = tokio::select! {
        _ = stopping.wait_for(|stop| *stop) => None,
        reason = delivery.deliver() => Some(reason),
    };
    if let Err(error) = delivery.store_cursor().await {
        let (webhook, error) = (&delivery.record.name, chain(&error));
        tracing::warn!(webhook, error, "cannot store the position of a webhook: events may repeat");
    }
    if let Some(reason) = reason {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => {}
            () = delivery.suspend(&reason) => {}
        }
    }
}

/// Returns the position of a webhook. `None` if the webhook was deleted.
async fn stored_cursor(all: &Deliveries, id: Uuid) -> Option<WebhookCursor> {
    loop {
        match all.catalog.webhooks().cursor(id).await {
            Ok(cursor) => return cursor,
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(webhook = %id, error, "cannot read the position of a webhook");
                sleep(STORE_RETRY).await;
            }
        }
    }
}

impl Delivery {
    /// Sends events. Returns the reason why the webhook has to be suspended.
    async fn deliver(&mut self) -> String {
        loop {
            let ended = match self.watch(Some(self.cursor.position.clone())).await {
                Ok(watch) => self.follow(watch).await,
                Err(ended) => ended,
            };
            let ended = match ended {
                Ended::Lost => match self.resync().await {
                    Ok(()) => continue,
                    Err(ended) => ended,
                },
                other => other,
            };
            match ended {
                Ended::Suspended(reason) => return reason,
                Ended::Lost => {}
                Ended::Failed(error) => {
                    let webhook = &self.record.name;
                    tracing::warn!(webhook, error, "cannot read the change feed for a webhook");
                    sleep(STORE_RETRY).await;
                }
            }
        }
    }

    async fn watch(&self, after: Option<String>) -> Result<Watch, Ended> {
        self.check_owner()?;
        Ok(self.all.catalog.webhooks().watch(&self.record, after).await?)
    }

    /// Sends the events of a watch until the watch ends.
    async fn follow(&mut self, mut watch: Watch) -> Ended {
        self.report_position(watch.position());
        loop {
            if let Err(ended) = self.send_next(&mut watch).await {
                return ended;
            }
        }
    }

    async fn send_next(&mut self, watch: &mut Watch) -> Result<(), Ended> {
        self.check_owner()?;
        let read = watch.read(EVENTS_MAX).await?;
        self.send_events(read.events).await?;
        self.advance(read.position, STORE_PROGRESS_AFTER);
        if read.caught_up {
            tokio::select! {
                () = watch.changed() => {}
                () = self.writes.wait() => {}
            }
        }
        if self.writes.is_due() {
            self.store_cursor().await?;
        }
        Ok(())
    }

    /// Informs the receiver that it has missed changes, and continues with the current position.
    async fn resync(&mut self) -> Result<(), Ended> {
        let position = self.watch(None).await?.position();
        let event = Event {
            event_type: EventType::RESYNC,
            position: Some(position),
            warehouse: None,
            change: None,
        };
        self.send_events(vec![event]).await
    }

    async fn send_events(&mut self, events: Vec<Event>) -> Result<(), Ended> {
        let batches = batches(events, &self.all.source);
        for batch in batches.map_err(|error| Ended::Failed(error.to_string()))? {
            self.send(&batch).await?;
            if let Some(position) = batch.position {
                self.advance(position, Duration::ZERO);
            }
            if self.writes.is_due() {
                self.store_cursor().await?;
            }
        }
        Ok(())
    }

    /// Sends a batch until the receiver accepts it.
    async fn send(&mut self, batch: &Batch) -> Result<(), Ended> {
        loop {
            let error =
                match self.all.sender.send(&self.record, &batch.id, batch.body.clone()).await {
                    Ok(()) => {
                        self.accepted(batch.count);
                        return Ok(());
                    }
                    Err(error) => error,
                };
            self.all.metrics.failed.add(1);
            if matches!(error, SendError::Gone) {
                return Err(Ended::Suspended(error.to_string()));
            }
            let delay = self.failed(&error.to_string()).await?;
            sleep(delay).await;
            self.check_owner()?;
        }
    }

    fn accepted(&mut self, events: usize) {
        let Deliveries { metrics, catalog, .. } = &*self.all;
        metrics.accepted.add(1);
        metrics.events.add(events as u64);
        self.backoff = backoff();
        let now_ms = catalog.webhooks().now_ms();
        let position = self.state().position;
        catalog.webhooks().report(self.record.id, |state| {
            *state =
                DeliveryState { position, delivered_ms: Some(now_ms), ..DeliveryState::default() };
        });
        if self.cursor.failing_since_ms.take().is_some() {
            self.writes.changed();
        }
    }

    /// Reports a failed attempt, and returns the delay before the next one.
    async fn failed(&mut self, error: &str) -> Result<Duration, Ended> {
        let all = Arc::clone(&self.all);
        let webhooks = all.catalog.webhooks();
        let now_ms = webhooks.now_ms();
        let is_first = self.cursor.failing_since_ms.is_none();
        let since_ms = *self.cursor.failing_since_ms.get_or_insert(now_ms);
        let delay = self.backoff.delay();
        let next_ms = now_ms.saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
        webhooks.report(self.record.id, |state| {
            state.last_error = Some(error.to_owned());
            state.failures += 1;
            state.failing_since_ms = Some(since_ms);
            state.next_attempt_ms = Some(next_ms);
        });
        let retry_max = webhooks.settings().retry_max();
        let failing_ms = u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or_default();
        if Duration::from_millis(failing_ms) >= retry_max {
            let seconds = retry_max.as_secs();
            return Err(Ended::Suspended(format!(
                "every attempt failed for {seconds} seconds: {error}"
            )));
        }
        if is_first {
            let webhook = &self.record.name;
            tracing::warn!(webhook, error, "the receiver of a webhook has not accepted events");
            // Stored at once, so that the suspension is not delayed by restarts.
            self.store_cursor().await?;
        }
        Ok(delay)
    }

    /// Checks that the permissions of the owner still apply.
    fn check_owner(&self) -> Result<(), Ended> {
        let ended = |why: &str| Err(Ended::Suspended(why.to_owned()));
        match &self.record.owner {
            None if self.all.is_authenticated => ended(
                "the owner is anonymous, and the server requires authentication. Resume the \
                 webhook to become its owner",
            ),
            Some(owner) if owner.method == OwnerMethod::ApiKey => {
                let id = Uuid::try_parse(&owner.id).ok();
                let key = id.and_then(|id| self.all.authn.keys().index().by_id(id));
                let now_ms = self.all.catalog.webhooks().now_ms();
                match key {
                    None => ended("the API key of the owner was revoked"),
                    Some(key) if key.record.expires_ms.is_some_and(|at| at <= now_ms) => {
                        ended("the API key of the owner has expired")
                    }
                    Some(_) => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    async fn suspend(&self, reason: &str) {
        let webhook = &self.record.name;
        loop {
            match self.all.catalog.webhooks().suspend(&self.record, reason).await {
                Ok(()) => {
                    tracing::warn!(webhook, reason, "the server has suspended a webhook");
                    return;
                }
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(webhook, error, "cannot suspend a webhook");
                    sleep(STORE_RETRY).await;
                }
            }
        }
    }

    fn state(&self) -> DeliveryState {
        self.all.catalog.webhooks().delivery_state(self.record.id)
    }

    fn report_position(&self, position: Position) {
        let webhooks = self.all.catalog.webhooks();
        webhooks.report(self.record.id, |state| state.position = Some(position));
    }

    /// Advances the cursor. It is stored after a delay.
    fn advance(&mut self, position: Position, delay: Duration) {
        let text = position.to_string();
        if text != self.cursor.position {
            self.cursor.position = text;
            self.report_position(position);
            self.writes.changed_within(delay);
        }
    }

    async fn store_cursor(&mut self) -> catalog::Result<()> {
        if self.cursor != self.stored {
            let cursor = self.cursor.clone();
            self.all.catalog.webhooks().store_cursor(self.record.id, &cursor).await?;
            self.stored = cursor;
        }
        self.writes.written();
        Ok(())
    }
}
