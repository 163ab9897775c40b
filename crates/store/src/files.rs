//! Reads every file that a start needs, and reports missing and damaged ones.
//!
//! SlateDB reports the first file that it cannot read, often without its name, and reads some files
//! only when a request needs them. So `fsck` reads them one by one: manifests, the lists of
//! compactions, the boundaries of garbage collection, and every part of every sorted run that the
//! newest manifest or a checkpoint references. Each part of SlateDB's objects has a checksum.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use slatedb::manifest::SsTableHandle;
use slatedb::object_store::path::Path;
use slatedb::object_store::{Error as StoreError, ObjectStoreExt};
use slatedb::{ErrorKind, PathResolver, SstReader, VersionedCompactions, VersionedManifest};

use super::builder::sealed_blocks;
use super::checkpoints::admin;
use super::encryption::{Missing, Unlocked, unlock};
use super::error::{Error, encryption_failure};
use super::location::Place;
use slateberg_base::error_chain::one_line;
use slateberg_base::progress::Progress;
use slateberg_wal::{self as journal, DamagedFile, RESTORE};

/// Size of a read of data blocks.
const READ_BYTES: u64 = 8 << 20;
/// Size of a sorted run's footer behind its description: offset, and version of the format.
const FOOTER: usize = 10;
/// Size of a checksum.
const CHECKSUM: usize = 4;

/// Advice for unneeded files.
const MOVE_COMPACTIONS: &str =
    "Move this file away: it only lists compactions under way, and the next start does without it";
const MOVE_BOUNDARY: &str = "Move this file away: garbage collection writes it again";
/// Advice for files that only checkpoints need.
const FORGET_CHECKPOINT: &str =
    "Put this file back from a copy, or delete the checkpoints that need it";

/// The files of a store, and the damaged ones.
#[derive(Debug, Default)]
pub struct CheckedFiles {
    /// Number of files that were read.
    pub count: usize,
    /// Missing or damaged files.
    pub damaged: Vec<DamagedFile>,
    /// Whether the damage makes the records unreadable.
    pub hides_records: bool,
}

/// The files that reference all others.
#[derive(Default)]
struct Roots {
    manifests: BTreeMap<u64, VersionedManifest>,
    files: CheckedFiles,
}

/// Reads every file of a store, without writing. Errors if the store does not respond.
pub async fn check_files(place: &Place, progress: &Progress) -> Result<CheckedFiles, Error> {
    let (place, unlocked) = unlock(place, Missing::Refuse).await?;
    let Roots { manifests, mut files } = Roots::read(&place).await?;
    if files.hides_records {
        return Ok(files);
    }
    let Some(newest) = manifests.values().next_back() else { return Ok(files) };
    let keys = unlocked.as_ref().map(|unlocked| unlocked.keys.as_ref());
    if let Some(directory) = &place.directory {
        let segments = journal::check(directory, newest.replay_after_wal_id(), keys)?;
        files.count += segments.segments;
        files.hides_records |= segments.damaged.is_some();
        files.damaged.extend(segments.damaged);
    }
    check_log(&place, newest.replay_after_wal_id(), &mut files).await?;
    let runs = Runs::of(&place, &manifests, newest, &mut files);
    let phase = progress.phase("checking sorted runs", Some(runs.len() as u64));
    for run in runs {
        files.count += 1;
        if let Some(reason) = run.check(&place, unlocked.as_ref()).await?
            && run.is_needed(&place).await?
        {
            files.hides_records |= run.is_newest;
            let advice = if run.is_newest { RESTORE } else { FORGET_CHECKPOINT };
            files.damaged.push(DamagedFile { file: name(&place, &run.path), reason, advice });
        }
        phase.advance(1);
    }
    Ok(files)
}

/// Rejects a store whose newest manifest is missing. This is only detectable before a start writes
/// its own manifests.
pub(super) async fn refuse_older_manifest(place: &Place) -> Result<(), Error> {
    let admin = admin(place);
    let compactions = admin.read_compactions(None).await;
    // The start reports unreadable files.
    match (compactions, admin.read_manifest(None).await) {
        (Ok(Some(compactions)), Ok(Some(newest))) => {
            missing_manifest(&compactions, &newest).map_or(Ok(()), |it| Err(Error::DamagedFile(it)))
        }
        _ => Ok(()),
    }
}

