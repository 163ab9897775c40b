//! [`SegmentedJson`]: a JSON document in segments. The versions of a document share most segments.
//!
//! There are two kinds of segments. *Inline* JSON is written again for each version. A *chunk*
//! never changes, and is identified by a hash of its content. A table with ten thousand snapshots
//! has a few hundred chunks and some kilobytes of inline JSON. The cost to render, store and send a
//! new version depends only on these kilobytes.
//!
//! Each chunk ends with a comma, and inline JSON in the same list follows it. So the document is
//! still valid JSON without its chunks.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::deflate::{Deflated, Deflater, Joiner};

/// Length of a chunk's hash, in bytes. SHA-256 is longer, so its result is shortened.
const HASH_BYTES: usize = 16;

/// The identifier of a chunk: the first half of the SHA-256 of its content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkHash(pub [u8; HASH_BYTES]);

impl ChunkHash {
    /// Returns the hash of some bytes.
    pub fn of(text: &[u8]) -> Self {
        let digest = Sha256::digest(text);
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&digest[..HASH_BYTES]);
        Self(hash)
    }
}

impl fmt::Debug for ChunkHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The compressed form of a document or chunk has about a fifth of its length.
const COMPRESSION_RATIO: usize = 5;

/// A part of a document that does not change again.
#[derive(Debug, Clone)]
pub struct Chunk {
    hash: ChunkHash,
    text: Bytes,
    /// The compressed form, as soon as a file or response has needed it. Clones share it.
    deflated: Arc<OnceLock<Deflated>>,
}

impl Chunk {
    /// Creates a chunk with this content.
    pub fn new(text: Bytes) -> Self {
        Self::from_stored(ChunkHash::of(&text), text)
    }

    /// Creates a chunk that was stored under this hash. Does not verify the hash.
    pub fn from_stored(hash: ChunkHash, text: Bytes) -> Self {
        Self { hash, text, deflated: Arc::default() }
    }

    /// Returns the hash.
    pub fn hash(&self) -> ChunkHash {
        self.hash
    }

    /// Returns the content.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// Returns the compressed content. Compresses it at the first call.
    fn deflated_by(&self, deflater: &mut Deflater) -> &Deflated {
        self.deflated.get_or_init(|| deflater.deflate(&self.text))
    }
}

impl PartialEq for Chunk {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

impl Eq for Chunk {}

/// A part of a [`SegmentedJson`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Bytes that belong to this version of the document only.
    Inline(Bytes),
    /// Bytes that versions of the document share.
    Chunk(Chunk),
}

impl Segment {
    /// Returns the bytes of the segment.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Chunk(chunk) => &chunk.text,
        }
    }
}

/// A JSON document in segments. Clones are cheap. Two documents are equal if their bytes are equal,
/// even if the segments differ.
#[derive(Clone)]
pub struct SegmentedJson {
    segments: Arc<[Segment]>,
    len: usize,
    /// The compressed form, as soon as a file or response has needed it. Clones share it.
    deflated: Arc<OnceLock<Deflated>>,
}

impl SegmentedJson {
    /// Creates a document from consecutive segments.
    pub fn new(segments: Vec<Segment>) -> Self {
        let len = segments.iter().map(|segment| segment.bytes().len()).sum();
        Self { segments: segments.into(), len, deflated: Arc::default() }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the approximate size in memory, including the compressed forms of the document and
    /// of its chunks.
    pub fn memory_bytes(&self) -> usize {
        let chunks: usize = self.chunks().map(|chunk| chunk.text.len()).sum();
        self.len + (self.len + chunks) / COMPRESSION_RATIO
    }

    /// Whether a part of the document is shared with other versions.
    pub fn has_chunks(&self) -> bool {
        self.chunks().next().is_some()
    }

    /// Returns the number of bytes that are not compressed yet.
    pub fn bytes_to_compress(&self) -> usize {
        if self.deflated.get().is_some() {
            return 0;
        }
        let compressed = self.chunks().filter(|chunk| chunk.deflated.get().is_some());
        self.len - compressed.map(|chunk| chunk.text.len()).sum::<usize>()
    }

    /// Returns the compressed document. At the first call, compresses inline JSON, and chunks that
    /// were not compressed for another version.
    pub(super) fn deflated_by(&self, deflater: &mut Deflater) -> &Deflated {
        self.deflated.get_or_init(|| {
            let mut joiner = Joiner::with_capacity(self.len / COMPRESSION_RATIO);
            for segment in self.segments() {
                match segment {
                    Segment::Inline(bytes) => joiner.add(&deflater.deflate(bytes)),
                    Segment::Chunk(chunk) => joiner.add(chunk.deflated_by(deflater)),
                }
            }
            joiner.finish()
        })
    }

    /// Whether the document is empty. Valid JSON never is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the segments, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the bytes of the segments, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> + Clone {
        self.segments.iter().map(Segment::bytes)
    }

    /// Returns the chunks, in order. A chunk that occurs twice is returned twice.
    pub fn chunks(&self) -> impl DoubleEndedIterator<Item = &Chunk> + Clone {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Inline(_) => None,
            Segment::Chunk(chunk) => Some(chunk),
        })
    }

    /// Returns the document without its chunks. It is valid JSON with shorter lists.
    pub fn inline(&self) -> Bytes {
        let inline = self.segments.iter().filter_map(|segment| match segment {
            Segment::Inline(bytes) => Some(bytes),
            Segment::Chunk(_) => None,
        });
        joined(inline)
    }

    /// Returns the document as contiguous bytes. Does not copy a document of one segment.
    pub fn to_bytes(&self) -> Bytes {
        joined(self.parts())
    }
}

