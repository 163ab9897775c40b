//! Damaged files: which, why, and what an operator can do.

use std::fmt;

use serde::Serialize;

/// Advice for a file without which records are lost.
pub const RESTORE: &str = "Put this file, or the whole store, back from a copy";
/// Advice for the end of a journal.
pub(crate) const ACCEPT_LOSS: &str =
    "Put this file back from a copy, or accept the loss with `slateberg store accept-loss`";

/// A file of the store that is missing or damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DamagedFile {
    /// The file.
    pub file: String,
    /// What is wrong with it, as the rest of a sentence that begins with its name.
    pub reason: String,
    /// What an operator can do.
    pub advice: &'static str,
}

impl fmt::Display for DamagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, reason, advice } = self;
        write!(f, "{file} {reason}. {advice}")
    }
}

impl std::error::Error for DamagedFile {}
