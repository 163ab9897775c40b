//! Rank 2: envelope encryption of what slateberg keeps.
//!
//! Nouns, from the outside in:
//! - a **wrapping key** never leaves its **KMS** ([`Kms`]): a key of AWS KMS, or of a file on
//!   this machine ([`local`]);
//! - a **data key** ([`data_key`]) is wrapped by one, and lies so in the **ring** ([`ring`]), an object
//!   beside the store. Whoever opens the store has the data keys unwrapped once, and keeps them in memory
//!   ([`keys::Keys`]), where they are overwritten at the end;
//! - a **session key** is derived from the active data key and a random salt, by each process anew. It
//!   encrypts with AES-256-GCM under a counter as the nonce, so that no nonce is ever used twice and none is
//!   drawn;
//! - something **sealed** ([`keys`]) says which data key and salt it was sealed with, and is bound to the
//!   catalog, to its purpose and, where that is known, to its place.
//!
//! What is sealed is said where it is written: blocks of SlateDB by the [`block_transformer`], frames of
//! the journal by `wal`, and whole objects by [`sealed_objects`].

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

/// What a data key is bound to besides its wrapping key: who shows another cannot unwrap it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The catalog's id.
    pub catalog: uuid::Uuid,
    /// The data key's number in its ring.
    pub data_key: u32,
}

/// What binds, under names that an operator of the KMS meets in its log.
impl Binding {
    /// The pairs of the encryption context.
    pub fn pairs(&self) -> [(&'static str, String); 2] {
        [
            ("slateberg:catalog", self.catalog.to_string()),
            ("slateberg:data-key", self.data_key.to_string()),
        ]
    }
}

/// A data key as its wrapping key left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped {
    /// The name of the wrapping key, as the KMS knows it.
    pub wrapping_key: String,
    /// The encrypted data key.
    pub bytes: Vec<u8>,
}

/// Where wrapping keys live. It is asked when a store is opened, and when data keys are made or wrapped
/// anew: never to read or write.
#[async_trait]
pub trait Kms: Send + Sync {
    /// The kind of KMS, as the ring and the settings say it.
    fn kind(&self) -> &'static str;

    /// Wraps a data key with a wrapping key, or with the one that the settings name.
    async fn wrap(
        &self,
        data_key: &DataKey,
        binding: &Binding,
        wrapping_key: Option<&str>,
    ) -> Result<Wrapped, Error>;

    /// Unwraps a data key with the wrapping key that it names.
    async fn unwrap(&self, wrapped: &Wrapped, binding: &Binding) -> Result<DataKey, Error>;
}

/// The KMS of the settings, if what is kept is to be encrypted. Asks it nothing yet.
pub async fn open(settings: &settings::Settings) -> Result<Option<Arc<dyn Kms>>, Error> {
    settings.check()?;
    Ok(match settings.kms {
        KmsKind::None => None,
        KmsKind::Local => Some(Arc::new(local::LocalKms::open(&settings.local_key_file)?)),
        KmsKind::Aws => Some(Arc::new(aws::AwsKms::open(settings).await)),
    })
}
