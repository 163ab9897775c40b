//! Errors and warnings about a policy, with their position in its source.

use std::fmt;

use miette::Diagnostic;

/// Error or warning about a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// Description of the problem.
    pub message: String,
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl Problem {
    /// Creates a problem at a byte offset in the source `text`.
    pub(super) fn at(file: &str, text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }

    /// Converts a Cedar diagnostic about the source `text`. `otherwise` is the byte offset to use
    /// if the diagnostic has no position.
    pub(super) fn of(file: &str, text: &str, otherwise: usize, error: &dyn Diagnostic) -> Self {
        let label = error.labels().and_then(|mut labels| labels.next());
        let offset = label.as_ref().map_or(otherwise, |label| label.offset());
        let mut message = error.to_string();
        if let Some(label) = label.as_ref().and_then(|label| label.label()) {
            message = format!("{message}: {label}");
        }
        if let Some(help) = error.help() {
            message = format!("{message} ({help})");
        }
        Self::at(file, text, offset, message)
    }
}
