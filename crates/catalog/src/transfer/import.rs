//! Imports lines into an empty catalog.
//!
//! All lines are validated before the first is written. They are written in their order, in atomic
//! batches, so the catalog is consistent at any moment. Records that an interrupted import has
//! already written are skipped. If the catalog contains any other records, the import fails.

use std::io::BufRead;

use uuid::Uuid;

use super::check::{CheckedExport, Reader, at, described};
use super::line::{ApiKey, Function, Line, Namespace, Protection, Tabular, Warehouse};
use super::{Error, Result};
use crate::location_index::{further_paths, put_index_entries};
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_base::numbers::count;
use slateberg_base::progress::Phase;
use slateberg_model::ident::TabularKind;
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_store::Store;
use slateberg_store::codec::Document;
use slateberg_store::functions::FunctionRecord;
use slateberg_store::key_space::{FileOwner, KeySpace};
use slateberg_store::keys::{
    ApiKeyKey, DroppedKey, DroppedNamespaceKey, FunctionKey, Key, LabelsKey, NamespaceKey,
    NamespaceNameKey, ProtectionKey, PublicationKey, TabularKey, TabularNameKey, WarehouseKey,
};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{NameEntry, NamespaceRecord, Publication, TabularRecord};
use slateberg_store::txn::Transaction;

/// Maximum size of a batch, in bytes of metadata and in lines.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_LINES: usize = 500;

/// Rejects a catalog that contains dropped namespaces, tables or views. Also rejects a catalog that contains
/// namespaces, tables or views that are not in the lines.
#[boxed]
pub async fn check_target(store: &Store, checked: &CheckedExport) -> Result<()> {
    let latest = store.latest();
    let namespaces =
        latest.scan::<NamespaceKey>(&KeyRange::all(KeySpace::Namespaces), None).await?;
    let others = namespaces.iter().filter(|(key, _)| !checked.ids.contains(&key.0)).count();
    if others > 0 {
        return Err(not_empty(&count(others, "namespace", "namespaces")));
    }
    // The import may replace the id of the warehouse of a dropped namespace.
    let range = KeyRange::all(KeySpace::DroppedNamespaces);
    let dropped = latest.scan::<DroppedNamespaceKey>(&range, None).await?;
    if !dropped.is_empty() {
        return Err(not_empty(&count(dropped.len(), "dropped namespace", "dropped namespaces")));
    }
    for owner in KeySpace::file_owners() {
        let (others, one, several) = match owner {
            FileOwner::Existing => {
                let range = KeyRange::all(KeySpace::Tabulars);
                let tabulars = latest.scan::<TabularKey>(&range, None).await?;
                let others = tabulars.iter().filter(|(key, _)| !checked.ids.contains(&key.0));
                (others.count(), "table or view", "tables and views")
            }
            // An imported table could have the same location as a dropped table.
            FileOwner::Dropped => {
                let range = KeyRange::all(KeySpace::Dropped);
                let dropped = latest.scan::<DroppedKey>(&range, None).await?;
                (dropped.len(), "dropped table or view", "dropped tables and views")
            }
        };
        if others > 0 {
            return Err(not_empty(&count(others, one, several)));
        }
    }
    Ok(())
}

fn not_empty(others: &str) -> Error {
    Error::Refused(format!("the catalog is not empty. Not in the export: {others}"))
}

/// Writes all lines except policies and grants, which the caller writes as one revision. Reports
/// the number of lines after each batch.
pub async fn write(
    store: &Store,
    permit: &Permit<Maintain>,
    checked: &CheckedExport,
    lines: impl BufRead,
    progress: &Phase,
) -> Result<()> {
    let mut lines = Reader::new(lines);
    loop {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && batch.len() < BATCH_LINES
            && let Some((number, line)) = lines.read()?
        {
            if let Line::Table(it) | Line::View(it) = &line {
                bytes += it.metadata.len();
            }
            batch.push((number, line));
        }
        if batch.is_empty() {
            return Ok(());
        }
        write_batch(store, permit, checked, &batch).await?;
        progress.advance(batch.len() as u64);
    }
}

async fn write_batch(
    store: &Store,
    permit: &Permit<Maintain>,
    checked: &CheckedExport,
    batch: &[(usize, Line)],
) -> Result<()> {
    let ((), accepted) = store
        .transact("import", permit, |t| async move {
            for (number, line) in batch {
                let number = *number;
                match line {
                    Line::Warehouse(line) => warehouse(&t, line).await?,
                    Line::Namespace(line) => namespace(&t, checked, number, line).await?,
                    Line::Table(line) => {
                        tabular(&t, checked, number, TabularKind::Table, line).await?;
                    }
                    Line::View(line) => {
                        tabular(&t, checked, number, TabularKind::View, line).await?;
                    }
                    Line::Function(line) => function(&t, checked, number, line).await?,
                    Line::Protection(line) => protection(&t, number, line).await?,
                    Line::ApiKey(line) => api_key(&t, number, line).await?,
                    Line::SlatebergExport(_) | Line::Policy(_) | Line::Grant(_) | Line::End(_) => {}
                }
            }
            Ok::<_, Error>(())
        })
        .await?;
    Ok(accepted.durable().await?)
}

/// Writes a warehouse with the id in the export, because the lines of its contents refer to this
/// id. An existing warehouse with this name is empty, and keeps its location.
async fn warehouse(t: &Transaction, line: &Warehouse) -> Result<()> {
    let key = WarehouseKey(line.name.clone());
    let mut record = line.record();
    if let Some(known) = t.get(&key).await? {
        record.location = known.location;
        record.definition = known.definition;
    }
    Ok(t.put(&key, &record)?)
}

