//! Encoding of records: one version byte, then the body.
//!
//! Small records are JSON: later versions can add fields without a migration, and people can read
//! the records. Metadata of tables and views is compressed with zstd. It is stored as a
//! [`DocumentHead`] and chunks. Each version has its own head, but versions share chunks.

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use bytes::Bytes;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::compression;
use slateberg_base::error_chain::Cause;
use slateberg_model::segmented_json::{Chunk, ChunkHash, Segment, SegmentedJson};

/// Reason why a record cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within the record.
    #[error("truncated")]
    Truncated,
    /// The binary does not support the version byte.
    #[error("unknown record version {0}")]
    Version(u8),
    /// The body is invalid.
    #[error(transparent)]
    Body(Cause),
}

/// A type of values in the store.
pub trait Value: Clone + Send + Sync + 'static {
    /// Encodes the value.
    fn encode(&self) -> Vec<u8>;
    /// Decodes the value.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;
}

/// Current version of all JSON records.
const JSON_VERSION: u8 = 1;

/// Encodes a JSON record.
pub fn encode_json<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = vec![JSON_VERSION];
    serde_json::to_writer(&mut bytes, value).expect("records can be serialized to JSON");
    bytes
}

/// Decodes a JSON record.
pub(crate) fn decode_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        None => Err(DecodeError::Truncated),
        Some((&JSON_VERSION, body)) => {
            serde_json::from_slice(body).map_err(|error| DecodeError::Body(Cause::new(error)))
        }
        Some((&version, _)) => Err(DecodeError::Version(version)),
    }
}

/// Version byte of a document without chunks. It is followed by the record's version and the
/// compressed JSON. Only older binaries wrote such documents.
const WHOLE_DOCUMENT_VERSION: u8 = 1;
/// Version byte of a document with chunks. It is followed by the record's version, the list of
/// segments, and the inline segments. The inline segments are compressed together.
const DOCUMENT_VERSION: u8 = 2;
/// Version byte of chunks.
const CHUNK_VERSION: u8 = 1;
/// Maximum decompressed size of a document, which bounds the allocation for a corrupt length.
const DOCUMENT_BYTES_MAX: usize = 1 << 30;

/// Metadata of a table or view at one version of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Version of the record.
    pub version: u64,
    /// The JSON, exactly as in the metadata file.
    pub text: SegmentedJson,
}

impl Document {
    /// Returns the part that is stored under the document's key. Each chunk is stored under a key
    /// of its own.
    pub fn head(&self) -> DocumentHead {
        let segment = |segment: &Segment| match segment {
            Segment::Inline(bytes) => HeadSegment::Inline(bytes.len()),
            Segment::Chunk(chunk) => HeadSegment::Chunk(chunk.hash(), chunk.text().len()),
        };
        let segments = self.text.segments().iter().map(segment).collect();
        DocumentHead { version: self.version, segments, inline: self.text.inline() }
    }
}

/// A document without the content of its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentHead {
    version: u64,
    segments: Vec<HeadSegment>,
    inline: Bytes,
}

/// A segment, and its length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadSegment {
    Inline(usize),
    Chunk(ChunkHash, usize),
}

impl HeadSegment {
    fn len(self) -> usize {
        match self {
            Self::Inline(len) | Self::Chunk(_, len) => len,
        }
    }
}

/// Tags of segments in a head.
const INLINE_TAG: u8 = 0;
const CHUNK_TAG: u8 = 1;

impl DocumentHead {
    /// Returns the same metadata at another version of its record.
    pub(crate) fn at_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    /// Returns the document without its chunks. It is valid JSON, in which the older entries of
    /// some lists are missing.
    pub fn json_without_chunks(&self) -> &Bytes {
        &self.inline
    }

    /// Returns the hashes of the document's chunks, in order, with repetitions.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkHash> {
        self.segments.iter().filter_map(|segment| match segment {
            HeadSegment::Inline(_) => None,
            HeadSegment::Chunk(hash, _) => Some(*hash),
        })
    }

    /// Completes the document with these chunks. Errors with the hash of the first chunk that is
    /// missing or has another length.
    pub fn complete(&self, chunks: &HashMap<ChunkHash, Bytes>) -> Result<Document, ChunkHash> {
        let mut at = 0;
        let segment = |segment: &HeadSegment| match segment {
            HeadSegment::Inline(len) => {
                at += len;
                Ok(Segment::Inline(self.inline.slice(at - len..at)))
            }
            HeadSegment::Chunk(hash, len) => {
                let text = chunks.get(hash).filter(|text| text.len() == *len).ok_or(*hash)?;
                Ok(Segment::Chunk(Chunk::from_stored(*hash, text.clone())))
            }
        };
        let segments = self.segments.iter().map(segment).collect::<Result<_, _>>()?;
        Ok(Document { version: self.version, text: SegmentedJson::new(segments) })
    }
}

