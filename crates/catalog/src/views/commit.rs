//! Replacing a view: a commit of view updates.

use crate::mutation::Answer;
use crate::overlaps::Placed;
use crate::permits::Target;
use crate::places::further_paths;
use crate::tabulars::{NewVersion, Replacement, TabularState};
use crate::{Catalog, Error, Operation, Result, lookup};
use slateberg_authz::commit_kind::of_view;
use slateberg_model::commit::CommitContext;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::view::ViewMetadata;
use slateberg_model::view_commit::apply;
use slateberg_model::view_update::{ViewRequirement, ViewUpdate};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::records::TabularRecord;

/// How often a commit is judged anew because the view under it moved.
const COMMIT_ATTEMPTS_MAX: usize = 16;

/// What is to change in a view.
#[derive(Debug, Clone)]
pub struct ViewChange {
    /// Which view.
    pub ident: TabularIdent,
    /// What has to be so.
    pub requirements: Vec<ViewRequirement>,
    /// What becomes different, in order.
    pub updates: Vec<ViewUpdate>,
}

impl Catalog {
    /// Changes a view.
    pub async fn commit_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        change: ViewChange,
    ) -> Result<TabularState> {
        let warehouse = warehouse.clone();
        let ended = self.commit("commit_view", operation, |catalog, operation| async move {
            for _ in 0..COMMIT_ATTEMPTS_MAX {
                let answer = catalog.commit_view_once(&operation, &warehouse, &change).await?;
                if let Some(answer) = answer {
                    return Ok(answer);
                }
            }
            Err(Error::unavailable(
                "Gave up after repeated conflicts: the view is changed concurrently. Retry later",
                &change.ident,
            ))
        });
        ended.await?.into_tabular()
    }

    /// One try at a change; none if the view moved meanwhile.
    async fn commit_view_once(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        change: &ViewChange,
    ) -> Result<Option<Answer>> {
        let ident = &change.ident;
        let kind = TabularKind::View;
        self.check_findable(kind, ident)?;
        let target = Target { warehouse, kind, ident };
        let kinds = of_view(&change.updates);
        let store = self.store().latest();
        self.permit_commit(&store, operation, target, &kinds).await?;
        let entered = self.enter(warehouse, kind, ident).await?;
        let Some((found, lanes)) = entered else { return Ok(None) };
        let permit = self.permit_commit(&store, operation, target, &kinds).await?;
        let new = self.plan_view(warehouse, change, &found).await?;
        let replacement = Replacement { action: "commit_view", ident, found, new, lanes };
        self.replace(operation, &permit, replacement).await
    }

    /// Judges a change; none if the view is already as the change wants it.
    async fn plan_view(
        &self,
        warehouse: &Warehouse,
        change: &ViewChange,
        found: &lookup::Found,
    ) -> Result<Option<NewVersion>> {
        let before = found.record.clone();
        let base = view_metadata(found)?;
        let context = CommitContext {
            now_ms: self.now_ms(),
            new_uuid: self.ids().random(),
            default_location: None,
        };
        let updates = change.updates.clone();
        let applied = apply(Some(&base), &change.requirements, updates, &context)?;
        if !applied.changed {
            return Ok(None);
        }
        let metadata = applied.metadata;
        let (location, metadata_location) = self
            .check_locations(
                warehouse,
                &metadata.location,
                &metadata.properties,
                Some(&before.metadata_location),
            )
            .await?;
        let after = TabularRecord {
            uuid: metadata.view_uuid,
            further_paths: further_paths(&location, &metadata.properties),
            location,
            metadata_location,
            version: before.version + 1,
            updated_ms: context.now_ms,
            ..before.clone()
        };
        self.check_free(&self.store().latest(), Placed::by(Some(&before), &after)).await?;
        Ok(Some(NewVersion {
            before,
            after,
            text_before: found.document.text.clone(),
            text: metadata.to_json().into(),
            outdated: Vec::new(),
            publish: true,
        }))
    }
}

/// The metadata of a view, parsed.
pub(crate) fn view_metadata(found: &lookup::Found) -> Result<ViewMetadata> {
    ViewMetadata::parse(&found.document.text.to_bytes()).map_err(|refusal| {
        Error::internal(format!("metadata of {} cannot be read: {refusal}", found.record.id))
    })
}
