//! JSON text in segments, most of which one version of a document shares with the next.
//!
//! A segment is either *inline*, written anew with each version, or a *piece*: a part that will not
//! change any more, known by a hash of its content. A table of ten thousand snapshots is a few hundred
//! pieces and some kilobytes between and behind them, so that a new version of it is rendered, kept and
//! answered at the price of those kilobytes.
//!
//! Pieces stand where what is left without them is still JSON: each ends with a comma, and something
//! inline follows it in the same list.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// How many bytes of a piece's SHA-256 make its name.
const HASH_BYTES: usize = 16;

/// What a piece is known by: the first half of the SHA-256 of its text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PieceHash(pub [u8; HASH_BYTES]);

impl PieceHash {
    /// The hash of a text.
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

/// A part of a document that does not change any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    hash: PieceHash,
    text: Bytes,
}

impl Piece {
    /// The piece with this text.
    pub fn new(text: Bytes) -> Self {
        Self { hash: PieceHash::of(&text), text }
    }

    /// The piece that was kept under this hash, which is taken at its word.
    pub fn kept(hash: PieceHash, text: Bytes) -> Self {
        Self { hash, text }
    }

    /// What it is known by.
    pub fn hash(&self) -> PieceHash {
        self.hash
    }

    /// Its text.
    pub fn text(&self) -> &Bytes {
        &self.text
    }
}

/// A part of a [`Text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Written with this version of the document.
    Inline(Bytes),
    /// Shared with other versions.
    Piece(Piece),
}

impl Segment {
    /// Its bytes.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Piece(piece) => &piece.text,
        }
    }
}

/// A JSON text. Cheap to clone; two are equal if their bytes are, however they are divided.
#[derive(Clone)]
pub struct Text {
    segments: Arc<[Segment]>,
    len: usize,
}

impl Text {
    /// The text of these segments, one behind the other.
    pub fn new(segments: Vec<Segment>) -> Self {
        let len = segments.iter().map(|segment| segment.bytes().len()).sum();
        Self { segments: segments.into(), len }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes at all, which no JSON text does.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its segments in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The bytes of its segments in order.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> + Clone {
        self.segments.iter().map(Segment::bytes)
    }

    /// Its pieces in order. A piece that stands in it twice comes twice.
    pub fn pieces(&self) -> impl DoubleEndedIterator<Item = &Piece> + Clone {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Inline(_) => None,
            Segment::Piece(piece) => Some(piece),
        })
    }

    /// What is left of it without its pieces: JSON too, with shorter lists.
    pub fn inline(&self) -> Bytes {
        let inline = self.segments.iter().filter_map(|segment| match segment {
            Segment::Inline(bytes) => Some(bytes),
            Segment::Piece(_) => None,
        });
        joined(inline)
    }

    /// All of it in one place. Free where it is in one place already.
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

/// Whether two texts of the same length are the same, however they are divided.
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

/// A text that is being written.
#[derive(Default)]
pub(super) struct TextWriter {
    segments: Vec<Segment>,
    inline: Vec<u8>,
}

impl TextWriter {
    /// Where the next bytes that are not shared go.
    pub(super) fn inline(&mut self) -> &mut Vec<u8> {
        &mut self.inline
    }

    /// Goes on with a piece that other versions share.
    pub(super) fn piece(&mut self, piece: &Piece) {
        self.end_inline();
        self.segments.push(Segment::Piece(piece.clone()));
    }

    /// Goes on with the JSON of a value.
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
    // Strings, numbers and checked JSON into memory: there is nothing that could fail.
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
