//! [`LocalStore`]: the local file system. New files can be synced when they are written, or later
//! and together.
//!
//! A sync of one file takes the disk about as long as a sync of hundreds of files.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path as FilePath, PathBuf};

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, PutOptions, PutPayload, PutResult, Result};

use super::forward::forward_all_but_put;

/// Number of files from which on the whole file system is synced. For fewer files, a sync of each
/// file writes less.
#[cfg(target_os = "linux")]
const FILES_MIN_FOR_FILE_SYSTEM: usize = 16;

/// Extension of a put after which the caller syncs the file itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct SyncLater;

/// The local file system. Puts are synced, except with the extension [`SyncLater`].
pub(super) struct LocalStore {
    inner: LocalFileSystem,
    unsynced: LocalFileSystem,
}

impl LocalStore {
    pub(super) fn new() -> Self {
        // Without fsync, an acknowledged commit would not survive a power failure.
        Self { inner: LocalFileSystem::new().with_fsync(true), unsynced: LocalFileSystem::new() }
    }

    async fn put_or_forward(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let later = options.extensions.get::<SyncLater>().is_some();
        let store = if later { &self.unsynced } else { &self.inner };
        store.put_opts(location, payload, options).await
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

forward_all_but_put!(LocalStore);

/// Returns the path of an object in the local file system.
pub(super) fn file_path(path: &Path) -> Result<PathBuf> {
    LocalFileSystem::new().path_to_filesystem(path)
}

/// Syncs files, and the directories that contain them. Files that were deleted since then are
/// ignored.
///
/// # Errors
/// Returns the first error. It is then unknown which files are synced, and whether another sync
/// would report the loss of their content. So the caller has to write the files again.
pub fn sync(files: &[PathBuf]) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if files.len() >= FILES_MIN_FOR_FILE_SYSTEM {
        return sync_file_systems(files);
    }
    for file in files {
        if let Some(file) = open(file)? {
            file.sync_all()?;
        }
    }
    for directory in directories(files) {
        if let Some(directory) = open(directory)? {
            directory.sync_all()?;
        }
    }
    Ok(())
}

/// Returns all directories above these files. Any of them may be new.
fn directories(files: &[PathBuf]) -> BTreeSet<&FilePath> {
    files.iter().flat_map(|file| file.ancestors().skip(1)).collect()
}

/// Opens a file or directory. Returns `None` if it does not exist, or if the process may not read
/// it: then the process has not created it.
fn open(path: &FilePath) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Syncs the file systems that contain these files.
#[cfg(target_os = "linux")]
fn sync_file_systems(files: &[PathBuf]) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    let parents: BTreeSet<_> = files.iter().filter_map(|file| file.parent()).collect();
    let mut by_device = BTreeMap::new();
    for parent in parents {
        if let Some(directory) = open(parent)? {
            by_device.entry(directory.metadata()?.dev()).or_insert(directory);
        }
    }
    by_device.values().try_for_each(|directory| Ok(rustix::fs::syncfs(directory)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn files(directory: &FilePath, number: usize) -> Vec<PathBuf> {
        let file = |number: usize| {
            let parent = directory.join((number % 3).to_string()).join("metadata");
            fs::create_dir_all(&parent).expect("there is room");
            let file = parent.join(number.to_string());
            fs::write(&file, "content").expect("there is room");
            file
        };
        (0..number).map(file).collect()
    }

    #[test]
    fn few_and_many_files_are_synced() {
        let directory = tempfile::tempdir().expect("there is room");
        for number in [0, 1, FILES_MIN_FOR_FILE_SYSTEM, 100] {
            sync(&files(directory.path(), number)).expect("they are synced");
        }
    }

    #[test]
    fn deleted_file_needs_no_sync() {
        let directory = tempfile::tempdir().expect("there is room");
        let files = files(directory.path(), 2);
        fs::remove_file(&files[0]).expect("it was there");
        sync(&files).expect("the other one is synced");
        fs::remove_dir_all(directory.path()).expect("it was there");
        sync(&files).expect("there is nothing to sync");
    }

    #[test]
    fn failed_sync_is_reported() {
        let directory = tempfile::tempdir().expect("there is room");
        let mut files = files(directory.path(), 1);
        files.push(files[0].join("below a file"));
        assert!(sync(&files).is_err());
    }
}
