//! What is wrong with a policy, and where it stands.

use std::fmt;

use miette::Diagnostic;

/// Something wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl Problem {
    /// A problem at an offset, in bytes, of a text.
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

    /// What Cedar has to say of a text. Where it names no place, `otherwise` is the place.
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
