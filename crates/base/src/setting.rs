//! Settings that cannot be used.

use std::fmt;

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSetting {
    /// Its key, with dots between the parts.
    pub key: String,
    /// The reason.
    pub message: String,
    /// What to do, if that is known.
    pub help: Option<String>,
}

impl InvalidSetting {
    /// A setting that cannot be used for this reason.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), help: None }
    }

    /// The same with advice on what to do.
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
