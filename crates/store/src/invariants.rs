//! Invariants of records: pure functions that check the changed records before each commit, and all
//! records in `fsck`.

use super::codec::Document;
use super::functions::FunctionRecord;
use super::keys::{FunctionKey, NamespaceNameKey, PublicationKey, TabularNameKey};
use super::records::{NameEntry, NamespaceRecord, Publication, TabularRecord};
use slateberg_model::ident::TabularKind;
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;

/// Description of a violated invariant.
pub type Violation = String;

/// Checks that a namespace's record and its name entry agree.
pub fn namespace_name(
    key: &NamespaceNameKey,
    entry: &NameEntry,
    record: Option<&NamespaceRecord>,
) -> Result<(), Violation> {
    let record = record.ok_or_else(|| {
        format!("the namespace name {:?} points to {}, which does not exist", key.name, entry.id)
    })?;
    ensure(record.id == entry.id && record.parent == key.parent && record.name == key.name, || {
        format!("the namespace name {:?} points to {}, which has another name", key.name, entry.id)
    })
}

/// Checks that the record of a table or view and its name entry agree.
pub(crate) fn tabular_name(
    key: &TabularNameKey,
    entry: &NameEntry,
    record: Option<&TabularRecord>,
) -> Result<(), Violation> {
    let record = record.ok_or_else(|| {
        format!("the name {:?} points to {}, which does not exist", key.name, entry.id)
    })?;
    let same = record.id == entry.id
        && record.namespace == key.namespace
        && record.name == key.name
        && record.kind == key.kind;
    ensure(same, || {
        format!("the name {:?} points to {}, which has another name or kind", key.name, entry.id)
    })
}

/// Checks that no table and view have the same name.
pub(crate) fn one_kind_per_name(
    key: &TabularNameKey,
    same_name_of_other_kind: Option<&NameEntry>,
) -> Result<(), Violation> {
    ensure(same_name_of_other_kind.is_none(), || {
        format!("both a table and a view are called {:?}", key.name)
    })
}

/// Checks that a change keeps the identity of a namespace.
pub fn namespace_change(
    before: Option<&NamespaceRecord>,
    after: &NamespaceRecord,
) -> Result<(), Violation> {
    let Some(before) = before else {
        return ensure(after.version == 1, || "a new namespace must have version 1".to_owned());
    };
    ensure(before.id == after.id && before.warehouse == after.warehouse, || {
        "a namespace must keep its id and its warehouse".to_owned()
    })?;
    ensure(after.version == before.version + 1, || {
        "a namespace's version must grow by one".to_owned()
    })
}

/// Checks that a change keeps the identity of a table or view. The change must increase the version
/// if and only if it changes the metadata.
pub fn tabular_change(
    before: Option<&TabularRecord>,
    after: &TabularRecord,
) -> Result<(), Violation> {
    let Some(before) = before else {
        return ensure(after.version == 1, || "a new table or view must have version 1".to_owned());
    };
    let same =
        before.id == after.id && before.kind == after.kind && before.warehouse == after.warehouse;
    ensure(same, || "a table must keep its id, its kind and its warehouse".to_owned())?;
    if before.metadata_location == after.metadata_location {
        return ensure(after.version == before.version, || {
            "a table's version must grow only with a new metadata file".to_owned()
        });
    }
    ensure(after.version == before.version + 1, || "a table's version must grow by one".to_owned())
}

/// Checks that the record of a function and its key agree.
pub(crate) fn function(key: &FunctionKey, record: &FunctionRecord) -> Result<(), Violation> {
    ensure(record.namespace == key.namespace && record.name == key.name, || {
        format!("the name {:?} leads to function {}, which has another name", key.name, record.id)
    })
}

/// Checks that a change keeps the identity of a function.
pub fn function_change(
    before: Option<&FunctionRecord>,
    after: &FunctionRecord,
) -> Result<(), Violation> {
    let Some(before) = before else {
        return ensure(after.version == 1, || "a new function must have version 1".to_owned());
    };
    let same = before.id == after.id
        && before.warehouse == after.warehouse
        && before.metadata.function_uuid == after.metadata.function_uuid;
    ensure(same, || "a function must keep its id, its UUID and its warehouse".to_owned())?;
    ensure(after.version == before.version + 1, || {
        "a function's version must grow by one".to_owned()
    })
}

/// Checks that the publication marker for the current version of a record has the location of the
/// record's metadata file. A marker may also belong to an earlier version, or to a dropped table.
pub fn publication(
    key: &PublicationKey,
    marker: &Publication,
    record: Option<&TabularRecord>,
) -> Result<(), Violation> {
    let Some(record) = record else { return Ok(()) };
    ensure(key.version <= record.version, || {
        format!(
            "{} is at version {}, but its publication marker is at version {}",
            record.id, record.version, key.version
        )
    })?;
    ensure(
        key.version < record.version || marker.metadata_location == record.metadata_location,
        || format!("the publication marker of {} has the location of another file", record.id),
    )
}

/// Checks that the version, the UUID and the location of metadata match its record.
pub fn metadata(record: &TabularRecord, document: &Document) -> Result<(), Violation> {
    let id = record.id;
    if document.version != record.version {
        return Err(format!(
            "{id} is at version {}, but its metadata is at version {}",
            record.version, document.version
        ));
    }
    let (uuid, location) = match record.kind {
        TabularKind::Table => TableMetadata::from_segmented_json(&document.text)
            .map(|metadata| (metadata.table_uuid, metadata.location)),
        TabularKind::View => ViewMetadata::parse(&document.text.to_bytes())
            .map(|metadata| (metadata.view_uuid, metadata.location)),
    }
    .map_err(|refusal| format!("the metadata of {id} cannot be read: {refusal}"))?;
    if uuid != record.uuid || location != record.location {
        return Err(format!(
            "the uuid or location in the metadata of {id} differs from its record"
        ));
    }
    Ok(())
}

fn ensure(condition: bool, broken: impl FnOnce() -> Violation) -> Result<(), Violation> {
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
    fn marker_is_not_ahead_of_its_record() {
        let key = |version| PublicationKey { id: Uuid::nil(), version };
        let marker = |location: &str| Publication {
            metadata_location: location.into(),
            lists: Vec::new(),
            head: None,
        };
        let current = record(3, "c");
        assert!(publication(&key(3), &marker("c"), Some(&current)).is_ok());
        assert!(publication(&key(2), &marker("b"), Some(&current)).is_ok());
        assert!(publication(&key(3), &marker("b"), Some(&current)).is_err());
        assert!(publication(&key(4), &marker("d"), Some(&current)).is_err());
        assert!(publication(&key(9), &marker("x"), None).is_ok());
    }
}
