//! [`TableFiles`]: the files of a table, which remain while the table exists.

use std::sync::Arc;

use object_store::{Error, ObjectStore, ObjectStoreExt};
use serde_json::{Value as Json, json};

use crate::support::avro::{manifest, manifest_list};
use crate::support::state::path_of;
use crate::support::table::append;

/// The files of one snapshot.
pub struct TableFiles {
    /// The UUID of the table. A delayed commit must not change a later table with the same name.
    table: Json,
    /// The location of the manifest list.
    list: String,
    all: [String; 3],
}

impl TableFiles {
    /// Puts the files of a snapshot below the location of a table, like a client. The names contain
    /// the number.
    pub async fn put(bucket: &Arc<dyn ObjectStore>, table: &Json, number: u64) -> Self {
        let location = table["metadata"]["location"].as_str().expect("a location");
        let list = format!("{location}/metadata/snap-{number}.avro");
        let manifest_file = format!("{location}/metadata/m-{number}.avro");
        let data = format!("{location}/data/{number}.parquet");
        put(bucket, &data, b"content".to_vec()).await;
        put(bucket, &manifest_file, manifest(&[&data])).await;
        put(bucket, &list, manifest_list(&[&manifest_file])).await;
        let table = table["metadata"]["table-uuid"].clone();
        Self { table, list: list.clone(), all: [list, manifest_file, data] }
    }

    /// Returns the body of the commit that appends the snapshot.
    pub fn append(&self) -> Json {
        let mut updates = append(1, None, 1);
        updates[0]["snapshot"]["manifest-list"] = json!(self.list);
        let requirement = json!({ "type": "assert-table-uuid", "uuid": self.table });
        json!({ "requirements": [requirement], "updates": updates })
    }

    /// Checks that a table that no other client changes references these files, if this is known, and
    /// that all files exist that it references.
    pub async fn check(
        &self,
        bucket: &Arc<dyn ObjectStore>,
        table: &Json,
        has_files: Option<bool>,
    ) {
        let metadata = &table["metadata"];
        let has_snapshot = metadata["snapshots"].as_array().is_some_and(|all| !all.is_empty());
        assert!(has_files.is_none_or(|expected| expected == has_snapshot), "{table}");
        let log = metadata["metadata-log"].as_array().into_iter().flatten();
        let log = log.filter_map(|entry| entry["metadata-file"].as_str());
        let current = table["metadata-location"].as_str();
        let own = self.all.iter().map(String::as_str).filter(|_| has_snapshot);
        for file in own.chain(log).chain(current) {
            assert!(!is_missing(bucket, file).await, "{file} was deleted: {table}");
        }
    }

    /// Checks that all files exist.
    pub async fn check_all(&self, bucket: &Arc<dyn ObjectStore>) {
        for file in &self.all {
            assert!(!is_missing(bucket, file).await, "{file} was deleted");
        }
    }
}

async fn put(bucket: &Arc<dyn ObjectStore>, location: &str, content: Vec<u8>) {
    bucket.put(&path_of(location), content.into()).await.expect("the bucket accepts all writes");
}

/// Whether a file does not exist.
pub async fn is_missing(bucket: &Arc<dyn ObjectStore>, location: &str) -> bool {
    match bucket.head(&path_of(location)).await {
        Ok(_) => false,
        Err(Error::NotFound { .. }) => true,
        Err(error) => panic!("{location}: {error}"),
    }
}
