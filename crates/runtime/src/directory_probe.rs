//! Checks that a local directory is writable. A start does this before it changes the state in the
//! directory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use uuid::Uuid;

/// Size of the probe file, in bytes. It is more than a start writes.
const PROBE_BYTES: usize = 128 << 10;

/// Writes, syncs and deletes a file. For a missing directory, probes the nearest existing parent.
/// The write-ahead log then creates the directory durably.
pub(super) fn probe(directory: &Path, id: Uuid) -> io::Result<()> {
    let Some(directory) = directory.ancestors().find(|it| it.is_dir()) else { return Ok(()) };
    let path = directory.join(format!(".slateberg-probe-{}", id.simple()));
    let written = write(File::create_new(&path)?);
    // Delete the file even if the write failed: a partial file uses space, too.
    let removed = fs::remove_file(&path);
    written.and(removed)
}

fn write(mut file: File) -> io::Result<()> {
    file.write_all(&vec![0; PROBE_BYTES])?;
    file.sync_all()
}
