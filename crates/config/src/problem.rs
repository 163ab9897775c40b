//! What is wrong with a setting: where it stands, and what was expected.

use std::fmt;
use std::path::PathBuf;

use super::place::Place;
use slateberg_base::similar::nearest;

/// How many keys are told that there could have been.
const EXPECTED_MAX: usize = 12;

/// Something that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub place: Place,
    /// The key, with dots between its parts; empty if it is not about a key.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it, if that is known.
    pub help: Option<String>,
    /// The line that it stands in, if it is in a file.
    pub excerpt: Option<Excerpt>,
}

/// A line of a file, and a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The line's text.
    pub text: String,
    /// Its number, from 1.
    pub line: usize,
    /// The column of the part, from 1.
    pub column: usize,
    /// The part's length in characters.
    pub chars: usize,
}

impl Problem {
    /// Something wrong with a key that stands there.
    pub fn new(place: Place, key: impl Into<String>, message: impl Into<String>) -> Self {
        let (key, message) = (key.into(), message.into());
        Self { place, key, message, help: None, excerpt: None }
    }

    /// The file that it is in.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        match &self.place {
            Place::File { file, .. } => Some(file),
            Place::Default | Place::MemoryShare | Place::Variable(_) => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{}", self.message)?,
            key => write!(f, "{key}: {}", self.message)?,
        }
        if self.place != Place::Default {
            write!(f, "\n  --> {}", self.place)?;
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
    /// The same without what stands behind the equals sign.
    pub(super) fn without_value(mut self) -> Self {
        if let Some((key, _)) = self.text.split_once('=') {
            self.text = format!("{key}= ...");
        }
        let left = self.text.chars().count().saturating_sub(self.column - 1);
        self.chars = self.chars.min(left).max(1);
        self
    }
}

/// Advice on a name that does not exist.
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
