//! [`LocalStore`]: the local file system. New files can be synced when they are written, or later
//! and together.
//!
//! A disk syncs a single file in about the same time as a hundred files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path as FilePath, PathBuf};

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, PutOptions, PutPayload, PutResult, Result};

use super::forward::forward_all_but_put;
use slateberg_base::writeback;

/// Maximum number of threads that sync files. File systems write files together that several threads
/// sync at the same time.
const THREADS_MAX: usize = 16;

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

forward_all_but_put!(LocalStore);

/// A file in the local file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    path: PathBuf,
    /// The location of its warehouse.
    root: PathBuf,
}

impl LocalFile {
    /// Returns the file at this path, in the warehouse whose location has the path `root`.
    pub(super) fn new(path: &Path, root: &str) -> Self {
        // The conversion of text to a `Path` would encode some characters.
        let root = PathBuf::from(format!("/{}", root.trim_matches('/')));
        Self { path: PathBuf::from(format!("/{path}")), root }
    }

    /// Returns the path.
    pub fn path(&self) -> &FilePath {
        &self.path
    }

    /// Returns the directories above the file in its warehouse. Any of them may be new.
    fn directories(&self) -> impl Iterator<Item = &FilePath> {
        self.path.ancestors().skip(1).take_while(|directory| directory.starts_with(&self.root))
    }
}

/// Syncs files, and the directories that contain them. Returns the result for each file. A file that
/// does not exist is an error.
///
/// After an error, another sync may succeed although the content is lost. So the caller has to write
/// the file again.
pub fn sync(files: &[LocalFile]) -> Vec<io::Result<()>> {
    sync_by(files, sync_one)
}

fn sync_by(files: &[LocalFile], sync_one: impl SyncOne) -> Vec<io::Result<()>> {
    let paths: Vec<&FilePath> = files.iter().map(LocalFile::path).collect();
    for path in &paths {
        // The sync reports the error.
        let _ = File::open(path).map(|file| writeback::start(&file));
    }
    let synced = sync_each(&paths, &sync_one);
    let all: BTreeSet<_> = files.iter().flat_map(LocalFile::directories).collect();
    let directories: Vec<_> = all.into_iter().collect();
    let results = sync_each(&directories, &sync_one);
    let failed: BTreeMap<_, _> = directories
        .into_iter()
        .zip(results)
        .filter_map(|(path, result)| Some((path, result.err()?)))
        .collect();
    // The location of a warehouse may be new, too. Above it, there may be directories that cannot be
    // synced, so errors are ignored.
    let above: BTreeSet<_> = files.iter().flat_map(|file| file.root.ancestors().skip(1)).collect();
    for directory in above {
        let _ = sync_one(directory);
    }
    let directory_error = |file: &LocalFile| {
        let error = file.directories().find_map(|directory| failed.get(directory))?;
        Some(io::Error::new(error.kind(), error.to_string()))
    };
    files
        .iter()
        .zip(synced)
        .map(|(file, result)| result.and_then(|()| directory_error(file).map_or(Ok(()), Err)))
        .collect()
}

/// A function that syncs a file or a directory.
trait SyncOne: Fn(&FilePath) -> io::Result<()> + Sync {}

impl<F: Fn(&FilePath) -> io::Result<()> + Sync> SyncOne for F {}

