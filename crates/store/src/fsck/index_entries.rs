//! Checks of the indexes of locations and UUIDs.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::Walk;
use crate::error::Error;
use crate::key_space::KeySpace;
use crate::keys::{LocationKey, UuidKey};
use crate::read::StoreRead;
use crate::records::{FORMAT_WITH_LOCATIONS, FORMAT_WITH_UUIDS};

impl<R: StoreRead> Walk<'_, R> {
    pub(super) async fn locations(&mut self) -> Result<(), Error> {
        let mut locations: HashMap<Uuid, usize> = HashMap::new();
        for (key, entry) in self.all::<LocationKey>(KeySpace::Locations).await? {
            if entry.id != key.id || !self.index.has(&entry) {
                self.note(Err(format!(
                    "the index of locations contains {}, which does not exist",
                    key.id
                )));
            }
            *locations.entry(key.id).or_default() += 1;
        }
        if self.format_version < FORMAT_WITH_LOCATIONS {
            return Ok(());
        }
        for record in self.index.records() {
            let id = record.id;
            let found = locations.get(&id).copied().unwrap_or_default();
            let paths = || record.further_paths.iter().chain([&record.location]);
            // A location with percent-encoded characters has a second key, for its decoded form.
            // Older versions of slateberg did not write that key.
            let encoded = paths().filter(|location| location.contains('%')).count();
            let least = paths().count();
            if !(least..=least + encoded).contains(&found) {
                let broken = format!(
                    "the index contains {found} locations of {id}, but the record of this table or view has a \
                     different number of locations"
                );
                self.report.broken.push(broken);
            }
        }
        Ok(())
    }

    pub(super) async fn uuids(&mut self) -> Result<(), Error> {
        let mut found = HashSet::new();
        for (key, entry) in self.all::<UuidKey>(KeySpace::Uuids).await? {
            let record = self.index.record(key.id).filter(|record| record.uuid == key.uuid);
            if entry.id != key.id || record.is_none() || !self.index.has(&entry) {
                self.note(Err(format!(
                    "the index of UUIDs contains {} for {}, which has another UUID or does not exist",
                    key.uuid, key.id
                )));
            }
            found.insert(key.id);
        }
        let has_uuids = self.format_version >= FORMAT_WITH_UUIDS;
        let missing = self.index.records().map(|record| record.id);
        for id in missing.filter(|id| has_uuids && !found.contains(id)) {
            self.report.broken.push(format!("the index of UUIDs does not contain {id}"));
        }
        Ok(())
    }
}
