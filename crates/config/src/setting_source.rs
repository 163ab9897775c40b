//! [`SettingSource`]: the source of a setting, for messages.

use std::fmt;
use std::path::PathBuf;

/// The source of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingSource {
    /// No source: the default applies.
    Default,
    /// In a file.
    File {
        /// The path of the file.
        file: PathBuf,
        /// The line, from 1. `None` if the source is the whole file.
        line: Option<usize>,
        /// The column, from 1, in characters.
        column: Option<usize>,
    },
    /// In an environment variable.
    Variable(String),
    /// No source: the value is derived from `memory_bytes_max`.
    MemoryShare,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::MemoryShare => write!(f, "derived from memory_bytes_max"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::File { file, line: Some(line), column: Some(column) } => {
                write!(f, "{}:{line}:{column}", file.display())
            }
            Self::File { file, .. } => write!(f, "{}", file.display()),
        }
    }
}
