//! Damaged files: the file, the damage, and advice for the operator.

use std::fmt;

use serde::Serialize;

/// Advice for a missing or damaged file that only a copy can replace.
pub const RESTORE: &str = "Restore this file or the whole store from a copy";
/// Advice for a loss at the end of a local WAL, which the operator can accept.
pub(crate) const ACCEPT_LOSS: &str =
    "Restore this file from a copy, or accept the loss with `slateberg store accept-loss`";

/// A file of the store that is missing or damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DamagedFile {
    /// The file.
    pub file: String,
    /// The damage, as the predicate of a sentence whose subject is the file.
    pub reason: String,
    /// The advice for the operator.
    pub advice: &'static str,
}

impl fmt::Display for DamagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, reason, advice } = self;
        write!(f, "{file} {reason}. {advice}")
    }
}

impl std::error::Error for DamagedFile {}
