//! How a record becomes bytes: one version byte, then the body.
//!
//! Small records have JSON for a body, so that a later version can add a field without a migration and
//! a person can read one; table and view metadata is compressed with zstd. It is kept as a [`Head`],
//! which each version writes anew, and pieces, which versions share.

use std::collections::HashMap;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use slateberg_base::error_chain::Cause;
use slateberg_model::text::{Piece, PieceHash, Segment, Text};

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
    #[error(transparent)]
    Body(Cause),
}

/// A value that a key of the store can hold.
pub trait Value: Clone + Send + Sync + 'static {
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
            serde_json::from_slice(body).map_err(|error| DecodeError::Body(Cause::new(error)))
        }
        Some((&version, _)) => Err(DecodeError::Version(version)),
    }
}

/// A document that is whole: the version byte, the record's version, and its text compressed. What
/// earlier binaries wrote.
const WHOLE_DOCUMENT_VERSION: u8 = 1;
/// A document with pieces: the version byte, the record's version, the segments, and the inline ones
/// compressed as one.
const DOCUMENT_VERSION: u8 = 2;
/// The version of every piece.
const PIECE_VERSION: u8 = 1;
/// Level 1 halves the time of zstd's default for a few percent of size; metadata is written more often
/// than it is read back from here.
const ZSTD_LEVEL: i32 = 1;
/// The most bytes that a document may unfold to: bounds what a corrupt length can make us allocate.
const DOCUMENT_BYTES_MAX: usize = 1 << 30;

/// The metadata of a table or view at one version of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The version of the record that this is the metadata of.
    pub version: u64,
    /// The JSON text, exactly as the metadata file has it.
    pub text: Text,
}

impl Document {
    /// What is kept of it under its own key. Its pieces have keys of theirs.
    pub fn head(&self) -> Head {
        let segment = |segment: &Segment| match segment {
            Segment::Inline(bytes) => HeadSegment::Inline(bytes.len()),
            Segment::Piece(piece) => HeadSegment::Piece(piece.hash(), piece.text().len()),
        };
        let segments = self.text.segments().iter().map(segment).collect();
        Head { version: self.version, segments, inline: self.text.inline() }
    }
}

/// A document without the texts of its pieces: nothing that could be shown to anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    version: u64,
    segments: Vec<HeadSegment>,
    inline: Bytes,
}

/// A segment, and its length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadSegment {
    Inline(usize),
    Piece(PieceHash, usize),
}

impl HeadSegment {
    fn len(self) -> usize {
        match self {
            Self::Inline(len) | Self::Piece(_, len) => len,
        }
    }
}

/// The marks of segments in a head.
const INLINE_MARK: u8 = 0;
const PIECE_MARK: u8 = 1;

impl Head {
    /// The same metadata, as that of another version of its record.
    pub fn at_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    /// The hashes of its pieces, in order. One that stands in it twice comes twice.
    pub fn pieces(&self) -> impl Iterator<Item = PieceHash> {
        self.segments.iter().filter_map(|segment| match segment {
            HeadSegment::Inline(_) => None,
            HeadSegment::Piece(hash, _) => Some(*hash),
        })
    }

    /// The document, with the pieces that were found; the hash of the first that is not among them, or
    /// has another length, if there is one.
    pub fn complete(&self, pieces: &HashMap<PieceHash, Bytes>) -> Result<Document, PieceHash> {
        let mut at = 0;
        let segment = |segment: &HeadSegment| match segment {
            HeadSegment::Inline(len) => {
                at += len;
                Ok(Segment::Inline(self.inline.slice(at - len..at)))
            }
            HeadSegment::Piece(hash, len) => {
                let text = pieces.get(hash).filter(|text| text.len() == *len).ok_or(*hash)?;
                Ok(Segment::Piece(Piece::kept(*hash, text.clone())))
            }
        };
        let segments = self.segments.iter().map(segment).collect::<Result<_, _>>()?;
        Ok(Document { version: self.version, text: Text::new(segments) })
    }
}

impl Value for Head {
    fn encode(&self) -> Vec<u8> {
        let compressed = compress(&self.inline);
        let segments_bytes = self.segments.len() * (1 + 4 + 16);
        let mut bytes = Vec::with_capacity(1 + 8 + 4 + segments_bytes + compressed.len());
        bytes.push(DOCUMENT_VERSION);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&length(self.segments.len()));
        for segment in &self.segments {
            match segment {
                HeadSegment::Inline(len) => {
                    bytes.push(INLINE_MARK);
                    bytes.extend_from_slice(&length(*len));
                }
                HeadSegment::Piece(hash, len) => {
                    bytes.push(PIECE_MARK);
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

/// A piece of a document: its text, compressed. What it is known by is its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceText(pub Bytes);

impl Value for PieceText {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![PIECE_VERSION];
        bytes.extend_from_slice(&compress(&self.0));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input(bytes);
        match input.take()? {
            [PIECE_VERSION] => decompress(input.0, DOCUMENT_BYTES_MAX).map(Self),
            [unknown] => Err(DecodeError::Version(unknown)),
        }
    }
}

/// Bytes that are being read.
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
            [INLINE_MARK] => Ok(HeadSegment::Inline(self.length()?)),
            [PIECE_MARK] => {
                let len = self.length()?;
                Ok(HeadSegment::Piece(PieceHash(self.take()?), len))
            }
            [mark] => Err(DecodeError::Body(Cause::new(format!("unknown kind of segment {mark}")))),
        }
    }
}

/// A length as it is kept.
fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("a document is shorter than 4 GiB").to_be_bytes()
}

/// The sum of lengths, if a document can be so long.
fn bounded(mut lengths: impl Iterator<Item = usize>) -> Result<usize, DecodeError> {
    let sum = lengths.try_fold(0_usize, |sum, len| {
        sum.checked_add(len).filter(|sum| *sum <= DOCUMENT_BYTES_MAX)
    });
    sum.ok_or_else(|| DecodeError::Body(Cause::new("too long for a document")))
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, ZSTD_LEVEL).expect("compressing into memory cannot fail")
}

fn decompress(bytes: &[u8], bytes_max: usize) -> Result<Bytes, DecodeError> {
    let length = zstd::bulk::Decompressor::upper_bound(bytes).unwrap_or(bytes_max);
    let text = zstd::bulk::decompress(bytes, length.min(bytes_max))
        .map_err(|error| DecodeError::Body(Cause::new(error)))?;
    if text.is_empty() && bytes_max > 0 {
        return Err(DecodeError::Truncated);
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests;
