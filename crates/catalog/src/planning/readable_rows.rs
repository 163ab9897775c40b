//! [`ReadableRows`]: the rows of a table that a caller may read.

use std::sync::Arc;

use slateberg_model::read_restrictions::{ReadRestrictions, RulesKey};

/// The rows of a table that a caller may read.
#[derive(Clone, PartialEq)]
pub(super) enum ReadableRows {
    /// All rows.
    All,
    /// The rows that these restrictions permit. The caller is trusted to apply them.
    Restricted(Arc<ReadRestrictions>),
    /// The rows of those files in which the row filter permits every row.
    InPermittedFiles(RowFilter),
}

/// A row filter.
#[derive(Clone, PartialEq)]
pub(super) struct RowFilter {
    /// The key of the rules from which it was resolved.
    pub(super) rules: RulesKey,
    /// Restrictions without masks.
    pub(super) restrictions: Arc<ReadRestrictions>,
}
