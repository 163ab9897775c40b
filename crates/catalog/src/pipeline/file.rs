//! [`MetadataFile`]: a metadata file that a change writes.

use uuid::Uuid;

use slateberg_model::text::Text;

/// A metadata file that is to be written.
#[derive(Debug, Clone)]
pub(crate) struct MetadataFile {
    /// The warehouse that it belongs to.
    pub warehouse: Uuid,
    /// Its location.
    pub location: String,
    /// Its text.
    pub text: Text,
}

/// What to do if a file of that name has another content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfTaken {
    Fail,
    Replace,
}
