//! Lookups of records by name.

use std::sync::Arc;

use uuid::Uuid;

use super::{Error, Result};
use crate::environment::Environment;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_store::codec::Document;
use slateberg_store::functions::FunctionRecord;
use slateberg_store::key_space::{FileOwner, KeySpace};
use slateberg_store::keys::{
    DroppedKey, FunctionKey, NamespaceKey, NamespaceNameKey, TabularKey, TabularNameKey,
};
use slateberg_store::read::StoreRead;
use slateberg_store::records::{NamespaceRecord, TabularRecord};

/// Maximum number of attempts of a lookup. A lookup starts again if the object of a name changes
/// between two reads.
pub(super) const LOOKUP_ATTEMPTS_MAX: usize = 16;

/// A table or view with its metadata.
#[derive(Debug, Clone)]
pub struct FoundTabular {
    /// The record of the table or view.
    pub record: TabularRecord,
    /// The metadata at the version of the record.
    pub document: Document,
}

/// Returns the id of a namespace. `None` if it does not exist.
pub(crate) async fn namespace_id(
    store: &impl StoreRead,
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

/// Returns the id of a namespace to list. Errors with `NoSuchNamespace` if it does not exist.
pub(crate) async fn namespace_to_list(
    store: &impl StoreRead,
    warehouse: Uuid,
    ident: &NamespaceIdent,
) -> Result<Uuid> {
    reject_root(ident)?;
    namespace_id(store, warehouse, ident).await?.ok_or_else(|| Error::no_such_namespace(ident))
}

fn reject_root(ident: &NamespaceIdent) -> Result<()> {
    match ident.is_root() {
        true => Err(Error::Invalid("Invalid namespace: expected at least one level".to_owned())),
        false => Ok(()),
    }
}

/// Returns the record of a namespace. Errors with `NoSuchNamespace` if it does not exist.
pub async fn namespace(
    store: &impl StoreRead,
    warehouse: Uuid,
    ident: &NamespaceIdent,
) -> Result<NamespaceRecord> {
    reject_root(ident)?;
    for _ in 0..LOOKUP_ATTEMPTS_MAX {
        let Some(id) = namespace_id(store, warehouse, ident).await? else {
            return Err(Error::no_such_namespace(ident));
        };
        // If the record is missing, the namespace was dropped between the two reads. The next
        // attempt looks up the name again.
        if let Some(record) = store.get(&NamespaceKey(id)).await? {
            return Ok(record);
        }
    }
    Err(Error::unavailable(
        "Gave up after repeated conflicts: the namespace is changed concurrently. Retry later",
        ident.to_string(),
    ))
}

/// Returns the record of a function. `None` if the function or its namespace does not exist.
pub(crate) async fn function(
    store: &impl StoreRead,
    warehouse: Uuid,
    ident: &TabularIdent,
) -> Result<Option<FunctionRecord>> {
    if ident.namespace.is_root() {
        return Ok(None);
    }
    let Some(namespace) = namespace_id(store, warehouse, &ident.namespace).await? else {
        return Ok(None);
    };
    Ok(store.get(&FunctionKey { namespace, name: ident.name.clone() }).await?)
}

/// Returns the id of a table or view. `None` if the table or view, or its namespace, does not
/// exist.
pub(crate) async fn tabular_id(
    store: &impl StoreRead,
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

/// Returns the record of a table or view. Errors with `NoSuchTable` or `NoSuchView` if it does not
/// exist.
pub async fn tabular_record(
    store: &impl StoreRead,
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
        // If the record is missing or has another name, the table was dropped or renamed between
        // the two reads. The next attempt looks up the name again.
        if let Some(record) = store.get_shared(&TabularKey(entry.id)).await?
            && record.namespace == namespace
            && record.name == ident.name
        {
            return Ok(record);
        }
    }
    Err(Error::unavailable(
        "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
        ident.to_string(),
    ))
}

/// Returns the metadata of this record. `None` if the metadata was changed by a commit or deleted
/// by a drop after the record was read.
pub async fn text_of(
    store: &impl StoreRead,
    record: &TabularRecord,
) -> Result<Option<SegmentedJson>> {
    let document = store.document(record.id).await?;
    Ok(document.filter(|document| document.version == record.version).map(|it| it.text))
}

/// Returns the record and the metadata of a table or view at the same version. `None` if one of
/// them is missing, or if repeated reads did not return the same version of both.
pub(crate) async fn tabular_by_id(
    store: &impl StoreRead,
    id: Uuid,
) -> Result<Option<FoundTabular>> {
    for _ in 0..LOOKUP_ATTEMPTS_MAX {
        let Some(record) = store.get(&TabularKey(id)).await? else { return Ok(None) };
        let Some(document) = store.document(id).await? else { return Ok(None) };
        if record.version == document.version {
            return Ok(Some(FoundTabular { record, document }));
        }
    }
    Ok(None)
}

/// Returns the record of a table or view, which may be dropped. Searches every key space whose
/// tables and views own files.
pub(crate) async fn record_with_dropped(
    store: &impl StoreRead,
    id: Uuid,
) -> Result<Option<TabularRecord>> {
    // An undrop may move the record after the first read.
    for owner in KeySpace::file_owners().chain([FileOwner::Existing]) {
        let record = match owner {
            FileOwner::Existing => store.get(&TabularKey(id)).await?,
            FileOwner::Dropped => store.get(&DroppedKey(id)).await?.map(|dropped| dropped.record),
        };
        if record.is_some() {
            return Ok(record);
        }
    }
    Ok(None)
}

/// Like [`tabular_by_id`], but the table or view may be dropped.
pub(crate) async fn tabular_with_dropped(
    store: &impl StoreRead,
    id: Uuid,
) -> Result<Option<FoundTabular>> {
    for _ in 0..LOOKUP_ATTEMPTS_MAX {
        let Some(record) = record_with_dropped(store, id).await? else { return Ok(None) };
        let Some(document) = store.document(id).await? else { return Ok(None) };
        if record.version == document.version {
            return Ok(Some(FoundTabular { record, document }));
        }
    }
    Ok(None)
}

/// Returns the full name of a table or view, including its namespaces.
pub(crate) async fn ident_of(
    store: &impl StoreRead,
    record: &TabularRecord,
) -> Result<TabularIdent> {
    let mut levels = Vec::new();
    let mut id = record.namespace;
    while let Some(namespace) = store.get(&NamespaceKey(id)).await? {
        id = namespace.parent;
        levels.push(namespace.name);
    }
    levels.reverse();
    Ok(TabularIdent { namespace: NamespaceIdent(levels), name: record.name.clone() })
}

impl Environment {
    /// Rejects names that no table or view can have, before any lookup.
    pub(crate) fn check_name(&self, ident: &TabularIdent) -> Result<()> {
        Ok(ident.validate(self.settings().name_limits())?)
    }

    /// Rejects names that no namespace can have, before any lookup.
    pub(crate) fn check_namespace_name(&self, ident: &NamespaceIdent) -> Result<()> {
        Ok(ident.validate(self.settings().name_limits())?)
    }

    /// Validates the name of a table or view that should exist. For an invalid name, returns the
    /// error for a missing table or view.
    pub(crate) fn check_findable(&self, kind: TabularKind, ident: &TabularIdent) -> Result<()> {
        self.check_name(ident).map_err(|_| Error::no_such(kind, ident))
    }

    /// Validates the name of a function that should exist. For an invalid name, returns the error
    /// for a missing function.
    pub(crate) fn check_findable_function(&self, ident: &TabularIdent) -> Result<()> {
        self.check_name(ident).map_err(|_| Error::no_such_function(ident))
    }

    /// Validates the name of a namespace that should exist. For an invalid name, returns the error
    /// for a missing namespace.
    pub(crate) fn check_findable_namespace(&self, ident: &NamespaceIdent) -> Result<()> {
        self.check_namespace_name(ident).map_err(|_| Error::no_such_namespace(ident))
    }
}
