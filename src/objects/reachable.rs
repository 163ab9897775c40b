//! Which files a table's metadata leads to: manifest lists, manifests, data and delete files,
//! statistics, and older metadata files.
//!
//! Manifests are read as plain Avro, by the names of their fields, so that it does not matter which
//! types the table's schema has or which format version wrote them.

use std::collections::BTreeSet;

use apache_avro::types::Value as Avro;
use bytes::Bytes;
use serde_json::Value as Json;

use super::error::Error;

/// The files that a metadata document itself names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Manifest lists of its snapshots.
    pub manifest_lists: BTreeSet<String>,
    /// Manifests that a snapshot of format version 1 names without a list.
    pub manifests: BTreeSet<String>,
    /// Statistics of tables and of partitions, and older metadata files.
    pub others: BTreeSet<String>,
}

/// Takes the file names out of a table's metadata.
pub fn named_by(metadata: &[u8]) -> Result<Named, serde_json::Error> {
    let metadata: Json = serde_json::from_slice(metadata)?;
    let mut named = Named::default();
    for snapshot in list(&metadata, "snapshots") {
        named.manifest_lists.extend(text(snapshot, "manifest-list"));
        let manifests = list(snapshot, "manifests").iter().filter_map(Json::as_str);
        named.manifests.extend(manifests.map(ToOwned::to_owned));
    }
    for key in ["statistics", "partition-statistics"] {
        let paths = list(&metadata, key).iter().filter_map(|file| text(file, "statistics-path"));
        named.others.extend(paths);
    }
    let logged = list(&metadata, "metadata-log").iter().filter_map(|e| text(e, "metadata-file"));
    named.others.extend(logged);
    Ok(named)
}

fn list<'a>(json: &'a Json, key: &str) -> &'a [Json] {
    json.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn text(json: &Json, key: &str) -> Option<String> {
    json.get(key).and_then(Json::as_str).map(ToOwned::to_owned)
}

/// The manifests that a manifest list names.
pub fn manifests_of(location: &str, list: &Bytes) -> Result<BTreeSet<String>, Error> {
    avro_paths(location, list, |entry| string_field(entry, "manifest_path"))
}

/// The data and delete files that a manifest names.
pub fn files_of(location: &str, manifest: &Bytes) -> Result<BTreeSet<String>, Error> {
    avro_paths(location, manifest, |entry| {
        let Avro::Record(fields) = entry else { return None };
        let (_, data_file) = fields.iter().find(|(name, _)| name == "data_file")?;
        string_field(data_file, "file_path")
    })
}

fn avro_paths(
    location: &str,
    content: &Bytes,
    path_of: impl Fn(&Avro) -> Option<String>,
) -> Result<BTreeSet<String>, Error> {
    let unreadable = |reason: String| Error::Unreadable { location: location.to_owned(), reason };
    let reader = apache_avro::Reader::new(content.as_ref())
        .map_err(|error| unreadable(error.to_string()))?;
    reader
        .map(|entry| {
            let entry = entry.map_err(|error| unreadable(error.to_string()))?;
            path_of(&entry).ok_or_else(|| unreadable("an entry names no file".to_owned()))
        })
        .collect()
}

fn string_field(record: &Avro, wanted: &str) -> Option<String> {
    let Avro::Record(fields) = record else { return None };
    let (_, value) = fields.iter().find(|(name, _)| name == wanted)?;
    match value {
        Avro::String(text) => Some(text.clone()),
        Avro::Union(_, inner) => match inner.as_ref() {
            Avro::String(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