fn sync_one(path: &FilePath) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Syncs files or directories, and returns their results in order.
fn sync_each(paths: &[&FilePath], sync_one: &impl SyncOne) -> Vec<io::Result<()>> {
    let sync = |part: &[&FilePath]| part.iter().map(|path| sync_one(path)).collect::<Vec<_>>();
    let files_per_thread = paths.len().div_ceil(THREADS_MAX);
    if files_per_thread <= 1 {
        return sync(paths);
    }
    std::thread::scope(|scope| {
        let parts = paths.chunks(files_per_thread);
        let running: Vec<_> =
            parts.map(|part| (part.len(), scope.spawn(move || sync(part)))).collect();
        let failed = |len| (0..len).map(|_| Err(io::Error::other("a sync panicked"))).collect();
        running
            .into_iter()
            .flat_map(|(len, thread)| thread.join().unwrap_or_else(|_| failed(len)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;

    use super::*;

    fn files(root: &FilePath, number: usize) -> Vec<LocalFile> {
        let file = |number: usize| {
            let parent = root.join((number % 3).to_string()).join("metadata");
            fs::create_dir_all(&parent).expect("there is room");
            let path = parent.join(number.to_string());
            fs::write(&path, "content").expect("there is room");
            LocalFile { path, root: root.to_owned() }
        };
        (0..number).map(file).collect()
    }

    #[test]
    fn directories_of_a_warehouse_with_any_characters_are_synced() {
        for root in ["/data/team~a/wh", "/a%20b/[x]", "/", ""] {
            let path = Path::parse(format!("{}/ns/t/metadata/1.json", root.trim_end_matches('/')))
                .expect("a path");
            let file = LocalFile::new(&path, root);
            let by_object_store = LocalFileSystem::new().path_to_filesystem(&path);
            assert_eq!(file.path(), by_object_store.expect("a file"), "{root}");
            let parts = root.split('/').filter(|part| !part.is_empty()).count();
            // The root, and three directories below it.
            let wanted = file.path().ancestors().skip(1).take(4).collect::<Vec<_>>();
            assert_eq!(file.directories().collect::<Vec<_>>(), wanted, "{root}");
            assert_eq!(file.path().components().count(), parts + 5, "{root}");
        }
    }

    #[test]
    fn all_files_and_the_directories_above_them_are_synced() {
        let directory = tempfile::tempdir().expect("there is room");
        let root = directory.path();
        for number in [0, 1, THREADS_MAX, 2 * THREADS_MAX + 1] {
            let files = files(root, number);
            let synced = Mutex::new(Vec::new());
            let results = sync_by(&files, |path: &FilePath| {
                synced.lock().expect("no panic").push(path.to_owned());
                sync_one(path)
            });
            assert_eq!(results.len(), number);
            assert!(results.iter().all(io::Result::is_ok), "{results:?}");
            let mut synced = synced.into_inner().expect("no panic");
            synced.sort();
            let all: BTreeSet<_> = files.iter().flat_map(|file| file.path.ancestors()).collect();
            assert_eq!(synced, all.into_iter().collect::<Vec<_>>(), "each exactly once");
        }
    }

    /// A sync of `/dev/null` fails, although it can be opened.
    #[cfg(target_os = "linux")]
    #[test]
    fn sync_asks_the_file_system() {
        let error = sync_one("/dev/null".as_ref()).expect_err("a device has no content");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn failed_sync_is_an_error_of_its_file_only() {
        let directory = tempfile::tempdir().expect("there is room");
        for number in [3, 40] {
            let mut files = files(directory.path(), number);
            fs::remove_file(&files[1].path).expect("it was there");
            files[2].path = files[0].path.join("below a file");
            let failed: Vec<_> = sync(&files).iter().map(io::Result::is_err).collect();
            let expected: Vec<_> = (0..number).map(|file| file == 1 || file == 2).collect();
            assert_eq!(failed, expected);
        }
    }

    #[test]
    fn failed_sync_of_a_directory_is_an_error_of_all_files_below_it() {
        let directory = tempfile::tempdir().expect("there is room");
        let files = files(directory.path(), 40);
        let broken = files[1].path.parent().expect("a directory");
        let results = sync_by(&files, |path: &FilePath| match path == broken {
            true => Err(io::Error::other("input/output error")),
            false => sync_one(path),
        });
        for (file, result) in files.iter().zip(results) {
            assert_eq!(result.is_err(), file.path.starts_with(broken), "{}", file.path.display());
        }
    }

    #[test]
    fn directories_end_at_the_warehouse() {
        let file = LocalFile { path: "/a/b/c/d".into(), root: "/a/b".into() };
        let directories: Vec<_> = file.directories().collect();
        assert_eq!(directories, [FilePath::new("/a/b/c"), FilePath::new("/a/b")]);
    }
}
