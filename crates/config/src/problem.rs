//! Problems of settings: their position, and the expected value.

use std::fmt;
use std::path::PathBuf;

use super::setting_source::SettingSource;
use slateberg_base::similar::nearest;

/// Maximum number of expected keys in a message.
const EXPECTED_MAX: usize = 12;

/// A problem of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The source of the setting.
    pub source: SettingSource,
    /// The dotted key. Empty if the problem is not about a key.
    pub key: String,
    /// The description.
    pub message: String,
    /// Advice, if there is any.
    pub help: Option<String>,
    /// The line of the setting, if it is in a file.
    pub excerpt: Option<Excerpt>,
}

/// A line of a file with a marked part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The line's text.
    pub text: String,
    /// The line number, from 1.
    pub line: usize,
    /// The column of the marked part, from 1.
    pub column: usize,
    /// The length of the marked part, in characters.
    pub chars: usize,
}

impl Problem {
    /// Creates a problem of a key in this source.
    pub fn new(source: SettingSource, key: impl Into<String>, message: impl Into<String>) -> Self {
        let (key, message) = (key.into(), message.into());
        Self { source, key, message, help: None, excerpt: None }
    }

    /// Returns the file of the setting.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        match &self.source {
            SettingSource::File { file, .. } => Some(file),
            SettingSource::Default | SettingSource::MemoryShare | SettingSource::Variable(_) => {
                None
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{}", self.message)?,
            key => write!(f, "{key}: {}", self.message)?,
        }
        if self.source != SettingSource::Default {
            write!(f, "\n  --> {}", self.source)?;
        }
        if let Some(Excerpt { text, line, column, chars }) = &self.excerpt {
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            let (indent, mark) = (" ".repeat(column - 1), "^".repeat(*chars));
            write!(f, "\n {margin} |\n {number} | {text}\n {margin} | {indent}{mark}")?;
        }
        match &self.help {
            Some(help) => write!(f, "\n   = {help}"),
            None => Ok(()),
        }
    }
}

impl Excerpt {
    /// Returns the excerpt without the part after the equals sign.
    pub(super) fn without_value(mut self) -> Self {
        if let Some((key, _)) = self.text.split_once('=') {
            self.text = format!("{key}= ...");
        }
        let left = self.text.chars().count().saturating_sub(self.column - 1);
        self.chars = self.chars.min(left).max(1);
        self
    }
}

/// Returns advice on an unknown name.
pub(super) fn help_for(name: &str, expected: &[&str]) -> String {
    match nearest(name, expected.iter().copied()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None if expected.is_empty() => "no keys are allowed here".to_owned(),
        None if expected.len() > EXPECTED_MAX => {
            format!("expected one of {}, ...", expected[..EXPECTED_MAX].join(", "))
        }
        None => format!("expected one of {}", expected.join(", ")),
    }
}
