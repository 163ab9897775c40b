//! From names to records.

use std::sync::Arc;

use uuid::Uuid;

use super::delegation::Delegated;
use super::permits::Target;
use super::reading::{ReadAccess, ReadVersion, Readable};
use super::tabulars::state_of;
use super::version_cache::Cached;
use super::{Catalog, Error, Operation, Result};
use slateberg_authz::action::Load;
use slateberg_authz::permit::Permit;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::text::Text;
use slateberg_model::warehouse::Delegation;
use slateberg_objects::vend::Rights;
use slateberg_store::codec::Document;
use slateberg_store::keys::{
    NamespaceKey, NamespaceNameKey, PublicationKey, TabularKey, TabularNameKey,
};
use slateberg_store::read::Read;
use slateberg_store::records::{NamespaceRecord, TabularRecord};
use slateberg_telemetry::traces::Span;

/// How often a lookup begins anew because a name moved between two reads.
const LOOKUP_ATTEMPTS_MAX: usize = 16;

/// A table or view, whole.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its record.
    pub record: TabularRecord,
    /// Its metadata at the record's version.
    pub document: Document,
}

/// A table or view that somebody may load.
pub(super) struct Loadable {
    /// The permit.
    pub(super) permit: Permit<Load>,
    /// What they may do to its files; nothing if that was not asked.
    pub(super) rights: Rights,
    /// The record that was decided about.
    pub(super) record: Arc<TabularRecord>,
    /// Times the lookup.
    pub(super) span: Span,
}

/// What a load comes to.
#[derive(Debug)]
pub enum Loaded<K> {
    /// The caller has this of the version already.
    Known(K),
    /// Its state, for whoever asks, and how they get at its files, if they want to be told.
    State(Readable, Option<Delegated>),
}

/// The id of a namespace; none if it is not there.
pub async fn namespace_id(
    store: &impl Read,
    warehouse: Uuid,
    ident: &NamespaceIdent,
) -> Result<Option<Uuid>> {
    let mut parent = warehouse;
    for level in &ident.0 {
        let key = NamespaceNameKey { parent, name: level.clone() };
        match store.get(&key).await? {
            Some(entry) => parent = entry.id,
            None => return Ok(None),
        }
    }
    Ok(Some(parent))
}

/// The id of a namespace whose contents are to be listed, which has to be there.
pub async fn namespace_to_list(
    store: &impl Read,
    warehouse: Uuid,
    ident: &NamespaceIdent,
) -> Result<Uuid> {
    refuse_root(ident)?;
    namespace_id(store, warehouse, ident).await?.ok_or_else(|| Error::no_such_namespace(ident))
}

fn refuse_root(ident: &NamespaceIdent) -> Result<()> {
    match ident.is_root() {
        true => Err(Error::Invalid("Invalid namespace: expected at least one level".to_owned())),
        false => Ok(()),
    }
}

/// A namespace that has to be there.
pub async fn namespace(
    store: &impl Read,
    warehouse: Uuid,
    ident: &NamespaceIdent,
) -> Result<NamespaceRecord> {
    refuse_root(ident)?;
    for _ in 0..LOOKUP_ATTEMPTS_MAX {
        let Some(id) = namespace_id(store, warehouse, ident).await? else {
            return Err(Error::no_such_namespace(ident));
        };
        // A record that is gone by now was dropped between the two reads: the name tells.
        if let Some(record) = store.get(&NamespaceKey(id)).await? {
            return Ok(record);
        }
    }
    Err(Error::unavailable(
        "Gave up after repeated conflicts: the namespace is changed concurrently. Retry later",
        ident,
    ))
}

/// The id of a table or view; none if it, or its namespace, is not there.
pub async fn tabular_id(
    store: &impl Read,
    warehouse: Uuid,
    kind: TabularKind,
    ident: &TabularIdent,
) -> Result<Option<Uuid>> {
    let Some(namespace) = namespace_id(store, warehouse, &ident.namespace).await? else {
        return Ok(None);
    };
    let key = TabularNameKey { kind, namespace, name: ident.name.clone() };
    Ok(store.get(&key).await?.map(|entry| entry.id))
}

/// The record of a table or view that has to be there.
pub async fn tabular_record(
    store: &impl Read,
    warehouse: Uuid,
    kind: TabularKind,
    ident: &TabularIdent,
) -> Result<Arc<TabularRecord>> {
    for _ in 0..LOOKUP_ATTEMPTS_MAX {
        let Some(namespace) = namespace_id(store, warehouse, &ident.namespace).await? else {
            return Err(Error::no_such(kind, ident));
        };
        let key = TabularNameKey { kind, namespace, name: ident.name.clone() };
        let Some(entry) = store.get(&key).await? else {
            return Err(Error::no_such(kind, ident));
        };
        // A record that is gone or has another name by now moved between the two reads: the names tell
        // what is true at this moment.
        if let Some(record) = store.get_shared(&TabularKey(entry.id)).await?
            && record.namespace == namespace
            && record.name == ident.name
        {
            return Ok(record);
        }
    }
    Err(Error::unavailable(
        "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
        ident,
    ))
}

