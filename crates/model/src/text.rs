//! JSON in segments, most of which are shared between the versions of a document.
//!
//! A segment is either *inline*, written again for each version, or a *piece*: a part that will not
//! change again, identified by a hash of its content. A table with ten thousand snapshots has a few
//! hundred pieces and some kilobytes of inline JSON, so the cost to render, store and send a new
//! version is that of those kilobytes.
//!
//! Removing the pieces leaves valid JSON: each piece ends with a comma, and inline JSON follows it
//! in the same list.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Number of bytes of a piece's SHA-256 that form its hash.
const HASH_BYTES: usize = 16;

/// The identifier of a piece: the first half of the SHA-256 of its content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PieceHash(pub [u8; HASH_BYTES]);

impl PieceHash {
    /// Returns the hash of some bytes.
    pub fn of(text: &[u8]) -> Self {
        let digest = Sha256::digest(text);
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&digest[..HASH_BYTES]);
        Self(hash)
    }
}

impl fmt::Debug for PieceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A part of a document that does not change again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    hash: PieceHash,
    text: Bytes,
}

impl Piece {
    /// Creates a piece with this content.
    pub fn new(text: Bytes) -> Self {
        Self { hash: PieceHash::of(&text), text }
    }

    /// Creates a piece that was stored under this hash. Does not verify the hash.
    pub fn kept(hash: PieceHash, text: Bytes) -> Self {
        Self { hash, text }
    }

    /// Returns the hash.
    pub fn hash(&self) -> PieceHash {
        self.hash
    }

    /// Returns the content.
    pub fn text(&self) -> &Bytes {
        &self.text
    }
}

/// A part of a [`Text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Bytes that belong to this version of the document only.
    Inline(Bytes),
    /// Bytes that versions of the document share.
    Piece(Piece),
}

impl Segment {
    /// Returns the bytes of the segment.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Piece(piece) => &piece.text,
        }
    }
}

/// A JSON document in segments. Clones are cheap. Equality compares the bytes and ignores the
/// division into segments.
#[derive(Clone)]
pub struct Text {
    segments: Arc<[Segment]>,
    len: usize,
}

impl Text {
    /// Creates a text from consecutive segments.
    pub fn new(segments: Vec<Segment>) -> Self {
        let len = segments.iter().map(|segment| segment.bytes().len()).sum();
        Self { segments: segments.into(), len }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the text is empty. Valid JSON never is.
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

    /// Returns the pieces, in order. A piece that occurs twice is returned twice.
    pub fn pieces(&self) -> impl DoubleEndedIterator<Item = &Piece> + Clone {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Inline(_) => None,
            Segment::Piece(piece) => Some(piece),
        })
    }

    /// Returns the text without its pieces. It is valid JSON with shorter lists.
    pub fn inline(&self) -> Bytes {
        let inline = self.segments.iter().filter_map(|segment| match segment {
            Segment::Inline(bytes) => Some(bytes),
            Segment::Piece(_) => None,
        });
        joined(inline)
    }

    /// Returns the text as contiguous bytes. Does not copy a text of one segment.
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

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes in {} segments)", self.len, self.segments.len())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.segments, &other.segments)
            || (self.len == other.len && same(self.parts(), other.parts()))
    }
}

impl Eq for Text {}

impl PartialEq<Bytes> for Text {
    fn eq(&self, other: &Bytes) -> bool {
        self.len == other.len() && same(self.parts(), std::iter::once(other))
    }
}

/// Whether two texts of the same length are equal, however they are divided.
fn same<'a>(
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

impl From<Bytes> for Text {
    fn from(bytes: Bytes) -> Self {
        Self::new(vec![Segment::Inline(bytes)])
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

/// A text during writing.
#[derive(Default)]
pub(super) struct TextWriter {
    segments: Vec<Segment>,
    inline: Vec<u8>,
}

impl TextWriter {
    /// Returns the buffer for bytes that are not shared.
    pub(super) fn inline(&mut self) -> &mut Vec<u8> {
        &mut self.inline
    }

    /// Appends a piece that other versions share.
    pub(super) fn piece(&mut self, piece: &Piece) {
        self.end_inline();
        self.segments.push(Segment::Piece(piece.clone()));
    }

    /// Appends the JSON of a value.
    pub(super) fn json(&mut self, value: &(impl Serialize + ?Sized)) {
        write_json(&mut self.inline, value);
    }

    pub(super) fn finish(mut self) -> Text {
        self.end_inline();
        Text::new(self.segments)
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
    // Strings, numbers and validated JSON written to memory cannot fail.
    serde_json::to_writer(out, value).expect("metadata always serializes into memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: &[&'static str]) -> Text {
        let segment = |(at, part): (usize, &&'static str)| {
            let bytes = Bytes::from_static(part.as_bytes());
            if at % 2 == 0 { Segment::Inline(bytes) } else { Segment::Piece(Piece::new(bytes)) }
        };
        Text::new(parts.iter().enumerate().map(segment).collect())
    }

    #[test]
    fn equal_is_what_has_equal_bytes() {
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
    fn what_is_left_without_pieces_is_what_is_inline() {
        let divided = text(&["[", "1,", "2,3]"]);
        assert_eq!(divided.inline(), "[2,3]");
        assert_eq!(divided.to_bytes(), "[1,2,3]");
        let pieces: Vec<_> = divided.pieces().collect();
        assert_eq!(pieces, [&Piece::new("1,".into())]);
    }

    #[test]
    fn a_text_in_one_place_is_not_copied() {
        let bytes = Bytes::from(vec![b'x'; 100]);
        assert_eq!(Text::from(bytes.clone()).to_bytes().as_ptr(), bytes.as_ptr());
    }
}
