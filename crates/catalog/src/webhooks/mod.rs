//! [`Webhooks`]: URLs to which the server sends the events of the change feed.
//!
//! A webhook is a watch whose events the server sends itself. Its owner is the principal that
//! created or last resumed the webhook, with the roles and groups that this principal had then. The
//! webhook sends only events that its owner may see. The records are in the store. The part of the
//! server that sends requests uses the methods in [`delivery`].

mod delivery;
mod delivery_state;
pub mod settings;
pub mod target;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::watch;
use uuid::Uuid;

pub use self::delivery_state::DeliveryState;
use self::target::TargetRules;
use crate::checkpoints::checked_name;
use crate::core::Core;
use crate::error::{MissingResource, NameConflict, RuleViolation};
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::pipeline::response::Body;
use crate::watch::{Position, WatchRequest, Watches};
use crate::{Error, Operation, Result};
use slateberg_authz::action::ManageWebhooks;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_base::secret::{Secret, random_bytes};
use slateberg_model::principal::Principal;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{WebhookCursorKey, WebhookKey};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::ChangeAction;
use slateberg_store::webhooks::PreviousSecret;
pub use slateberg_store::webhooks::{
    OwnerMethod, WebhookCursor, WebhookOwner, WebhookRecord, WebhookSuspension,
};

/// Prefix of a secret, as Standard Webhooks defines it.
const SECRET_PREFIX: &str = "whsec_";
/// Size of the key of the signatures, in bytes.
const KEY_BYTES: usize = 32;
/// Maximum number of types in a filter.
const TYPES_MAX: usize = 64;
/// Maximum time for which an earlier secret stays valid after a rotation.
const PREVIOUS_SECRET_SECONDS_MAX: u64 = 30 * 24 * 60 * 60;

/// Webhooks. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    core: Arc<Core>,
    watches: Watches,
    shared: Arc<Shared>,
}

struct Shared {
    rules: TargetRules,
    /// Notified when a record changes.
    changes: watch::Sender<()>,
    deliveries: Mutex<HashMap<Uuid, DeliveryState>>,
}

/// The properties of a new webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// Unique name.
    pub name: String,
    /// URL of the receiver.
    pub url: String,
    /// The events that are sent. The first one is the event after the position `after`.
    pub events: WatchRequest,
}

/// A webhook and the state of its delivery.
#[derive(Debug, Clone)]
pub struct WebhookInfo {
    /// The record.
    pub record: WebhookRecord,
    /// Position after the last event that the receiver has accepted.
    pub position: String,
    /// Number of changes after the position. The webhook may not select all of them. `None` if the
    /// catalog was restored since then.
    pub lag_changes: Option<u64>,
    /// The state of the delivery.
    pub delivery: DeliveryState,
}

impl Webhooks {
    pub(crate) fn new(core: &Arc<Core>, watches: &Watches, rules: TargetRules) -> Self {
        let (changes, deliveries) = (watch::Sender::new(()), Mutex::default());
        let shared = Arc::new(Shared { rules, changes, deliveries });
        Self { core: Arc::clone(core), watches: watches.clone(), shared }
    }

    /// Returns the webhooks, oldest first.
    #[boxed]
    pub async fn webhooks(&self, operation: &Operation) -> Result<Vec<WebhookInfo>> {
        self.permit(operation)?;
        let mut infos = Vec::new();
        for record in self.all().await? {
            infos.push(self.info(record).await?);
        }
        Ok(infos)
    }

    /// Returns the webhook with this id or name.
    #[boxed]
    pub async fn webhook(&self, operation: &Operation, name_or_id: &str) -> Result<WebhookInfo> {
        self.permit(operation)?;
        let record = find(&self.core.store().durable(), name_or_id).await?;
        self.info(record).await
    }

    async fn info(&self, record: WebhookRecord) -> Result<WebhookInfo> {
        let delivery = self.delivery_state(record.id);
        let position = match delivery.position {
            Some(position) => position.to_string(),
            // A concurrent request may have deleted the webhook and its cursor.
            None => self.cursor(record.id).await?.map(|it| it.position).unwrap_or_default(),
        };
        let lag_changes =
            Position::parse(&position).ok().and_then(|it| self.watches.changes_after(it));
        Ok(WebhookInfo { record, position, lag_changes, delivery })
    }