fn joined<'a>(parts: impl Iterator<Item = &'a Bytes> + Clone) -> Bytes {
    let mut rest = parts.clone();
    match (rest.next(), rest.next()) {
        (None, _) => Bytes::new(),
        (Some(only), None) => only.clone(),
        _ => {
            let mut all = Vec::with_capacity(parts.clone().map(Bytes::len).sum());
            parts.for_each(|part| all.extend_from_slice(part));
            all.into()
        }
    }
}

impl fmt::Debug for SegmentedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentedJson({} bytes in {} segments)", self.len, self.segments.len())
    }
}

impl PartialEq for SegmentedJson {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.segments, &other.segments)
            || (self.len == other.len && have_equal_bytes(self.parts(), other.parts()))
    }
}

impl Eq for SegmentedJson {}

impl PartialEq<Bytes> for SegmentedJson {
    fn eq(&self, other: &Bytes) -> bool {
        self.len == other.len() && have_equal_bytes(self.parts(), std::iter::once(other))
    }
}

/// Whether two documents of the same length are equal, even if their segments differ.
fn have_equal_bytes<'a>(
    mut left: impl Iterator<Item = &'a Bytes>,
    mut right: impl Iterator<Item = &'a Bytes>,
) -> bool {
    let (mut l, mut r): (&[u8], &[u8]) = (&[], &[]);
    loop {
        while l.is_empty() {
            match left.next() {
                Some(part) => l = part,
                None => return true,
            }
        }
        while r.is_empty() {
            match right.next() {
                Some(part) => r = part,
                None => return true,
            }
        }
        let length = l.len().min(r.len());
        if l[..length] != r[..length] {
            return false;
        }
        (l, r) = (&l[length..], &r[length..]);
    }
}

impl From<Bytes> for SegmentedJson {
    fn from(bytes: Bytes) -> Self {
        Self::new(vec![Segment::Inline(bytes)])
    }
}

impl From<Vec<u8>> for SegmentedJson {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&'static str> for SegmentedJson {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

/// A document that is being written.
#[derive(Default)]
pub(super) struct SegmentedJsonWriter {
    segments: Vec<Segment>,
    inline: Vec<u8>,
}

impl SegmentedJsonWriter {
    /// Returns the buffer for bytes that are not shared.
    pub(super) fn inline(&mut self) -> &mut Vec<u8> {
        &mut self.inline
    }

    /// Appends a chunk that other versions share.
    pub(super) fn chunk(&mut self, chunk: &Chunk) {
        self.end_inline();
        self.segments.push(Segment::Chunk(chunk.clone()));
    }

    /// Reserves memory for bytes that are not shared.
    pub(super) fn reserve(&mut self, bytes: usize) -> &mut Self {
        self.inline.reserve(bytes);
        self
    }

    /// Appends the JSON of a value.
    pub(super) fn json(&mut self, value: &(impl Serialize + ?Sized)) {
        write_json(&mut self.inline, value);
    }

    pub(super) fn finish(mut self) -> SegmentedJson {
        self.end_inline();
        SegmentedJson::new(self.segments)
    }

    fn end_inline(&mut self) {
        if !self.inline.is_empty() {
            let inline = std::mem::take(&mut self.inline);
            self.segments.push(Segment::Inline(inline.into()));
        }
    }
}

/// Writes the JSON of a value.
pub(super) fn write_json(out: impl io::Write, value: &(impl Serialize + ?Sized)) {
    // Writing strings, numbers and validated JSON into memory cannot fail.
    serde_json::to_writer(out, value).expect("metadata always serializes into memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: &[&'static str]) -> SegmentedJson {
        let segment = |(at, part): (usize, &&'static str)| {
            let bytes = Bytes::from_static(part.as_bytes());
            if at % 2 == 0 { Segment::Inline(bytes) } else { Segment::Chunk(Chunk::new(bytes)) }
        };
        SegmentedJson::new(parts.iter().enumerate().map(segment).collect())
    }

    #[test]
    fn documents_with_equal_bytes_are_equal_in_any_segments() {
        let whole = text(&["[1,2,3]"]);
        for parts in [&["[", "1,", "2,3]"][..], &["[1", ",2,", "", "3]", ""], &["", "[1,2,3]"]] {
            let divided = text(parts);
            assert_eq!(divided, whole);
            assert_eq!(whole, divided);
            assert_eq!(divided, divided.to_bytes());
            assert_eq!(divided.len(), whole.len());
        }
        assert_ne!(text(&["[", "1,", "2,4]"]), whole);
        assert_ne!(text(&["[", "1,", "2]"]), whole);
    }

    #[test]
    fn inline_json_is_the_document_without_its_chunks() {
        let divided = text(&["[", "1,", "2,3]"]);
        assert_eq!(divided.inline(), "[2,3]");
        assert_eq!(divided.to_bytes(), "[1,2,3]");
        let chunks: Vec<_> = divided.chunks().collect();
        assert_eq!(chunks, [&Chunk::new("1,".into())]);
    }

    #[test]
    fn document_of_one_segment_is_not_copied() {
        let bytes = Bytes::from(vec![b'x'; 100]);
        assert_eq!(SegmentedJson::from(bytes.clone()).to_bytes().as_ptr(), bytes.as_ptr());
    }
}
