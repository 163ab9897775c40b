//! How the process logs, and where it tells who did what.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Settings of the log; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The least severe level that is logged, or directives such as `info,slateberg=debug`.
    pub level: String,
    /// For people or for machines.
    pub format: Format,
}

/// The shape of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self { level: "warn,slateberg=info".to_owned(), format: Format::Text }
    }
}

/// Settings of the audit log; each field's default stands in `config/default.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditSettings {
    /// Where its lines go.
    pub to: AuditTo,
    /// The file, if they go to one.
    pub file: PathBuf,
}

/// Where audit lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditTo {
    /// Nowhere: changes are in the change log alone.
    #[default]
    Nowhere,
    /// Standard output.
    Stdout,
    /// A file.
    File,
}