    /// Creates a webhook, and returns its secret.
    #[boxed]
    pub async fn create_webhook(
        &self,
        operation: &Operation,
        new: NewWebhook,
    ) -> Result<(Secret, WebhookInfo)> {
        self.permit(operation)?;
        let name = checked_name("webhook", new.name)?;
        let url = self.shared.rules.parse(&new.url);
        url.map_err(|problem| Error::Invalid(format!("Invalid URL of a webhook: {problem}")))?;
        if new.events.types.len() > TYPES_MAX {
            let message = format!("Invalid types: expected at most {TYPES_MAX}");
            return Err(Error::Invalid(message));
        }
        let watch = self.watches.watch(operation.clone(), &new.events).await?;
        let cursor =
            WebhookCursor { position: watch.position().to_string(), failing_since_ms: None };
        let (secret, key) = mint();
        let record = WebhookRecord {
            id: self.core.ids().ordered(),
            name,
            url: new.url,
            resource: new.events.resource,
            types: new.events.types,
            secret: key,
            previous_secret: None,
            owner: owner(operation),
            created_ms: self.core.now_ms(),
            created_by: operation.principal.id().to_owned(),
            suspended: None,
            version: 1,
        };
        let id = record.id;
        let create = |webhooks: Self, operation: Operation| async move {
            webhooks.create_once(&operation, &record, &cursor).await
        };
        self.core.mutate(self, operation, create).await?;
        Ok((secret, self.webhook(operation, &id.to_string()).await?))
    }

    async fn create_once(
        &self,
        operation: &Operation,
        record: &WebhookRecord,
        cursor: &WebhookCursor,
    ) -> Result<()> {
        let permit = &self.permit(operation)?;
        let action = ChangeAction::CreateWebhook;
        let created =
            self.core.pipeline().commit(Write::of_records(action, permit), |t| async move {
                let all = t.scan::<WebhookKey>(&KeyRange::all(KeySpace::Webhooks), None).await?;
                if all.iter().any(|(_, other)| other.name == record.name) {
                    return Err(Error::AlreadyExists(NameConflict::Webhook(record.name.clone())));
                }
                let max = self.settings().max;
                if all.len() >= max {
                    let what = "webhooks";
                    return Err(Error::Unprocessable(RuleViolation::TooMany { what, max }));
                }
                t.put(&WebhookKey(record.id), record)?;
                t.put(&WebhookCursorKey(record.id), cursor)?;
                let entry = entry(action, permit, record, (None, Some(record.version)));
                Ok(((), self.core.pipeline().records(operation, Some(entry), &())?))
            });
        created.await?;
        self.shared.changes.send_replace(());
        Ok(())
    }

    /// Suspends a webhook. It keeps its position.
    #[boxed]
    pub async fn suspend_webhook(
        &self,
        operation: &Operation,
        name_or_id: &str,
        reason: Option<String>,
    ) -> Result<WebhookInfo> {
        let suspension = WebhookSuspension {
            at_ms: self.core.now_ms(),
            reason: reason.unwrap_or_else(|| "suspended by a principal".to_owned()),
            by: Some(operation.principal.id().to_owned()),
        };
        if suspension.reason.len() > REASON_BYTES_MAX {
            let message = format!("Invalid reason: at most {REASON_BYTES_MAX} bytes are allowed");
            return Err(Error::Invalid(message));
        }
        let change = move |record: &mut WebhookRecord| {
            record.suspended.get_or_insert_with(|| suspension.clone());
        };
        self.change(operation, name_or_id, ChangeAction::SuspendWebhook, change).await
    }

    /// Resumes a webhook at its position. The caller becomes the owner.
    #[boxed]
    pub async fn resume_webhook(
        &self,
        operation: &Operation,
        name_or_id: &str,
    ) -> Result<WebhookInfo> {
        self.permit(operation)?;
        let record = find(&self.core.store().durable(), name_or_id).await?;
        let WebhookRecord { resource, types, .. } = record;
        let events = WatchRequest { resource, types, ..WatchRequest::default() };
        self.watches.watch(operation.clone(), &events).await?;
        let owner = owner(operation);
        let change = move |record: &mut WebhookRecord| {
            record.suspended = None;
            record.owner = owner.clone();
        };
        self.change(operation, name_or_id, ChangeAction::ResumeWebhook, change).await
    }

    /// Replaces the secret of a webhook, and returns the new one. Both secrets sign for this number
    /// of seconds.
    #[boxed]
    pub async fn rotate_webhook_secret(
        &self,
        operation: &Operation,
        name_or_id: &str,
        previous_seconds: u64,
    ) -> Result<(Secret, WebhookInfo)> {
        if previous_seconds > PREVIOUS_SECRET_SECONDS_MAX {
            return Err(Error::Invalid(format!(
                "Invalid lifetime of the previous secret: expected at most \
                 {PREVIOUS_SECRET_SECONDS_MAX} seconds, got {previous_seconds}"
            )));
        }
        let lifetime_ms = i64::try_from(previous_seconds * 1000).unwrap_or(i64::MAX);
        let expires_ms = self.core.now_ms().saturating_add(lifetime_ms);
        let (secret, key) = mint();
        let change = move |record: &mut WebhookRecord| {
            let previous = std::mem::replace(&mut record.secret, key.clone());
            record.previous_secret =
                (previous_seconds > 0).then_some(PreviousSecret { secret: previous, expires_ms });
        };
        let action = ChangeAction::RotateWebhookSecret;
        let info = self.change(operation, name_or_id, action, change).await?;
        Ok((secret, info))
    }

