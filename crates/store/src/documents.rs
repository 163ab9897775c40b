//! Documents: a head that each version writes, and chunks that versions share.
//!
//! A chunk exists exactly as long as the head references it: both change in one batch. A reader
//! that finds a head without all of its chunks has met a commit between two reads, and reads the
//! head again.

use std::collections::HashSet;

use uuid::Uuid;

use super::codec::{Document, PieceText};
use super::error::Error;
use super::keys::{MetadataKey, PieceKey};
use super::read::Read;
use super::txn::Transaction;
use slateberg_model::text::{Piece, PieceHash, Text};

impl Transaction {
    /// Writes a document. `before` is the JSON that it replaces, exactly as stored. Otherwise
    /// chunks would be lost or left behind.
    pub fn put_document(
        &self,
        id: Uuid,
        before: Option<&Text>,
        document: &Document,
    ) -> Result<(), Error> {
        self.put(&MetadataKey(id), &document.head())?;
        let changes = Changes::between(before, &document.text);
        for piece in changes.new {
            let key = PieceKey { id, hash: piece.hash() };
            self.put(&key, &PieceText(piece.text().clone()))?;
        }
        for hash in changes.gone {
            self.delete(&PieceKey { id, hash })?;
        }
        Ok(())
    }

    /// Removes a document with its chunks.
    pub async fn delete_document(&self, id: Uuid) -> Result<(), Error> {
        let Some(head) = self.get(&MetadataKey(id)).await? else { return Ok(()) };
        for hash in head.pieces() {
            self.delete(&PieceKey { id, hash })?;
        }
        self.delete(&MetadataKey(id))
    }
}

/// Changes of chunks when one document replaces another.
struct Changes<'a> {
    new: Vec<&'a Piece>,
    gone: HashSet<PieceHash>,
}

impl<'a> Changes<'a> {
    /// Most chunks are equal at the beginning or at the end, which needs no lookup.
    fn between(before: Option<&Text>, after: &'a Text) -> Self {
        let old: Vec<PieceHash> =
            before.into_iter().flat_map(Text::pieces).map(Piece::hash).collect();
        let new: Vec<&Piece> = after.pieces().collect();
        let same = |(old, new): &(&PieceHash, &&Piece)| **old == new.hash();
        let first = old.iter().zip(&new).take_while(same).count();
        let (old, changed) = (&old[first..], &new[first..]);
        let last = old.iter().rev().zip(changed.iter().rev()).take_while(same).count();
        let (old, changed) = (&old[..old.len() - last], &changed[..changed.len() - last]);
        let mut gone: HashSet<PieceHash> = old.iter().copied().collect();
        if !gone.is_empty() {
            new.iter().for_each(|piece| {
                gone.remove(&piece.hash());
            });
        }
        Self { new: changed.to_vec(), gone }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use slateberg_model::text::Segment;

    fn text(pieces: &[u8]) -> Text {
        let piece = |byte: &u8| Segment::Piece(Piece::new(Bytes::copy_from_slice(&[*byte])));
        Text::new(pieces.iter().map(piece).collect())
    }

    fn hashes(pieces: &[u8]) -> HashSet<PieceHash> {
        pieces.iter().map(|byte| PieceHash::of(&[*byte])).collect()
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_the_new_text_names(
            before in prop::collection::vec(0..12_u8, 0..20),
            after in prop::collection::vec(0..12_u8, 0..20),
        ) {
            let (old, new) = (text(&before), text(&after));
            let changes = Changes::between(Some(&old), &new);
            let mut kept = hashes(&before);
            kept.extend(changes.new.iter().map(|piece| piece.hash()));
            kept.retain(|hash| !changes.gone.contains(hash));
            prop_assert_eq!(kept, hashes(&after));
        }
    }

    #[test]
    fn an_append_writes_one_piece_and_removes_none() {
        let (old, new) = (text(&[1, 2, 3, 10, 11]), text(&[1, 2, 3, 4, 10, 11]));
        let changes = Changes::between(Some(&old), &new);
        assert_eq!(changes.new, [&Piece::new(Bytes::from_static(&[4]))]);
        assert!(changes.gone.is_empty());
    }

    #[test]
    fn a_new_document_writes_them_all() {
        assert_eq!(Changes::between(None, &text(&[1, 2, 3])).new.len(), 3);
    }
}
