//! Judging a change of one table, and what has to be written for it.

use std::sync::Arc;

use uuid::Uuid;

use super::commit::TableChange;
use super::head::Head;
use super::judging::Judging;
use crate::publications::MetadataFile;
use crate::tabulars::{NewRecord, NewTabular, NewVersion, metadata_file};
use crate::{Catalog, Operation, Result, lookup};
use slateberg_authz::action::Commit;
use slateberg_authz::permit::Permit;
use slateberg_model::commit::{CommitContext, apply};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::table::TableMetadata;
use slateberg_model::text::Text;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::keys::PublicationKey;
use slateberg_store::records::TabularRecord;

/// A change that was judged and can be written.
pub(super) struct Planned {
    pub(super) permit: Permit<Commit>,
    pub(super) ident: TabularIdent,
    pub(super) metadata: Arc<TableMetadata>,
    pub(super) text: Text,
    pub(super) write: Write,
}

pub(super) enum Write {
    /// Nothing: the table is already as the change wants it.
    Nothing(TabularRecord),
    /// A new table.
    New(NewTabular),
    /// A new version of a table.
    Version(Box<NewVersion>),
}

impl Planned {
    pub(super) fn record(&self) -> &TabularRecord {
        match &self.write {
            Write::Nothing(record) => record,
            Write::New(new) => &new.record,
            Write::Version(new) => &new.after,
        }
    }

    /// The version that is on its way, if there is a new one.
    pub(super) fn publication(&self) -> Option<PublicationKey> {
        let record = self.record();
        let key = PublicationKey { id: record.id, version: record.version };
        (!matches!(self.write, Write::Nothing(_))).then_some(key)
    }

    pub(super) fn file(&self) -> Option<MetadataFile> {
        self.publication().map(|_| metadata_file(self.record(), &self.text))
    }

    /// Whether a table is made.
    pub(super) fn is_new(&self) -> bool {
        matches!(self.write, Write::New(_))
    }

    /// Whether files go that are no longer kept.
    pub(super) fn outdates_files(&self) -> bool {
        matches!(&self.write, Write::Version(new) if !new.outdated.is_empty())
    }
}

impl Catalog {
    /// Judges a change of the table `id`, or of one that is to be made. None if the table has moved.
    pub(super) async fn plan(
        &self,
        operation: &Operation,
        permit: Permit<Commit>,
        warehouse: &Warehouse,
        change: &TableChange,
        id: Option<Uuid>,
    ) -> Result<Option<Planned>> {
        match id {
            None => self.plan_new(operation, permit, warehouse, change.clone()).await.map(Some),
            Some(id) => {
                let store = self.store().latest();
                let kind = TabularKind::Table;
                let named = lookup::tabular_id(&store, warehouse.id, kind, &change.ident).await?;
                match self.head(&store, id).await? {
                    Some(head) if named == Some(id) => {
                        self.plan_version(permit, warehouse, change, head).await.map(Some)
                    }
                    _ => Ok(None),
                }
            }
        }
    }

    async fn plan_version(
        &self,
        permit: Permit<Commit>,
        warehouse: &Warehouse,
        change: &TableChange,
        head: Head,
    ) -> Result<Planned> {
        let mut judging = Judging::new(self, warehouse, &head);
        judging.apply(change).await?;
        let (state, new, metadata) = judging.finish();
        let write = match new {
            None => Write::Nothing(head.record),
            Some(new) => Write::Version(Box::new(new)),
        };
        Ok(Planned { permit, ident: change.ident.clone(), metadata, text: state.text, write })
    }

    pub(super) async fn plan_new(
        &self,
        operation: &Operation,
        permit: Permit<Commit>,
        warehouse: &Warehouse,
        change: TableChange,
    ) -> Result<Planned> {
        let ident = change.ident;
        let namespace = self.free_name(warehouse, TabularKind::Table, &ident).await?;
        let id = self.ids().random();
        let now_ms = self.now_ms();
        let context = CommitContext {
            now_ms,
            new_uuid: self.ids().random(),
            default_location: Some(self.default_location(warehouse, &namespace, &ident, id)),
        };
        let metadata = apply(None, &change.requirements, change.updates, &context)?.metadata;
        let (location, metadata_location) =
            self.check_locations(warehouse, &metadata.location, &metadata.properties, None).await?;
        let record = NewRecord {
            id,
            kind: TabularKind::Table,
            warehouse,
            namespace: namespace.id,
            name: &ident.name,
            uuid: metadata.table_uuid,
            location: &location,
            properties: &metadata.properties,
            metadata_location: &metadata_location,
            now_ms,
            owner: operation.owner(),
        }
        .build();
        let text = metadata.to_text();
        let new = NewTabular { record, text: text.clone(), publish: true };
        let metadata = Arc::new(metadata);
        Ok(Planned { permit, ident, metadata, text, write: Write::New(new) })
    }
}
