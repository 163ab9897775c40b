//! [`MetadataLogEntry`]: an entry of the metadata log.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// A reference to an earlier document of a table. The next version of the table has the same
/// entries, except for the newest and the oldest one. So an entry keeps its JSON, which a commit
/// only copies.
#[derive(Debug, Clone)]
pub struct MetadataLogEntry {
    /// The `last_updated_ms` of that document, in milliseconds since 1970.
    pub timestamp_ms: i64,
    json: Arc<RawValue>,
}

/// The members of an entry, in their order.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Members {
    timestamp_ms: i64,
    metadata_file: String,
}

impl MetadataLogEntry {
    /// Creates an entry. `metadata_file` is the location of the earlier document.
    pub fn new(timestamp_ms: i64, metadata_file: String) -> Self {
        let json = to_raw_value(&Members { timestamp_ms, metadata_file });
        Self { timestamp_ms, json: json.expect("strings and numbers are valid JSON").into() }
    }

    /// Returns the length of the entry's JSON, in bytes.
    pub(super) fn json_bytes(&self) -> usize {
        self.json.get().len()
    }

    /// Returns the location of the earlier document.
    pub fn metadata_file(&self) -> String {
        let members: Result<Members, _> = serde_json::from_str(self.json.get());
        members.expect("`new` wrote these members").metadata_file
    }
}

impl PartialEq for MetadataLogEntry {
    fn eq(&self, other: &Self) -> bool {
        self.json.get() == other.json.get()
    }
}

impl Serialize for MetadataLogEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}
