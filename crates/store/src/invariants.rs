//! Invariants of records: pure functions that run before each commit on its records, and in `fsck`
//! on all records.

use super::codec::Document;
use super::keys::{NamespaceNameKey, PublicationKey, TabularNameKey};
use super::records::{NameEntry, NamespaceRecord, Publication, TabularRecord};
use slateberg_model::ident::TabularKind;
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;

/// Description of a violated invariant.
pub type Broken = String;

/// A namespace's record and its name entry agree.
pub fn namespace_name(
    key: &NamespaceNameKey,
    entry: &NameEntry,
    record: Option<&NamespaceRecord>,
) -> Result<(), Broken> {
    let record = record.ok_or_else(|| {
        format!("the namespace name {:?} points to {}, which is not there", key.name, entry.id)
    })?;
    holds(record.id == entry.id && record.parent == key.parent && record.name == key.name, || {
        format!("the namespace name {:?} points to {}, which has another", key.name, entry.id)
    })
}

/// A table's or view's record and its name entry agree.
pub fn tabular_name(
    key: &TabularNameKey,
    entry: &NameEntry,
    record: Option<&TabularRecord>,
) -> Result<(), Broken> {
    let record = record.ok_or_else(|| {
        format!("the name {:?} points to {}, which is not there", key.name, entry.id)
    })?;
    let same = record.id == entry.id
        && record.namespace == key.namespace
        && record.name == key.name
        && record.kind == key.kind;
    holds(same, || format!("the name {:?} points to {}, which has another", key.name, entry.id))
}

/// No table and view share a name.
pub fn one_kind_per_name(
    key: &TabularNameKey,
    same_name_of_other_kind: Option<&NameEntry>,
) -> Result<(), Broken> {
    holds(same_name_of_other_kind.is_none(), || {
        format!("both a table and a view are called {:?}", key.name)
    })
}

/// A change keeps the identity of a namespace.
pub fn namespace_change(
    before: Option<&NamespaceRecord>,
    after: &NamespaceRecord,
) -> Result<(), Broken> {
    let Some(before) = before else {
        return holds(after.version == 1, || "a new namespace has version 1".to_owned());
    };
    holds(before.id == after.id && before.warehouse == after.warehouse, || {
        "a namespace keeps its id and its warehouse".to_owned()
    })?;
    holds(after.version == before.version + 1, || "a namespace's version grows by one".to_owned())
}

/// A change keeps the identity of a table or view, and increases the version with the metadata.
pub fn tabular_change(before: Option<&TabularRecord>, after: &TabularRecord) -> Result<(), Broken> {
    let Some(before) = before else {
        return holds(after.version == 1, || "a new table or view has version 1".to_owned());
    };
    let same =
        before.id == after.id && before.kind == after.kind && before.warehouse == after.warehouse;
    holds(same, || "a table keeps its id, its kind and its warehouse".to_owned())?;
    if before.metadata_location == after.metadata_location {
        return holds(after.version == before.version, || {
            "a version belongs to one metadata file".to_owned()
        });
    }
    holds(after.version == before.version + 1, || "a table's version grows by one".to_owned())
}

/// A marker has the location of its record's version. It may belong to an earlier version, or to a
/// dropped table.
pub fn publication(
    key: &PublicationKey,
    marker: &Publication,
    record: Option<&TabularRecord>,
) -> Result<(), Broken> {
    let Some(record) = record else { return Ok(()) };
    holds(key.version <= record.version, || {
        format!("{} is at version {}, its marker at {}", record.id, record.version, key.version)
    })?;
    holds(
        key.version < record.version || marker.metadata_location == record.metadata_location,
        || format!("the marker of {} names another metadata file", record.id),
    )
}

/// Metadata matches its record: version, UUID and location.
pub fn metadata(record: &TabularRecord, document: &Document) -> Result<(), Broken> {
    let id = record.id;
    if document.version != record.version {
        return Err(format!(
            "{id} is at version {}, its metadata at {}",
            record.version, document.version
        ));
    }
    let (uuid, location) = match record.kind {
        TabularKind::Table => TableMetadata::from_text(&document.text)
            .map(|metadata| (metadata.table_uuid, metadata.location)),
        TabularKind::View => ViewMetadata::parse(&document.text.to_bytes())
            .map(|metadata| (metadata.view_uuid, metadata.location)),
    }
    .map_err(|refusal| format!("the metadata of {id} cannot be read: {refusal}"))?;
    if uuid != record.uuid || location != record.location {
        return Err(format!("the metadata of {id} has another uuid or location than its record"));
    }
    Ok(())
}

fn holds(condition: bool, broken: impl FnOnce() -> Broken) -> Result<(), Broken> {
    if condition { Ok(()) } else { Err(broken()) }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use slateberg_model::ident::TabularKind;

    fn record(version: u64, metadata_location: &str) -> TabularRecord {
        TabularRecord {
            id: Uuid::nil(),
            kind: TabularKind::Table,
            warehouse: Uuid::nil(),
            namespace: Uuid::nil(),
            name: "t".into(),
            uuid: Uuid::nil(),
            location: "memory:///w/t".into(),
            further_paths: Vec::new(),
            metadata_location: metadata_location.into(),
            version,
            created_ms: 0,
            updated_ms: 0,
            owner: None,
        }
    }

    #[test]
    fn a_version_belongs_to_one_metadata_file() {
        let before = record(3, "a");
        assert!(tabular_change(Some(&before), &record(4, "b")).is_ok());
        assert!(tabular_change(Some(&before), &record(3, "a")).is_ok(), "a rename");
        assert!(tabular_change(Some(&before), &record(4, "a")).is_err());
        assert!(tabular_change(Some(&before), &record(3, "b")).is_err());
        assert!(tabular_change(Some(&before), &record(5, "b")).is_err());
        assert!(tabular_change(None, &record(1, "a")).is_ok());
        assert!(tabular_change(None, &record(2, "a")).is_err());
    }

    #[test]
    fn a_marker_never_runs_ahead_of_its_record() {
        let key = |version| PublicationKey { id: Uuid::nil(), version };
        let marker = |location: &str| Publication { metadata_location: location.into() };
        let current = record(3, "c");
        assert!(publication(&key(3), &marker("c"), Some(&current)).is_ok());
        assert!(publication(&key(2), &marker("b"), Some(&current)).is_ok());
        assert!(publication(&key(3), &marker("b"), Some(&current)).is_err());
        assert!(publication(&key(4), &marker("d"), Some(&current)).is_err());
        assert!(publication(&key(9), &marker("x"), None).is_ok());
    }
}
