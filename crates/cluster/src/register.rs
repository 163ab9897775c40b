//! The register: one object of the state's bucket that names the writer.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::shared_settings::SharedSettings;

/// Path of the register, relative to the location of the state.
pub const PATH: &str = "cluster/writer.json";
/// The newest format that this version reads.
pub const FORMAT: u32 = 2;
/// The maximum size of the register in bytes.
pub const MAX_BYTES: usize = 4096;

/// The content of the register. Members that this version does not know are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WriterRecord {
    /// The format of this object.
    pub format: u32,
    /// The id of the catalog. Absent until the first writer has created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<Uuid>,
    /// Rises by one with each change of the holder.
    pub term: u64,
    /// Rises by one with each put.
    pub renewal: u64,
    /// New for each put, so that a holder recognizes its own puts, and no two bodies are equal.
    pub nonce: Uuid,
    /// The state of the holder.
    pub state: WriterState,
    /// The writer epoch of the holder's store, or the epoch that it is about to claim. 0 until it
    /// is known.
    #[serde(default)]
    pub epoch: u64,
    /// All transactions up to this sequence number are durable, and the holder shows them to readers.
    /// The driver sets it. The election does not depend on it.
    #[serde(default)]
    pub sequence: u64,
    /// The hash of the policies in force, so that standbys with other policies execute no reads. The
    /// driver sets it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy_hash: String,
    /// The duration of the holder's lease.
    pub lease_ms: u64,
    /// The process that holds the register.
    pub holder: Member,
    /// The address at which other processes reach the holder.
    pub peer: Peer,
}

/// The state of the holder of the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriterState {
    /// The holder opens the store, and processes no requests.
    Opening,
    /// The holder processes requests.
    Serving,
    /// The holder finishes its requests and closes the store.
    Leaving,
    /// The holder has given up its lease. Any candidate may take over at once.
    Released,
    /// An operator has paused the cluster. No process may take over until an operator resumes it.
    Paused,
}

impl WriterState {
    /// Returns the format of records in this state: the oldest one that protects the record. A version
    /// that does not know pauses must not take over, so it must not be able to read such a record.
    pub const fn format(self) -> u32 {
        match self {
            Self::Opening | Self::Serving | Self::Leaving | Self::Released => 1,
            Self::Paused => 2,
        }
    }
}

/// A process of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Member {
    /// The id of the process, new for each start.
    pub node: Uuid,
    /// A name for operators.
    pub name: String,
    /// The version of slateberg.
    pub version: String,
    /// The newest format of the store that the process reads. `None` if its version does not publish
    /// it, which is older than any that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_format: Option<u32>,
    /// Hashes of the settings that all processes must share.
    #[serde(default, skip_serializing_if = "SharedSettings::is_empty")]
    pub settings: SharedSettings,
}

/// The address of a process for other processes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Peer {
    /// The base URL of the peer port.
    pub url: String,
    /// SHA-256 of the certificate of the peer port, in hexadecimal.
    pub certificate_sha256: String,
}

/// A process to which a holder gives its term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Successor {
    /// The process.
    pub member: Member,
    /// The address of the process.
    pub peer: Peer,
}

/// The version of the register in the bucket, such as its `ETag`. Only compared for equality.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub String);

/// An error of reading or writing the content of the register.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The object is larger than [`MAX_BYTES`].
    #[error("the writer record has {bytes} bytes: at most {MAX_BYTES} are allowed")]
    TooLarge {
        /// The size of the object.
        bytes: usize,
    },
    /// A newer version of slateberg wrote the object.
    #[error(
        "the writer record has format {format}: this version reads format {FORMAT}. Upgrade \
         this process."
    )]
    NewerFormat {
        /// The format of the object.
        format: u64,
    },
    /// The format is zero, which no version writes.
    #[error("the writer record has format 0: formats begin with 1")]
    InvalidFormat,
    /// The object is not a writer record.
    #[error("the writer record cannot be parsed: {0}")]
    Malformed(#[source] serde_json::Error),
}

/// The only member that all formats have in common.
#[derive(Deserialize)]
struct Envelope {
    format: u64,
}

impl WriterRecord {
    /// Parses the content of the register. Errors with [`RecordError::NewerFormat`] if the record
    /// has a format that this version does not know.
    pub fn from_json(bytes: &[u8]) -> Result<Self, RecordError> {
        check_size(bytes)?;
        let envelope: Envelope = serde_json::from_slice(bytes).map_err(RecordError::Malformed)?;
        match envelope.format {
            0 => Err(RecordError::InvalidFormat),
            format if format > u64::from(FORMAT) => Err(RecordError::NewerFormat { format }),
            _ => serde_json::from_slice(bytes).map_err(RecordError::Malformed),
        }
    }

    /// Returns the content of the register as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, RecordError> {
        let bytes = serde_json::to_vec_pretty(self).map_err(RecordError::Malformed)?;
        check_size(&bytes)?;
        Ok(bytes)
    }

    /// Returns the record that ends the pause of this record: any candidate may take over.
    pub fn resumed(&self, nonce: Uuid) -> Self {
        let (state, renewal) = (WriterState::Released, self.renewal.saturating_add(1));
        Self { format: state.format(), state, renewal, nonce, ..self.clone() }
    }

    /// Whether two records are the content of the same put.
    pub fn is_same_put(&self, other: &Self) -> bool {
        (self.term, self.renewal, self.nonce) == (other.term, other.renewal, other.nonce)
    }
}

/// Errors if the content of the register is larger than [`MAX_BYTES`].
pub fn check_size(content: &[u8]) -> Result<(), RecordError> {
    match content.len() {
        bytes if bytes > MAX_BYTES => Err(RecordError::TooLarge { bytes }),
        _ => Ok(()),
    }
}
