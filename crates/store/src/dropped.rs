//! Records of dropped tables and views, from which they can be restored.

use serde::{Deserialize, Serialize};

use super::codec::{DecodeError, Value, decode_json, encode_json};
use super::records::TabularRecord;
use slateberg_model::ident::{NamespaceIdent, TabularIdent};

/// A dropped table or view. Until the retention ends, the store keeps its metadata. It also keeps
/// its entries in the indexes of locations and UUIDs, but marks them as dropped. The name can be
/// used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedTabular {
    /// Its last record. The namespace in it may have been dropped since.
    pub record: TabularRecord,
    /// Levels of its namespace at the time of the drop.
    pub namespace: Vec<String>,
    /// Time of the drop.
    pub dropped_ms: i64,
    /// Id of the principal that dropped it.
    pub dropped_by: String,
    /// Whether its files are deleted when the retention ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub purge: bool,
}

impl Value for DroppedTabular {
    fn encode(&self) -> Vec<u8> {
        encode_json(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_json(bytes)
    }
}

impl DroppedTabular {
    /// Returns the full name at the time of the drop.
    pub fn ident(&self) -> TabularIdent {
        let namespace = NamespaceIdent(self.namespace.clone());
        TabularIdent { namespace, name: self.record.name.clone() }
    }
}
