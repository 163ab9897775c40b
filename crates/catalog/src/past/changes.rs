//! [`ChangedSince`]: the resources that have changed since a position, as they were at the position.

use std::collections::HashMap;

use uuid::Uuid;

use super::resource::PastResource;
use crate::core::Core;
use crate::error::LostPosition;
use crate::watch::{existed_before, is_new_timeline};
use crate::{Error, Result};
use slateberg_store::bulk_read::Pages;
use slateberg_store::keys::ChangeKey;
use slateberg_store::read::KeyRange;
use slateberg_store::records::{Change, ChangeAction, ChangedKind, LoggedAction};

/// Number of changes that are read together.
const PAGE_CHANGES: usize = 1000;

/// The namespaces, tables and views of a warehouse that have changed since a position, by their ids.
/// The value is the state at the position. `None` for a resource that did not exist then.
#[derive(Debug, Default)]
pub(super) struct ChangedSince(HashMap<Uuid, Before>);

/// The state of a resource before its first change.
#[derive(Debug)]
struct Before {
    resource: Option<PastResource>,
    /// Whether later changes may complete the UUID.
    uuid_is_open: bool,
}

impl ChangedSince {
    /// Reads the changes of a warehouse since the change with the number `next`. The call reads
    /// every change whose effect a read of the durable state before the call could see.
    ///
    /// # Errors
    /// Returns [`Error::PositionGone`] if some of the changes are no longer in the log, or if their
    /// effects are unknown.
    pub(super) async fn read(core: &Core, warehouse: Uuid, next: u64) -> Result<Self> {
        let mut found = Self::default();
        let store = core.store().durable();
        let range = KeyRange::changes_from(next);
        let mut pages = Pages::<ChangeKey>::within(range, PAGE_CHANGES).cached();
        while let Some(page) = pages.next(&store).await? {
            for (_, change) in &page {
                found.add(change, warehouse)?;
            }
        }
        // The oldest changes may have been removed during the reads.
        match core.store().oldest_change().await? <= next {
            true => Ok(found),
            false => Err(Error::PositionGone(LostPosition::Trimmed)),
        }
    }

    /// Returns whether the resource with this id has changed.
    pub(super) fn contains(&self, id: Uuid) -> bool {
        self.0.contains_key(&id)
    }

    /// Returns the resources that existed at the position.
    pub(super) fn resources(&self) -> impl Iterator<Item = &PastResource> {
        self.0.values().filter_map(|before| before.resource.as_ref())
    }

    fn add(&mut self, change: &Change, warehouse: Uuid) -> Result<()> {
        if is_new_timeline(change) {
            return Err(Error::PositionGone(LostPosition::Timeline));
        }
        if change.warehouse != warehouse {
            return Ok(());
        }
        let unknown = || Error::PositionGone(LostPosition::OlderVersion);
        let Some(existed) = existed_before(change).map_err(|_| unknown())? else { return Ok(()) };
        let resource = change.resource.as_ref().ok_or_else(unknown)?;
        if matches!(resource.kind, ChangedKind::Warehouse | ChangedKind::Function) {
            return Ok(());
        }
        let is_registration = matches!(
            change.action,
            LoggedAction::Known(ChangeAction::RegisterTable | ChangeAction::RegisterView)
        );
        let uuid = resource.uuid.filter(|_| !is_registration);
        let before = self.0.entry(change.subject).or_insert_with(|| {
            let (namespace, name) = match &resource.renamed_from {
                Some(before) => (before.namespace.clone(), Some(before.name.clone())),
                None => (resource.namespace.clone(), resource.name.clone()),
            };
            let (kind, id) = (resource.kind, change.subject);
            let state = PastResource { kind, id, uuid, namespace, name, metadata_location: None };
            Before { resource: existed.then_some(state), uuid_is_open: true }
        });
        if let Some(state) = &mut before.resource {
            if state.metadata_location.is_none() {
                state.metadata_location.clone_from(&resource.metadata_before);
            }
            // A registration replaces the UUID of the table.
            before.uuid_is_open &= !is_registration;
            if before.uuid_is_open {
                state.uuid = state.uuid.or(uuid);
            }
        }
        Ok(())
    }
}
