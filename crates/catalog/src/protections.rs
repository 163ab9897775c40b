//! Protects warehouses, namespaces, tables and views against drop, purge, unregister and rename.
//!
//! A protection is a separate record with the id of its resource. The transaction of each removal
//! or rename reads the protection. So the transaction conflicts with a request that concurrently
//! protects the resource. The name of a protected resource cannot change: a rename is rejected, and
//! a namespace that contains something cannot be dropped.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::core::Core;
use crate::changed::changed;
use crate::error::{MissingResource, StateConflict};
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::pipeline::response::Body;
use crate::resource_lookup::{NamedResource, VISIBILITY_ACTIONS};
use crate::{Error, Operation, Result};
use slateberg_authz::action::{Action, Protect};
use slateberg_authz::authority::Decider;
use slateberg_authz::notation;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_model::page::PageRequest;
use slateberg_store::bulk_read::Pages;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::ProtectionKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::{ChangeAction, ProtectionRecord};

/// Number of records that one scan reads.
const BATCH: usize = 200;
/// Maximum size of a comment, in bytes.
const COMMENT_BYTES_MAX: usize = 1024;

/// Protections. Cheap to clone.
#[derive(Clone)]
pub struct Protections {
    core: Arc<Core>,
}

/// A request to protect a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProtection {
    /// The resource, such as `table:prod/sales/orders`.
    pub resource: String,
    /// A comment for people.
    pub comment: Option<String>,
}

/// A protection, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectionInfo {
    /// The id of the resource.
    pub id: Uuid,
    /// The resource, such as `table:prod/sales/orders`.
    pub resource: String,
    /// The time of the protection.
    pub protected_ms: i64,
    /// The principal that protected the resource.
    pub protected_by: String,
    /// A comment for people.
    pub comment: Option<String>,
}

/// A page of protections.
#[derive(Debug, Clone)]
pub struct ProtectionPage {
    /// The protections, in the order of their ids.
    pub protections: Vec<ProtectionInfo>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

/// Rejects a change of a protected resource.
pub(super) async fn check_unprotected(
    store: &impl StoreRead,
    id: Uuid,
    change: &'static str,
) -> Result<()> {
    match store.get(&ProtectionKey(id)).await? {
        Some(record) => {
            Err(Error::Conflict(StateConflict::Protected { resource: record.resource, change }))
        }
        None => Ok(()),
    }
}

fn info(id: Uuid, record: ProtectionRecord) -> ProtectionInfo {
    let ProtectionRecord { resource, protected_ms, protected_by, comment } = record;
    ProtectionInfo { id, resource, protected_ms, protected_by, comment }
}

impl Protections {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// Returns the protections of the resources that the caller may see.
    #[boxed]
    pub async fn protections(
        &self,
        operation: &Operation,
        page: &PageRequest,
    ) -> Result<ProtectionPage> {
        let after = page.after.as_deref().map(Uuid::try_parse).transpose();
        let after = after.map_err(|_| Error::Invalid("Invalid page token".to_owned()))?;
        let limit = page.limit.unwrap_or(usize::MAX);
        let store = self.core.store().durable();
        let after = after.map(ProtectionKey);
        let pages = Pages::of(KeySpace::Protections, BATCH).behind(after.as_ref());
        let mut pages = pages.cached();
        let mut visible: Vec<ProtectionInfo> = Vec::new();
        while let Some(batch) = pages.next(&store).await? {
            for (key, record) in batch {
                let described = self.described(&record.resource).await?;
                if self.core.access.hidden(operation, &described).is_some() {
                    continue;
                }
                if visible.len() >= limit {
                    let next = visible.last().map(|last| page.token(&last.id.to_string()));
                    return Ok(ProtectionPage { protections: visible, next });
                }
                visible.push(info(key.0, record));
            }
        }
        Ok(ProtectionPage { protections: visible, next: None })
    }

    async fn described(&self, resource: &str) -> Result<NamedResource> {
        let resource = self.core.access.resource_named(resource)?;
        let actions = [&VISIBILITY_ACTIONS[..], &[Protect::NAME]].concat();
        self.core.access.described(resource, &actions).await
    }

