//! The shapes of bodies of `/management/v1/encryption`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use slateberg_catalog::encryption::KeyRing;

/// Body of `POST /management/v1/encryption/rewrap`. An unknown member is refused: were `key` taken for
/// nothing, the keys would be wrapped by another one than was meant.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RewrapRequest {
    /// The wrapping key; that of the server's settings if it is not there.
    #[serde(default)]
    pub wrapping_key: Option<String>,
}

/// What is told of the keys.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Encryption {
    /// Whether what the catalog keeps is encrypted.
    pub encrypted: bool,
    /// The key ring; null if it is not.
    pub key_ring: Option<Ring>,
}

/// A key ring.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ring {
    /// The id of the catalog that the keys are bound to; in a clone, those of its parent are bound to the
    /// parent's.
    pub catalog_id: Uuid,
    /// How often the ring was changed.
    pub revision: u64,
    /// The number of the data key that what is written now is sealed with.
    pub active_data_key: u32,
    /// The data keys, from the oldest on; in a clone, those of its parent first.
    pub data_keys: Vec<DataKey>,
}

/// A data key, of which nothing secret is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DataKey {
    /// Its number.
    pub number: u32,
    /// When it was made.
    pub created_at_ms: i64,
    /// The kind of KMS that has its wrapping key.
    pub kms: String,
    /// The wrapping key's name.
    pub wrapping_key: String,
    /// When it was wrapped.
    pub wrapped_at_ms: i64,
}

impl Encryption {
    /// What is told where nothing is encrypted.
    pub fn none() -> Self {
        Self { encrypted: false, key_ring: None }
    }
}

impl From<KeyRing> for Encryption {
    fn from(ring: KeyRing) -> Self {
        let data_keys = ring.data_keys.into_iter().map(|key| DataKey {
            number: key.number,
            created_at_ms: key.created_ms,
            kms: key.kms,
            wrapping_key: key.wrapping_key,
            wrapped_at_ms: key.wrapped_ms,
        });
        let ring = Ring {
            catalog_id: ring.catalog,
            revision: ring.revision,
            active_data_key: ring.active,
            data_keys: data_keys.collect(),
        };
        Self { encrypted: true, key_ring: Some(ring) }
    }
}
