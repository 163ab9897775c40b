//! [`Kms`]: the interface of a key management service, which wraps data keys.

use async_trait::async_trait;
use uuid::Uuid;

use super::data_key::DataKey;
use super::error::Error;

/// Data to which a wrapped data key is bound. Unwrapping with other data fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The id of the catalog.
    pub catalog: Uuid,
    /// The number of the data key in its ring.
    pub data_key: u32,
}

/// Encodes the binding with the names that appear in the log of the KMS.
impl Binding {
    /// Returns the key-value pairs of the encryption context.
    pub fn pairs(&self) -> [(&'static str, String); 2] {
        [
            ("slateberg:catalog", self.catalog.to_string()),
            ("slateberg:data-key", self.data_key.to_string()),
        ]
    }
}

/// A wrapped data key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedBytes {
    /// The name of the wrapping key in the KMS.
    pub wrapping_key: String,
    /// The encrypted data key.
    pub bytes: Vec<u8>,
}

/// A key management service that holds wrapping keys. It is called when a store is opened and when
/// data keys are created or rewrapped. Reads and writes do not call it.
#[async_trait]
pub trait Kms: Send + Sync {
    /// Returns the name of this kind of KMS, as in the ring and in the settings.
    fn kind(&self) -> &'static str;

    /// Wraps a data key with `wrapping_key`. If that is `None`, uses the configured wrapping key.
    async fn wrap(
        &self,
        data_key: &DataKey,
        binding: &Binding,
        wrapping_key: Option<&str>,
    ) -> Result<WrappedBytes, Error>;

    /// Unwraps a data key with the wrapping key that `wrapped` names.
    async fn unwrap(&self, wrapped: &WrappedBytes, binding: &Binding) -> Result<DataKey, Error>;
}
