//! [`ListBlocks`]: encoded entries that consecutive manifest lists share.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::encode::{self, ListHeader};
use slateberg_model::manifest_file::ManifestFile;

/// Number of entries of a full block.
const ENTRIES_MAX: usize = 256;
/// When there are this many blocks of the same level at the front, they are merged into a larger
/// block.
const MERGED_BLOCKS: usize = 16;
/// Memory that an entry takes in addition to its path, in bytes.
const ENTRY_BYTES: usize = 256;

/// The entries of a manifest list. A clone of this value shares all blocks.
#[derive(Debug, Clone)]
pub struct ListBlocks {
    format_version: u8,
    sync: Uuid,
    /// The blocks in reverse order: the newest block is the last.
    blocks: Vec<Arc<Block>>,
    len: usize,
}

/// Entries, and their encoding as a block of an Avro file.
#[derive(Debug)]
struct Block {
    entries: Vec<ManifestFile>,
    encoded: Bytes,
    /// Number of times that the entries of this block were merged into a larger block.
    level: u8,
}

impl ListBlocks {
    /// Encodes entries for tables of this format version. All lists that share blocks have the same
    /// `sync` marker.
    pub fn new(format_version: u8, sync: Uuid, entries: Vec<ManifestFile>) -> Self {
        let empty = Self { format_version, sync, blocks: Vec::new(), len: entries.len() };
        let chunks = entries.chunks(ENTRIES_MAX).rev();
        let blocks = chunks.map(|it| empty.block(it.to_vec(), u8::MAX)).collect();
        Self { blocks, ..empty }
    }

    /// Returns these entries with further entries in front.
    ///
    /// Encodes only the new entries. From time to time, also merges small blocks at the front. So a
    /// list has few blocks, and each entry is encoded only a few times in total.
    #[must_use]
    pub fn prepend(&self, own: Vec<ManifestFile>) -> Self {
        let mut all = self.clone();
        all.len += own.len();
        let block = all.block(own, 0);
        all.blocks.push(block);
        while let Some(merged) = all.mergeable() {
            let at = all.blocks.len() - merged;
            let small = all.blocks.split_off(at);
            let level = small.first().map_or(0, |block| block.level).saturating_add(1);
            let entries = small.iter().rev().flat_map(|block| block.entries.clone()).collect();
            let block = all.block(entries, level);
            all.blocks.push(block);
        }
        all
    }

    /// Returns the list without the manifests with these paths. Encodes only the blocks that
    /// contain such a manifest.
    #[must_use]
    pub fn without(&self, paths: &HashSet<&str>) -> Self {
        let is_removed = |it: &ManifestFile| paths.contains(it.path.as_str());
        let mut all = Self { blocks: Vec::with_capacity(self.blocks.len()), len: 0, ..*self };
        for block in &self.blocks {
            let block = if block.entries.iter().any(is_removed) {
                let entries = block.entries.iter().filter(|it| !is_removed(it)).cloned().collect();
                self.block(entries, block.level)
            } else {
                Arc::clone(block)
            };
            if !block.entries.is_empty() {
                all.len += block.entries.len();
                all.blocks.push(block);
            }
        }
        all
    }

    /// Returns the number of blocks at the front that should be merged now, if any.
    fn mergeable(&self) -> Option<usize> {
        let level = self.blocks.last()?.level;
        let same = self.blocks.iter().rev().take_while(|block| block.level == level);
        let (count, entries) =
            same.fold((0, 0), |(count, sum), block| (count + 1, sum + block.entries.len()));
        (count >= MERGED_BLOCKS && entries <= ENTRIES_MAX).then_some(count)
    }

    fn block(&self, entries: Vec<ManifestFile>, level: u8) -> Arc<Block> {
        let encoded = encode::block(self.format_version, self.sync, &entries);
        Arc::new(Block { entries, encoded, level })
    }

    /// Returns the entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &ManifestFile> {
        self.blocks.iter().rev().flat_map(|block| &block.entries)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the memory that the entries take, in bytes.
    pub fn bytes(&self) -> usize {
        let entry = |it: &ManifestFile| it.path.len() + ENTRY_BYTES;
        let block =
            |it: &Arc<Block>| it.encoded.len() + it.entries.iter().map(entry).sum::<usize>();
        self.blocks.iter().map(block).sum()
    }

    /// Returns the number of blocks.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns a manifest list with this header and these entries.
    pub fn to_file(&self, header: &ListHeader) -> Bytes {
        let mut file = encode::header(header, self.sync);
        for block in self.blocks.iter().rev() {
            file.extend_from_slice(&block.encoded);
        }
        file.into()
    }
}
