//! Checks sorted runs: reads all blocks, filters and indexes, and verifies their checksums.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use bytes::{Buf, Bytes};
use slatedb::manifest::SsTableHandle;
use slatedb::object_store::path::Path;
use slatedb::object_store::{Error as StoreError, ObjectStoreExt};
use slatedb::{PathResolver, SstReader, VersionedManifest};

use super::content::{Content, content};
use crate::builder::sealed_blocks;
use crate::checkpoints::admin;
use crate::encryption::UnlockedKeys;
use crate::error::{Error, encryption_failure};
use crate::location::StoreLocation;
use slateberg_wal::DamagedFile;

/// Size of a read of data blocks.
const READ_BYTES: u64 = 8 << 20;
/// Size of the footer after the metadata of a sorted run. The footer contains an offset and the
/// version of the format.
const FOOTER_BYTES: usize = 10;
/// Size of a checksum.
const CHECKSUM_BYTES: usize = 4;
/// Advice for files that only checkpoints need.
pub(super) const DELETE_CHECKPOINT: &str =
    "Restore this file from a copy, or delete the checkpoints that need it";

/// A sorted run.
pub(super) struct SortedRun {
    pub(super) path: Path,
    handle: SsTableHandle,
    /// Whether the newest manifest references the run. Otherwise, only checkpoints reference it.
    pub(super) is_newest: bool,
}

/// The sorted runs of a store.
pub(super) struct SortedRuns;

impl SortedRuns {
    /// Returns the sorted runs that the newest manifest and the checkpoints reference.
    pub(super) fn of(
        location: &StoreLocation,
        manifests: &BTreeMap<u64, VersionedManifest>,
        newest: &VersionedManifest,
        damaged: &mut Vec<DamagedFile>,
    ) -> Vec<SortedRun> {
        let mut needed = vec![newest];
        for pinned in newest.checkpoints() {
            match manifests.get(&pinned.manifest_id) {
                Some(manifest) => needed.push(manifest),
                None => damaged.push(DamagedFile {
                    file: format!("manifest/{:020}.manifest", pinned.manifest_id),
                    reason: format!("is missing or damaged, but checkpoint {} needs it", pinned.id),
                    advice: DELETE_CHECKPOINT,
                }),
            }
        }
        let mut seen = HashSet::new();
        let mut runs = Vec::new();
        for manifest in needed {
            let paths = PathResolver::new(location.path.as_str(), manifest);
            for view in manifest.all_sst_views() {
                let path = paths.sst_path(&view.sst.id);
                if seen.insert(path.clone()) {
                    let is_newest = manifest.id() == newest.id();
                    runs.push(SortedRun { path, handle: view.sst.clone(), is_newest });
                }
            }
        }
        runs
    }
}

impl SortedRun {
    /// Returns the damage of a sorted run, if it has any.
    pub(super) async fn check(
        &self,
        location: &StoreLocation,
        unlocked: Option<&UnlockedKeys>,
    ) -> Result<Option<String>, Error> {
        let size = match location.object_store.head(&self.path).await {
            Ok(found) => found.size,
            Err(StoreError::NotFound { .. }) => return Ok(Some("is missing".to_owned())),
            Err(error) => return Err(Error::unavailable(error)),
        };
        let info = &self.handle.info;
        let parts = [
            ("filter", info.filter_offset, info.filter_len),
            ("index", info.index_offset, info.index_len),
            ("statistics", info.stats_offset, info.stats_len),
        ];
        let parts = parts.iter().filter(|(_, _, length)| *length > 0);
        let begin = parts.clone().map(|(_, offset, _)| *offset).min().unwrap_or_default();
        let end = parts.clone().map(|(_, offset, length)| offset + length).max();
        let bytes_min = end.unwrap_or_default() + FOOTER_BYTES as u64;
        if size < bytes_min {
            return Ok(Some(format!(
                "is cut off: it has {size} bytes, but at least {bytes_min} were written"
            )));
        }
        let tail = match self.read(location, begin..size).await? {
            Content::Sound(tail) => tail,
            Content::Damaged(reason) => return Ok(Some(reason)),
        };
        for (part, offset, length) in parts {
            let from = (offset - begin) as usize;
            if !is_sound(&tail[from..from + *length as usize]) {
                return Ok(Some(format!(
                    "is damaged: bad checksum of the {part} at byte {offset}"
                )));
            }
        }
        if !has_sound_description(&tail, begin) {
            return Ok(Some(
                "is damaged: bad checksum of the metadata at the end of the file".to_owned(),
            ));
        }
        self.check_blocks(location, unlocked, begin).await
    }

