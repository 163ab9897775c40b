//! Lists and restores dropped namespaces, tables and views, and ends their retention.
//!
//! A drop moves the record of a table or view to a separate key space. The metadata stays, and the
//! name becomes free. The entries in the indexes of locations and UUIDs are marked as dropped. So
//! jobs retain the files, but new tables can use the locations. A caller with `Undrop` on the
//! former name can see and restore the dropped table or view. All other callers get the error for a
//! missing table or view.

mod group;
pub(crate) mod retention;
pub(crate) mod undrop;
mod undrop_namespace;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::metadata::{TabularMetadata, metadata_of};
use crate::attributes::{attributes, namespace_resource};
use crate::error::MissingResource;
use crate::tabular::Tabulars;
use crate::{Error, Operation, Result};
use slateberg_authz::action::{Action, DescribeNamespace, Load, PurgeNow, Undrop};
use slateberg_authz::authority::Decider;
use slateberg_authz::notation;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Attributes, Kind, Node, Resource};
use slateberg_base::boxed;
use slateberg_model::ident::TabularKind;
use slateberg_model::page::PageRequest;
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::bulk_read::Pages;
use slateberg_store::dropped::DroppedTabular;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{DroppedKey, DroppedNamespaceKey};
use slateberg_store::read::StoreRead;
use slateberg_store::records::TabularRecord;

/// Number of records that one scan reads.
const BATCH: usize = 200;
/// Prefix of the token of a page that ends with a namespace.
const NAMESPACE_TOKEN: &str = "namespace:";

/// A dropped namespace, table or view, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedInfo {
    /// The id of the namespace, table or view.
    pub id: Uuid,
    /// The former name, such as `table:prod/sales/orders`.
    pub resource: String,
    /// The location of the table or view. `None` for a namespace.
    pub location: Option<String>,
    /// The location of the last metadata file. `None` for a namespace.
    pub metadata_location: Option<String>,
    /// The time of the drop.
    pub dropped_ms: i64,
    /// The principal that dropped it.
    pub dropped_by: String,
    /// The time at which the retention ends.
    pub expires_ms: i64,
    /// Whether the files are deleted when the retention ends.
    pub purge: bool,
}

/// A page of dropped namespaces, tables and views.
#[derive(Debug, Clone)]
pub struct DroppedPage {
    /// The dropped namespaces, followed by the dropped tables and views, each in the order of their
    /// ids.
    pub dropped: Vec<DroppedInfo>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

/// A dropped table or view, with the resource on which permissions are evaluated.
struct FoundDropped {
    dropped: DroppedTabular,
    warehouse: Arc<Warehouse>,
    resource: Resource,
}

fn no_such_dropped(name: &str) -> Error {
    Error::NotFound(MissingResource::Dropped(name.to_owned()))
}

impl Tabulars {
    /// Returns the dropped namespaces, tables and views that the caller may restore.
    #[boxed]
    pub async fn dropped(&self, operation: &Operation, page: &PageRequest) -> Result<DroppedPage> {
        let (namespaces, tabulars) = match page.after.as_deref() {
            None => (Some(None), None),
            Some(after) => {
                let (is_namespace, id) = match after.strip_prefix(NAMESPACE_TOKEN) {
                    Some(id) => (true, id),
                    None => (false, after),
                };
                let id = Uuid::try_parse(id);
                let id = id.map_err(|_| Error::Invalid("Invalid page token".to_owned()))?;
                if is_namespace { (Some(Some(id)), None) } else { (None, Some(id)) }
            }
        };
        let limit = page.limit.unwrap_or(usize::MAX);
        let mut visible: Vec<DroppedInfo> = Vec::new();
        if let Some(after) = namespaces {
            self.visible_namespaces(operation, after, (&mut visible, limit)).await?;
        }
        if visible.len() <= limit {
            self.visible_tabulars(operation, tabulars, (&mut visible, limit)).await?;
        }
        let mut next = None;
        if visible.len() > limit {
            visible.truncate(limit);
            next = visible.last().map(|last| {
                let prefix = if last.location.is_none() { NAMESPACE_TOKEN } else { "" };
                page.token(&format!("{prefix}{}", last.id))
            });
        }
        Ok(DroppedPage { dropped: visible, next })
    }

