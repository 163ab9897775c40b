//! [`PastStates`]: the contents of warehouses and namespaces, and the metadata of tables and views, at
//! an earlier time.
//!
//! The state at a position is the present state without the later changes. For each resource that has
//! changed since, the first of its later changes contains its name and its metadata file before the
//! change. All other resources are as they were. So a state can be read as long as all later changes
//! are in the change log.
//!
//! The permissions are those of today. A caller sees a past table if it may load the table that has
//! the same id today. If the table no longer exists, the caller needs the permission to restore it.

mod changes;
mod resource;
mod visibility;

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use self::changes::ChangedSince;
pub use self::resource::PastResource;
use self::resource::{Place, rank};
use crate::core::Core;
use crate::error::LostPosition;
use crate::watch::Watches;
use crate::{Error, Operation, RequestContext, Result, lookup};
use slateberg_authz::resource::{Kind, Resource};
use slateberg_base::boxed;
use slateberg_base::rfc3339;
use slateberg_model::ident::{NamespaceIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::page::PageRequest;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::metadata_file;
use slateberg_store::bulk_read::Pages;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{NamespaceKey, NamespaceNameKey, TabularNameKey, tabular_names};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::ChangedKind;

/// Number of names that one scan reads.
const PAGE_NAMES: usize = 1000;

/// Reads earlier states of the catalog. Cheap to clone.
#[derive(Clone)]
pub struct PastStates {
    core: Arc<Core>,
    watches: Watches,
}

/// A page of the contents of a warehouse or namespace at an earlier time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastListing {
    /// The resources: namespaces, tables, then views, each in the order of their names.
    pub resources: Vec<PastResource>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

/// A table or view at an earlier time, with its metadata.
#[derive(Debug, Clone)]
pub struct PastTabular {
    /// The table or view.
    pub resource: PastResource,
    /// The JSON of its metadata.
    pub metadata: String,
}

impl PastStates {
    pub(crate) fn new(core: &Arc<Core>, watches: &Watches) -> Self {
        Self { core: Arc::clone(core), watches: watches.clone() }
    }

    /// Returns the namespaces, tables and views that were directly in a warehouse or namespace, such
    /// as `namespace:prod/sales`, at a time or position. The caller needs `List` on the warehouse or
    /// namespace. If the namespace no longer exists, the caller needs `Undrop` on its name.
    ///
    /// # Errors
    /// Returns [`Error::PositionGone`] if later changes are no longer in the change log.
    #[boxed]
    pub async fn list(
        &self,
        operation: &Operation,
        (resource, as_of): (&str, &str),
        page: &PageRequest,
    ) -> Result<PastListing> {
        let (cx, resource) = self.named(operation, resource)?;
        let levels: Vec<String> =
            resource.nodes().iter().skip(1).map(|level| level.name.to_string()).collect();
        if !matches!(resource.kind(), Kind::Warehouse | Kind::Namespace) {
            let message = "Invalid resource: expected a warehouse or a namespace";
            return Err(Error::Invalid(message.to_owned()));
        }
        let parent = NamespaceIdent(levels);
        let next = self.position(as_of).await?;
        self.permit_list(&cx, &parent).await?;
        let parent_id =
            lookup::namespace_id(&self.core.store().durable(), cx.warehouse.id, &parent).await?;
        let mut names = self.present_names(parent_id).await?;
        let changed = ChangedSince::read(&self.core, cx.warehouse.id, next).await?;
        let existed_as = |past: &PastResource| past.name.is_none() && past.namespace == parent.0;
        let existed = parent.is_root()
            || parent_id.is_some_and(|id| !changed.contains(id))
            || changed.resources().any(existed_as);
        if !existed {
            return Err(Error::no_such_namespace(&parent));
        }
        names.retain(|_, (id, _)| !changed.contains(*id));
        let past = changed.resources().filter(|past| past.is_directly_in(&parent.0));
        names.extend(past.map(|past| (past.place(), (past.id, Some(past.clone())))));
        let after = page.after.as_deref().map(parse_place).transpose()?;
        let limit = page.limit.unwrap_or(usize::MAX);
        let mut listing = PastListing { resources: Vec::new(), next: None };
        for (place, (id, past)) in names {
            if after.as_ref().is_some_and(|after| place <= *after) {
                continue;
            }
            let Some(found) = self.completed(&cx.warehouse, &parent, (place.0, id), past).await?
            else {
                continue;
            };
            if !self.is_visible(&cx, &found).await? {
                continue;
            }
            if listing.resources.len() >= limit {
                let last = listing.resources.last().map(PastResource::place);
                listing.next = last.map(|(rank, name)| page.token(&format!("{rank}{name}")));
                break;
            }
            listing.resources.push(found);
        }
        Ok(listing)
    }

    /// Returns a table or view, such as `table:prod/sales/orders`, as it was at a time or position.
    /// The metadata file of this time must still exist.
    ///
    /// # Errors
    /// Returns [`Error::PositionGone`] if later changes are no longer in the change log.
    #[boxed]
    pub async fn load(
        &self,
        operation: &Operation,
        (resource, as_of): (&str, &str),
    ) -> Result<PastTabular> {
        let (cx, _) = self.named(operation, resource)?;
        let (_, kind, ident) = self.core.access.tabular_named(resource)?;
        self.core.environment.check_findable(kind, &ident)?;
        let next = self.position(as_of).await?;
        let store = self.core.store().durable();
        let present = lookup::tabular_id(&store, cx.warehouse.id, kind, &ident).await?;
        let changed = ChangedSince::read(&self.core, cx.warehouse.id, next).await?;
        let has_name = |past: &&PastResource| {
            past.kind == ChangedKind::from(kind)
                && past.namespace == ident.namespace.0
                && past.name.as_ref() == Some(&ident.name)
        };
        let past = changed.resources().find(has_name).cloned();
        let id = past.as_ref().map(|past| past.id);
        let id = id.or_else(|| present.filter(|id| !changed.contains(*id)));
        let access = &self.core.access;
        let absent = || match access.hidden_warehouse(operation, &cx.warehouse.name) {
            Some(hidden) => access.without_permissions(operation, hidden),
            None => Error::no_such(kind, &ident),
        };
        let id = id.ok_or_else(absent)?;
        let place = (rank(kind.into()), id);
        let found = self.completed(&cx.warehouse, &ident.namespace, place, past).await?;
        let resource = found.ok_or_else(absent)?;
        if !self.is_visible(&cx, &resource).await? {
            return Err(absent());
        }
        let metadata = self.metadata_of(&cx, &resource).await?;
        Ok(PastTabular { resource, metadata })
    }

    fn named(&self, operation: &Operation, name: &str) -> Result<(RequestContext, Resource)> {
        let resource = self.core.access.resource_named(name)?;
        let warehouse = self.core.warehouses().by_prefix(resource.warehouse_name());
        let warehouse =
            warehouse.map_err(|absent| self.core.access.without_permissions(operation, absent))?;
        Ok((RequestContext::new(operation.clone(), warehouse), resource))
    }

    /// Returns the number of the first change after a time or position.
    async fn position(&self, as_of: &str) -> Result<u64> {
        let Some(time_ms) = rfc3339::parse(as_of) else {
            return self.watches.next_change_at(as_of);
        };
        if time_ms > self.core.now_ms() {
            let as_of = brief(as_of);
            return Err(Error::Invalid(format!("Invalid time: {as_of} is in the future")));
        }
        let store = self.core.store();
        let oldest = store.oldest_entry().await?;
        let reaches = oldest.is_some_and(|(_, change)| change.at_ms <= time_ms);
        match reaches {
            true => Ok(store.first_change_since(time_ms.saturating_add(1)).await?),
            false => Err(Error::PositionGone(LostPosition::Trimmed)),
        }
    }

    /// Returns the ids of the namespaces, tables and views that are now directly in a namespace or
    /// warehouse.
    async fn present_names(
        &self,
        parent: Option<Uuid>,
    ) -> Result<BTreeMap<Place, (Uuid, Option<PastResource>)>> {
        let mut names = BTreeMap::new();
        let Some(parent) = parent else { return Ok(names) };
        let store = self.core.store().durable();
        let present = |rank, name, id| ((rank, name), (id, None));
        let namespaces = rank(ChangedKind::Namespace);
        let range = KeyRange::below(KeySpace::NamespaceNames, parent);
        let mut pages = Pages::<NamespaceNameKey>::within(range, PAGE_NAMES).cached();
        while let Some(page) = pages.next(&store).await? {
            names.extend(
                page.into_iter().map(|(key, entry)| present(namespaces, key.name, entry.id)),
            );
        }
        for kind in [TabularKind::Table, TabularKind::View] {
            let place = rank(kind.into());
            let range = KeyRange::below(tabular_names(kind), parent);
            let mut pages = Pages::<TabularNameKey>::within(range, PAGE_NAMES).cached();
            while let Some(page) = pages.next(&store).await? {
                names.extend(
                    page.into_iter().map(|(key, entry)| present(place, key.name, entry.id)),
                );
            }
        }
        Ok(names)
    }

    /// Returns a resource with all its members: those that the changes do not contain are as in the
    /// present record. `None` if a change since the reads has removed the resource.
    async fn completed(
        &self,
        warehouse: &Warehouse,
        parent: &NamespaceIdent,
        (kind_rank, id): (u8, Uuid),
        past: Option<PastResource>,
    ) -> Result<Option<PastResource>> {
        let store = self.core.store().durable();
        if kind_rank == rank(ChangedKind::Namespace) {
            if past.is_some() {
                return Ok(past);
            }
            let Some(record) = store.get(&NamespaceKey(id)).await? else { return Ok(None) };
            let namespace = [&parent.0[..], &[record.name]].concat();
            let kind = ChangedKind::Namespace;
            let (uuid, name, metadata_location) = (None, None, None);
            return Ok(Some(PastResource { kind, id, uuid, namespace, name, metadata_location }));
        }
        if let Some(past) = &past
            && past.uuid.is_some()
            && past.metadata_location.is_some()
        {
            return Ok(Some(past.clone()));
        }
        let record = lookup::record_with_dropped(&store, id).await?;
        let record = record.filter(|record| record.warehouse == warehouse.id);
        Ok(match (past, record) {
            (Some(past), None) => Some(past),
            (Some(past), Some(record)) => {
                let location = past.metadata_location.clone();
                let is_same = location.as_ref().is_none_or(|it| *it == record.metadata_location);
                Some(PastResource {
                    uuid: past.uuid.or(is_same.then_some(record.uuid)),
                    metadata_location: location.or(Some(record.metadata_location)),
                    ..past
                })
            }
            (None, Some(record)) => Some(PastResource {
                kind: record.kind.into(),
                id,
                uuid: Some(record.uuid),
                namespace: parent.0.clone(),
                name: Some(record.name),
                metadata_location: Some(record.metadata_location),
            }),
            (None, None) => None,
        })
    }

    /// Returns the metadata of a table or view at the location of a past resource.
    async fn metadata_of(&self, cx: &RequestContext, past: &PastResource) -> Result<String> {
        let store = self.core.store().durable();
        let Some(location) = &past.metadata_location else {
            return Err(Error::internal(format!(
                "the change log names no metadata of {}",
                past.id
            )));
        };
        let found = lookup::tabular_with_dropped(&store, past.id).await?;
        let bytes = match found.filter(|found| found.record.metadata_location == *location) {
            Some(found) => found.document.text.to_bytes().to_vec(),
            None => {
                let objects = self.core.objects();
                metadata_file::read(&objects, cx.warehouse.id, location).await?.to_vec()
            }
        };
        String::from_utf8(bytes).map_err(Error::internal)
    }
}

fn parse_place(token: &str) -> Result<Place> {
    let (rank, name) = token.split_at_checked(1).unwrap_or_default();
    let rank = rank.parse().map_err(|_| Error::Invalid("Invalid page token".to_owned()))?;
    Ok((rank, name.to_owned()))
}