/// Returns the missing manifest, if a list of compactions is newer than the newest manifest. A
/// compactor changes the manifest first.
fn missing_manifest(
    compactions: &VersionedCompactions,
    newest: &VersionedManifest,
) -> Option<DamagedFile> {
    (compactions.compactor_epoch() > newest.compactor_epoch()).then(|| DamagedFile {
        file: format!("manifest/{:020}.manifest", newest.id() + 1),
        reason: format!("is missing: compactions/{:020}.compactions is newer", compactions.id()),
        advice: RESTORE,
    })
}

/// Returns the file because of which a store could not be opened, if it is one of those that
/// reference all others.
pub(super) async fn damaged_root(place: &Place) -> Option<DamagedFile> {
    let (place, _) = unlock(place, Missing::Refuse).await.ok()?;
    let roots = Roots::read(&place).await.ok()?;
    roots.files.damaged.into_iter().next()
}

/// Checks that the log of objects has no gap after the last one in sorted runs. Opening the store
/// reads its content. An object that fences another writer is empty.
async fn check_log(place: &Place, after: u64, files: &mut CheckedFiles) -> Result<(), Error> {
    let log = place.log.as_ref().map(|log| Place { object_store: log.store(), ..place.clone() });
    let place = log.as_ref().unwrap_or(place);
    let mut last: Option<u64> = None;
    for path in listed(place, "wal").await? {
        let Some(id) = number(&path).filter(|id| *id > after) else { continue };
        files.count += 1;
        let missing = last.replace(id).map(|last| last + 1).filter(|expected| *expected != id);
        if let Some(missing) = missing {
            let (file, reason) =
                (format!("wal/{missing:020}.sst"), "is missing, and later ones are not".to_owned());
            files.damaged.push(DamagedFile { file, reason, advice: RESTORE });
            files.hides_records = true;
        }
    }
    Ok(())
}

impl Roots {
    async fn read(place: &Place) -> Result<Self, Error> {
        let mut roots = Self::default();
        roots.boundaries(place).await?;
        // In this order, the manifest is never older than the changes of a running compactor.
        let compactions = roots.compactions(place).await?;
        roots.manifests(place).await?;
        let newest = roots.manifests.values().next_back();
        let missing =
            compactions.zip(newest).and_then(|(it, newest)| missing_manifest(&it, newest));
        roots.files.hides_records |= missing.is_some();
        roots.files.damaged.extend(missing);
        Ok(roots)
    }

    fn damage(&mut self, file: String, reason: String, advice: &'static str, hides_records: bool) {
        self.files.damaged.push(DamagedFile { file, reason, advice });
        self.files.hides_records |= hides_records;
    }

    async fn boundaries(&mut self, place: &Place) -> Result<(), Error> {
        for path in listed(place, "gc").await? {
            self.files.count += 1;
            let content = match place.object_store.get(&path).await {
                Ok(found) => found.bytes().await.map_err(unavailable)?,
                Err(StoreError::NotFound { .. }) => continue,
                Err(error) => return Err(unavailable(error)),
            };
            let number = std::str::from_utf8(&content).ok().map(|text| text.trim().parse::<u64>());
            if !matches!(number, Some(Ok(_))) {
                self.damage(
                    name(place, &path),
                    "is damaged: it holds no number".into(),
                    MOVE_BOUNDARY,
                    false,
                );
            }
        }
        Ok(())
    }

    /// Reads the lists of compactions, and returns the newest one.
    async fn compactions(&mut self, place: &Place) -> Result<Option<VersionedCompactions>, Error> {
        let mut newest = None;
        for path in listed(place, "compactions").await? {
            let Some(id) = number(&path) else { continue };
            self.files.count += 1;
            match content(admin(place).read_compactions(Some(id)).await)? {
                Content::Sound(compactions) => newest = compactions.or(newest),
                Content::Damaged(reason) => {
                    self.damage(name(place, &path), reason, MOVE_COMPACTIONS, false)
                }
            }
        }
        Ok(newest)
    }

