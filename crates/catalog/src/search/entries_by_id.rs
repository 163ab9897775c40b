//! [`EntriesById`]: the names of tables and views by the ids of these.

use hashbrown::HashTable;
use uuid::Uuid;

use super::name_list::{IdTail, NameList};
use slateberg_authz::resource::Kind;

/// The entries of a list of names, by id. Contains the names whose ids are known.
pub(super) struct EntriesById(HashTable<u32>);

impl EntriesById {
    pub(super) fn of(names: &NameList) -> Self {
        let has_metadata = |at: &u32| {
            let entry = names.entry(*at);
            matches!(entry.kind(), Kind::Table | Kind::View)
                && !entry.is_removed()
                && names.id(*at) != IdTail::default()
        };
        let mut entries = HashTable::with_capacity(names.len());
        // The number of entries is checked when an entry is added.
        for at in (0..names.len() as u32).filter(has_metadata) {
            entries.insert_unique(names.id(at).hash(), at, |at| names.id(*at).hash());
        }
        Self(entries)
    }

    /// Returns the entry of a table or view. `names` is the same list, to which names may have been added
    /// since. `None` if the id was unknown, or if the name was removed since.
    pub(super) fn find(&self, names: &NameList, id: Uuid) -> Option<u32> {
        let id = IdTail::from(id);
        let entry = self.0.find(id.hash(), |at| names.id(*at) == id).copied();
        entry.filter(|at| !names.entry(*at).is_removed())
    }
}
