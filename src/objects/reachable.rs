//! Which files a table's metadata leads to: manifest lists, manifests, data and delete files,
//! statistics, and older metadata files.
//!
//! Manifests are read as plain Avro, by the names of their fields, so that it does not matter which
//! types the table's schema has or which format version wrote them.

use std::collections::{BTreeMap, BTreeSet};

use apache_avro::types::Value as Avro;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
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

/// How a manifest list calls the numbers of a manifest's files, in whatever format version.
const COUNTS: [[&str; 2]; 3] = [
    ["added_files_count", "added_data_files_count"],
    ["existing_files_count", "existing_data_files_count"],
    ["deleted_files_count", "deleted_data_files_count"],
];

/// The manifests that a manifest list names, each with the number of files that it names, if the list says
/// so.
pub fn manifests_of(location: &str, list: &Bytes) -> Result<BTreeMap<String, Option<u64>>, Error> {
    avro_entries(location, list, |entry| {
        let path = string_field(entry, "manifest_path")?;
        let counts = COUNTS.map(|names| names.iter().find_map(|name| number_field(entry, name)));
        let count = counts.into_iter().try_fold(0_u64, |sum, it| sum.checked_add(it?));
        Some((path, count))
    })
}

/// The data and delete files that a manifest names, those among them that it says are deleted.
pub fn files_of(location: &str, manifest: &Bytes) -> Result<BTreeSet<String>, Error> {
    avro_entries(location, manifest, |entry| {
        let Avro::Record(fields) = entry else { return None };
        let (_, data_file) = fields.iter().find(|(name, _)| name == "data_file")?;
        string_field(data_file, "file_path")
    })
}

/// A file's path in a form in which two names of one file are the same, however they are written: without
/// what stands before the path, decoded, and with single slashes. Two files may come to the same here, so
/// that it is good for nothing but to find out what has to stay.
pub fn comparable(location: &str) -> String {
    let path = match location.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => location.strip_prefix("file:").unwrap_or(location),
    };
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let segments = decoded.split('/').filter(|segment| !segment.is_empty());
    segments.collect::<Vec<_>>().join("/")
}

fn avro_entries<T, C: FromIterator<T>>(
    location: &str,
    content: &Bytes,
    of: impl Fn(&Avro) -> Option<T>,
) -> Result<C, Error> {
    let unreadable = |reason: String| Error::Unreadable { location: location.to_owned(), reason };
    let reader = apache_avro::Reader::new(content.as_ref())
        .map_err(|error| unreadable(error.to_string()))?;
    reader
        .map(|entry| {
            let entry = entry.map_err(|error| unreadable(error.to_string()))?;
            of(&entry).ok_or_else(|| unreadable("an entry names no file".to_owned()))
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

fn number_field(record: &Avro, wanted: &str) -> Option<u64> {
    let Avro::Record(fields) = record else { return None };
    let (_, value) = fields.iter().find(|(name, _)| name == wanted)?;
    let value = match value {
        Avro::Union(_, inner) => inner.as_ref(),
        other => other,
    };
    match value {
        Avro::Int(number) => u64::try_from(*number).ok(),
        Avro::Long(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_however_its_name_is_written() {
        for location in [
            "s3://b/w/t/p=a%2Fb/1.parquet",
            "s3a://other/w//t/p=a/b/1.parquet",
            "w/t/p=a%2fb/1.parquet",
            "/w/t/p=a/b/1.parquet",
            "file:/w/t/p=a/b/1.parquet",
        ] {
            assert_eq!(comparable(location), "w/t/p=a/b/1.parquet", "{location}");
        }
        assert_ne!(comparable("s3://b/w/t/1"), comparable("s3://b/w/t/2"));
    }
}
