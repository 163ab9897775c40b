//! Records of functions.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::codec::{DecodeError, Value, decode_json, encode_json};
use slateberg_model::function::FunctionMetadata;

/// A function, with its metadata. Names of functions are independent of the names of tables and
/// views.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionRecord {
    /// Id in the catalog.
    pub id: Uuid,
    /// Warehouse of the function.
    pub warehouse: Uuid,
    /// Namespace of the function.
    pub namespace: Uuid,
    /// Name in the namespace.
    pub name: String,
    /// Version, which increases by one with each change.
    pub version: u64,
    /// Metadata, as clients get it.
    pub metadata: FunctionMetadata,
    /// Time of creation in the catalog.
    pub created_ms: i64,
    /// Time of the last change.
    pub updated_ms: i64,
    /// Id of the creator. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

impl Value for FunctionRecord {
    fn encode(&self) -> Vec<u8> {
        encode_json(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_json(bytes)
    }
}
