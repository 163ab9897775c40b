//! Whether a state in a local directory can be written, found out before anything of it is touched.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use uuid::Uuid;

/// Bytes of the probe file: more than a start writes.
const PROBE_BYTES: usize = 128 << 10;

/// Writes a file, syncs and deletes it. The directory may be missing: then the one above it is tried, so that
/// creating it stays with the journal, which does so durably.
pub(super) fn probe(directory: &Path, id: Uuid) -> io::Result<()> {
    let Some(directory) = directory.ancestors().find(|it| it.is_dir()) else { return Ok(()) };
    let path = directory.join(format!(".slateberg-probe-{}", id.simple()));
    let written = write(File::create_new(&path)?);
    // A file that could not be written whole takes space all the same.
    let removed = fs::remove_file(&path);
    written.and(removed)
}

fn write(mut file: File) -> io::Result<()> {
    file.write_all(&vec![0; PROBE_BYTES])?;
    file.sync_all()
}
