//! Report of a check of all records.

use serde::Serialize;
use uuid::Uuid;

use crate::codec::Document;
use crate::invariants::Violation;
use slateberg_base::numbers::count;

/// Result of a check of all records.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// Number of namespaces.
    pub namespaces: usize,
    /// Number of tables.
    pub tables: usize,
    /// Number of views.
    pub views: usize,
    /// Number of functions.
    pub functions: usize,
    /// Number of records.
    pub records: usize,
    /// Descriptions of all violated invariants.
    pub broken: Vec<Violation>,
    /// Location and expected content of each current metadata file.
    #[serde(skip)]
    pub published: Vec<PublishedMetadata>,
}

impl Report {
    /// Returns a summary in one line.
    pub fn summary(&self) -> String {
        let Self { records, namespaces, tables, views, functions, broken, .. } = self;
        format!(
            "{}: {}, {}, {}, {}; {} broken",
            count(*records, "record", "records"),
            count(*namespaces, "namespace", "namespaces"),
            count(*tables, "table", "tables"),
            count(*views, "view", "views"),
            count(*functions, "function", "functions"),
            broken.len()
        )
    }
}

/// A metadata file that should be in the warehouse.
#[derive(Debug)]
pub struct PublishedMetadata {
    /// Id of the warehouse.
    pub warehouse: Uuid,
    /// Location of the file.
    pub metadata_location: String,
    /// Expected content.
    pub document: Document,
    /// Whether the file may still be missing. In that case, the next start writes it.
    pub is_pending: bool,
}
