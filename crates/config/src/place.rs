//! [`Place`]: the position of a setting, for messages.

use std::fmt;
use std::path::PathBuf;

/// Where a setting stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: it is what holds anyway.
    Default,
    /// In a file.
    File {
        /// Its path.
        file: PathBuf,
        /// The line, from 1; none where the file as a whole is meant.
        line: Option<usize>,
        /// The column, from 1, in characters.
        column: Option<usize>,
    },
    /// In a variable of the environment.
    Variable(String),
    /// Nowhere: it is derived from `memory_bytes_max`.
    MemoryShare,
}

impl fmt::Display for Place {
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