/// Whether a record must be written. `false` if an equal record exists. Errors if the key has a
/// different record.
async fn is_new<K: Key>(t: &Transaction, number: usize, key: &K, record: &K::Value) -> Result<bool>
where
    K::Value: PartialEq,
{
    match t.get(key).await? {
        None => Ok(true),
        Some(known) if known == *record => Ok(false),
        Some(_) => Err(at(number, "the catalog has another object with its id")),
    }
}

/// Rejects a name that already refers to a different id.
async fn check_name<K: Key<Value = NameEntry>>(
    t: &Transaction,
    number: usize,
    key: &K,
    id: Uuid,
) -> Result<()> {
    match t.get(key).await? {
        Some(known) if known.id != id => {
            Err(at(number, "the catalog has another object with its name"))
        }
        _ => Ok(()),
    }
}

async fn namespace(
    t: &Transaction,
    checked: &CheckedExport,
    number: usize,
    line: &Namespace,
) -> Result<()> {
    let (name, parent) = line.namespace.split_last().ok_or_else(|| at(number, "no level"))?;
    let (warehouse, parent) = (
        id_of(checked, number, &line.warehouse, &[])?,
        id_of(checked, number, &line.warehouse, parent)?,
    );
    let record = NamespaceRecord {
        id: line.id,
        warehouse,
        parent,
        name: name.clone(),
        properties: line.properties.clone(),
        version: line.version,
        created_ms: line.created_at_ms,
        owner: line.owner.clone(),
    };
    let name = NamespaceNameKey { parent, name: name.clone() };
    check_name(t, number, &name, line.id).await?;
    if is_new(t, number, &NamespaceKey(line.id), &record).await? {
        t.put(&name, &NameEntry { id: line.id })?;
        t.put(&NamespaceKey(line.id), &record)?;
    }
    Ok(())
}

async fn tabular(
    t: &Transaction,
    checked: &CheckedExport,
    number: usize,
    kind: TabularKind,
    line: &Tabular,
) -> Result<()> {
    let described = described(kind, &line.metadata).map_err(|reason| at(number, &reason))?;
    let record = TabularRecord {
        id: line.id,
        kind,
        warehouse: id_of(checked, number, &line.warehouse, &[])?,
        namespace: id_of(checked, number, &line.warehouse, &line.namespace)?,
        name: line.name.clone(),
        uuid: line.uuid,
        further_paths: further_paths(&described.location, &described.properties),
        location: described.location,
        metadata_location: line.metadata_location.clone(),
        version: line.version,
        created_ms: line.created_at_ms,
        updated_ms: line.updated_at_ms,
        owner: line.owner.clone(),
    };
    let namespace = record.namespace;
    let name = |kind| TabularNameKey { kind, namespace, name: line.name.clone() };
    check_name(t, number, &name(kind), line.id).await?;
    check_name(t, number, &name(kind.other()), line.id).await?;
    if is_new(t, number, &TabularKey(line.id), &record).await? {
        t.put(&name(kind), &NameEntry { id: line.id })?;
        t.put(&TabularKey(line.id), &record)?;
        put_index_entries(t, None, Some(&record))?;
        let text = SegmentedJson::from(line.metadata.clone().into_bytes());
        t.put_document(line.id, None, &Document { version: line.version, text }).await?;
        if let Some(labels) = line.labels.clone() {
            t.put(&LabelsKey(line.id), &labels.into())?;
        }
        // The next start writes the file if it is missing or has different content.
        let key = PublicationKey { id: line.id, version: line.version };
        let metadata_location = line.metadata_location.clone();
        t.put(&key, &Publication { metadata_location, lists: Vec::new(), head: None })?;
    }
    Ok(())
}

async fn function(
    t: &Transaction,
    checked: &CheckedExport,
    number: usize,
    line: &Function,
) -> Result<()> {
    let record = FunctionRecord {
        id: line.id,
        warehouse: id_of(checked, number, &line.warehouse, &[])?,
        namespace: id_of(checked, number, &line.warehouse, &line.namespace)?,
        name: line.name.clone(),
        version: line.version,
        metadata: line.metadata.clone(),
        created_ms: line.created_at_ms,
        updated_ms: line.updated_at_ms,
        owner: line.owner.clone(),
    };
    let key = FunctionKey { namespace: record.namespace, name: line.name.clone() };
    if is_new(t, number, &key, &record).await? {
        t.put(&key, &record)?;
    }
    Ok(())
}

async fn protection(t: &Transaction, number: usize, line: &Protection) -> Result<()> {
    let (key, record) = (ProtectionKey(line.id), line.clone().into());
    if is_new(t, number, &key, &record).await? {
        t.put(&key, &record)?;
    }
    Ok(())
}

async fn api_key(t: &Transaction, number: usize, line: &ApiKey) -> Result<()> {
    let (key, record) = (ApiKeyKey(line.id), line.clone().into());
    if is_new(t, number, &key, &record).await? {
        t.put(&key, &record)?;
    }
    Ok(())
}

fn id_of(
    checked: &CheckedExport,
    number: usize,
    warehouse: &str,
    namespace: &[String],
) -> Result<Uuid> {
    let name = (warehouse.to_owned(), namespace.to_vec());
    checked
        .ids_by_name
        .get(&name)
        .copied()
        .ok_or_else(|| at(number, "its namespace does not exist"))
}
