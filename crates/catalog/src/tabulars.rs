//! What tables and views have in common: their state, coming into the catalog, and changing.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::attributes::Basis;
use super::change_log::Entry;
use super::jobs::table_of;
use super::lanes::Entered;
use super::listings::Contents;
use super::lookup::{self, Found};
use super::mutation::Answer;
use super::overlaps::Placed;
use super::permits::{Permitted, Target};
use super::places::{further_paths, put_whereabouts};
use super::publications::{Landing, MetadataFile};
use super::{Catalog, Error, Operation, Result};
use slateberg_authz::action::{Action, Load};
use slateberg_authz::permit::Permit;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::page::{Page, PageRequest};
use slateberg_model::refusal::Refusal;
use slateberg_model::text::Text;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::codec::Document;
use slateberg_store::invariants;
use slateberg_store::jobs::Work;
use slateberg_store::keys::{NamespaceKey, PublicationKey, TabularKey, TabularNameKey};
use slateberg_store::read::Read;
use slateberg_store::records::{NameEntry, Outcome, Publication, TabularRecord};
use slateberg_store::txn::Transaction;
use slateberg_telemetry::commits::Phase;

/// The state of a table or view, as it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabularState {
    /// Its identity in the catalog.
    pub id: Uuid,
    /// The version of its record; with the id it tells this state from every other.
    pub version: u64,
    /// Where its metadata file is; none for a table that is only staged.
    pub metadata_location: Option<String>,
    /// Its metadata, as JSON.
    pub text: Text,
}

impl From<Found> for TabularState {
    fn from(found: Found) -> Self {
        Self {
            id: found.record.id,
            version: found.record.version,
            metadata_location: Some(found.record.metadata_location),
            text: found.document.text,
        }
    }
}

/// A table or view that comes into the catalog.
pub struct NewTabular {
    /// Its record, at version 1.
    pub record: TabularRecord,
    /// Its metadata, as JSON.
    pub text: Text,
    /// Whether its metadata file is still to be written, or was there before.
    pub publish: bool,
}

/// A change of a table or view whose lane is entered.
pub struct Replacement<'a> {
    /// The transaction's name.
    pub action: &'static str,
    /// Which.
    pub ident: &'a TabularIdent,
    /// What it was judged by.
    pub found: Found,
    /// Its new version; none if it is already as it should be.
    pub new: Option<NewVersion>,
    /// Its lane.
    pub lanes: Entered,
}

/// A table or view that gets new metadata.
pub struct NewVersion {
    /// Its record before.
    pub before: TabularRecord,
    /// Its record after.
    pub after: TabularRecord,
    /// The metadata that the store has of it, as JSON.
    pub text_before: Text,
    /// Its new metadata, as JSON.
    pub text: Text,
    /// Metadata files that are no longer kept.
    pub outdated: Vec<String>,
    /// Whether its metadata file is still to be written, or was there before.
    pub publish: bool,
}

impl Catalog {
    /// Writes a table or view that comes into the catalog, on the condition that its namespace is there
    /// and its name is free.
    pub(super) async fn put_new<A: Action>(
        &self,
        t: &Transaction,
        operation: &Operation,
        permit: &Permit<A>,
        action: &'static str,
        ident: &TabularIdent,
        new: &NewTabular,
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
        self.check_free(t, Placed::by(None, record)).await?;
        invariants::tabular_change(None, record).map_err(Error::internal)?;
        t.put(&name_key(record, record.kind), &NameEntry { id: record.id })?;
        put_version(t, None, record, None, &new.text, new.publish)?;
        self.log_change(
            t,
            operation,
            &Entry {
                action,
                warehouse: record.warehouse,
                subject: record.id,
                name: ident,
                versions: (None, Some(record.version)),
                decision: permit.decision(),
            },
        )
    }

    /// Writes a new version of a table or view, on the condition that it is still as it was. False if
    /// it is not.
    pub(super) async fn put_version<A: Action>(
        &self,
        t: &Transaction,
        operation: &Operation,
        permit: &Permit<A>,
        action: &'static str,
        ident: &TabularIdent,
        new: &NewVersion,
    ) -> Result<bool> {
        if !self.write_version(t, new).await? {
            return Ok(false);
        }
        self.log_change(
            t,
            operation,
            &Entry {
                action,
                warehouse: new.after.warehouse,
                subject: new.before.id,
                name: ident,
                versions: (Some(new.before.version), Some(new.after.version)),
                decision: permit.decision(),
            },
        )?;
        Ok(true)
    }

