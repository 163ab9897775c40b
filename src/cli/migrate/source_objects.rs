//! Contents of a source: namespaces, and tables and views with the locations of their metadata
//! files.

use std::collections::BTreeMap;

use slateberg_model::ident::TabularKind;

/// A namespace of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceNamespace {
    pub(super) levels: Vec<String>,
    pub(super) properties: BTreeMap<String, String>,
}

/// A table or view of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceTabular {
    pub(super) kind: TabularKind,
    pub(super) namespace: Vec<String>,
    pub(super) name: String,
    /// Location of the metadata file. `None` if the source returns this location only when the
    /// table or view is loaded.
    pub(super) metadata_location: Option<String>,
}

/// Contents of a source.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Parents precede their children.
    pub(super) namespaces: Vec<SourceNamespace>,
    pub(super) tabulars: Vec<SourceTabular>,
    /// Reasons why parts of the source could not be read.
    pub(super) failures: Vec<String>,
    /// Remarks that are not failures.
    pub(super) notes: Vec<String>,
}

/// The location of a table's or view's metadata file, and its UUID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocatedMetadata {
    pub(super) metadata_location: String,
    pub(super) uuid: String,
}
