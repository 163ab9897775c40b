//! Checks the permissions of registrations. A registration discloses the contents of a metadata
//! file. If the file belongs to a table or view, the caller must be allowed to load this table or
//! view without read restrictions. All other callers get the error for a missing file.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::location_index::{self, Owners, locations_of};
use super::tabular::target::Target;
use super::{Error, RequestContext, Result, lookup};
use crate::access::Access;
use slateberg_authz::action::{Action, Load};
use slateberg_authz::authority::{Decider, PrincipalDecider};
use slateberg_model::warehouse::Warehouse;
use slateberg_objects as objects;
use slateberg_objects::location::Location;
use slateberg_store::keys::TabularKey;
use slateberg_store::read::StoreRead;

/// Number of owners (tables and views) at which the search for the owners of a file stops. The file
/// then counts as missing.
const OWNERS_MAX: usize = 1000;

impl Access {
    /// Rejects a metadata file at the location of a table or view that the caller may not load
    /// without read restrictions. The error is the same as for a missing file.
    pub(super) async fn permit_file(&self, cx: &RequestContext, file: &str) -> Result<()> {
        self.permit_owners(cx, file, (file, None)).await
    }

    /// Like [`permit_file`](Self::permit_file), but checks the tables and views with the location
    /// or the UUID that the metadata file contains.
    pub(super) async fn permit_metadata(
        &self,
        cx: &RequestContext,
        file: &str,
        (location, uuid): (&str, Uuid),
    ) -> Result<()> {
        self.permit_owners(cx, file, (location, Some(uuid))).await
    }

    async fn permit_owners(
        &self,
        cx: &RequestContext,
        file: &str,
        (location, uuid): (&str, Option<Uuid>),
    ) -> Result<()> {
        let Decider::Policies(asking) = self.ask(&cx.operation)? else { return Ok(()) };
        let store = self.environment.store().latest();
        let missing = || Error::from(objects::Error::NotFound(file.to_owned()));
        let mut owners = BTreeSet::new();
        if let Ok(location) = Location::parse(location) {
            let found =
                location_index::at(&store, Owners::Existing, (&location, false), OWNERS_MAX)
                    .await?;
            for id in found.ok_or_else(missing)? {
                // The root of the warehouse does not count as the location of a table. Otherwise, a
                // table at the root would own every file in the warehouse.
                let Some(record) = store.get(&TabularKey(id)).await? else { continue };
                let others = locations_of(&record).filter_map(|other| Location::parse(other).ok());
                let mut around = others.filter(|other| location.may_be_within(other));
                if around.any(|other| !self.environment.objects().is_whole(&other)) {
                    owners.insert(id);
                }
            }
        }
        if let Some(uuid) = uuid {
            let found =
                location_index::with_uuid(&store, Owners::Existing, uuid, OWNERS_MAX).await?;
            owners.extend(found.ok_or_else(missing)?);
        }
        for id in owners {
            if !self.may_load_whole(&asking, &cx.warehouse, id).await? {
                return Err(missing());
            }
        }
        Ok(())
    }

    async fn may_load_whole(
        &self,
        asking: &PrincipalDecider<'_>,
        warehouse: &Warehouse,
        id: Uuid,
    ) -> Result<bool> {
        let store = self.environment.store().latest();
        let Some(record) = store.get(&TabularKey(id)).await? else { return Ok(true) };
        if record.warehouse != warehouse.id {
            return Ok(false);
        }
        let ident = lookup::ident_of(&store, &record).await?;
        let target = Target { warehouse, kind: record.kind, ident: &ident };
        let attributes_wanted = asking.wants_attributes(&[Load::NAME]);
        let (resource, _) = self.tabular_resource(&store, attributes_wanted, target).await?;
        let permit = asking.permit::<Load>(&resource);
        let decision = permit.as_ref().ok().map(|permit| permit.decision());
        Ok(decision.is_some_and(|it| it.is_none_or(|decision| decision.read_rules.is_none())))
    }
}
