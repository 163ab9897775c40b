//! [`CommitBuilder`]: applies a series of commits to one table or view. Together, these commits
//! become at most one new version.

use std::collections::HashMap;
use std::sync::Arc;

use super::append::prepared::Unapplied;
use super::change::Change;
use super::head::Head;
use super::metadata::TabularMetadata;
use super::state::{NewManifestList, NewVersion, PreviousVersion, TabularState};
use super::target::Target;
use crate::attributes::{Enclosing, attributes};
use crate::jobs::clean_up::deletable_files;
use crate::jobs::left_behind::LeftBehind;
use crate::location_index::{further_paths, locations_of};
use crate::overlaps::FileLocations;
use crate::tabular::Tabulars;
use crate::{Operation, Result};
use slateberg_authz::action::Commit;
use slateberg_authz::permit::Permit;
use slateberg_model::commit::CommitContext;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::manifest_list::ListBlocks;
use slateberg_objects::metadata_file;
use slateberg_store::records::TabularRecord;
use slateberg_telemetry::commits::REBASED;

/// A table or view, with the result of the commits that were applied to it so far.
pub(crate) struct CommitBuilder<'a, M> {
    pub(super) tabulars: &'a Tabulars,
    pub(super) warehouse: &'a Warehouse,
    pub(super) head: &'a Head<M>,
    pub(super) context: CommitContext,
    pub(super) metadata: Arc<M>,
    /// The location of the table or view, and the location of its next metadata file. `None` if
    /// nothing has changed yet.
    locations: Option<(String, String)>,
    /// Manifest lists of rebased appends.
    pub(super) lists: Vec<NewManifestList>,
    /// The manifests in these lists, by location.
    pub(super) list_blocks: HashMap<String, ListBlocks>,
    /// Files that the rebases leave behind.
    pub(super) left_behind: LeftBehind,
}

impl<'a, M: TabularMetadata> CommitBuilder<'a, M> {
    /// Starts with the current state.
    pub(crate) fn new(tabulars: &'a Tabulars, warehouse: &'a Warehouse, head: &'a Head<M>) -> Self {
        let context = CommitContext {
            now_ms: tabulars.core.now_ms(),
            new_uuid: tabulars.core.ids().random(),
            default_location: None,
            format_version_max: tabulars.core.settings().format_version_max(),
        };
        let metadata = Arc::clone(&head.metadata);
        Self {
            tabulars,
            warehouse,
            head,
            context,
            metadata,
            locations: None,
            lists: Vec::new(),
            list_blocks: HashMap::new(),
            left_behind: LeftBehind::default(),
        }
    }

    /// Whether any commit has had an effect.
    pub(crate) fn has_changed(&self) -> bool {
        self.locations.is_some()
    }

    /// Returns the permit to apply a commit to the state after the earlier commits.
    pub(crate) fn permit(
        &self,
        operation: &Operation,
        change: &Change<M>,
        enclosing: &Enclosing,
    ) -> Result<Permit<Commit>> {
        let Self { tabulars, warehouse, head, metadata, .. } = self;
        let target = Target { warehouse, kind: M::KIND, ident: &change.ident };
        let attributes = || attributes(&head.record, metadata.properties());
        let intent = change.intent(metadata);
        tabulars.core.access.permit_commit_in_lane(operation, target, enclosing, attributes, intent)
    }

    /// Applies a commit to the state after the earlier commits, and returns whether it had an
    /// effect. An error leaves that state unchanged.
    pub(crate) async fn apply(&mut self, change: &Change<M>) -> Result<bool> {
        self.apply_updates(&change.requirements, &change.updates).await
    }

    /// Applies these updates like [`apply`](Self::apply).
    pub(super) async fn apply_updates(
        &mut self,
        requirements: &[M::Requirement],
        updates: &[M::Update],
    ) -> Result<bool> {
        let record = &self.head.record;
        let before = record.metadata_location.as_str();
        // An intermediate state has no metadata file, and no entry in the metadata log.
        let metadata_location = (!self.has_changed()).then_some(before);
        let base = Some((&*self.metadata, metadata_location));
        let Some(metadata) = M::apply(base, requirements, updates, &self.context)? else {
            return Ok(false);
        };
        let (tabulars, warehouse) = (self.tabulars, self.warehouse);
        let (location, properties) = (metadata.location(), metadata.properties());
        let locations =
            tabulars.check_locations(warehouse, location, properties, Some(before)).await?;
        let placed = FileLocations {
            id: record.id,
            warehouse: warehouse.id,
            before: Some(record),
            location: &locations.0,
            further_paths: &further_paths(&locations.0, properties),
        };
        tabulars
            .core
            .environment
            .check_locations_free(&tabulars.core.store().latest(), placed)
            .await?;
        self.locations = Some(locations);
        self.metadata = Arc::new(metadata);
        Ok(true)
    }

    /// Counts a rebase. A postponed rebase is counted when it ends.
    pub(super) fn record_rebase(&self, rebased: &std::result::Result<(), Unapplied>) {
        let result = match rebased {
            Ok(()) => REBASED,
            Err(Unapplied::Refused(reason)) => reason.name(),
            Err(Unapplied::Postponed) => return,
        };
        self.tabulars.core.pipeline().metrics.rebase(result);
    }

    /// Returns the directory of the next metadata file.
    pub(super) fn metadata_directory(&self) -> String {
        metadata_file::directory(self.metadata.location(), self.metadata.properties())
    }

    /// Returns the final state, and the version to write. The version is `None` if no commit had an
    /// effect.
    pub(crate) fn finish(self) -> (TabularState, Option<NewVersion>) {
        let Self { head, metadata, context, locations, lists, left_behind, .. } = self;
        let before = &head.record;
        let Some((location, metadata_location)) = locations else {
            return (TabularState::new(before, head.text.clone()), None);
        };
        let record = TabularRecord {
            uuid: metadata.uuid(),
            further_paths: further_paths(&location, metadata.properties()),
            location,
            metadata_location,
            version: before.version + 1,
            updated_ms: context.now_ms,
            ..before.clone()
        };
        let outdated = M::outdated_files(&head.metadata, &metadata);
        let outdated = deletable_files(outdated, Some(locations_of(&record)));
        let new = NewVersion {
            before: Some(PreviousVersion { record: before.clone(), text: head.text.clone() }),
            record,
            text: metadata.to_segmented_json(),
            parsed: Some(M::into_parsed(metadata)),
            outdated,
            publish: true,
            lists,
            left_behind,
        };
        (new.state(), Some(new))
    }
}
