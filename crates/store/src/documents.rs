//! Documents: the metadata of a table or view, as a head and chunks. Each version has its own head,
//! but versions share chunks.
//!
//! A chunk exists exactly while the head references it, because both change in one batch. If a
//! reader finds a head but not all of its chunks, a commit happened between these two reads. The
//! reader then reads the head again, and after some attempts a snapshot of the store.

use std::collections::HashSet;

use uuid::Uuid;

use super::codec::{ChunkBytes, Document, EncodedHead};
use super::error::Error;
use super::keys::{
    ChunkKey, Key, LabelsKey, MetadataKey, MetricsReportsKey, OrphanSearchKey, UsageKey,
};
use super::read::StoreRead;
use super::txn::Transaction;
use slateberg_base::boxed;
use slateberg_model::segmented_json::{Chunk, ChunkHash, SegmentedJson};

impl Transaction {
    /// Writes a document, and returns its encoded head. `before` must be the JSON that the document
    /// replaces, exactly as stored. It is compared with the new JSON to find the chunks to add and
    /// to remove.
    ///
    /// If chunks are removed, waits until all metadata files of the table or view are synced,
    /// because they could not be restored without these chunks.
    #[boxed]
    pub async fn put_document(
        &self,
        id: Uuid,
        before: Option<&SegmentedJson>,
        document: &Document,
    ) -> Result<EncodedHead, Error> {
        let head = EncodedHead::of(&document.head());
        self.put_at(MetadataKey(id).encode(), head.as_bytes())?;
        let changes = ChunkChanges::between(before, &document.text);
        if !changes.removed.is_empty() {
            self.store.shared.unsynced.wait_synced(id).await?;
        }
        for chunk in changes.new {
            let key = ChunkKey { id, hash: chunk.hash() };
            self.put(&key, &ChunkBytes(chunk.text().clone()))?;
        }
        for hash in changes.removed {
            self.delete(&ChunkKey { id, hash })?;
        }
        Ok(head)
    }

    /// Removes a document with its chunks, and the other records with the id of its table or view:
    /// the counts of its uses, its labels, its metrics reports, and its last search for orphans.
    /// Waits until all metadata files of the table or view are synced.
    #[boxed]
    pub async fn delete_document(&self, id: Uuid) -> Result<(), Error> {
        self.delete(&UsageKey(id))?;
        self.delete(&OrphanSearchKey(id))?;
        self.delete(&LabelsKey(id))?;
        self.delete(&MetricsReportsKey(id))?;
        let Some(head) = self.get(&MetadataKey(id)).await? else { return Ok(()) };
        self.store.shared.unsynced.wait_synced(id).await?;
        for hash in head.chunks() {
            self.delete(&ChunkKey { id, hash })?;
        }
        self.delete(&MetadataKey(id))
    }
}

/// Changes of chunks when one document replaces another.
struct ChunkChanges<'a> {
    new: Vec<&'a Chunk>,
    removed: HashSet<ChunkHash>,
}

impl<'a> ChunkChanges<'a> {
    /// Compares the chunks of two documents. Most of the equal chunks are at the beginning or at
    /// the end of both documents. There, they are compared in order, without a lookup.
    fn between(before: Option<&SegmentedJson>, after: &'a SegmentedJson) -> Self {
        let old: Vec<ChunkHash> =
            before.into_iter().flat_map(SegmentedJson::chunks).map(Chunk::hash).collect();
        let new: Vec<&Chunk> = after.chunks().collect();
        let same = |(old, new): &(&ChunkHash, &&Chunk)| **old == new.hash();
        let first = old.iter().zip(&new).take_while(same).count();
        let (old, changed) = (&old[first..], &new[first..]);
        let last = old.iter().rev().zip(changed.iter().rev()).take_while(same).count();
        let (old, changed) = (&old[..old.len() - last], &changed[..changed.len() - last]);
        let mut removed: HashSet<ChunkHash> = old.iter().copied().collect();
        if !removed.is_empty() {
            new.iter().for_each(|chunk| {
                removed.remove(&chunk.hash());
            });
        }
        Self { new: changed.to_vec(), removed }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use slateberg_model::segmented_json::Segment;

    fn text(chunks: &[u8]) -> SegmentedJson {
        let chunk = |byte: &u8| Segment::Chunk(Chunk::new(Bytes::copy_from_slice(&[*byte])));
        SegmentedJson::new(chunks.iter().map(chunk).collect())
    }

    fn hashes(chunks: &[u8]) -> HashSet<ChunkHash> {
        chunks.iter().map(|byte| ChunkHash::of(&[*byte])).collect()
    }

    proptest! {
        #[test]
        fn chunks_after_a_change_are_those_of_the_new_document(
            before in prop::collection::vec(0..12_u8, 0..20),
            after in prop::collection::vec(0..12_u8, 0..20),
        ) {
            let (old, new) = (text(&before), text(&after));
            let changes = ChunkChanges::between(Some(&old), &new);
            let mut remaining = hashes(&before);
            remaining.extend(changes.new.iter().map(|chunk| chunk.hash()));
            remaining.retain(|hash| !changes.removed.contains(hash));
            prop_assert_eq!(remaining, hashes(&after));
        }
    }

    #[test]
    fn append_writes_one_chunk_and_removes_none() {
        let (old, new) = (text(&[1, 2, 3, 10, 11]), text(&[1, 2, 3, 4, 10, 11]));
        let changes = ChunkChanges::between(Some(&old), &new);
        assert_eq!(changes.new, [&Chunk::new(Bytes::from_static(&[4]))]);
        assert!(changes.removed.is_empty());
    }

    #[test]
    fn new_document_writes_all_chunks() {
        assert_eq!(ChunkChanges::between(None, &text(&[1, 2, 3])).new.len(), 3);
    }
}