    async fn manifests(&mut self, place: &Place) -> Result<(), Error> {
        let paths = listed(place, "manifest").await?;
        let numbers: Vec<_> = paths.iter().filter_map(number).collect();
        for (path, id) in paths.iter().filter_map(|path| Some((path, number(path)?))) {
            self.files.count += 1;
            match content(admin(place).read_manifest(Some(id)).await)? {
                Content::Sound(manifest) => {
                    self.manifests.extend(manifest.map(|manifest| (id, manifest)));
                }
                Content::Damaged(reason) => {
                    let is_newest = numbers.last() == Some(&id);
                    self.damage(name(place, path), reason, RESTORE, is_newest);
                }
            }
        }
        Ok(())
    }
}

/// Content of a file, or of a part of it.
enum Content<T> {
    /// The content is readable.
    Sound(T),
    /// The content is damaged, for this reason.
    Damaged(String),
}

/// A sorted run.
struct Run {
    path: Path,
    handle: SsTableHandle,
    /// Whether the newest manifest references it. Otherwise a checkpoint does.
    is_newest: bool,
}

/// The sorted runs of a store.
struct Runs;

impl Runs {
    /// Returns the sorted runs that the newest manifest and the checkpoints reference.
    fn of(
        place: &Place,
        manifests: &BTreeMap<u64, VersionedManifest>,
        newest: &VersionedManifest,
        files: &mut CheckedFiles,
    ) -> Vec<Run> {
        let mut wanted = vec![newest];
        for pinned in newest.checkpoints() {
            match manifests.get(&pinned.manifest_id) {
                Some(manifest) => wanted.push(manifest),
                None => files.damaged.push(DamagedFile {
                    file: format!("manifest/{:020}.manifest", pinned.manifest_id),
                    reason: format!("is missing or damaged, checkpoint {} needs it", pinned.id),
                    advice: FORGET_CHECKPOINT,
                }),
            }
        }
        let mut known = HashSet::new();
        let mut runs = Vec::new();
        for manifest in wanted {
            let paths = PathResolver::new(place.path.as_str(), manifest);
            for view in manifest.all_sst_views() {
                let path = paths.sst_path(&view.sst.id);
                if known.insert(path.clone()) {
                    let is_newest = manifest.id() == newest.id();
                    runs.push(Run { path, handle: view.sst.clone(), is_newest });
                }
            }
        }
        runs
    }
}

impl Run {
    /// Returns the damage of a sorted run, if it has any.
    async fn check(
        &self,
        place: &Place,
        unlocked: Option<&Unlocked>,
    ) -> Result<Option<String>, Error> {
        let size = match place.object_store.head(&self.path).await {
            Ok(found) => found.size,
            Err(StoreError::NotFound { .. }) => return Ok(Some("is missing".to_owned())),
            Err(error) => return Err(unavailable(error)),
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
        let bytes_min = end.unwrap_or_default() + FOOTER as u64;
        if size < bytes_min {
            return Ok(Some(format!(
                "is cut off: it has {size} bytes, and {bytes_min} or more were written"
            )));
        }
        let tail = match self.read(place, begin..size).await? {
            Content::Sound(tail) => tail,
            Content::Damaged(reason) => return Ok(Some(reason)),
        };
        for (part, offset, length) in parts {
            let from = (offset - begin) as usize;
            if !is_sound(&tail[from..from + *length as usize]) {
                return Ok(Some(format!("is damaged: its {part} at byte {offset}")));
            }
        }
        if !has_sound_description(&tail, begin) {
            return Ok(Some("is damaged: its description at the end".to_owned()));
        }
        self.check_blocks(place, unlocked, begin).await
    }

    /// Whether the run is still needed. A running server may have merged and deleted it.
    async fn is_needed(&self, place: &Place) -> Result<bool, Error> {
        if !self.is_newest {
            return Ok(true);
        }
        let newest = admin(place).read_manifest(None).await?;
        let is_named = |newest: VersionedManifest| {
            newest.all_sst_views().any(|it| it.sst.id == self.handle.id)
        };
        Ok(newest.is_none_or(is_named))
    }

    async fn check_blocks(
        &self,
        place: &Place,
        unlocked: Option<&Unlocked>,
        end: u64,
    ) -> Result<Option<String>, Error> {
        // Readers expect a sorted run below its own store. A clone's run may belong to its parent.
        let parts: Vec<_> = self.path.parts().collect();
        let root = Path::from_iter(parts[..parts.len().saturating_sub(2)].iter().cloned());
        let store = place.object_store.clone();
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
            let bytes = match self.read(place, from..offsets[last]).await? {
                Content::Sound(bytes) => bytes,
                Content::Damaged(reason) => return Ok(Some(reason)),
            };
            for pair in offsets[first..=last].windows(2) {
                let block = (pair[0] - from) as usize..(pair[1] - from) as usize;
                if !bytes.get(block).is_some_and(is_sound) {
                    return Ok(Some(format!("is damaged: its block at byte {}", pair[0])));
                }
            }
            first = last;
        }
        Ok(None)
    }