    /// Protects a resource. If the resource is protected already, returns the existing protection.
    #[boxed]
    pub async fn protect(
        &self,
        operation: &Operation,
        request: NewProtection,
    ) -> Result<ProtectionInfo> {
        if request.comment.as_ref().is_some_and(|comment| comment.len() > COMMENT_BYTES_MAX) {
            return Err(Error::Invalid(format!(
                "Invalid comment: at most {COMMENT_BYTES_MAX} bytes are allowed"
            )));
        }
        let protect = |protections: Self, operation: Operation| async move {
            protections.protect_once(&operation, &request).await.map(Body)
        };
        let Body(protected) = self.core.mutate(self, operation, protect).await?;
        Ok(protected)
    }

    async fn protect_once(
        &self,
        operation: &Operation,
        request: &NewProtection,
    ) -> Result<ProtectionInfo> {
        let described = &self.described(&request.resource).await?;
        let permit = &self.permit(operation, described)?;
        let record = &ProtectionRecord {
            resource: notation::resource_text(&described.resource),
            protected_ms: self.core.now_ms(),
            protected_by: operation.principal.id().to_owned(),
            comment: request.comment.clone(),
        };
        let action = ChangeAction::Protect;
        let (write, resource) = (Write::of_records(action, permit), &described.resource);
        let protected = self.core.pipeline().commit(write, |t| async move {
            let found = self.core.access.id_of(&*t, resource).await?;
            let (warehouse, id) = found.ok_or_else(|| self.absent(described))?;
            let key = ProtectionKey(id);
            let existing = t.get(&key).await?;
            let is_new = existing.is_none();
            let protected = info(id, existing.unwrap_or_else(|| record.clone()));
            let entry = is_new.then(|| Entry {
                action,
                warehouse,
                subject: id,
                name: &record.resource,
                versions: (None, None),
                decision: permit.decision(),
                resource: changed(resource),
            });
            if is_new {
                t.put(&key, record)?;
            }
            let response = Body(protected.clone());
            Ok((protected, self.core.pipeline().records(operation, entry, &response)?))
        });
        protected.await
    }

    /// Returns the error for a resource that was removed while the request was processed.
    fn absent(&self, described: &NamedResource) -> Error {
        let NamedResource { resource, .. } = described;
        let described = NamedResource { resource: resource.clone(), there: false };
        let other = || Error::Invalid("The catalog itself cannot be protected".to_owned());
        self.core.access.missing(&described).unwrap_or_else(other)
    }

    /// Returns the permit to protect a resource or to lift its protection.
    fn permit(&self, operation: &Operation, described: &NamedResource) -> Result<Permit<Protect>> {
        let asking = match self.core.access.ask(operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        if described.resource.warehouse_name().is_none() {
            return Err(self.absent(described));
        }
        self.core.access.permit_named(operation, &asking, described)
    }

    /// Lifts the protection of the resource with this id.
    #[boxed]
    pub async fn unprotect(&self, operation: &Operation, id: &str) -> Result<()> {
        let id = id.to_owned();
        let unprotect = |protections: Self, operation: Operation| async move {
            protections.unprotect_once(&operation, &id).await
        };
        self.core.mutate(self, operation, unprotect).await
    }

    async fn unprotect_once(&self, operation: &Operation, name: &str) -> Result<()> {
        let missing = || Error::NotFound(MissingResource::Protection(name.to_owned()));
        let id = Uuid::try_parse(name).map_err(|_| missing())?;
        let record = self.core.store().latest().get(&ProtectionKey(id)).await?;
        let record = record.ok_or_else(missing)?;
        let described = &self.described(&record.resource).await?;
        if self.core.access.hidden(operation, described).is_some() {
            return Err(missing());
        }
        let permit = &self.permit(operation, described)?;
        let action = ChangeAction::Unprotect;
        let write = Write::of_records(action, permit);
        let lifted = self.core.pipeline().commit(write, |t| async move {
            let record = t.get(&ProtectionKey(id)).await?.ok_or_else(missing)?;
            t.delete(&ProtectionKey(id))?;
            let found = self.core.access.id_of(&*t, &described.resource).await?;
            let entry = Entry {
                action,
                warehouse: found.map_or(Uuid::nil(), |(warehouse, _)| warehouse),
                subject: id,
                name: &record.resource,
                versions: (None, None),
                decision: permit.decision(),
                resource: changed(&described.resource),
            };
            Ok(((), self.core.pipeline().records(operation, Some(entry), &())?))
        });
        lifted.await
    }
}
