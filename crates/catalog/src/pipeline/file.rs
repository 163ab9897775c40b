//! [`MetadataFile`]: a metadata file that a change writes to the warehouse.

use uuid::Uuid;

use slateberg_model::segmented_json::SegmentedJson;

/// A metadata file that is to be written.
#[derive(Debug, Clone)]
pub(crate) struct MetadataFile {
    /// The id of its warehouse.
    pub warehouse: Uuid,
    pub location: String,
    /// Its content.
    pub text: SegmentedJson,
}

/// Reaction to an existing file of the same name with different content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfTaken {
    Fail,
    Replace,
}
