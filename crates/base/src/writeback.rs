//! Starts to write the content of a file to the disk.

use std::fs::File;

/// Starts to write the content of a file, without waiting for it. A later sync reports the errors.
///
/// A program that syncs many files otherwise waits for each of them before the system begins to write
/// the next one.
pub fn start(file: &File) {
    // After this advice, Linux writes changed pages, to free their memory. If it does not, the sync
    // writes them.
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}