    /// Adds dropped namespaces until there are more than `limit` resources.
    async fn visible_namespaces(
        &self,
        operation: &Operation,
        after: Option<Uuid>,
        (visible, limit): (&mut Vec<DroppedInfo>, usize),
    ) -> Result<()> {
        let store = self.core.store().durable();
        let pages = Pages::of(KeySpace::DroppedNamespaces, BATCH);
        let mut pages = pages.behind(after.map(DroppedNamespaceKey).as_ref());
        while let Some(batch) = pages.next(&store).await? {
            for (_, dropped) in batch {
                let id = dropped.record.warehouse;
                let Some(warehouse) = self.core.warehouses().by_id(id) else { continue };
                let resource = self.dropped_namespace_resource(&warehouse, &dropped).await?;
                if !self.core.access.may::<Undrop>(operation, &resource) {
                    continue;
                }
                if visible.len() > limit {
                    return Ok(());
                }
                visible.push(DroppedInfo {
                    id: dropped.record.id,
                    resource: notation::resource_text(&resource),
                    location: None,
                    metadata_location: None,
                    dropped_ms: dropped.dropped_ms,
                    dropped_by: dropped.dropped_by,
                    expires_ms: dropped.dropped_ms.saturating_add(self.core.dropped_kept_ms(id)),
                    purge: false,
                });
            }
        }
        Ok(())
    }

    /// Adds dropped tables and views until there are more than `limit` resources.
    async fn visible_tabulars(
        &self,
        operation: &Operation,
        after: Option<Uuid>,
        (visible, limit): (&mut Vec<DroppedInfo>, usize),
    ) -> Result<()> {
        let store = self.core.store().durable();
        let mut pages = Pages::of(KeySpace::Dropped, BATCH).behind(after.map(DroppedKey).as_ref());
        while let Some(batch) = pages.next(&store).await? {
            for (_, dropped) in batch {
                let Some(found) = self.described_dropped(dropped).await? else { continue };
                if !self.core.access.may::<Undrop>(operation, &found.resource) {
                    continue;
                }
                if visible.len() > limit {
                    return Ok(());
                }
                visible.push(self.info(found));
            }
        }
        Ok(())
    }

    fn info(&self, found: FoundDropped) -> DroppedInfo {
        let DroppedTabular { record, dropped_ms, dropped_by, purge, .. } = found.dropped;
        DroppedInfo {
            id: record.id,
            resource: notation::resource_text(&found.resource),
            location: Some(record.location),
            metadata_location: Some(record.metadata_location),
            dropped_ms,
            dropped_by,
            expires_ms: dropped_ms.saturating_add(self.core.dropped_kept_ms(record.warehouse)),
            purge,
        }
    }

    /// Returns the resource for the permissions of a dropped table or view: the former name, with
    /// the attributes in the metadata. `None` if the warehouse is not served.
    async fn described_dropped(&self, dropped: DroppedTabular) -> Result<Option<FoundDropped>> {
        let Some(warehouse) = self.core.warehouses().by_id(dropped.record.warehouse) else {
            return Ok(None);
        };
        let (store, ident) = (self.core.store().latest(), dropped.ident());
        let policies = self.core.access.authority.policies();
        let actions = [Undrop::NAME, PurgeNow::NAME, Load::NAME];
        let wanted = actions.iter().any(|action| policies.asks(action).attributes);
        let inside = namespace_resource(&store, wanted, &warehouse, &ident.namespace).await?;
        let resource = inside.tabular(dropped.record.kind, Node::named(&ident.name));
        let resource = match wanted {
            true => resource.with(Arc::new(self.attributes_of_dropped(&dropped.record).await?)),
            false => resource,
        };
        Ok(Some(FoundDropped { dropped, warehouse, resource }))
    }

    async fn attributes_of_dropped(&self, record: &TabularRecord) -> Result<Attributes> {
        let document = self.core.store().latest().document(record.id).await?;
        let Some(document) = document else {
            return Err(Error::internal(format!("dropped {} has no metadata", record.id)));
        };
        Ok(match record.kind {
            TabularKind::Table => {
                let metadata = metadata_of::<TableMetadata>(record.id, &document.text)?;
                attributes(record, metadata.properties())
            }
            TabularKind::View => {
                let metadata = metadata_of::<ViewMetadata>(record.id, &document.text)?;
                attributes(record, metadata.properties())
            }
        })
    }

    /// Returns the permit to do `A` with a dropped namespace, table or view.
    fn permit_dropped<A: Action>(
        &self,
        operation: &Operation,
        resource: &Resource,
        requested: &str,
    ) -> Result<Permit<A>> {
        let asking = match self.core.access.ask(operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        asking.permit(resource).map_err(|denied| {
            let visible = asking.may::<Undrop>(resource)
                || match resource.kind() {
                    Kind::Namespace => asking.may::<DescribeNamespace>(resource),
                    _ => asking.may::<Load>(resource),
                };
            let absent = (!visible).then(|| no_such_dropped(requested));
            self.core.access.refuse(operation, &denied, resource, absent)
        })
    }
}
