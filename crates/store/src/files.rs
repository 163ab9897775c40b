//! Reads every file that the server needs to start, and reports missing and damaged files.
//!
//! SlateDB reports only the first file that it cannot read, often without its name. It also reads
//! some files only when a request needs them. Therefore `fsck` reads all files one by one:
//! manifests, lists of compactions, boundary files of the garbage collection, and sorted runs. It
//! reads every part of the sorted runs that the newest manifest or a checkpoint references. Each
//! part of SlateDB's objects has a checksum.

mod content;
mod sorted_runs;

use std::collections::BTreeMap;

use futures::TryStreamExt;
use slatedb::object_store::path::Path;
use slatedb::object_store::{Error as StoreError, ObjectStoreExt};
use slatedb::{VersionedCompactions, VersionedManifest};

use super::builder::bucket_log;
use super::checkpoints::admin;
use super::encryption::{IfMissing, unlock};
use super::error::Error;
use super::location::StoreLocation;
use super::loss::replayed;
use content::{Content, content};
use slateberg_base::boxed;
use slateberg_base::progress::Progress;
use slateberg_wal::bucket::{BucketLog, missing_file, number};
use slateberg_wal::{self as journal, DamagedFile, RESTORE};
use sorted_runs::{DELETE_CHECKPOINT, SortedRuns};

/// Advice for a damaged file that the store does not need.
const MOVE_COMPACTIONS: &str = "Move this file out of the store: it only lists compactions in progress, and the next start works without it";
const MOVE_BOUNDARY: &str =
    "Move this file out of the store: the garbage collection writes a new one";

/// The result of reading all files of a store.
#[derive(Debug, Default)]
pub struct CheckedFiles {
    /// Number of files that were read.
    pub count: usize,
    /// Missing or damaged files.
    pub damaged: Vec<DamagedFile>,
    /// Whether records cannot be read because of the damage.
    pub hides_records: bool,
}

/// The files that reference all other files of a store.
#[derive(Default)]
struct Roots {
    manifests: BTreeMap<u64, VersionedManifest>,
    files: CheckedFiles,
}

/// Reads every file of a store, without writing. Errors if the store does not respond.
#[boxed]
pub async fn check_files(
    location: &StoreLocation,
    progress: &Progress,
) -> Result<CheckedFiles, Error> {
    let (location, unlocked) = unlock(location, IfMissing::Reject).await?;
    let Roots { manifests, mut files } = Roots::read(&location).await?;
    if files.hides_records {
        return Ok(files);
    }
    let Some(newest) = manifests.values().next_back() else { return Ok(files) };
    let keys = unlocked.as_ref().map(|unlocked| unlocked.keys.as_ref());
    if let Some(directory) = &location.directory {
        let segments = journal::check(directory, newest.replay_after_wal_id(), keys)?;
        files.count += segments.segments;
        files.hides_records |= segments.damaged.is_some();
        files.damaged.extend(segments.damaged);
    }
    let log = bucket_log(&location, unlocked.as_ref());
    check_log(&location, &log, newest.replay_after_wal_id(), &mut files).await?;
    let runs = SortedRuns::of(&location, &manifests, newest, &mut files.damaged);
    let phase = progress.phase("checking sorted runs", Some(runs.len() as u64));
    for run in runs {
        files.count += 1;
        if let Some(reason) = run.check(&location, unlocked.as_ref()).await?
            && run.is_needed(&location).await?
        {
            files.hides_records |= run.is_newest;
            let advice = if run.is_newest { RESTORE } else { DELETE_CHECKPOINT };
            files.damaged.push(DamagedFile { file: name(&location, &run.path), reason, advice });
        }
        phase.advance(1);
    }
    Ok(files)
}

/// Rejects a store whose newest manifest is missing. Must run before the server writes new
/// manifests during its start, because afterwards the newest manifest is a new one.
pub(super) async fn reject_older_manifest(location: &StoreLocation) -> Result<(), Error> {
    let admin = admin(location);
    let compactions = admin.read_compactions(None).await;
    // Unreadable files are reported later, when the store is opened.
    match (compactions, admin.read_manifest(None).await) {
        (Ok(Some(compactions)), Ok(Some(newest))) => {
            missing_manifest(&compactions, &newest).map_or(Ok(()), |it| Err(Error::DamagedFile(it)))
        }
        _ => Ok(()),
    }
}

/// Returns the missing manifest if a list of compactions has a newer epoch than the newest
/// manifest. A compactor writes a new epoch first to a manifest and then to a list of compactions,
/// so a manifest with this epoch must have existed.
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

