//! [`RecordIndex`]: the records that several checks need.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::dropped::DroppedTabular;
use crate::records::{IndexEntry, NamespaceRecord, TabularRecord};

/// Records that earlier checks have read, and that later checks need.
#[derive(Default)]
pub(super) struct RecordIndex {
    pub(super) warehouses: HashSet<Uuid>,
    pub(super) namespaces: HashMap<Uuid, NamespaceRecord>,
    pub(super) tabulars: HashMap<Uuid, TabularRecord>,
    pub(super) dropped: HashMap<Uuid, DroppedTabular>,
    pub(super) dropped_namespaces: HashSet<Uuid>,
    pub(super) functions: HashSet<Uuid>,
    /// Tables and views whose current metadata file may be missing.
    pub(super) pending: HashSet<Uuid>,
    /// Tables and views whose files a job deletes.
    pub(super) purged: HashSet<Uuid>,
}

impl RecordIndex {
    /// Returns the record of a table or view, which may be dropped.
    pub(super) fn record(&self, id: Uuid) -> Option<&TabularRecord> {
        let dropped = || self.dropped.get(&id).map(|dropped| &dropped.record);
        self.tabulars.get(&id).or_else(dropped)
    }

    /// Returns the records of all tables and views, including dropped ones.
    pub(super) fn records(&self) -> impl Iterator<Item = &TabularRecord> {
        self.tabulars.values().chain(self.dropped.values().map(|dropped| &dropped.record))
    }

    /// Whether the table or view of an index entry exists or, for an entry that is marked as
    /// dropped, whether it is dropped.
    pub(super) fn has(&self, entry: &IndexEntry) -> bool {
        match entry.dropped {
            true => self.dropped.contains_key(&entry.id),
            false => self.tabulars.contains_key(&entry.id),
        }
    }
}
