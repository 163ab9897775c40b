//! [`AppendRebase`]: selects the appends that the server rebases.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Property of tables and namespaces. The tables in a namespace inherit the property.
pub(crate) const PROPERTY: &str = "slateberg.append-rebase";

/// Appends that the server rebases onto the current state of their table.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum AppendRebase {
    /// No appends.
    #[default]
    Off,
    /// Appends that are declared as blind. The writer does this with `slateberg.blind-append` in
    /// the summary of the snapshot, or with the header `Slateberg-Blind-Append`.
    Declared,
    /// All appends.
    All,
}

impl AppendRebase {
    /// Returns the value of the property. `None` if the property is not set.
    ///
    /// An unknown value counts as `off`, so that a misspelled value does not weaken the isolation
    /// of a table.
    pub(crate) fn of(properties: &BTreeMap<String, String>) -> Option<Self> {
        properties.get(PROPERTY).map(|value| value.parse().unwrap_or_default())
    }
}

impl FromStr for AppendRebase {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.to_ascii_lowercase().as_str() {
            "off" => Ok(Self::Off),
            "declared" => Ok(Self::Declared),
            "all" => Ok(Self::All),
            _ => Err(()),
        }
    }
}
