//! The operations of webhooks for the part of the server that sends their events.

use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use super::delivery_state::DeliveryState;
use super::settings::Settings;
use super::target::TargetRules;
use super::{Webhooks, find};
use crate::operation::Context;
use crate::watch::{Watch, WatchRequest};
use crate::{Operation, Result};
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::boxed;
use slateberg_model::principal::{Identity, Principal};
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{WebhookCursorKey, WebhookKey};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::webhooks::{WebhookCursor, WebhookRecord, WebhookSuspension};

impl Webhooks {
    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        self.shared.rules.settings()
    }

    /// Returns the rules for the URLs and addresses of receivers.
    pub fn rules(&self) -> &TargetRules {
        &self.shared.rules
    }

    /// Returns a channel that is notified when the record of a webhook has changed.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.shared.changes.subscribe()
    }

    /// Returns the current time, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.core.now_ms()
    }

    /// Returns the records of all webhooks, oldest first.
    #[boxed]
    pub async fn all(&self) -> Result<Vec<WebhookRecord>> {
        let store = self.core.store().durable();
        let all = store.scan::<WebhookKey>(&KeyRange::all(KeySpace::Webhooks), None).await?;
        Ok(all.into_iter().map(|(_, record)| record).collect())
    }

    /// Returns the record of the webhook with this id or name, for a test by a caller that may
    /// manage webhooks.
    #[boxed]
    pub async fn record(&self, operation: &Operation, name_or_id: &str) -> Result<WebhookRecord> {
        self.permit(operation)?;
        find(&self.core.store().durable(), name_or_id).await
    }

    /// Returns the stored position of a webhook. `None` if the webhook was deleted.
    #[boxed]
    pub async fn cursor(&self, id: Uuid) -> Result<Option<WebhookCursor>> {
        Ok(self.core.store().durable().get(&WebhookCursorKey(id)).await?)
    }

    /// Stores the position of a webhook, unless the webhook was deleted.
    #[boxed]
    pub async fn store_cursor(&self, id: Uuid, cursor: &WebhookCursor) -> Result<()> {
        let permit = Permit::for_task(Task::Webhooks);
        let store = self.core.store();
        let stored = store.transact("webhook_cursor", &permit, |t| async move {
            match t.get(&WebhookKey(id)).await? {
                Some(_) => t.put(&WebhookCursorKey(id), cursor),
                None => Ok(()),
            }
        });
        let ((), accepted) = stored.await?;
        Ok(accepted.durable().await?)
    }

    /// Suspends a webhook that cannot continue, unless its record has changed since `record` was
    /// read.
    #[boxed]
    pub async fn suspend(&self, record: &WebhookRecord, reason: &str) -> Result<()> {
        let permit = Permit::for_task(Task::Webhooks);
        let suspension =
            WebhookSuspension { at_ms: self.core.now_ms(), reason: reason.to_owned(), by: None };
        let suspended = &WebhookRecord {
            suspended: Some(suspension),
            version: record.version + 1,
            ..record.clone()
        };
        let key = &WebhookKey(record.id);
        let store = self.core.store();
        let written = store.transact("suspend_webhook", &permit, |t| async move {
            match t.get(key).await? {
                Some(current) if current == *record => t.put(key, suspended),
                _ => Ok(()),
            }
        });
        let ((), accepted) = written.await?;
        accepted.durable().await?;
        self.shared.changes.send_replace(());
        Ok(())
    }

    /// Starts the watch of a webhook after a position, or at the current position. The watch has
    /// the permissions of the owner, and no source address.
    #[boxed]
    pub async fn watch(&self, record: &WebhookRecord, after: Option<String>) -> Result<Watch> {
        let principal = match &record.owner {
            Some(owner) => Principal::Identified(Arc::new(Identity::from(owner.clone()))),
            None => Principal::Anonymous,
        };
        let operation = Operation::by(principal, Context::default());
        let WebhookRecord { resource, types, .. } = record.clone();
        let request = WatchRequest { resource, types, after, ..WatchRequest::default() };
        self.watches.watch(operation, &request).await
    }

    /// Returns the greatest number of changes that a webhook has not processed. Suspended webhooks
    /// do not count.
    pub fn lag_max(&self) -> u64 {
        let deliveries = self.deliveries();
        let positions = deliveries.values().filter_map(|state| state.position);
        positions.filter_map(|it| self.watches.changes_after(it)).max().unwrap_or_default()
    }

    /// Returns the state of the delivery of a webhook.
    pub fn delivery_state(&self, id: Uuid) -> DeliveryState {
        self.deliveries().get(&id).cloned().unwrap_or_default()
    }

    /// Changes the reported state of the delivery of a webhook.
    pub fn report(&self, id: Uuid, change: impl FnOnce(&mut DeliveryState)) {
        change(self.deliveries().entry(id).or_default());
    }

    /// Removes the reported state of a webhook that no longer exists.
    pub fn forget(&self, id: Uuid) {
        self.deliveries().remove(&id);
    }
}
