//! What a source contains: namespaces, and tables and views with the locations of their metadata files.

use std::collections::BTreeMap;

use slateberg_model::ident::TabularKind;

/// A namespace of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundNamespace {
    pub(super) levels: Vec<String>,
    pub(super) properties: BTreeMap<String, String>,
}

/// A table or view of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundTabular {
    pub(super) kind: TabularKind,
    pub(super) namespace: Vec<String>,
    pub(super) name: String,
    /// Where its metadata file is; none if the source tells it only when it is asked for this one.
    pub(super) metadata_location: Option<String>,
}

/// What a source has.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Each behind its parent.
    pub(super) namespaces: Vec<FoundNamespace>,
    pub(super) tabulars: Vec<FoundTabular>,
    /// What could not be read, in words.
    pub(super) failures: Vec<String>,
    /// What people should know, and is no failure.
    pub(super) notes: Vec<String>,
}

/// Where a table's or view's metadata file is, and which it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) metadata_location: String,
    pub(super) uuid: String,
}