    /// Reads a part, or returns the reason why it is damaged.
    async fn read(&self, place: &Place, range: Range<u64>) -> Result<Content<Bytes>, Error> {
        match place.object_store.get_range(&self.path, range).await {
            Ok(bytes) => Ok(Content::Sound(bytes)),
            Err(error) => match encryption_failure(&error) {
                Some(failure) => Ok(Content::Damaged(format!("is damaged: {failure}"))),
                None => Err(unavailable(error)),
            },
        }
    }
}

/// Whether the checksum at the end of a part matches.
fn is_sound(part: &[u8]) -> bool {
    let Some(split) = part.len().checked_sub(CHECKSUM) else { return false };
    let (content, mut sum) = part.split_at(split);
    sum.get_u32() == crc32fast::hash(content)
}

/// Whether the description of a sorted run is complete. `tail` has its last bytes, from `begin` on.
fn has_sound_description(tail: &[u8], begin: u64) -> bool {
    let Some(split) = tail.len().checked_sub(FOOTER) else { return false };
    let (before, mut footer) = tail.split_at(split);
    let from = footer.get_u64().checked_sub(begin).and_then(|from| usize::try_from(from).ok());
    from.and_then(|from| before.get(from..)).is_some_and(is_sound)
}

/// Returns the objects in a directory of the store, ordered by name.
async fn listed(place: &Place, directory: &str) -> Result<Vec<Path>, Error> {
    let prefix = Path::from(place.path.as_str()).join(directory);
    let objects = place.object_store.list(Some(&prefix)).map_ok(|object| object.location);
    let mut paths: Vec<_> = objects.try_collect().await.map_err(unavailable)?;
    paths.sort_unstable();
    Ok(paths)
}

/// Returns the number in a file's name.
fn number(path: &Path) -> Option<u64> {
    path.filename()?.split_once('.')?.0.parse().ok()
}

/// Returns the name of a file in messages.
fn name(place: &Place, path: &Path) -> String {
    let below = path.prefix_match(&Path::from(place.path.as_str()));
    let below = below.map(|parts| Path::from_iter(parts).to_string());
    below.filter(|below| !below.is_empty()).unwrap_or_else(|| format!("/{path}"))
}

/// Converts the result of a read. Errors if the store does not respond.
fn content<T>(read: Result<T, slatedb::Error>) -> Result<Content<T>, Error> {
    match read {
        Ok(read) => Ok(Content::Sound(read)),
        Err(error) => match (encryption_failure(&error), error.kind()) {
            (Some(failure), _) => Ok(Content::Damaged(format!("is damaged: {failure}"))),
            (None, ErrorKind::Data | ErrorKind::Invalid | ErrorKind::Internal) => {
                Ok(Content::Damaged(format!("is damaged: {}", one_line(&error))))
            }
            (None, _) => Err(error.into()),
        },
    }
}

fn unavailable(error: StoreError) -> Error {
    Error::unavailable(error)
}