    /// Whether the run is still needed. A running server may have merged and deleted it.
    pub(super) async fn is_needed(&self, location: &StoreLocation) -> Result<bool, Error> {
        if !self.is_newest {
            return Ok(true);
        }
        let newest = admin(location).read_manifest(None).await?;
        let is_named = |newest: VersionedManifest| {
            newest.all_sst_views().any(|it| it.sst.id == self.handle.id)
        };
        Ok(newest.is_none_or(is_named))
    }

    async fn check_blocks(
        &self,
        location: &StoreLocation,
        unlocked: Option<&UnlockedKeys>,
        end: u64,
    ) -> Result<Option<String>, Error> {
        // `SstReader` looks for a run below a root, which the caller passes. A clone may reference
        // runs below the root of its parent, so the root is derived from the path of the run.
        let parts: Vec<_> = self.path.parts().collect();
        let root = Path::from_iter(parts[..parts.len().saturating_sub(2)].iter().cloned());
        let store = location.object_store.clone();
        let reader = SstReader::new(root, store, None, unlocked.map(sealed_blocks));
        let index = content(reader.open_with_handle(self.handle.clone())?.index().await)?;
        let index = match index {
            Content::Sound(index) => index,
            Content::Damaged(reason) => return Ok(Some(reason)),
        };
        let mut offsets: Vec<u64> = index.iter().map(|(offset, _)| offset).collect();
        offsets.push(end);
        let mut first = 0;
        while first + 1 < offsets.len() {
            let from = offsets[first];
            let fitting = offsets[first + 1..].iter().take_while(|it| **it <= from + READ_BYTES);
            let last = first + fitting.count().max(1);
            let bytes = match self.read(location, from..offsets[last]).await? {
                Content::Sound(bytes) => bytes,
                Content::Damaged(reason) => return Ok(Some(reason)),
            };
            for pair in offsets[first..=last].windows(2) {
                let block = (pair[0] - from) as usize..(pair[1] - from) as usize;
                if !bytes.get(block).is_some_and(is_sound) {
                    return Ok(Some(format!(
                        "is damaged: bad checksum of the block at byte {}",
                        pair[0]
                    )));
                }
            }
            first = last;
        }
        Ok(None)
    }

    /// Reads a part of the file, or returns the reason why the part is damaged.
    async fn read(
        &self,
        location: &StoreLocation,
        range: Range<u64>,
    ) -> Result<Content<Bytes>, Error> {
        match location.object_store.get_range(&self.path, range).await {
            Ok(bytes) => Ok(Content::Sound(bytes)),
            Err(error) => match encryption_failure(&error) {
                Some(failure) => Ok(Content::Damaged(format!("is damaged: {failure}"))),
                None => Err(Error::unavailable(error)),
            },
        }
    }
}

/// Whether the checksum at the end of a part matches.
fn is_sound(part: &[u8]) -> bool {
    let Some(split) = part.len().checked_sub(CHECKSUM_BYTES) else { return false };
    let (content, mut sum) = part.split_at(split);
    sum.get_u32() == crc32fast::hash(content)
}

/// Whether the checksum of a sorted run's metadata matches. `tail` contains the file from byte
/// `begin` to its end.
fn has_sound_description(tail: &[u8], begin: u64) -> bool {
    let Some(split) = tail.len().checked_sub(FOOTER_BYTES) else { return false };
    let (before, mut footer) = tail.split_at(split);
    let from = footer.get_u64().checked_sub(begin).and_then(|from| usize::try_from(from).ok());
    from.and_then(|from| before.get(from..)).is_some_and(is_sound)
}
