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
pub mod mac_key;
pub mod measured;
pub mod ring;
pub mod sealed_objects;
pub mod settings;
mod wrapping;

use std::sync::Arc;

pub use error::Error;
pub use wrapping::{Binding, Kms, WrappedBytes};

use settings::KmsKind;

/// Opens the configured KMS. Returns `None` if encryption is not configured. Sends no request.
pub async fn open(settings: &settings::Settings) -> Result<Option<Arc<dyn Kms>>, Error> {
    settings.check()?;
    Ok(match settings.kms {
        KmsKind::None => None,
        KmsKind::Local => Some(Arc::new(local::LocalKms::open(&settings.local_key_file)?)),
        KmsKind::Aws => Some(Arc::new(aws::AwsKms::open(settings).await)),
    })
}
