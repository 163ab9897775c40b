//! Returns the change log: who changed what, when, and which policies allowed it.
//!
//! The log has one entry for each change, in the order of the sequence numbers. A request reads it
//! from the newest entry to the oldest. `catalog.change_log_entries_max` limits the length of the
//! log.

use std::sync::Arc;

use uuid::Uuid;

use super::core::Core;
use crate::resource_lookup::VISIBILITY_ACTIONS;
use crate::{Error, Operation, Result};
use slateberg_authz::action::{Action, ReadHistory};
use slateberg_authz::authority::Decider;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Kind, Resource};
use slateberg_base::boxed;
use slateberg_store::keys::ChangeKey;
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::Change;

/// Number of sequence numbers that one scan covers.
const WINDOW: u64 = 1000;

/// The history of the catalog. Cheap to clone.
#[derive(Clone)]
pub struct History {
    core: Arc<Core>,
}

/// A request for entries of the change log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Return only changes of this resource, such as `table:prod/sales/orders`. A warehouse
    /// includes the changes of everything in it. `None` for all changes.
    pub resource: Option<String>,
    /// Return only changes of the namespace, table or view with this id.
    pub id: Option<Uuid>,
    /// Return only entries with a smaller number.
    pub before: Option<u64>,
    /// Maximum number of entries. `None` for the maximum page size.
    pub limit: Option<usize>,
}

/// An entry of the change log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Sequence number of the entry.
    pub number: u64,
    /// The name of the warehouse of the changed resource. `None` if the resource is not in a
    /// warehouse, or if the warehouse was deleted.
    pub warehouse: Option<String>,
    /// The change.
    pub change: Change,
}

/// A page of entries, from the newest to the oldest.
#[derive(Debug, Clone)]
pub struct HistoryPage {
    /// The entries.
    pub entries: Vec<HistoryEntry>,
    /// The value of `before` for the next page. `None` if this is the last page.
    pub next_before: Option<u64>,
}

/// The changes that a request selects.
struct Filter {
    warehouse: Option<Uuid>,
    subject: Option<Uuid>,
}

impl Filter {
    fn selects(&self, change: &Change) -> bool {
        self.warehouse.is_none_or(|warehouse| warehouse == change.warehouse)
            && self.subject.is_none_or(|subject| subject == change.subject)
    }
}

impl History {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// Returns entries of the change log. The caller needs `ReadHistory` on the resource, or on the
    /// catalog for all changes.
    #[boxed]
    pub async fn history(
        &self,
        operation: &Operation,
        request: &HistoryRequest,
    ) -> Result<HistoryPage> {
        let page_max = self.core.settings().page_size_max;
        let limit = request.limit.unwrap_or(page_max).min(page_max);
        let filter = self.permitted_filter(operation, request).await?;
        let store = self.core.store().durable();
        let oldest = self.core.store().oldest_change().await?;
        let newest = self.core.store().next_change();
        let mut end = request.before.map_or(newest, |before| before.min(newest));
        let mut entries: Vec<HistoryEntry> = Vec::new();
        while end > oldest {
            let start = end.saturating_sub(WINDOW);
            let range = KeyRange::changes_from(start);
            let window = store.scan::<ChangeKey>(&range, usize::try_from(WINDOW).ok()).await?;
            for (ChangeKey(number), change) in window.into_iter().rev() {
                if number >= end || !filter.selects(&change) {
                    continue;
                }
                if entries.len() >= limit {
                    let next_before = entries.last().map(|last| last.number);
                    return Ok(HistoryPage { entries, next_before });
                }
                entries.push(self.entry(number, change));
            }
            end = start;
        }
        Ok(HistoryPage { entries, next_before: None })
    }

    fn entry(&self, number: u64, change: Change) -> HistoryEntry {
        let warehouse = self.core.warehouses().by_id(change.warehouse);
        HistoryEntry { number, warehouse: warehouse.map(|it| it.name.clone()), change }
    }

    async fn permitted_filter(
        &self,
        operation: &Operation,
        request: &HistoryRequest,
    ) -> Result<Filter> {
        let access = &self.core.access;
        let Some(name) = request.resource.as_deref() else {
            let _permit = self.permit(operation, &Resource::catalog(), None)?;
            return Ok(Filter { warehouse: None, subject: request.id });
        };
        let resource = access.resource_named(name)?;
        if resource.kind() == Kind::Catalog {
            let _permit = self.permit(operation, &resource, None)?;
            return Ok(Filter { warehouse: None, subject: request.id });
        }
        let actions = [&VISIBILITY_ACTIONS[..], &[ReadHistory::NAME]].concat();
        let described = access.described(resource, &actions).await?;
        let hidden = access.hidden(operation, &described);
        let _permit = self.permit(operation, &described.resource, hidden)?;
        let found = access.id_of(&self.core.store().durable(), &described.resource).await?;
        let Some((warehouse, id)) = found else {
            let missing = access.missing(&described);
            return Err(missing.unwrap_or_else(|| Error::no_such_warehouse(name)));
        };
        let subject = if warehouse == id { request.id } else { Some(id) };
        if request.id.is_some() && subject != request.id {
            return Err(Error::Invalid(
                "Invalid id: it does not belong to the resource".to_owned(),
            ));
        }
        Ok(Filter { warehouse: Some(warehouse), subject })
    }

    fn permit(
        &self,
        operation: &Operation,
        resource: &Resource,
        hidden: Option<Error>,
    ) -> Result<Permit<ReadHistory>> {
        match self.core.access.ask(operation)? {
            Decider::Unrestricted(unrestricted) => Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking
                .permit(resource)
                .map_err(|denied| self.core.access.refuse(operation, &denied, resource, hidden)),
        }
    }
}
