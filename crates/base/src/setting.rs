//! Invalid settings.

use std::fmt;

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSetting {
    /// The dotted key.
    pub key: String,
    /// The reason.
    pub message: String,
    /// Advice, if there is any.
    pub help: Option<String>,
}

impl InvalidSetting {
    /// Creates an error for this key and reason.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), help: None }
    }

    /// Adds advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for InvalidSetting {}
