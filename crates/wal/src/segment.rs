//! Segments: files of frames.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// File name extension of segments.
const EXTENSION: &str = "segment";

/// A file of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// The number of its first frame.
    pub(super) first: u64,
    pub(super) path: PathBuf,
}

impl Segment {
    /// Returns the segment whose first frame has this number.
    pub(super) fn new(directory: &Path, first: u64) -> Self {
        // All numbers fit into twenty digits, so names sort like numbers.
        Self { first, path: directory.join(format!("{first:020}.{EXTENSION}")) }
    }

    /// Whether a file has the name of a segment.
    pub(super) fn has_extension(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == EXTENSION)
    }

    /// Returns the segments of a directory, in order. Empty if the directory does not exist.
    pub(super) fn list(directory: &Path) -> io::Result<Vec<Self>> {
        let mut segments = Vec::new();
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(segments),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if Self::has_extension(&path)
                && let Some(first) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
            {
                segments.push(Self { first, path });
            }
        }
        segments.sort_unstable_by_key(|segment| segment.first);
        Ok(segments)
    }

    /// Creates the file, which must not exist. On an error, leaves no file behind, so that a retry
    /// is possible.
    pub(super) fn create(&self) -> io::Result<File> {
        // The directory is opened before the file is created, because opening it may fail if the
        // process has too many open files.
        let directory = self.path.parent().map(File::open).transpose()?;
        let file = OpenOptions::new().create_new(true).write(true).open(&self.path)?;
        if let Some(directory) = directory
            && let Err(error) = directory.sync_all()
        {
            fs::remove_file(&self.path)?;
            return Err(error);
        }
        Ok(file)
    }

    /// Cuts off the bytes after the complete frames, also zeros, and deletes a segment without
    /// complete frames. Syncs the rest, because a frame that is only in the system's cache must not
    /// be acknowledged.
    pub(super) fn cut(&self, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return fs::remove_file(&self.path);
        }
        let file = OpenOptions::new().write(true).open(&self.path)?;
        file.set_len(bytes)?;
        file.sync_all()
    }
}