    /// Deletes a webhook.
    #[boxed]
    pub async fn delete_webhook(&self, operation: &Operation, name_or_id: &str) -> Result<()> {
        self.permit(operation)?;
        let name_or_id = name_or_id.to_owned();
        let delete = |webhooks: Self, operation: Operation| async move {
            webhooks.delete_once(&operation, &name_or_id).await
        };
        self.core.mutate(self, operation, delete).await
    }

    async fn delete_once(&self, operation: &Operation, name_or_id: &str) -> Result<()> {
        let permit = &self.permit(operation)?;
        let action = ChangeAction::DeleteWebhook;
        let deleted =
            self.core.pipeline().commit(Write::of_records(action, permit), |t| async move {
                let record = find(&*t, name_or_id).await?;
                t.delete(&WebhookKey(record.id))?;
                t.delete(&WebhookCursorKey(record.id))?;
                let entry = entry(action, permit, &record, (Some(record.version), None));
                let records = self.core.pipeline().records(operation, Some(entry), &())?;
                Ok((record.id, records))
            });
        let id = deleted.await?;
        self.shared.changes.send_replace(());
        self.deliveries().remove(&id);
        Ok(())
    }

    /// Changes the record of a webhook, and returns the webhook.
    async fn change(
        &self,
        operation: &Operation,
        name_or_id: &str,
        action: ChangeAction,
        change: impl Fn(&mut WebhookRecord) + Send + Sync + 'static,
    ) -> Result<WebhookInfo> {
        self.permit(operation)?;
        let name_or_id = name_or_id.to_owned();
        let changing = move |webhooks: Self, operation: Operation| async move {
            webhooks.change_once(&operation, &name_or_id, action, &change).await.map(Body)
        };
        let Body(id): Body<Uuid> = self.core.mutate(self, operation, changing).await?;
        self.webhook(operation, &id.to_string()).await
    }

    async fn change_once(
        &self,
        operation: &Operation,
        name_or_id: &str,
        action: ChangeAction,
        change: &(impl Fn(&mut WebhookRecord) + Send + Sync),
    ) -> Result<Uuid> {
        let permit = &self.permit(operation)?;
        let changed =
            self.core.pipeline().commit(Write::of_records(action, permit), |t| async move {
                let before = find(&*t, name_or_id).await?;
                let mut record = before.clone();
                change(&mut record);
                let is_changed = record != before;
                if is_changed {
                    record.version += 1;
                    t.put(&WebhookKey(record.id), &record)?;
                }
                let versions = (Some(before.version), Some(record.version));
                let entry = is_changed.then(|| entry(action, permit, &record, versions));
                let response = Body(record.id);
                Ok((record.id, self.core.pipeline().records(operation, entry, &response)?))
            });
        let id = changed.await?;
        self.shared.changes.send_replace(());
        Ok(id)
    }

    fn deliveries(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, DeliveryState>> {
        self.shared.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(&self, operation: &Operation) -> Result<Permit<ManageWebhooks>> {
        self.core.access.permit_catalog(operation)
    }
}

/// Maximum size of the reason of a suspension, in bytes.
const REASON_BYTES_MAX: usize = 1024;

fn entry<'a>(
    action: ChangeAction,
    permit: &'a Permit<ManageWebhooks>,
    record: &'a WebhookRecord,
    versions: (Option<u64>, Option<u64>),
) -> Entry<'a> {
    Entry {
        action,
        warehouse: Uuid::nil(),
        subject: record.id,
        name: &record.name,
        versions,
        decision: permit.decision(),
        resource: None,
    }
}

/// Returns the webhook with this id or name.
async fn find(store: &impl StoreRead, name_or_id: &str) -> Result<WebhookRecord> {
    let found = match Uuid::try_parse(name_or_id) {
        Ok(id) => store.get(&WebhookKey(id)).await?,
        Err(_) => {
            let all = store.scan::<WebhookKey>(&KeyRange::all(KeySpace::Webhooks), None).await?;
            all.into_iter().map(|(_, record)| record).find(|record| record.name == name_or_id)
        }
    };
    found.ok_or_else(|| Error::NotFound(MissingResource::Webhook(name_or_id.to_owned())))
}

fn owner(operation: &Operation) -> Option<WebhookOwner> {
    match &operation.principal {
        Principal::Identified(identity) => Some(WebhookOwner::from(&**identity)),
        Principal::Anonymous | Principal::Task(_) => None,
    }
}

/// Returns a new secret as the client gets it, and as the record contains it.
fn mint() -> (Secret, Secret) {
    let key = STANDARD.encode(random_bytes::<KEY_BYTES>());
    (Secret::new(format!("{SECRET_PREFIX}{key}")), Secret::new(key))
}
