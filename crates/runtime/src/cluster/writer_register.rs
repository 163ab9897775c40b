//! [`WriterRegister`]: reads and replaces the record of the writer.

use std::time::Duration;

use super::record_signer::{ForeignRecord, RecordSigner};
use slateberg_base::error_chain::{Cause, chain};
use slateberg_cluster::PutOutcome;
use slateberg_cluster::register::{PATH, RecordError, Tag, WriterRecord, check_size};
use slateberg_objects::open::Opened;
use slateberg_objects::register::{ObjectVersion, Register, Replacement};

/// The record of the writer in the bucket of the state. Cheap to clone.
#[derive(Clone)]
pub struct WriterRegister {
    register: Register,
    signer: RecordSigner,
}

/// The record of the writer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The object store failed.
    #[error("cannot read {PATH} in the bucket of the state: {0}")]
    Unavailable(#[source] Cause),
    /// The object is not a record that this version understands.
    #[error("{PATH} in the bucket of the state: {0}")]
    Record(#[from] RecordError),
    /// The state is encrypted, and a process that cannot unlock it has written the object.
    #[error("{PATH} in the bucket of the state: {0}")]
    Foreign(#[from] ForeignRecord),
}

impl WriterRegister {
    /// Opens the record below the location of a state. A request fails if it takes longer than
    /// `request_max`.
    pub fn open(state: &Opened, signer: &RecordSigner, request_max: Duration) -> Self {
        Self { register: Register::open(state, PATH, request_max), signer: signer.clone() }
    }

    /// Returns the record and its version. `None` if there has been no cluster on this state.
    pub async fn read(&self) -> Result<Option<(WriterRecord, Tag)>, RegisterError> {
        let found = self.register.read().await.map_err(RegisterError::Unavailable)?;
        let Some((content, version)) = found else { return Ok(None) };
        self.signer.check(PATH, &content)?;
        Ok(Some((WriterRecord::from_json(&content)?, Tag(version.0))))
    }

    /// Writes the record if it has the version `replaces` or, without a version, if it does not
    /// exist.
    pub async fn put(&self, record: &WriterRecord, replaces: Option<Tag>) -> PutOutcome {
        let content = match self.content(record) {
            Ok(content) => content,
            Err(error) => {
                let error = chain(&error);
                tracing::error!(%error, "cannot write the record of the writer");
                return PutOutcome::Conflict;
            }
        };
        let replaces = replaces.map(|tag| ObjectVersion(tag.0));
        match self.register.put(content.into(), replaces.as_ref()).await {
            Replacement::Written(version) => PutOutcome::Written(Tag(version.0)),
            Replacement::Conflict => PutOutcome::Conflict,
            Replacement::Unknown(error) => {
                let error = chain(&error);
                tracing::warn!(%error, "the outcome of a put of the writer's record is unknown");
                PutOutcome::Unknown
            }
        }
    }

    fn content(&self, record: &WriterRecord) -> Result<Vec<u8>, RecordError> {
        let content = self.signer.sign(PATH, record.to_json()?);
        check_size(&content)?;
        Ok(content)
    }
}
