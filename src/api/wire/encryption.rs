//! Converts the keys that encrypt the state to the form of responses.

use slateberg_catalog::encryption as catalog;
use slateberg_management::encryption::{DataKey, EncryptionStatus, KeyRing};

/// Returns the status of the encryption. Without a key ring, the state is not encrypted.
pub fn encryption_status(ring: Option<catalog::KeyRing>) -> EncryptionStatus {
    EncryptionStatus { encrypted: ring.is_some(), key_ring: ring.map(key_ring) }
}

fn key_ring(ring: catalog::KeyRing) -> KeyRing {
    let data_keys = ring.data_keys.into_iter().map(|key| DataKey {
        number: key.number,
        created_at_ms: key.created_ms,
        kms: key.kms,
        wrapping_key: key.wrapping_key,
        wrapped_at_ms: key.wrapped_ms,
    });
    KeyRing {
        catalog_id: ring.catalog,
        revision: ring.revision,
        active_data_key: ring.active,
        data_keys: data_keys.collect(),
    }
}
