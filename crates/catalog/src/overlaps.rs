//! Rejects overlapping locations of tables and views. The location of a table or view must not
//! overlap with the location of another table or view, or with a path that is reserved for the
//! catalog. It must not be the default location of a namespace. And it must not equal or contain
//! the location of a whole warehouse.
//!
//! The owner of a table may list, read, write and delete files below its location. So a table
//! cannot get a location at, inside or around the location of another table, unless
//! `catalog.overlapping_locations` allows this. The transaction that writes a location also scans
//! for overlapping locations. If two concurrent changes write overlapping locations, one of them
//! conflicts, runs again, and is rejected.

use uuid::Uuid;

use super::location_index::{
    Owners, has_others_around, has_others_below, is_generated_for, locations_of,
};
use super::{Error, Result, lookup};
use crate::environment::Environment;
use slateberg_model::ident::NamespaceIdent;
use slateberg_model::members::brief;
use slateberg_objects::location::Location;
use slateberg_store::read::StoreRead;
use slateberg_store::records::TabularRecord;

/// Dropped tables do not occupy their locations.
const EXISTING: Owners = Owners::Existing;

/// The locations of a table or view after a change.
#[derive(Clone, Copy)]
pub(super) struct FileLocations<'a> {
    /// Id of the table or view.
    pub(super) id: Uuid,
    /// The warehouse of the table or view.
    pub(super) warehouse: Uuid,
    /// The record before the change. `None` for a new table or view.
    pub(super) before: Option<&'a TabularRecord>,
    /// The new location.
    pub(super) location: &'a String,
    /// Locations outside of `location` to which the new properties direct files.
    pub(super) further_paths: &'a [String],
}

impl<'a> FileLocations<'a> {
    /// Returns the locations after a change from `before` to `after`.
    pub(super) fn by(before: Option<&'a TabularRecord>, after: &'a TabularRecord) -> Self {
        let TabularRecord { id, warehouse, location, further_paths, .. } = after;
        Self { id: *id, warehouse: *warehouse, before, location, further_paths }
    }

    /// Returns the locations that the change adds.
    fn new_locations(&self) -> Vec<Location> {
        let parse = |text: &String| Location::parse(text).ok();
        let known = |record: &TabularRecord| {
            record.location == *self.location && record.further_paths == self.further_paths
        };
        if self.before.is_some_and(known) {
            return Vec::new();
        }
        let had = self.before.into_iter().flat_map(locations_of).filter_map(parse);
        let had: Vec<_> = had.map(|location| location.parts()).collect();
        let all = std::iter::once(self.location).chain(self.further_paths).filter_map(parse);
        all.filter(|location| !had.contains(&location.parts())).collect()
    }
}

impl Environment {
    /// Rejects a change that gives a table or view a reserved or an overlapping location.
    pub(super) async fn check_locations_free(
        &self,
        store: &impl StoreRead,
        placed: FileLocations<'_>,
    ) -> Result<()> {
        for location in placed.new_locations() {
            self.objects().check_reserved(&location)?;
            if !self.settings().overlapping_locations {
                self.check_apart(store, placed, &location).await?;
            }
        }
        Ok(())
    }

    async fn check_apart(
        &self,
        store: &impl StoreRead,
        placed: FileLocations<'_>,
        location: &Location,
    ) -> Result<()> {
        let rejected = |why: &str| {
            let location = brief(location);
            Err(Error::Invalid(format!("Cannot use location '{location}': {why}")))
        };
        let FileLocations { id, warehouse, .. } = placed;
        let objects = self.objects();
        if objects.is_whole(location) {
            return rejected(
                "it equals or contains the location of a whole warehouse. Choose a location inside the warehouse",
            );
        }
        let length = location.parts().len();
        // Tables at the root of the warehouse are skipped. Such a table may be older than this
        // check, and would overlap with every location.
        let root = objects.location(warehouse).filter(|root| location.is_within(root));
        let root_parts = root.map_or(0, |root| root.parts().len());
        let mut taken =
            has_others_around(store, EXISTING, id, location, root_parts + 1..length).await?;
        if !is_generated_for(location, id) {
            taken = taken || has_others_below(store, EXISTING, id, location).await?;
            for parts in location.spellings() {
                let levels = NamespaceIdent(parts[root_parts..].to_vec());
                let namespace = lookup::namespace_id(store, warehouse, &levels);
                taken = taken || root.is_some() && namespace.await?.is_some();
            }
        }
        if taken {
            rejected(
                "it overlaps with the location of another table, view or namespace. Choose another \
                 location, or set catalog.overlapping_locations = true to allow this one",
            )
        } else {
            Ok(())
        }
    }
}
