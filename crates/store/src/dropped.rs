//! Records of dropped tables, views and namespaces, from which they can be restored.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::codec::{DecodeError, Value, decode_json, encode_json};
use super::records::{NamespaceRecord, TabularRecord};
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
    /// Id of the drop of a namespace that also dropped this table or view. `None` if it was dropped
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_with: Option<Uuid>,
}

/// A dropped namespace. The functions that were dropped with it have the same keys as before the
/// drop, in a separate key space. The name can be used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedNamespace {
    /// Its last record. The parent in it may have been dropped since.
    pub record: NamespaceRecord,
    /// Levels of its name at the time of the drop.
    pub namespace: Vec<String>,
    /// Time of the drop.
    pub dropped_ms: i64,
    /// Id of the principal that dropped it.
    pub dropped_by: String,
    /// Id of the drop. All namespaces, tables and views of a recursive drop have the same id.
    pub dropped_with: Uuid,
}

impl Value for DroppedTabular {
    fn encode(&self) -> Vec<u8> {
        encode_json(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_json(bytes)
    }
}

impl Value for DroppedNamespace {
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

impl DroppedNamespace {
    /// Returns the full name at the time of the drop.
    pub fn ident(&self) -> NamespaceIdent {
        NamespaceIdent(self.namespace.clone())
    }
}
