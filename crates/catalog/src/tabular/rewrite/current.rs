//! The manifests that a rewrite begins with, its result, and its errors.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::tabular::head::Head;
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::snapshot::Snapshot;
use slateberg_model::table::TableMetadata;
use slateberg_objects as objects;

/// The result of a rewrite, or its expected result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewrittenManifests {
    /// The new snapshot. `None` if there was nothing to rewrite, or if this is a dry run.
    pub snapshot_id: Option<i64>,
    /// Number of new manifests. In a dry run, this is an estimate.
    pub created: usize,
    /// Number of manifests that remain.
    pub kept: usize,
    /// Number of manifests that the new ones replace.
    pub replaced: usize,
    /// Number of files in the new manifests.
    pub entries: i64,
}

/// The current snapshot of a table, and its manifests.
pub(super) struct CurrentManifests<'a> {
    pub(super) head: &'a Head<TableMetadata>,
    pub(super) snapshot: &'a Arc<Snapshot>,
    pub(super) manifests: Vec<ManifestFile>,
}

impl RewrittenManifests {
    /// Returns the result if there is nothing to rewrite.
    pub(super) fn nothing(kept: usize) -> Self {
        Self { kept, ..Self::default() }
    }
}

/// Returns the rejection of a rewrite for this reason.
pub(super) fn rejected(reason: &str) -> Error {
    Error::Invalid(format!("Cannot rewrite manifests: {reason}"))
}

/// Returns the error for a file that cannot be read.
pub(super) fn unreadable(error: objects::Error) -> Error {
    use objects::Error as E;
    match error {
        E::NotFound(_) | E::Unreadable { .. } | E::NotAllowed(_) => {
            rejected(&format!("the table is damaged: {error}"))
        }
        E::Taken(_) | E::Full { .. } | E::Unavailable { .. } => error.into(),
    }
}