/// Returns the first missing or damaged file among the files that reference all others. Such a file
/// can be the reason why a store could not be opened.
pub(super) async fn damaged_root(location: &StoreLocation) -> Option<DamagedFile> {
    let (location, _) = unlock(location, IfMissing::Reject).await.ok()?;
    let roots = Roots::read(&location).await.ok()?;
    roots.files.damaged.into_iter().next()
}

/// Checks the files of the log whose changes are not in sorted runs yet. The content of these files
/// is checked when the store is opened.
async fn check_log(
    location: &StoreLocation,
    log: &BucketLog,
    after: u64,
    files: &mut CheckedFiles,
) -> Result<(), Error> {
    let numbers = log.numbers_after(after).await.map_err(Error::unavailable)?;
    files.count += numbers.len();
    let Some(missing) = missing_file(&numbers, after) else { return Ok(()) };
    // A running server may have deleted files since the manifest was read.
    if replayed(location).await? < missing {
        files.damaged.push(log.damage(missing));
        files.hides_records = true;
    }
    Ok(())
}

impl Roots {
    async fn read(location: &StoreLocation) -> Result<Self, Error> {
        let mut roots = Self::default();
        roots.boundaries(location).await?;
        // The lists of compactions are read before the manifests, because a running compactor
        // writes the manifest first. In the other order, a list could be newer than the newest
        // manifest that was read.
        let compactions = roots.compactions(location).await?;
        roots.manifests(location).await?;
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

    async fn boundaries(&mut self, location: &StoreLocation) -> Result<(), Error> {
        for path in list_objects(location, "gc").await? {
            self.files.count += 1;
            let content = match location.object_store.get(&path).await {
                Ok(found) => found.bytes().await.map_err(Error::unavailable)?,
                Err(StoreError::NotFound { .. }) => continue,
                Err(error) => return Err(Error::unavailable(error)),
            };
            let number = std::str::from_utf8(&content).ok().map(|text| text.trim().parse::<u64>());
            if !matches!(number, Some(Ok(_))) {
                self.damage(
                    name(location, &path),
                    "is damaged: it does not contain a number".into(),
                    MOVE_BOUNDARY,
                    false,
                );
            }
        }
        Ok(())
    }

    /// Reads the lists of compactions, and returns the newest one.
    async fn compactions(
        &mut self,
        location: &StoreLocation,
    ) -> Result<Option<VersionedCompactions>, Error> {
        let mut newest = None;
        for path in list_objects(location, "compactions").await? {
            let Some(id) = number(&path) else { continue };
            self.files.count += 1;
            match content(admin(location).read_compactions(Some(id)).await)? {
                Content::Sound(compactions) => newest = compactions.or(newest),
                Content::Damaged(reason) => {
                    self.damage(name(location, &path), reason, MOVE_COMPACTIONS, false)
                }
            }
        }
        Ok(newest)
    }

    async fn manifests(&mut self, location: &StoreLocation) -> Result<(), Error> {
        let paths = list_objects(location, "manifest").await?;
        let numbers: Vec<_> = paths.iter().filter_map(number).collect();
        for (path, id) in paths.iter().filter_map(|path| Some((path, number(path)?))) {
            self.files.count += 1;
            match content(admin(location).read_manifest(Some(id)).await)? {
                Content::Sound(manifest) => {
                    self.manifests.extend(manifest.map(|manifest| (id, manifest)));
                }
                Content::Damaged(reason) => {
                    let is_newest = numbers.last() == Some(&id);
                    self.damage(name(location, path), reason, RESTORE, is_newest);
                }
            }
        }
        Ok(())
    }
}

/// Returns the objects in a directory of the store, ordered by name.
async fn list_objects(location: &StoreLocation, directory: &str) -> Result<Vec<Path>, Error> {
    let prefix = Path::from(location.path.as_str()).join(directory);
    let objects = location.object_store.list(Some(&prefix)).map_ok(|object| object.location);
    let mut paths: Vec<_> = objects.try_collect().await.map_err(Error::unavailable)?;
    paths.sort_unstable();
    Ok(paths)
}

/// Returns the path of a file below the store's path, for messages.
fn name(location: &StoreLocation, path: &Path) -> String {
    let below = path.prefix_match(&Path::from(location.path.as_str()));
    let below = below.map(|parts| Path::from_iter(parts).to_string());
    below.filter(|below| !below.is_empty()).unwrap_or_else(|| format!("/{path}"))
}
