//! Shows, rotates and rewraps the encryption keys of the store.
//!
//! The key ring is stored outside of the records. So no transaction covers both the ring and its
//! entry in the change log. The ring is written first. After a crash between these two steps, the
//! ring has an additional data key, which is harmless.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::core::Core;
use super::pipeline::Write;
use super::pipeline::records::Entry;
use super::pipeline::response::Body;
use super::{Error, Operation, Result};
use crate::error::StateConflict;
use slateberg_authz::action::ManageEncryption;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_kms::ring::{Ring, WrappedKey};
use slateberg_store::records::ChangeAction;

/// A key ring, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRing {
    /// The id of the catalog to which all keys are bound.
    pub catalog: Uuid,
    /// Number of changes that were made to the ring.
    pub revision: u64,
    /// The number of the data key that encrypts new data.
    pub active: u32,
    /// The data keys, oldest first. In a clone, the keys of its parent come first.
    pub data_keys: Vec<DataKey>,
}

/// A data key, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataKey {
    /// Number of the key.
    pub number: u32,
    /// The time of its creation, in milliseconds since 1970.
    pub created_ms: i64,
    /// The kind of KMS that holds its wrapping key.
    pub kms: String,
    /// The wrapping key's name.
    pub wrapping_key: String,
    /// The time of its wrapping, in milliseconds since 1970.
    pub wrapped_ms: i64,
}

/// A change of the key ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Creates a new data key, with which all new data is encrypted.
    Rotate,
    /// Wraps all data keys again.
    Rewrap {
        /// The wrapping key. `None` for the wrapping key in the settings.
        wrapping_key: Option<String>,
    },
}

impl From<&Ring> for KeyRing {
    fn from(ring: &Ring) -> Self {
        Self {
            catalog: ring.catalog(),
            revision: ring.revision(),
            active: ring.active(),
            data_keys: ring.data_keys().map(DataKey::from).collect(),
        }
    }
}

impl From<&WrappedKey> for DataKey {
    fn from(key: &WrappedKey) -> Self {
        Self {
            number: key.number,
            created_ms: key.created_ms,
            kms: key.kms.clone(),
            wrapping_key: key.wrapping_key.clone(),
            wrapped_ms: key.wrapped_ms,
        }
    }
}

impl Edit {
    /// Returns the name of the change.
    fn action(&self) -> ChangeAction {
        match self {
            Self::Rotate => ChangeAction::RotateDataKey,
            Self::Rewrap { .. } => ChangeAction::RewrapDataKeys,
        }
    }
}

/// The key ring of the store, for requests. Cheap to clone.
#[derive(Clone)]
pub struct Encryption {
    core: Arc<Core>,
}

impl Encryption {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// Returns the stored key ring. `None` if the store is not encrypted.
    #[boxed]
    pub async fn key_ring(&self, operation: &Operation) -> Result<Option<KeyRing>> {
        let permit = self.permit_encryption(operation)?;
        let ring = self.core.store().key_ring(&permit).await?;
        Ok(ring.as_ref().map(KeyRing::from))
    }

    /// Changes the key ring and returns the new one.
    #[boxed]
    pub async fn change_key_ring(&self, operation: &Operation, edit: Edit) -> Result<KeyRing> {
        let changing = |encryption: Self, operation: Operation| async move {
            encryption.change_ring(&operation, &edit).await
        };
        let Body(ring) = self.core.mutate(self, operation, changing).await?;
        Ok(ring)
    }

    async fn change_ring(&self, operation: &Operation, edit: &Edit) -> Result<Body<KeyRing>> {
        let permit = self.permit_encryption(operation)?;
        let store = self.core.store();
        let changed = match edit {
            Edit::Rotate => store.rotate_data_key(&permit).await?,
            Edit::Rewrap { wrapping_key } => {
                store.rewrap_data_keys(&permit, wrapping_key.as_deref()).await?
            }
        };
        let Some(ring) = changed else {
            return Err(Error::Conflict(StateConflict::NotEncrypted));
        };
        let (action, permit, ring) = (edit.action(), &permit, KeyRing::from(&ring));
        let response = &Body(ring);
        let write = Write::of_records(action, permit);
        let written = self.core.pipeline().commit(write, |_| async move {
            let Body(ring) = response;
            let entry = Entry {
                action,
                warehouse: Uuid::nil(),
                subject: ring.catalog,
                name: &format!("data key {}", ring.active),
                versions: (Some(ring.revision.saturating_sub(1)), Some(ring.revision)),
                decision: permit.decision(),
                resource: None,
            };
            Ok(((), self.core.pipeline().records(operation, Some(entry), response)?))
        });
        written.await?;
        Ok(response.clone())
    }

    fn permit_encryption(&self, operation: &Operation) -> Result<Permit<ManageEncryption>> {
        self.core.access.permit_catalog(operation)
    }
}