    /// The same without an entry in the change log.
    pub(super) async fn write_version(&self, t: &Transaction, new: &NewVersion) -> Result<bool> {
        if t.get(&TabularKey(new.before.id)).await?.as_ref() != Some(&new.before) {
            return Ok(false);
        }
        match self.check_free(t, Placed::by(Some(&new.before), &new.after)).await {
            // The location was free when the change was judged: it is judged again.
            Err(Error::Invalid(_)) => return Ok(false),
            checked => checked?,
        }
        invariants::tabular_change(Some(&new.before), &new.after).map_err(Error::internal)?;
        let before = Some(&new.before);
        put_version(t, before, &new.after, Some(&new.text_before), &new.text, new.publish)?;
        if !new.outdated.is_empty() && self.deletes_files() {
            let work = Work::Listed(new.outdated.clone());
            self.put_job(
                t,
                self.ids().ordered(),
                new.after.warehouse,
                work,
                table_of(&new.after, None),
                None,
            )?;
        }
        Ok(true)
    }

    /// Brings a table or view into the catalog, and answers its state.
    pub(super) async fn insert<A: Action>(
        &self,
        operation: &Operation,
        permit: &Permit<A>,
        action: &'static str,
        ident: &TabularIdent,
        new: NewTabular,
    ) -> Result<Answer> {
        let record = &new.record;
        let lanes = self.inner.lanes.enter(vec![record.id]).await?;
        let key = PublicationKey { id: record.id, version: record.version };
        let flight = self.inner.flights.register(vec![key]);
        let (catalog, new_ref) = (self, &new);
        let applying = self.phase(&operation.trace, Phase::Apply);
        let ((), accepted) = self
            .store()
            .transact(action, permit, |t| async move {
                catalog.put_new(&t, operation, permit, action, ident, new_ref).await?;
                catalog.remember(&t, operation, outcome_of(&new_ref.record))
            })
            .await?;
        drop(applying);
        let files = if new.publish { vec![metadata_file(record, &new.text)] } else { Vec::new() };
        let trace = operation.trace.clone();
        self.land(Landing { accepted, files, flight, lanes, trace }).await?;
        Ok(Answer::Tabular(state_of(&new.record, new.text)))
    }

    /// Enters the lane of a table or view that is to change, and reads it there. None if its name moved
    /// meanwhile.
    pub(super) async fn enter(
        &self,
        warehouse: &Warehouse,
        kind: TabularKind,
        ident: &TabularIdent,
    ) -> Result<Option<(Found, Entered)>> {
        self.check_findable(kind, ident)?;
        let store = self.store().latest();
        let id = lookup::tabular_id(&store, warehouse.id, kind, ident)
            .await?
            .ok_or_else(|| Error::no_such(kind, ident))?;
        let lanes = self.inner.lanes.enter(vec![id]).await?;
        let named = lookup::tabular_id(&store, warehouse.id, kind, ident).await?;
        let found = lookup::tabular_by_id(&store, id).await?.filter(|_| named == Some(id));
        Ok(found.map(|found| (found, lanes)))
    }

    /// Gives a table or view its new version, or leaves it as it is where there is none, and answers its
    /// state. None if it changed meanwhile.
    pub(super) async fn replace<A: Action>(
        &self,
        operation: &Operation,
        permit: &Permit<A>,
        replacement: Replacement<'_>,
    ) -> Result<Option<Answer>> {
        let Replacement { action, ident, found, new, lanes } = replacement;
        let id = found.record.id;
        let keys = new.iter().map(|new| PublicationKey { id, version: new.after.version });
        let flight = self.inner.flights.register(keys.collect());
        let record = new.as_ref().map_or(&found.record, |new| &new.after);
        let (catalog, new_ref) = (self, new.as_ref());
        let applying = self.phase(&operation.trace, Phase::Apply);
        let (written, accepted) = self
            .store()
            .transact(action, permit, |t| async move {
                if let Some(new) = new_ref
                    && !catalog.put_version(&t, operation, permit, action, ident, new).await?
                {
                    return Ok(false);
                }
                catalog.remember(&t, operation, outcome_of(record))?;
                Ok::<_, Error>(true)
            })
            .await?;
        drop(applying);
        if !written {
            return Ok(None);
        }
        let files = new.iter().filter(|new| new.publish);
        let files = files.map(|new| metadata_file(&new.after, &new.text)).collect();
        let state = match new {
            Some(new) => state_of(&new.after, new.text),
            None => found.into(),
        };
        let trace = operation.trace.clone();
        self.land(Landing { accepted, files, flight, lanes, trace }).await?;
        Ok(Some(Answer::Tabular(state)))
    }

