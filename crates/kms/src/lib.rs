//! Rank 2 (`docs/architecture.md`): envelope encryption of stored data.
//!
//! Terms, from the outside in:
//! - a **wrapping key** never leaves its **KMS** ([`Kms`]): a key of AWS KMS, or of a file on this
//!   machine ([`local`]);
//! - a **data key** ([`data_key`]) is stored in wrapped form in the **ring** ([`ring`]), which is
//!   an object beside the store. When a process opens the store, the KMS unwraps the data keys
//!   once. The process keeps them in memory ([`keys::Keys`]) and zeroizes them at the end;
//! - a **session key** is derived by each process from the active data key and a random salt. It
//!   encrypts with AES-256-GCM. The nonce is a counter instead of a random number, so no nonce is
//!   used twice;
//! - **sealed** data ([`keys`]) begins with the number of its data key and with the salt. It is
//!   bound to the catalog, to its purpose and, if known, to its position.
//!
//! Each kind of stored data is sealed by the code that writes it: the [`block_transformer`] seals
//! blocks of SlateDB, `wal` seals frames of the local WAL, and [`sealed_objects`] seals whole
//! objects.

mod aws;
pub mod block_transformer;
pub mod data_key;
mod error;
pub mod keys;
pub mod local;
pub mod measured;
pub mod ring;
pub mod sealed_objects;
pub mod settings;

use std::sync::Arc;

use async_trait::async_trait;

pub use error::Error;

use data_key::DataKey;
use settings::KmsKind;

/// Data to which a wrapped data key is bound. Unwrapping with other data fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The id of the catalog.
    pub catalog: uuid::Uuid,
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
    /// Returns the kind of KMS, with its name in the ring and in the settings.
    fn kind(&self) -> &'static str;

    /// Wraps a data key with `wrapping_key` or else with the configured wrapping key.
    async fn wrap(
        &self,
        data_key: &DataKey,
        binding: &Binding,
        wrapping_key: Option<&str>,
    ) -> Result<WrappedBytes, Error>;

    /// Unwraps a data key with the wrapping key that `wrapped` names.
    async fn unwrap(&self, wrapped: &WrappedBytes, binding: &Binding) -> Result<DataKey, Error>;
}

/// Opens the configured KMS. Returns `None` if encryption is not configured. Sends no request.
pub async fn open(settings: &settings::Settings) -> Result<Option<Arc<dyn Kms>>, Error> {
    settings.check()?;
    Ok(match settings.kms {
        KmsKind::None => None,
        KmsKind::Local => Some(Arc::new(local::LocalKms::open(&settings.local_key_file)?)),
        KmsKind::Aws => Some(Arc::new(aws::AwsKms::open(settings).await)),
    })
}
