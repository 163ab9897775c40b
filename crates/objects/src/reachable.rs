//! Files that a table's metadata references: manifest lists, manifests, data and delete files,
//! statistics, and older metadata files.
//!
//! Manifests are read as plain Avro, by the names of their fields, independent of the table's
//! schema and format version. They are not trusted, because metadata can reference any file.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use serde_json::Value as Json;

use super::avro::walk::{self, LeafValue};
use super::content::Content;
use super::error::Error;

/// Files that a metadata document references directly.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReferencedFiles {
    /// Manifest lists of its snapshots.
    pub manifest_lists: BTreeSet<String>,
    /// Manifests that a snapshot of format version 1 references without a list.
    pub manifests: BTreeSet<String>,
    /// Statistics of tables and partitions, and older metadata files.
    pub others: BTreeSet<String>,
    /// Format version of the metadata. 0 if it is unknown.
    pub format_version: u64,
}

impl ReferencedFiles {
    /// Returns the number of these files.
    pub fn count(&self) -> usize {
        self.manifest_lists.len() + self.manifests.len() + self.others.len()
    }
}

/// Returns the files that a table's metadata references directly.
pub fn named_by(metadata: &[u8]) -> Result<ReferencedFiles, serde_json::Error> {
    let metadata: Json = serde_json::from_slice(metadata)?;
    let format_version = metadata["format-version"].as_u64().unwrap_or_default();
    let mut named = ReferencedFiles { format_version, ..ReferencedFiles::default() };
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

/// Field names of the file counts in a manifest list, in all format versions.
const COUNTS: [[&str; 2]; 3] = [
    ["added_files_count", "added_data_files_count"],
    ["existing_files_count", "existing_data_files_count"],
    ["deleted_files_count", "deleted_data_files_count"],
];

/// Memory that a name takes in addition to its characters.
const NAME_BYTES: u64 = 64;

/// Returns the memory that the name of a file takes.
pub fn name_bytes(location: &str) -> u64 {
    location.len() as u64 + NAME_BYTES
}

/// Parts of an entry that are read.
#[derive(Default)]
struct Entry {
    /// Path of the file.
    path: Option<String>,
    /// Values of the fields in [`COUNTS`].
    counts: [Option<u64>; COUNTS.len()],
    /// Whether the result omits the entry.
    is_skipped: bool,
}

/// The `status` of an entry if the snapshot of the manifest removed the entry's file from the
/// table.
const STATUS_DELETED: i64 = 2;

/// Returns the manifests in a manifest list, each with its number of files. The number is `None` if
/// the list does not contain it.
pub fn manifests_of(
    location: &str,
    list: &Content,
) -> Result<BTreeMap<String, Option<u64>>, Error> {
    named_in(location, list, |entry, path, value| match (path, value) {
        (["manifest_path"], LeafValue::Text(path)) => entry.path = text_of(path),
        ([name], LeafValue::Number(number)) => {
            for (count, names) in entry.counts.iter_mut().zip(&COUNTS) {
                if names.contains(name) {
                    *count = u64::try_from(number).ok();
                }
            }
        }
        _ => {}
    })
}

/// Returns the data and delete files in a manifest, including entries with the status *deleted*.
pub fn files_of(location: &str, manifest: &Content) -> Result<BTreeSet<String>, Error> {
    let named = named_in(location, manifest, |entry, path, value| {
        if let (["data_file", "file_path"], LeafValue::Text(path)) = (path, value) {
            entry.path = text_of(path);
        }
    });
    Ok(named?.into_keys().collect())
}

/// Returns the data and delete files in a manifest, without entries with the status *deleted*.
pub fn live_files_of(location: &str, manifest: &Content) -> Result<BTreeSet<String>, Error> {
    let named = named_in(location, manifest, |entry, path, value| match (path, value) {
        (["data_file", "file_path"], LeafValue::Text(path)) => entry.path = text_of(path),
        (["status"], LeafValue::Number(status)) => entry.is_skipped = status == STATUS_DELETED,
        _ => {}
    });
    Ok(named?.into_keys().collect())
}

/// Returns the paths in a file's entries, each with the sum of its counts.
fn named_in(
    location: &str,
    content: &Content,
    see: impl Fn(&mut Entry, &[&str], LeafValue<'_>),
) -> Result<BTreeMap<String, Option<u64>>, Error> {
    let bytes_max = content.bytes_max();
    let (mut named, mut bytes_left) = (BTreeMap::new(), bytes_max);
    let take = |entry: Entry| {
        if entry.is_skipped {
            return Ok(());
        }
        let path = entry.path.ok_or("an entry has no file path")?;
        // The memory of the names has its own limit, because a short name takes more space in
        // memory than in the file.
        let left = bytes_left.checked_sub(name_bytes(&path));
        bytes_left = left.ok_or("names too many files (catalog.file_bytes_max)")?;
        let count = entry.counts.into_iter().try_fold(0_u64, |sum, it| sum.checked_add(it?));
        named.insert(path, count);
        Ok(())
    };
    let read = walk::entries(content, bytes_max, see, take);
    match read {
        Ok(()) => Ok(named),
        Err(reason) => Err(Error::unreadable(location, reason)),
    }
}

fn text_of(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(ToOwned::to_owned)
}

/// Returns a form of a file's path that is equal for all spellings of the path. It has no scheme
/// and no authority, is percent-decoded, and has single slashes. Different files may have equal
/// forms, so use this form only to find files that must be kept.
pub fn comparable(location: &str) -> String {
    let path = match location.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => location.strip_prefix("file:").unwrap_or(location),
    };
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let segments = decoded.split('/').filter(|segment| !segment.is_empty());
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::content::Bounds;

    #[test]
    fn spellings_of_one_file_are_equal() {
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

    #[tokio::test]
    async fn memory_for_names_is_limited_by_the_file_limit() {
        use apache_avro::types::Value;
        let schema = r#"{"type":"record","name":"r","fields":[
            {"name":"manifest_path","type":"string"},{"name":"added_files_count","type":"int"}]}"#;
        let schema = apache_avro::Schema::parse_str(schema).expect("a schema");
        let mut writer = apache_avro::Writer::new(&schema, Vec::new());
        for number in 0..200 {
            let path = ("manifest_path".to_owned(), Value::String(number.to_string()));
            let count = ("added_files_count".to_owned(), Value::Int(number));
            writer.append(Value::Record(vec![path, count])).expect("an entry");
        }
        let file = Bytes::from(writer.into_inner().expect("a file"));
        for (bytes_max, fits) in [(100_000, true), (10_000, false)] {
            assert!(file.len() < 10_000);
            let room = Bounds::default().reading(0).await;
            let content = Content::new(file.clone(), bytes_max, room);
            match manifests_of("s3://b/list", &content) {
                Ok(all) => assert!(fits && all.len() == 200, "{bytes_max}"),
                Err(error) => assert!(!fits, "{error}"),
            }
        }
    }
}
