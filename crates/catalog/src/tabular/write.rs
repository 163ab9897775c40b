//! Writes new tables and views, and new versions of them.

use super::state::{NewVersion, PreviousVersion, TabularState, name_key};
use crate::changed::changed_tabular;
use crate::error::Kind;
use crate::jobs::table_of;
use crate::location_index::put_index_entries;
use crate::overlaps::FileLocations;
use crate::pipeline::file::is_synced_later;
use crate::pipeline::lanes::LaneGuard;
use crate::pipeline::records::Entry;
use crate::pipeline::{Committed, Write};
use crate::protections::check_unprotected;
use crate::tabular::Tabulars;
use crate::tabular::metadata::UpdateSummary;
use crate::{Error, Operation, Result};
use slateberg_authz::action::Action;
use slateberg_authz::permit::Permit;
use slateberg_model::ident::TabularIdent;
use slateberg_store::codec::Document;
use slateberg_store::invariants;
use slateberg_store::jobs::JobWork;
use slateberg_store::keys::{NamespaceKey, TabularKey};
use slateberg_store::read::StoreRead;
use slateberg_store::records::{ChangeAction, ChangedResource, NameEntry, Publication};
use slateberg_store::txn::Transaction;

impl NewVersion {
    /// Returns the entry of the change log for this version.
    pub(crate) fn entry<'a, A: Action>(
        &self,
        action: ChangeAction,
        ident: &'a TabularIdent,
        permit: &'a Permit<A>,
        updates: UpdateSummary,
    ) -> Entry<'a> {
        let before = self.before.as_ref().map(|before| &before.record);
        Entry {
            action,
            warehouse: self.record.warehouse,
            subject: self.record.id,
            name: ident,
            versions: (before.map(|before| before.version), Some(self.record.version)),
            decision: permit.decision(),
            resource: Some(ChangedResource {
                metadata_before: before.map(|before| before.metadata_location.clone()),
                metadata_after: Some(self.record.metadata_location.clone()),
                snapshots: updates.snapshots,
                operations: updates.operations,
                ..changed_tabular(&self.record, &ident.namespace)
            }),
        }
    }
}

impl Tabulars {
    /// Writes a version in a transaction. Returns `false` if the state has changed since the change
    /// was evaluated. The change must then be evaluated again.
    ///
    /// # Errors
    /// Fails for a new table or view if its namespace does not exist, or if its name or location is
    /// already used.
    pub(crate) async fn write_version(
        &self,
        t: &Transaction,
        ident: &TabularIdent,
        new: &NewVersion,
    ) -> Result<bool> {
        match &new.before {
            Some(before) => self.write_replacement(t, before, new).await,
            None => self.write_new(t, ident, new).await.map(|()| true),
        }
    }

    async fn write_new(
        &self,
        t: &Transaction,
        ident: &TabularIdent,
        new: &NewVersion,
    ) -> Result<()> {
        let record = &new.record;
        if t.get(&NamespaceKey(record.namespace)).await?.is_none() {
            return Err(Error::no_such_namespace(&ident.namespace));
        }
        for kind in [record.kind, record.kind.other()] {
            if t.get(&name_key(record, kind)).await?.is_some() {
                return Err(Error::taken(record.kind, kind, ident));
            }
        }
        self.core.environment.check_locations_free(t, FileLocations::by(None, record)).await?;
        t.put(&name_key(record, record.kind), &NameEntry { id: record.id })?;
        put_version(t, new).await
    }

    async fn write_replacement(
        &self,
        t: &Transaction,
        before: &PreviousVersion,
        new: &NewVersion,
    ) -> Result<bool> {
        if t.get(&TabularKey(before.record.id)).await?.as_ref() != Some(&before.record) {
            return Ok(false);
        }
        match self
            .core
            .environment
            .check_locations_free(t, FileLocations::by(Some(&before.record), &new.record))
            .await
        {
            // The location was free during the evaluation, but has been taken since then. The
            // change is evaluated again, and that evaluation returns the error.
            Err(error) if error.kind() == Kind::Invalid => return Ok(false),
            checked => checked?,
        }
        put_version(t, new).await?;
        if !new.outdated.is_empty() && self.core.environment.deletes_files() {
            let (id, warehouse) = (self.core.ids().ordered(), new.record.warehouse);
            let work = JobWork::Listed(new.outdated.clone());
            self.jobs.put_job(t, id, warehouse, work, table_of(&new.record, None), None)?;
        }
        self.jobs.put_left_behind(t, &new.record, &new.left_behind)?;
        Ok(true)
    }

    /// Commits the registration of a table or view, which must not be protected if it exists. If
    /// `new` is `None`, commits only the record from which a repeated request gets its response.
    /// Returns `None` if another request has changed the table or view.
    pub(crate) async fn commit_version<A: Action>(
        &self,
        operation: &Operation,
        permit: &Permit<A>,
        (action, ident): (ChangeAction, &TabularIdent),
        lanes: LaneGuard,
        (state, new): (&TabularState, Option<&NewVersion>),
    ) -> Result<Option<Committed<()>>> {
        let versions = new.iter().map(|new| new.file()).collect();
        let write = Write { action, permit, lanes, versions };
        let committed = self.core.pipeline().commit_if_current(write, |t| async move {
            if new.is_none_or(|new| new.before.is_some()) {
                check_unprotected(&*t, state.id, "replace").await?;
            }
            if let Some(new) = new
                && !self.write_version(&t, ident, new).await?
            {
                return Ok(None);
            }
            let entry = new.map(|new| new.entry(action, ident, permit, UpdateSummary::default()));
            Ok(Some(((), self.core.pipeline().records(operation, entry, state)?)))
        });
        committed.await
    }

    /// Commits a new table or view, and returns its state.
    pub(crate) async fn commit_new<A: Action>(
        &self,
        operation: &Operation,
        permit: &Permit<A>,
        (action, ident): (ChangeAction, &TabularIdent),
        new: &NewVersion,
    ) -> Result<TabularState> {
        let lanes = self.core.pipeline().lanes.enter(vec![new.record.id]).await?;
        let state = new.state();
        let written = (&state, Some(new));
        let committed =
            self.commit_version(operation, permit, (action, ident), lanes, written).await?;
        match committed {
            Some(_) => Ok(state),
            None => Err(Error::internal("a new table or view was reported as changed")),
        }
    }
}

/// Writes the record, the metadata, the location index and the publication marker of a version.
async fn put_version(t: &Transaction, new: &NewVersion) -> Result<()> {
    let NewVersion { before, record, text, .. } = new;
    let record_before = before.as_ref().map(|before| &before.record);
    invariants::tabular_change(record_before, record).map_err(Error::internal)?;
    t.put(&TabularKey(record.id), record)?;
    put_index_entries(t, record_before, Some(record))?;
    let document = Document { version: record.version, text: text.clone() };
    let text_before = before.as_ref().map(|before| &before.text);
    let head = t.put_document(record.id, text_before, &document).await?;
    if new.publish {
        let metadata_location = record.metadata_location.clone();
        let lists = new.lists.iter().map(|list| list.promise.clone()).collect();
        let head = is_synced_later(&metadata_location).then_some(head);
        t.put(&new.key(), &Publication { metadata_location, lists, head })?;
    }
    Ok(())
}
