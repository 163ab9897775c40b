//! Settings of this room; each field's default stands in `config/default.toml`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where policies come from, and how much is remembered of what they said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Policy files, and directories of them; none for the policies that come with the program.
    pub policy_paths: Vec<PathBuf>,
    /// Decisions that are remembered.
    pub decisions_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { policy_paths: Vec::new(), decisions_max: 100_000 }
    }
}
