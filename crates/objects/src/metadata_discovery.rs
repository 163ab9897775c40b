//! Finds and reads metadata files outside of warehouses.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;

use super::error::Error;
use super::metadata_file::decompress;
use super::open::{Opened, known_options, open_url};

/// Maximum decompressed size of a metadata file. The limit is high, because the operator chooses
/// the location.
const METADATA_BYTES_MAX: u64 = 1 << 30;

/// A metadata file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Path of the table's directory, below the searched URL.
    pub table: Vec<String>,
    /// Version of the table in the file's name.
    pub number: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub modified_ms: i64,
    /// URL of the file.
    pub location: String,
}

/// Returns the newest metadata file of each table directory below a URL. A table directory has
/// metadata files in its subdirectory `metadata`.
pub async fn newest_metadata(
    url: &str,
    options: &BTreeMap<String, String>,
) -> Result<Vec<FoundFile>, Error> {
    let url = url.trim_end_matches('/');
    let opened = open(url, options)?;
    let mut newest: BTreeMap<Vec<String>, FoundFile> = BTreeMap::new();
    let mut listed = opened.object_store.list(Some(&opened.path));
    while let Some(object) = listed.try_next().await.map_err(|error| Error::of(url, error))? {
        let Some(rest) = object.location.prefix_match(&opened.path) else { continue };
        let parts: Vec<String> = rest.map(|part| part.as_ref().to_owned()).collect();
        let [table @ .., directory, name] = parts.as_slice() else { continue };
        let Some(number) = number_of(name).filter(|_| directory == "metadata") else { continue };
        let found = FoundFile {
            table: table.to_vec(),
            number,
            modified_ms: object.last_modified.timestamp_millis(),
            location: format!("{url}/{}", parts.join("/")),
        };
        let is_newer = |known: &FoundFile| {
            (known.number, known.modified_ms) < (found.number, found.modified_ms)
        };
        if newest.get(table).is_none_or(is_newer) {
            newest.insert(table.to_vec(), found);
        }
    }
    Ok(newest.into_values().collect())
}

/// Reads a metadata file, compressed or not.
pub async fn read_metadata(
    location: &str,
    options: &BTreeMap<String, String>,
) -> Result<Bytes, Error> {
    let opened = open(location, options)?;
    let content = match opened.object_store.get(&opened.path).await {
        Ok(found) => found.bytes().await,
        Err(error) => Err(error),
    };
    let content = content.map_err(|error| Error::of(location, error))?;
    let decompressed = decompress(location, &content, METADATA_BYTES_MAX)?;
    decompressed.ok_or_else(|| Error::unreadable(location, "decompresses to more than 1 GiB"))
}

fn open(url: &str, options: &BTreeMap<String, String>) -> Result<Opened, Error> {
    let url = match url.strip_prefix('/') {
        Some(path) => format!("file:///{path}"),
        None => url.to_owned(),
    };
    let opened = open_url(&url, &known_options(&url, options));
    opened.map_err(|error| Error::NotAllowed(error.to_string()))
}

/// Returns the version in a metadata file's name, such as 3 in `v3.metadata.json` (Hadoop tables)
/// or `00003-<uuid>.metadata.json` (all other tables). The file may be compressed.
fn number_of(name: &str) -> Option<u64> {
    let stem = name
        .strip_suffix(".gz.metadata.json")
        .or_else(|| name.strip_suffix(".metadata.json.gz"))
        .or_else(|| name.strip_suffix(".metadata.json"))?;
    match stem.strip_prefix('v') {
        Some(version) => version.parse().ok(),
        None => stem.split_once('-')?.0.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_file_names_contain_their_numbers() {
        assert_eq!(number_of("v12.metadata.json"), Some(12));
        assert_eq!(number_of("v12.gz.metadata.json"), Some(12));
        assert_eq!(number_of("00003-7c0f.metadata.json"), Some(3));
        assert_eq!(number_of("00003-7c0f.metadata.json.gz"), Some(3));
        for other in ["snap-1.avro", "metadata.json", "version-hint.text", "x-1.metadata.json"] {
            assert_eq!(number_of(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn the_newest_of_each_table_is_found() {
        let directory = tempfile::tempdir().expect("there is room");
        let put = |path: &str| {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().expect("one")).expect("it is made");
            std::fs::write(path, "{}").expect("it is written");
        };
        for number in [1, 2, 10] {
            put(&format!("sales.db/orders/metadata/v{number}.metadata.json"));
        }
        put("sales.db/orders/metadata/snap-1.avro");
        put("sales.db/orders/data/v99.metadata.json");
        put("eu/de/customers/metadata/00000-a.metadata.json");
        put("eu/de/customers/metadata/00001-b.metadata.json");
        let url = format!("file://{}", directory.path().display());
        let found = newest_metadata(&url, &BTreeMap::new()).await.expect("it is listed");
        let tables: Vec<_> = found.iter().map(|it| (it.table.join("/"), it.number)).collect();
        assert_eq!(tables, [("eu/de/customers".to_owned(), 1), ("sales.db/orders".to_owned(), 10)]);
        assert!(found[1].location.ends_with("sales.db/orders/metadata/v10.metadata.json"));
        let text = read_metadata(&found[1].location, &BTreeMap::new()).await.expect("it is read");
        assert_eq!(text.as_ref(), b"{}");
    }
}
