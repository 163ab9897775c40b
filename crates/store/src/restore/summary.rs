//! `RestoreSummary`: lists the changes of a restore, in numbers and by name.

use serde::Serialize;

use super::objects::Objects;

/// Numbers of objects of one kind that a restore changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Objects that exist only in the earlier state.
    pub restored: usize,
    /// Objects that exist in both states, but differ.
    pub changed: usize,
    /// Objects that exist only in the current state.
    pub removed: usize,
}

/// Summary of a restore.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RestoreSummary {
    /// Warehouses.
    pub warehouses: Counts,
    /// Namespaces.
    pub namespaces: Counts,
    /// Tables.
    pub tables: Counts,
    /// Views.
    pub views: Counts,
    /// Functions.
    pub functions: Counts,
    /// Policies that were created at run time.
    pub policies: Counts,
    /// Grants.
    pub grants: Counts,
    /// Restored tables that were purged since the earlier state. Their data files may be gone.
    pub purged: usize,
    /// The warehouses and their contents by name.
    #[serde(skip)]
    pub objects: Objects,
}

impl Counts {
    pub(super) fn add(&mut self, now: bool, then: bool) {
        match (now, then) {
            (false, _) => self.restored += 1,
            (true, true) => self.changed += 1,
            (true, false) => self.removed += 1,
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl RestoreSummary {
    /// Whether the restore leaves all visible objects unchanged.
    pub fn is_empty(&self) -> bool {
        let Self { warehouses, namespaces, tables, views, functions, policies, grants, .. } = self;
        let all = [warehouses, namespaces, tables, views, functions, policies, grants];
        all.into_iter().all(Counts::is_empty)
    }
}