    /// The names of one kind in a namespace.
    pub(super) async fn list(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        kind: TabularKind,
        namespace: &slateberg_model::ident::NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        let contents = Contents { warehouse, parent: Some(namespace), kind: kind.into() };
        self.list_contents::<Load>(operation, contents, page).await
    }

    /// Whether a table or view is there, for whoever may do `A` to it.
    pub(super) async fn exists<A: Action>(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        kind: TabularKind,
        ident: &TabularIdent,
    ) -> Result<()> {
        self.check_findable(kind, ident)?;
        let store = self.store().durable();
        let target = Target { warehouse, kind, ident };
        let permitted: Permitted<A, ()> =
            self.permit_tabular_and(&store, operation, target, &[], |_, _| ()).await?;
        // What has come to the name since was not decided about.
        let is_there = match permitted.basis {
            Basis::Version(_) => true,
            Basis::Absence => false,
            Basis::Names => lookup::tabular_id(&store, warehouse.id, kind, ident).await?.is_some(),
        };
        if is_there { Ok(()) } else { Err(Error::no_such(kind, ident)) }
    }
}

/// The record of a table or view that comes into the catalog.
pub struct NewRecord<'a> {
    /// Its identity.
    pub id: Uuid,
    /// Table or view.
    pub kind: TabularKind,
    /// The warehouse that it is in.
    pub warehouse: &'a Warehouse,
    /// The id of the namespace that it is in.
    pub namespace: Uuid,
    /// Its name.
    pub name: &'a str,
    /// Its `table-uuid` or `view-uuid`.
    pub uuid: Uuid,
    /// Its location.
    pub location: &'a str,
    /// The properties of its metadata.
    pub properties: &'a BTreeMap<String, String>,
    /// Where its metadata file is, or is to be.
    pub metadata_location: &'a str,
    /// When.
    pub now_ms: i64,
    /// Whom it belongs to.
    pub owner: Option<String>,
}

impl NewRecord<'_> {
    /// The record, at version 1.
    pub fn build(self) -> TabularRecord {
        TabularRecord {
            id: self.id,
            kind: self.kind,
            warehouse: self.warehouse.id,
            namespace: self.namespace,
            name: self.name.to_owned(),
            uuid: self.uuid,
            location: self.location.to_owned(),
            further_paths: further_paths(self.location, self.properties),
            metadata_location: self.metadata_location.to_owned(),
            version: 1,
            created_ms: self.now_ms,
            updated_ms: self.now_ms,
            owner: self.owner,
        }
    }
}

/// What an `Idempotency-Key` remembers of a table or view that was answered.
pub fn outcome_of(record: &TabularRecord) -> Outcome {
    Outcome::Tabular { id: record.id, metadata_location: record.metadata_location.clone() }
}

/// The state of a table or view with this record and metadata.
pub fn state_of(record: &TabularRecord, text: Text) -> TabularState {
    TabularState {
        id: record.id,
        version: record.version,
        metadata_location: Some(record.metadata_location.clone()),
        text,
    }
}

/// The metadata file that a record promises.
pub fn metadata_file(record: &TabularRecord, text: &Text) -> MetadataFile {
    MetadataFile {
        warehouse: record.warehouse,
        location: record.metadata_location.clone(),
        text: text.clone(),
    }
}

/// The refusal of a metadata file that cannot be read, for a request that named the file.
pub fn unreadable_file(location: &str) -> impl Fn(Refusal) -> Error {
    move |refusal| Error::Invalid(format!("Invalid metadata file {location}: {refusal}"))
}

/// Where a name of this kind leads to a table or view of that name and place.
pub(super) fn name_key(record: &TabularRecord, kind: TabularKind) -> TabularNameKey {
    TabularNameKey { kind, namespace: record.namespace, name: record.name.clone() }
}

fn put_version(
    t: &Transaction,
    before: Option<&TabularRecord>,
    record: &TabularRecord,
    text_before: Option<&Text>,
    text: &Text,
    publish: bool,
) -> Result<()> {
    t.put(&TabularKey(record.id), record)?;
    put_whereabouts(t, before, Some(record))?;
    let document = Document { version: record.version, text: text.clone() };
    t.put_document(record.id, text_before, &document)?;
    if publish {
        let key = PublicationKey { id: record.id, version: record.version };
        t.put(&key, &Publication { metadata_location: record.metadata_location.clone() })?;
    }
    Ok(())
}
