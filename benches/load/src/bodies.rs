//! Creates the bodies of requests, and parses parts of responses.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::target::TargetError;

/// Returns the body that creates a namespace.
pub fn namespace(name: &str) -> Bytes {
    json!({ "namespace": [name], "properties": {} }).to_string().into()
}

/// Returns the body that creates a table with this number of columns.
pub fn table(name: &str, columns: usize) -> Bytes {
    let field =
        |id| format!(r#"{{"id":{id},"name":"column_{id}","required":false,"type":"string"}}"#);
    let fields: Vec<String> = (1..=columns).map(field).collect();
    format!(
        r#"{{"name":"{name}","stage-create":false,"schema":{{"type":"struct","schema-id":0,"fields":[{}]}}}}"#,
        fields.join(",")
    )
    .into()
}

/// Returns the commit that sets a property.
pub fn set_property(n: u64) -> Bytes {
    format!(
        r#"{{"requirements":[],"updates":[{{"action":"set-properties","updates":{{"bench":"{n}"}}}}]}}"#
    )
    .into()
}

/// Returns the commit that makes the server compress the metadata files of a table.
pub fn compress_metadata_files() -> Bytes {
    let updates = json!({ "write.metadata.compression-codec": "gzip" });
    let update = json!({ "action": "set-properties", "updates": updates });
    json!({ "requirements": [], "updates": [update] }).to_string().into()
}

/// Returns the commit that makes the server rebase all appends to a table. If `is_maintained`, it
/// also expires snapshots that are older than a second, and rewrites manifests.
pub fn rebased_appends(is_maintained: bool) -> Bytes {
    let maintained = is_maintained.to_string();
    let updates = json!({
        "slateberg.append-rebase": "all",
        "slateberg.maintenance.expire-snapshots": maintained,
        "slateberg.maintenance.rewrite-manifests": maintained,
        "history.expire.max-snapshot-age-ms": "1000",
        "history.expire.min-snapshots-to-keep": "100",
    });
    let update = json!({ "action": "set-properties", "updates": updates });
    json!({ "requirements": [], "updates": [update] }).to_string().into()
}

/// Returns the transaction that sets a property of several tables of one namespace.
pub fn set_property_of_all(namespace: &str, tables: &[&str], n: u64) -> Bytes {
    let updates = json!({ "bench": n.to_string() });
    let change = |table: &&str| {
        json!({
            "identifier": { "namespace": [namespace], "name": table },
            "requirements": [],
            "updates": [{ "action": "set-properties", "updates": updates }],
        })
    };
    let changes: Vec<Value> = tables.iter().map(change).collect();
    json!({ "table-changes": changes }).to_string().into()
}

/// Returns the body that renames a table within a namespace.
pub fn rename(namespace: &str, from: &str, to: &str) -> Bytes {
    let ident = |name| json!({ "namespace": [namespace], "name": name });
    json!({ "source": ident(from), "destination": ident(to) }).to_string().into()
}

/// Returns the body that sets a property of a namespace.
pub fn set_namespace_property(key: &str, value: &str) -> Bytes {
    json!({ "removals": [], "updates": { key: value } }).to_string().into()
}

/// Returns the name of the manifest list of a snapshot, in the directory of the metadata files.
pub fn manifest_list(id: i64) -> String {
    format!("snap-{id}-1-00000000-0000-0000-0000-000000000000.avro")
}

/// The attributes of a table's main branch that the next append needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The table's location.
    pub location: String,
    /// The snapshot that `main` points to.
    pub snapshot_id: Option<i64>,
    /// The last sequence number.
    pub sequence_number: i64,
    /// Time of the table's last change.
    pub timestamp_ms: i64,
}

