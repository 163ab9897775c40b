//! Judging commits to one table, one after the other, into at most one new version.

use std::collections::HashSet;
use std::sync::Arc;

use super::commit::TableChange;
use super::head::Head;
use crate::attributes::{Enclosing, attributes};
use crate::jobs::clean_up::may_be_deleted;
use crate::overlaps::Placed;
use crate::permits::Target;
use crate::places::{further_paths, places_of};
use crate::tabulars::{NewVersion, TabularState, state_of};
use crate::{Catalog, Operation, Result};
use slateberg_authz::action::Commit;
use slateberg_authz::permit::Permit;
use slateberg_model::commit::{Base, CommitContext, apply};
use slateberg_model::ident::TabularKind;
use slateberg_model::table::TableMetadata;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::records::TabularRecord;

/// Whether old metadata files are deleted once the metadata log drops them.
const DELETE_AFTER_COMMIT: &str = "write.metadata.delete-after-commit.enabled";

/// A table that is being committed to, and what the commits so far have made of it.
pub(super) struct Judging<'a> {
    catalog: &'a Catalog,
    warehouse: &'a Warehouse,
    head: &'a Head,
    context: CommitContext,
    metadata: Arc<TableMetadata>,
    /// The location of the table, and that of the metadata file to be; none while nothing has changed.
    locations: Option<(String, String)>,
}

impl<'a> Judging<'a> {
    /// Begins with the table as it is.
    pub(super) fn new(catalog: &'a Catalog, warehouse: &'a Warehouse, head: &'a Head) -> Self {
        let context = CommitContext {
            now_ms: catalog.now_ms(),
            new_uuid: catalog.ids().random(),
            default_location: None,
        };
        let metadata = Arc::clone(&head.metadata);
        Self { catalog, warehouse, head, context, metadata, locations: None }
    }

    /// Whether any change had an effect yet.
    pub(super) fn has_changed(&self) -> bool {
        self.locations.is_some()
    }

    /// The permit for a change of what its predecessors left.
    pub(super) fn permit(
        &self,
        operation: &Operation,
        change: &TableChange,
        enclosing: &Enclosing,
    ) -> Result<Permit<Commit>> {
        let Self { catalog, warehouse, head, metadata, .. } = self;
        let target = Target { warehouse, kind: TabularKind::Table, ident: &change.ident };
        let attributes = || attributes(&head.record, &metadata.properties);
        let intent = change.intent(&metadata.refs);
        catalog.permit_commit_in_lane(operation, target, enclosing, attributes, intent)
    }

    /// Applies a change to what its predecessors left, or refuses it and leaves that as it is. Returns
    /// whether it had an effect.
    pub(super) async fn apply(&mut self, change: &TableChange) -> Result<bool> {
        let before = self.head.record.metadata_location.as_str();
        // What a predecessor has made has no metadata file, and no place in the log of them.
        let metadata_location = (!self.has_changed()).then_some(before);
        let base = Base { metadata: &self.metadata, metadata_location };
        let applied =
            apply(Some(base), &change.requirements, change.updates.clone(), &self.context)?;
        if applied.changed {
            let TableMetadata { location, properties, .. } = &applied.metadata;
            let (catalog, warehouse) = (self.catalog, self.warehouse);
            let locations =
                catalog.check_locations(warehouse, location, properties, Some(before)).await?;
            let before = &self.head.record;
            let placed = Placed {
                id: before.id,
                warehouse: warehouse.id,
                before: Some(before),
                location: &locations.0,
                further_paths: &further_paths(&locations.0, properties),
            };
            catalog.check_free(&catalog.store().latest(), placed).await?;
            self.locations = Some(locations);
            self.metadata = Arc::new(applied.metadata);
        }
        Ok(applied.changed)
    }

    /// The state that all of this ends with, what has to be written for it, and its metadata.
    pub(super) fn finish(self) -> (TabularState, Option<NewVersion>, Arc<TableMetadata>) {
        let before = &self.head.record;
        let Some((location, metadata_location)) = self.locations else {
            return (state_of(before, self.head.text.clone()), None, self.metadata);
        };
        let text = self.metadata.to_text();
        let after = TabularRecord {
            uuid: self.metadata.table_uuid,
            further_paths: further_paths(&location, &self.metadata.properties),
            location,
            metadata_location,
            version: before.version + 1,
            updated_ms: self.context.now_ms,
            ..before.clone()
        };
        let state = state_of(&after, text.clone());
        let outdated = outdated_files(&self.head.metadata, &self.metadata);
        let outdated = may_be_deleted(outdated, Some(places_of(&after)));
        let new = NewVersion {
            before: before.clone(),
            after,
            text_before: self.head.text.clone(),
            text,
            outdated,
            publish: true,
        };
        (state, Some(new), self.metadata)
    }
}

/// The metadata files that the log named before and does not name any more, where the table wants them
/// deleted.
fn outdated_files(before: &TableMetadata, after: &TableMetadata) -> Vec<String> {
    let wanted = after.properties.get(DELETE_AFTER_COMMIT);
    if !wanted.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Vec::new();
    }
    let kept: HashSet<_> = after.metadata_log.iter().map(|entry| &entry.metadata_file).collect();
    before
        .metadata_log
        .iter()
        .map(|entry| &entry.metadata_file)
        .filter(|file| !kept.contains(file))
        .map(|file| file.to_string())
        .collect()
}
