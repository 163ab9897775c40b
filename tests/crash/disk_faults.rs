//! [`FaultyDisk`]: the disk of a real server, whose syncs fail or hang on request. It records which
//! files are synced, so a test can destroy the others like a power failure.
//!
//! The library `disk_faults.c` replaces `fsync` in the server.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::server::Server;

/// Error number of an input/output error in Linux.
pub const EIO: i32 = 5;
/// Error number of a full disk in Linux.
pub const ENOSPC: i32 = 28;

/// The disk of a server with the directory `data_dir`.
pub struct FaultyDisk {
    directory: tempfile::TempDir,
}

/// A sync of a file or directory.
struct Sync {
    succeeded: bool,
    file: FileId,
    path: PathBuf,
}

/// An inode and the time of its birth in nanoseconds, because file systems reuse inodes.
type FileId = (u64, u128);

impl FaultyDisk {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("there is room");
        fs::create_dir(directory.path().join("data")).expect("there is room");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash/disk_faults.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(directory.path().join("disk_faults.so"));
        let status = compiler.arg(source).arg("-ldl").status().expect("there is a C compiler");
        assert!(status.success(), "the library is compiled");
        Self { directory }
    }

    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn start_server(&self, environment: &[(&str, &str)]) -> Server {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let (library, fault, log) = (path("disk_faults.so"), path("fault"), path("syncs"));
        let mut all =
            vec![("LD_PRELOAD", &*library), ("DISK_FAULT_FILE", &*fault), ("DISK_SYNC_LOG", &*log)];
        all.extend(environment);
        Server::start_with(&self.data_dir(), &all)
    }

    /// From now on, the syncs of metadata files and their directories fail.
    pub fn fail(&self, error_number: i32) {
        self.set_fault(error_number);
    }

    /// From now on, the syncs of metadata files and their directories do not end.
    pub fn hang(&self) {
        self.set_fault(-1);
    }

    /// From now on, syncs succeed.
    pub fn recover(&self) {
        self.set_fault(0);
    }

    fn set_fault(&self, number: i32) {
        let file = self.directory.path().join("fault");
        let new = file.with_extension("new");
        fs::write(&new, number.to_string()).expect("there is room");
        fs::rename(new, file).expect("it is replaced");
    }

    fn syncs(&self) -> Vec<Sync> {
        let log = fs::read_to_string(self.directory.path().join("syncs")).unwrap_or_default();
        let parse = |line: &str| {
            let mut parts = line.splitn(4, ' ');
            let succeeded = parts.next()? == "synced";
            let file = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Sync { succeeded, file, path: parts.next()?.into() })
        };
        log.lines().filter_map(parse).collect()
    }

    /// Returns those of the files that a power failure could destroy now: a file whose sync failed or
    /// never happened, or for which one of the directories above it was not synced afterwards.
    pub fn unsynced<'a>(&self, files: impl IntoIterator<Item = &'a PathBuf>) -> Vec<&'a PathBuf> {
        let (syncs, data_dir) = (self.syncs(), self.data_dir());
        let is_synced = |path: &Path| {
            let file = id(path);
            let own = |sync: &Sync| sync.file == file && sync.path == path;
            // After a failed sync, the content is lost, even if a later sync succeeds.
            if syncs.iter().any(|sync| own(sync) && !sync.succeeded) {
                return false;
            }
            let Some(first) = syncs.iter().position(own) else { return false };
            let later = |directory: &Path| {
                syncs[first..].iter().any(|sync| sync.succeeded && sync.path == directory)
            };
            path.ancestors().skip(1).take_while(|above| above.starts_with(&data_dir)).all(later)
        };
        files.into_iter().filter(|path| !is_synced(path)).collect()
    }
}

fn id(path: &Path) -> FileId {
    let metadata = fs::metadata(path).expect("the file exists");
    let born = metadata.created().unwrap_or(UNIX_EPOCH);
    (metadata.ino(), born.duration_since(UNIX_EPOCH).expect("the file is new").as_nanos())
}

/// Destroys files like a power failure.
pub fn destroy(files: &[&PathBuf]) {
    for (number, file) in files.iter().enumerate() {
        match number % 3 {
            0 => fs::remove_file(file).expect("it was there"),
            1 => fs::write(file, "").expect("it can be written"),
            _ => {
                let content = fs::read(file).expect("it was there");
                fs::write(file, &content[..content.len() / 2]).expect("it can be written");
            }
        }
    }
}
