//! What a walk through the records reports.

use serde::Serialize;
use uuid::Uuid;

use crate::codec::Document;
use crate::invariants::Broken;
use slateberg_base::numbers::count;

/// What a walk through the store has found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// Namespaces, tables, views, and records of every kind together.
    pub namespaces: usize,
    /// Tables.
    pub tables: usize,
    /// Views.
    pub views: usize,
    /// All records.
    pub records: usize,
    /// Every broken invariant, in words.
    pub broken: Vec<Broken>,
    /// Where each live metadata file should be, and the content that it should have.
    #[serde(skip)]
    pub published: Vec<Published>,
}

impl Report {
    /// What was found, in one line.
    pub fn summary(&self) -> String {
        let Self { records, namespaces, tables, views, broken, .. } = self;
        format!(
            "{}: {}, {}, {}; {} broken",
            count(*records, "record", "records"),
            count(*namespaces, "namespace", "namespaces"),
            count(*tables, "table", "tables"),
            count(*views, "view", "views"),
            broken.len()
        )
    }
}

/// A metadata file that a record says is in the warehouse.
#[derive(Debug)]
pub struct Published {
    /// The warehouse's id.
    pub warehouse: Uuid,
    /// Where it is.
    pub metadata_location: String,
    /// What it holds.
    pub document: Document,
    /// Whether its publication is still under way: the next start finishes it.
    pub is_pending: bool,
}
