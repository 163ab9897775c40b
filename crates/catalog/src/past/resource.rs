//! [`PastResource`]: a namespace, table or view at an earlier time.

use uuid::Uuid;

use slateberg_store::records::ChangedKind;

/// A namespace, table or view at an earlier time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastResource {
    /// A namespace, table or view.
    pub kind: ChangedKind,
    /// The id.
    pub id: Uuid,
    /// The `table-uuid` or `view-uuid`. `None` for a namespace, and if it is unknown.
    pub uuid: Option<Uuid>,
    /// Levels of the namespace, or of the namespace that contained the table or view.
    pub namespace: Vec<String>,
    /// Name of the table or view. `None` for a namespace.
    pub name: Option<String>,
    /// Location of the metadata file. `None` for a namespace.
    pub metadata_location: Option<String>,
}

/// The place of a resource in a listing: its kind and its name.
pub(super) type Place = (u8, String);

/// Returns the place of a kind in listings.
pub(super) fn rank(kind: ChangedKind) -> u8 {
    match kind {
        ChangedKind::Table => 1,
        ChangedKind::View => 2,
        ChangedKind::Warehouse | ChangedKind::Namespace | ChangedKind::Function => 0,
    }
}

impl PastResource {
    pub(super) fn place(&self) -> Place {
        let name = self.name.as_ref().or_else(|| self.namespace.last());
        (rank(self.kind), name.cloned().unwrap_or_default())
    }

    /// Whether the resource is directly in a namespace, or in the warehouse if `parent` is empty.
    pub(super) fn is_directly_in(&self, parent: &[String]) -> bool {
        match self.name {
            Some(_) => self.namespace == parent,
            None => self.namespace.split_last().is_some_and(|(_, above)| above == parent),
        }
    }
}
