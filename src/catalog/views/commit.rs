//! Replacing a view: a commit of view updates.

use bytes::Bytes;

use crate::authz::action::Commit;
use crate::catalog::mutation::Answer;
use crate::catalog::publications::Landing;
use crate::catalog::tabulars::{NewVersion, TabularState, metadata_file, outcome_of, state_of};
use crate::catalog::{Catalog, Error, Operation, Result, lookup};
use crate::model::commit::CommitContext;
use crate::model::ident::{TabularIdent, TabularKind};
use crate::model::view::ViewMetadata;
use crate::model::view_commit::apply;
use crate::model::view_update::{ViewRequirement, ViewUpdate};
use crate::model::warehouse::Warehouse;
use crate::store::keys::PublicationKey;
use crate::store::records::TabularRecord;

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
        self.mutate(operation, |catalog, operation| async move {
            for _ in 0..COMMIT_ATTEMPTS_MAX {
                let answer = catalog.commit_view_once(&operation, &warehouse, &change).await?;
                if let Some(answer) = answer {
                    return Ok(answer);
                }
            }
            Err(Error::unavailable("The view changes too fast", &change.ident))
        })
        .await?
        .into_tabular()
    }

    /// One try at a change; none if the view moved meanwhile.
    async fn commit_view_once(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        change: &ViewChange,
    ) -> Result<Option<Answer>> {
        let permit = operation.permit::<Commit>()?;
        let ident = &change.ident;
        let kind = TabularKind::View;
        self.check_name(ident).map_err(|_| Error::no_such(kind, ident))?;
        let store = self.store().latest();
        let id = lookup::tabular_id(&store, warehouse.id, kind, ident)
            .await?
            .ok_or_else(|| Error::no_such(kind, ident))?;
        let lanes = self.inner.lanes.enter(vec![id]).await?;
        let named = lookup::tabular_id(&store, warehouse.id, kind, ident).await?;
        let Some(found) = lookup::tabular_by_id(&store, id).await? else { return Ok(None) };
        if named != Some(id) {
            return Ok(None);
        }
        let new = self.plan_view(warehouse, change, &found)?;
        let keys =
            new.iter().map(|new| PublicationKey { id, version: new.after.version }).collect();
        let flight = self.inner.flights.register(keys);
        let record = new.as_ref().map_or(&found.record, |new| &new.after);
        let (catalog, new_ref) = (self, new.as_ref());
        let (written, accepted) = self
            .store()
            .transact("commit_view", &permit, |t| async move {
                if let Some(new) = new_ref
                    && !catalog.put_version(&t, operation, "commit_view", ident, new).await?
                {
                    return Ok(false);
                }
                catalog.remember(&t, operation, outcome_of(record))?;
                Ok::<_, Error>(true)
            })
            .await?;
        if !written {
            return Ok(None);
        }
        let (files, state) = match new {
            Some(new) => {
                (vec![metadata_file(&new.after, &new.json)], state_of(&new.after, new.json))
            }
            None => (Vec::new(), found.into()),
        };
        self.land(Landing { accepted, files, flight, lanes }).await?;
        Ok(Some(Answer::Tabular(state)))
    }

    /// Judges a change; none if the view is already as the change wants it.
    fn plan_view(
        &self,
        warehouse: &Warehouse,
        change: &ViewChange,
        found: &lookup::Found,
    ) -> Result<Option<NewVersion>> {
        let before = found.record.clone();
        let base = ViewMetadata::parse(&found.document.json).map_err(|refusal| {
            Error::internal(format!("metadata of {} cannot be read: {refusal}", before.id))
        })?;
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
        let (location, metadata_location) = self.check_locations(
            warehouse,
            &metadata.location,
            &metadata.properties,
            Some(&before.metadata_location),
        )?;
        let after = TabularRecord {
            uuid: metadata.view_uuid,
            location,
            metadata_location,
            version: before.version + 1,
            updated_ms: context.now_ms,
            ..before.clone()
        };
        let json = Bytes::from(metadata.to_json());
        Ok(Some(NewVersion { before, after, json, outdated: Vec::new() }))
    }
}