impl Value for DocumentHead {
    fn encode(&self) -> Vec<u8> {
        let compressed = compression::compress(&self.inline);
        let segments_bytes = self.segments.len() * (1 + 4 + 16);
        let mut bytes = Vec::with_capacity(1 + 8 + 4 + segments_bytes + compressed.len());
        bytes.push(DOCUMENT_VERSION);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&length(self.segments.len()));
        for segment in &self.segments {
            match segment {
                HeadSegment::Inline(len) => {
                    bytes.push(INLINE_TAG);
                    bytes.extend_from_slice(&length(*len));
                }
                HeadSegment::Chunk(hash, len) => {
                    bytes.push(CHUNK_TAG);
                    bytes.extend_from_slice(&length(*len));
                    bytes.extend_from_slice(&hash.0);
                }
            }
        }
        bytes.extend_from_slice(&compressed);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input(bytes);
        let [format] = input.take()?;
        let version = u64::from_be_bytes(input.take()?);
        let head = match format {
            WHOLE_DOCUMENT_VERSION => {
                let inline = decompress(input.0, DOCUMENT_BYTES_MAX)?;
                Self { version, segments: vec![HeadSegment::Inline(inline.len())], inline }
            }
            DOCUMENT_VERSION => {
                let segments = (0..input.length()?).map(|_| input.segment());
                let segments = segments.collect::<Result<Vec<_>, _>>()?;
                let inline = segments.iter().filter(|it| matches!(it, HeadSegment::Inline(_)));
                let inline_bytes = bounded(inline.map(|segment| segment.len()))?;
                let inline = decompress(input.0, inline_bytes)?;
                if inline.len() != inline_bytes {
                    return Err(DecodeError::Truncated);
                }
                Self { version, segments, inline }
            }
            unknown => return Err(DecodeError::Version(unknown)),
        };
        match bounded(head.segments.iter().map(|segment| segment.len()))? {
            0 => Err(DecodeError::Truncated),
            _ => Ok(head),
        }
    }
}

/// An encoded [`DocumentHead`], to be stored in two records. In JSON, it is a string in Base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedHead(Bytes);

impl EncodedHead {
    /// Encodes a head.
    pub(crate) fn of(head: &DocumentHead) -> Self {
        Self(head.encode().into())
    }

    /// Decodes the head.
    pub fn decode(&self) -> Result<DocumentHead, DecodeError> {
        DocumentHead::decode(&self.0)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Serialize for EncodedHead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for EncodedHead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.as_ref()).map_err(D::Error::custom)?;
        Ok(Self(bytes.into()))
    }
}

/// Content of a chunk. It is compressed in the store, under a key that contains its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkBytes(pub Bytes);

impl Value for ChunkBytes {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![CHUNK_VERSION];
        bytes.extend_from_slice(&compression::compress(&self.0));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input(bytes);
        match input.take()? {
            [CHUNK_VERSION] => decompress(input.0, DOCUMENT_BYTES_MAX).map(Self),
            [unknown] => Err(DecodeError::Version(unknown)),
        }
    }
}

/// A reader of bytes.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn length(&mut self) -> Result<usize, DecodeError> {
        Ok(u32::from_be_bytes(self.take()?) as usize)
    }

    fn segment(&mut self) -> Result<HeadSegment, DecodeError> {
        match self.take()? {
            [INLINE_TAG] => Ok(HeadSegment::Inline(self.length()?)),
            [CHUNK_TAG] => {
                let len = self.length()?;
                Ok(HeadSegment::Chunk(ChunkHash(self.take()?), len))
            }
            [tag] => Err(DecodeError::Body(Cause::new(format!("unknown segment tag {tag}")))),
        }
    }
}

/// Encodes a length.
fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("a document is shorter than 4 GiB").to_be_bytes()
}

/// Returns the sum of the lengths. Errors if it exceeds the maximum size of a document.
fn bounded(mut lengths: impl Iterator<Item = usize>) -> Result<usize, DecodeError> {
    let sum = lengths.try_fold(0_usize, |sum, len| {
        sum.checked_add(len).filter(|sum| *sum <= DOCUMENT_BYTES_MAX)
    });
    sum.ok_or_else(|| DecodeError::Body(Cause::new("longer than the maximum size of a document")))
}

fn decompress(bytes: &[u8], bytes_max: usize) -> Result<Bytes, DecodeError> {
    let text = compression::decompress(bytes, bytes_max)
        .map_err(|error| DecodeError::Body(Cause::new(error)))?;
    if text.is_empty() && bytes_max > 0 {
        return Err(DecodeError::Truncated);
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests;
