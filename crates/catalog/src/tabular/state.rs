//! [`TabularState`] for responses, and [`NewVersion`] for changes.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;

use crate::jobs::left_behind::LeftBehind;
use crate::location_index::further_paths;
use crate::lookup::FoundTabular;
use crate::pipeline::NewFile;
use crate::pipeline::file::{FileContent, WarehouseFile};
use crate::version_cache::{CachedVersion, ParsedMetadata};
use slateberg_model::ident::TabularKind;
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::keys::{PublicationKey, TabularNameKey};
use slateberg_store::records::{PromisedList, TabularRecord};

/// The state of a table or view in a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabularState {
    /// The id in the catalog.
    pub id: Uuid,
    /// The version of the record. Id and version identify a state.
    pub version: u64,
    /// The location of the metadata file. `None` if the table is only staged.
    pub metadata_location: Option<String>,
    /// The metadata, as JSON.
    pub text: SegmentedJson,
}

impl TabularState {
    /// Returns the state of this record with this metadata.
    pub(crate) fn new(record: &TabularRecord, text: SegmentedJson) -> Self {
        Self {
            id: record.id,
            version: record.version,
            metadata_location: Some(record.metadata_location.clone()),
            text,
        }
    }
}

impl From<FoundTabular> for TabularState {
    fn from(found: FoundTabular) -> Self {
        Self::new(&found.record, found.document.text)
    }
}

/// A version of a table or view that a change writes.
pub(crate) struct NewVersion {
    /// The state that this version replaces. `None` if the table or view is new.
    pub(crate) before: Option<PreviousVersion>,
    /// The record.
    pub(crate) record: TabularRecord,
    /// The metadata, as JSON.
    pub(crate) text: SegmentedJson,
    /// The parsed metadata, for the version cache.
    pub(crate) parsed: Option<ParsedMetadata>,
    /// Metadata files that a background job deletes.
    pub(crate) outdated: Vec<String>,
    /// Whether the metadata file must be written. `false` if the file exists already.
    pub(crate) publish: bool,
    /// Manifest lists to write.
    pub(crate) lists: Vec<NewManifestList>,
    /// Files that rebases leave behind, which a background job deletes.
    pub(crate) left_behind: LeftBehind,
}

/// A manifest list that a change writes.
pub(crate) struct NewManifestList {
    /// The record of this file in the publication marker. After a crash, the next start writes the
    /// file from this record.
    pub(crate) promise: PromisedList,
    /// The file.
    pub(crate) content: Bytes,
}

/// The state that a new version replaces.
pub(crate) struct PreviousVersion {
    /// The record.
    pub(crate) record: TabularRecord,
    /// The metadata in the store, as JSON.
    pub(crate) text: SegmentedJson,
}

impl NewVersion {
    /// Returns the key of the version.
    pub(crate) fn key(&self) -> PublicationKey {
        PublicationKey { id: self.record.id, version: self.record.version }
    }

    /// Returns the state for a response.
    pub(crate) fn state(&self) -> TabularState {
        TabularState::new(&self.record, self.text.clone())
    }

    /// Returns the files to publish and the entry to cache.
    pub(crate) fn file(&self) -> NewFile {
        let warehouse = self.record.warehouse;
        let metadata = self.publish.then(|| WarehouseFile {
            warehouse,
            location: self.record.metadata_location.clone(),
            content: FileContent::Metadata(self.text.clone()),
        });
        let lists = self.lists.iter().map(|list| WarehouseFile {
            warehouse,
            location: list.promise.location.clone(),
            content: FileContent::ManifestList(list.content.clone()),
        });
        let cached = self
            .parsed
            .clone()
            .map(|parsed| CachedVersion { text: self.text.clone(), parsed: Some(parsed) });
        NewFile { key: self.key(), files: metadata.into_iter().chain(lists).collect(), cached }
    }
}

/// The record of a new table or view.
pub(crate) struct NewRecord<'a> {
    /// The id in the catalog.
    pub(crate) id: Uuid,
    /// Table or view.
    pub(crate) kind: TabularKind,
    /// The warehouse of the table or view.
    pub(crate) warehouse: &'a Warehouse,
    /// The id of the namespace.
    pub(crate) namespace: Uuid,
    /// The name.
    pub(crate) name: &'a str,
    /// The `table-uuid` or `view-uuid`.
    pub(crate) uuid: Uuid,
    /// The location.
    pub(crate) location: &'a str,
    /// The properties in the metadata.
    pub(crate) properties: &'a BTreeMap<String, String>,
    /// The location of its metadata file.
    pub(crate) metadata_location: &'a str,
    /// The time of its creation, in milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// The principal that created the table or view.
    pub(crate) owner: Option<String>,
}

impl NewRecord<'_> {
    /// Returns the record, at version 1.
    pub(crate) fn build(self) -> TabularRecord {
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

/// Returns the key of the name of this table or view, for a name of this `kind`.
pub(crate) fn name_key(record: &TabularRecord, kind: TabularKind) -> TabularNameKey {
    TabularNameKey { kind, namespace: record.namespace, name: record.name.clone() }
}
