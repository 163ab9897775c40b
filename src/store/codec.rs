//! How a record becomes bytes: one version byte, then the body.
//!
//! Small records have JSON for a body, so that a later version can add a field without a migration and
//! a person can read one; table and view metadata is compressed with zstd.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why bytes are not the record they should be.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// There is nothing, or less than a record's head.
    #[error("truncated")]
    Truncated,
    /// The version byte is one that this binary does not know.
    #[error("unknown record version {0}")]
    Version(u8),
    /// The body is not what it should be.
    #[error("{0}")]
    Body(String),
}

/// A value that a key of the store can hold.
pub trait Value: Sized + Send {
    /// The bytes to store.
    fn encode(&self) -> Vec<u8>;
    /// The value that was stored.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;
}

/// The current version of every JSON record.
const JSON_VERSION: u8 = 1;

/// Writes a JSON record.
pub fn encode_json<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = vec![JSON_VERSION];
    serde_json::to_writer(&mut bytes, value).expect("records hold only what JSON can hold");
    bytes
}

/// Reads a JSON record.
pub fn decode_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        None => Err(DecodeError::Truncated),
        Some((&JSON_VERSION, body)) => {
            serde_json::from_slice(body).map_err(|error| DecodeError::Body(error.to_string()))
        }
        Some((&version, _)) => Err(DecodeError::Version(version)),
    }
}

/// The current version of every compressed document.
const DOCUMENT_VERSION: u8 = 1;
/// The version byte, then the record's version as eight bytes.
const DOCUMENT_HEAD_BYTES: usize = 9;
/// Level 1 halves the time of zstd's default for a few percent of size; metadata is written more often
/// than it is read back from here.
const ZSTD_LEVEL: i32 = 1;
/// The most bytes that a document may unfold to: bounds what a corrupt length can make us allocate.
const DOCUMENT_BYTES_MAX: usize = 1 << 30;

/// A JSON document kept whole: the metadata of a table or view at one version of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The version of the record that this is the metadata of.
    pub version: u64,
    /// The JSON text, exactly as the metadata file has it.
    pub json: bytes::Bytes,
}

impl Value for Document {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(DOCUMENT_HEAD_BYTES + self.json.len() / 4);
        bytes.push(DOCUMENT_VERSION);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        let compressed = zstd::bulk::compress(&self.json, ZSTD_LEVEL)
            .expect("compressing into memory cannot fail");
        bytes.extend_from_slice(&compressed);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (head, body) =
            bytes.split_at_checked(DOCUMENT_HEAD_BYTES).ok_or(DecodeError::Truncated)?;
        let (format, version) = head.split_at(1);
        if format != [DOCUMENT_VERSION] {
            return Err(DecodeError::Version(head[0]));
        }
        let version = u64::from_be_bytes(version.try_into().map_err(|_| DecodeError::Truncated)?);
        let broken = |error: std::io::Error| DecodeError::Body(error.to_string());
        let length = zstd::bulk::Decompressor::upper_bound(body).unwrap_or(DOCUMENT_BYTES_MAX);
        let json = zstd::bulk::decompress(body, length.min(DOCUMENT_BYTES_MAX)).map_err(broken)?;
        if json.is_empty() {
            return Err(DecodeError::Truncated);
        }
        Ok(Self { version, json: json.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back_whole() {
        let document = Document { version: 7, json: bytes::Bytes::from(vec![b'x'; 100_000]) };
        assert_eq!(Document::decode(&document.encode()).ok(), Some(document));
    }

    #[test]
    fn broken_bytes_are_an_error() {
        let whole = Document { version: 7, json: bytes::Bytes::from_static(b"{}") }.encode();
        for cut in 0..whole.len() {
            assert!(Document::decode(&whole[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode_json::<u32>(b"").is_err());
        assert!(decode_json::<u32>(b"\x021").is_err());
        assert_eq!(decode_json::<u32>(b"\x011").ok(), Some(1));
    }
}