/// The metadata of a record that was read; none if a commit or a drop has come in between.
pub async fn text_of(store: &impl Read, record: &TabularRecord) -> Result<Option<Text>> {
    let document = store.document(record.id).await?;
    Ok(document.filter(|document| document.version == record.version).map(|it| it.text))
}

/// A table or view by its id, its record and metadata at the same version; none if either is gone or
/// they did not meet.
pub async fn tabular_by_id(store: &impl Read, id: Uuid) -> Result<Option<Found>> {
    for _ in 0..LOOKUP_ATTEMPTS_MAX {
        let Some(record) = store.get(&TabularKey(id)).await? else { return Ok(None) };
        let Some(document) = store.document(id).await? else { return Ok(None) };
        if record.version == document.version {
            return Ok(Some(Found { record, document }));
        }
    }
    Ok(None)
}

/// The name of a table or view, with those of the namespaces that it is in.
pub async fn ident_of(store: &impl Read, record: &TabularRecord) -> Result<TabularIdent> {
    let mut levels = Vec::new();
    let mut id = record.namespace;
    while let Some(namespace) = store.get(&NamespaceKey(id)).await? {
        id = namespace.parent;
        levels.push(namespace.name);
    }
    levels.reverse();
    Ok(TabularIdent { namespace: NamespaceIdent(levels), name: record.name.clone() })
}

impl Catalog {
    /// Refuses names that nothing can have, before anything is looked up.
    pub(super) fn check_name(&self, ident: &TabularIdent) -> Result<()> {
        Ok(ident.validate(self.settings().name_limits())?)
    }

    /// Refuses names that no namespace can have.
    pub(super) fn check_namespace_name(&self, ident: &NamespaceIdent) -> Result<()> {
        Ok(ident.validate(self.settings().name_limits())?)
    }

    /// The same for what is to be found: a name that cannot be is one that is not there.
    pub(super) fn check_findable(&self, kind: TabularKind, ident: &TabularIdent) -> Result<()> {
        self.check_name(ident).map_err(|_| Error::no_such(kind, ident))
    }

    /// The same for a namespace that is to be found.
    pub(super) fn check_findable_namespace(&self, ident: &NamespaceIdent) -> Result<()> {
        self.check_namespace_name(ident).map_err(|_| Error::no_such_namespace(ident))
    }

    /// The permit to load a table or view, what may be done to its files if somebody asks for them, and the
    /// record that both were decided about: none that has come to the name, or has changed, since.
    pub(super) async fn loadable(
        &self,
        store: &impl Read,
        operation: &Operation,
        target: Target<'_>,
        with_files: bool,
    ) -> Result<Loadable> {
        let Target { warehouse, kind, ident } = target;
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let (permit, rights, basis) =
                self.permit_load(store, operation, target, with_files).await?;
            let span = operation.trace.span("lookup");
            let record = tabular_record(store, warehouse.id, kind, ident).await?;
            if basis.is_of(&record) {
                return Ok(Loadable { permit, rights, record, span });
            }
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
            ident,
        ))
    }

    /// The state of a table or view as everybody may see it: durable, with its metadata file in the
    /// warehouse. `known` says what the caller has already of a version, which then is not read. Whoever asks
    /// for one of some `ways` to the files of a table is told of it, as far as there is any for them.
    pub(super) async fn load<K>(
        &self,
        operation: &Operation,
        target: Target<'_>,
        ways: Option<&[Delegation]>,
        known: impl Fn(ReadVersion, Option<&Delegated>) -> Option<K>,
    ) -> Result<Loaded<K>> {
        let Target { kind, ident, .. } = target;
        self.check_findable(kind, ident)?;
        let store = self.store().durable();
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            let Loadable { permit, rights, record, mut span } =
                self.loadable(&store, operation, target, ways.is_some()).await?;
            let rules = permit.decision().and_then(|decision| decision.read_rules.as_ref());
            let (id, version) = (record.id, record.version);
            let key = PublicationKey { id, version };
            self.inner.flights.arrived(key, self.settings().commit_deadline()).await?;
            let seen = ReadVersion { id, version, rules: rules.map(|rules| rules.key()) };
            let files = match ways {
                // Whoever may read a part of it only gets at no files.
                Some(ways) if rules.is_none() => {
                    self.delegated(operation, target, &record, rights, ways).await?
                }
                _ => None,
            };
            if let Some(known) = known(seen, files.as_ref()) {
                span.set("slateberg.cache", || "answer");
                return Ok(Loaded::Known(known));
            }
            let cached = match self.inner.versions.get((id, version)) {
                Some(cached) => {
                    span.set("slateberg.cache", || "version");
                    cached
                }
                None => {
                    span.set("slateberg.cache", || "none");
                    let Some(text) = text_of(&store, &record).await? else { continue };
                    let cached = Cached { text, metadata: None };
                    self.inner.versions.keep((id, version), cached.clone());
                    cached
                }
            };
            let access = match rules {
                None => ReadAccess::Whole,
                Some(rules) => self.restricted(rules, ident, (id, version), &cached)?,
            };
            let state = state_of(&record, cached.text);
            return Ok(Loaded::State(Readable { state, access }, files));
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
            ident,
        ))
    }
}