#[derive(Deserialize)]
struct LoadResponse<T> {
    metadata: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct HeadMetadata {
    location: String,
    current_snapshot_id: Option<i64>,
    #[serde(default)]
    last_sequence_number: i64,
    #[serde(default)]
    last_updated_ms: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct HistoryMetadata {
    current_snapshot_id: Option<i64>,
    #[serde(default)]
    snapshots: Vec<Link>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Link {
    snapshot_id: i64,
    parent_snapshot_id: Option<i64>,
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, TargetError> {
    let response: LoadResponse<T> = serde_json::from_slice(body).map_err(|error| {
        TargetError::Unsupported(format!("the response is not the metadata of a table: {error}"))
    })?;
    Ok(response.metadata)
}

/// Converts a snapshot id, where -1 means none.
fn valid_id(id: Option<i64>) -> Option<i64> {
    id.filter(|id| *id >= 0)
}

impl Head {
    /// Reads the head from the response to a load.
    pub fn read(body: &[u8]) -> Result<Self, TargetError> {
        let metadata: HeadMetadata = parse(body)?;
        Ok(Self {
            location: metadata.location,
            snapshot_id: valid_id(metadata.current_snapshot_id),
            sequence_number: metadata.last_sequence_number,
            timestamp_ms: metadata.last_updated_ms,
        })
    }

    /// Returns the commit that appends these snapshots to a `main` with this head, and the head
    /// after the commit.
    pub fn append(&self, ids: &[i64], now_ms: i64) -> (Bytes, Self) {
        let mut head = self.clone();
        let mut updates = Vec::new();
        for id in ids {
            updates.push(head.add(*id, now_ms));
        }
        if let Some(last) = ids.last() {
            updates.push(format!(
                r#"{{"action":"set-snapshot-ref","ref-name":"main","type":"branch","snapshot-id":{last}}}"#
            ));
        }
        let main = self.snapshot_id.map_or("null".to_owned(), |id| id.to_string());
        let body = format!(
            r#"{{"requirements":[{{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":{main}}}],"updates":[{}]}}"#,
            updates.join(",")
        );
        (body.into(), head)
    }

    /// Adds a snapshot.
    fn add(&mut self, id: i64, now_ms: i64) -> String {
        self.sequence_number += 1;
        self.timestamp_ms = now_ms.max(self.timestamp_ms + 1);
        let parent = self.snapshot_id.replace(id);
        let parent = parent.map(|id| format!(r#""parent-snapshot-id":{id},"#)).unwrap_or_default();
        format!(
            r#"{{"action":"add-snapshot","snapshot":{{"snapshot-id":{id},{parent}"sequence-number":{},"timestamp-ms":{},"manifest-list":"{}/metadata/{}","summary":{{"operation":"append","added-data-files":"1","added-records":"1000","added-files-size":"123456","total-records":"1000000","total-data-files":"1000","total-files-size":"123456789","total-delete-files":"0","total-position-deletes":"0","total-equality-deletes":"0"}},"schema-id":0}}}}"#,
            self.sequence_number,
            self.timestamp_ms,
            self.location,
            manifest_list(id)
        )
    }
}

/// All snapshots of a table.
#[derive(Debug, Clone)]
pub struct History {
    current: Option<i64>,
    parents: BTreeMap<i64, Option<i64>>,
}

impl History {
    /// Reads the history from the response to a load.
    pub fn read(body: &[u8]) -> Result<Self, TargetError> {
        let metadata: HistoryMetadata = parse(body)?;
        let parents = metadata.snapshots.iter().map(|it| (it.snapshot_id, it.parent_snapshot_id));
        Ok(Self { current: valid_id(metadata.current_snapshot_id), parents: parents.collect() })
    }

    /// Whether the table has this snapshot.
    pub fn contains(&self, id: i64) -> bool {
        self.parents.contains_key(&id)
    }

    /// Number of snapshots.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether there is no snapshot.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// Returns the snapshots of `main`: the current one, its parent, and so on.
    pub fn main(&self) -> Vec<i64> {
        let mut line = Vec::new();
        let mut next = self.current;
        while let Some(id) = next.filter(|_| line.len() <= self.parents.len()) {
            line.push(id);
            next = self.parents.get(&id).copied().flatten();
        }
        line
    }
}

/// Number of names on a page of a listing.
pub fn count_names(body: &[u8]) -> usize {
    let page: Value = serde_json::from_slice(body).unwrap_or_default();
    ["identifiers", "namespaces"].iter().find_map(|it| page[it].as_array()).map_or(0, Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Head {
        let body = json!({ "metadata": {
            "location": "s3://b/t", "current-snapshot-id": -1, "last-updated-ms": 100,
        }});
        Head::read(body.to_string().as_bytes()).expect("valid")
    }

    #[test]
    fn appended_snapshots_have_consecutive_parents() {
        let (body, head) = empty().append(&[7, 8], 50);
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["requirements"][0]["snapshot-id"], Value::Null);
        let snapshot = |at: usize| &body["updates"][at]["snapshot"];
        assert_eq!(snapshot(0)["parent-snapshot-id"], Value::Null);
        assert_eq!(snapshot(1)["parent-snapshot-id"], 7);
        assert_eq!(snapshot(1)["sequence-number"], 2);
        assert_eq!(snapshot(1)["timestamp-ms"], 102);
        assert_eq!(body["updates"][2]["snapshot-id"], 8);
        assert_eq!((head.snapshot_id, head.sequence_number), (Some(8), 2));
        let (body, _) = head.append(&[9], 5000);
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["requirements"][0]["snapshot-id"], 8);
        assert_eq!(body["updates"][0]["snapshot"]["timestamp-ms"], 5000);
    }

    #[test]
    fn history_of_main_excludes_other_branches() {
        let body = json!({ "metadata": { "current-snapshot-id": 3, "snapshots": [
            { "snapshot-id": 1 }, { "snapshot-id": 2, "parent-snapshot-id": 1 },
            { "snapshot-id": 3, "parent-snapshot-id": 1 },
        ]}});
        let history = History::read(body.to_string().as_bytes()).expect("valid");
        assert_eq!(history.main(), [3, 1]);
        assert!(history.contains(2) && !history.contains(4));
    }

    #[test]
    fn bodies_are_json() {
        for body in [
            namespace("n"),
            table("t", 3),
            set_property(1),
            set_property_of_all("n", &["a", "b"], 1),
            rename("n", "a", "b"),
            set_namespace_property("k", "v"),
        ] {
            serde_json::from_slice::<Value>(&body).expect("JSON");
        }
    }
}
