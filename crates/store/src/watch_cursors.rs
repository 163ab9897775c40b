//! [`WatchCursor`]: the stored position of a consumer of the change feed.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::codec::{DecodeError, Value, decode_json, encode_json};

/// The position of a consumer that follows the change feed, and stores its position in the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchCursor {
    /// Position after the last event that the consumer has processed.
    pub position: String,
    /// Random id of the process that stored the position.
    pub consumer: Uuid,
    /// Time of creation.
    pub created_ms: i64,
    /// Time at which the position was stored.
    pub stored_ms: i64,
    /// Id of the principal that stored the position.
    pub stored_by: String,
}

impl Value for WatchCursor {
    fn encode(&self) -> Vec<u8> {
        encode_json(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_json(bytes)
    }
}
