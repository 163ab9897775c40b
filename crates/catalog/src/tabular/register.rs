//! Registers an existing metadata file as a table or view.

use super::metadata::TabularMetadata;
use super::state::{NewRecord, NewVersion, PreviousVersion, TabularState};
use super::target::{Creation, Target};
use crate::jobs::left_behind::LeftBehind;
use crate::location_index::further_paths;
use crate::lookup::{self, FoundTabular};
use crate::overlaps::FileLocations;
use crate::pipeline::lanes::LaneGuard;
use crate::tabular::Tabulars;
use crate::{Error, Operation, RequestContext, Result};
use slateberg_authz::action::{Drop, Register};
use slateberg_authz::permit::Permit;
use slateberg_model::commit::supported_format_version;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::content::Room;
use slateberg_objects::metadata_file;
use slateberg_store::records::TabularRecord;

/// Maximum number of attempts of a registration over an existing table. The registration starts
/// again if the table is renamed or dropped concurrently.
const REGISTER_ATTEMPTS_MAX: usize = 16;

/// A request that registers a metadata file.
#[derive(Debug, Clone)]
pub struct RegisterTable {
    /// The name of the table or view.
    pub ident: TabularIdent,
    /// The metadata file. It becomes, unchanged, the current metadata file of the table or view.
    pub metadata_location: String,
    /// Whether the registration replaces the metadata of an existing table with that name.
    pub overwrite: bool,
}

impl Tabulars {
    /// Registers a metadata file.
    pub(crate) async fn register_tabular<M: TabularMetadata>(
        &self,
        cx: &RequestContext,
        request: RegisterTable,
    ) -> Result<TabularState> {
        let register = |tabulars: Self, cx: RequestContext| async move {
            tabulars.register_once::<M>(&cx, &request).await
        };
        self.core.mutate(self, cx, register).await
    }

    async fn register_once<M: TabularMetadata>(
        &self,
        cx: &RequestContext,
        request: &RegisterTable,
    ) -> Result<TabularState> {
        let ident = &request.ident;
        let creation = Creation::registered(M::KIND, ident);
        let permit: &Permit<Register> = &self.core.access.permit_creation(cx, creation).await?;
        for _ in 0..REGISTER_ATTEMPTS_MAX {
            let namespace = match self.free_name(&cx.warehouse, M::KIND, ident).await {
                Ok(namespace) => namespace,
                Err(Error::AlreadyExists(_)) if request.overwrite => {
                    match self.register_over::<M>(cx, permit, request).await? {
                        Some(state) => return Ok(state),
                        None => continue,
                    }
                }
                Err(error) => return Err(error),
            };
            let (metadata, text, _room) =
                self.read_metadata::<M>(cx, &request.metadata_location).await?;
            let record = NewRecord {
                id: self.core.ids().random(),
                kind: M::KIND,
                warehouse: &cx.warehouse,
                namespace: namespace.id,
                name: &ident.name,
                uuid: metadata.uuid(),
                location: metadata.location(),
                properties: metadata.properties(),
                metadata_location: &request.metadata_location,
                now_ms: self.core.now_ms(),
                owner: cx.operation.owner(),
            }
            .build();
            let new = registered(None, record, text);
            return self
                .commit_new(&cx.operation, permit, (M::ACTIONS.register, ident), &new)
                .await;
        }
        let kind = M::KIND.name();
        Err(Error::unavailable(
            &format!(
                "Gave up after repeated conflicts: the {kind} is changed concurrently. Retry later"
            ),
            ident.to_string(),
        ))
    }

    /// Replaces the metadata of an existing table or view. Returns `None` if it was renamed or
    /// dropped.
    async fn register_over<M: TabularMetadata>(
        &self,
        cx: &RequestContext,
        permit: &Permit<Register>,
        request: &RegisterTable,
    ) -> Result<Option<TabularState>> {
        let RequestContext { operation, warehouse } = cx;
        let ident = &request.ident;
        let target = Target { warehouse, kind: M::KIND, ident };
        self.permit_overwrite(operation, target).await?;
        let (metadata, text, _room) =
            self.read_metadata::<M>(cx, &request.metadata_location).await?;
        let entered = match self.enter(warehouse, M::KIND, ident).await {
            // The name is free, or belongs to an object of the other kind. A registration does not
            // replace such an object.
            Err(Error::NoSuchTable(_) | Error::NoSuchView(_)) => {
                self.free_name(warehouse, M::KIND, ident).await?;
                return Ok(None);
            }
            entered => entered?,
        };
        let Some((found, lanes)) = entered else { return Ok(None) };
        self.permit_overwrite(operation, target).await?;
        let FoundTabular { record: before, document } = &found;
        let changed = before.metadata_location != request.metadata_location;
        let record = TabularRecord {
            uuid: metadata.uuid(),
            further_paths: further_paths(metadata.location(), metadata.properties()),
            location: metadata.location().to_owned(),
            metadata_location: request.metadata_location.clone(),
            version: before.version + 1,
            updated_ms: self.core.now_ms(),
            ..before.clone()
        };
        self.core
            .environment
            .check_locations_free(
                &self.core.store().latest(),
                FileLocations::by(Some(before), &record),
            )
            .await?;
        let text_before = document.text.clone();
        let replaced = PreviousVersion { record: before.clone(), text: text_before };
        let new = changed.then(|| registered(Some(replaced), record, text));
        let state = new.as_ref().map_or_else(|| TabularState::from(found), NewVersion::state);
        let (named, written) = ((M::ACTIONS.register, ident), (&state, new.as_ref()));
        let committed = self.commit_version(operation, permit, named, lanes, written).await?;
        Ok(committed.map(|_| state))
    }

    /// Enters the lane of a table or view, and reads its state. Returns `None` if it was renamed or
    /// dropped.
    async fn enter(
        &self,
        warehouse: &Warehouse,
        kind: TabularKind,
        ident: &TabularIdent,
    ) -> Result<Option<(FoundTabular, LaneGuard)>> {
        self.core.environment.check_findable(kind, ident)?;
        let store = self.core.store().latest();
        let id = lookup::tabular_id(&store, warehouse.id, kind, ident)
            .await?
            .ok_or_else(|| Error::no_such(kind, ident))?;
        let lanes = self.core.pipeline().lanes.enter(vec![id]).await?;
        let named = lookup::tabular_id(&store, warehouse.id, kind, ident).await?;
        let found = lookup::tabular_by_id(&store, id).await?.filter(|_| named == Some(id));
        Ok(found.map(|found| (found, lanes)))
    }

    /// Returns the additional permit for replacing the metadata of a table or view: `Drop`, because
    /// the previous metadata is lost.
    async fn permit_overwrite(
        &self,
        operation: &Operation,
        target: Target<'_>,
    ) -> Result<Permit<Drop>> {
        self.core.access.permit_tabular(&self.core.store().latest(), operation, target).await
    }

    /// Reads the metadata file of a request. Its memory stays reserved until the [`Room`] is
    /// dropped.
    async fn read_metadata<M: TabularMetadata>(
        &self,
        cx: &RequestContext,
        location: &str,
    ) -> Result<(M, SegmentedJson, Room)> {
        if location.is_empty() {
            let kind = M::KIND.name();
            return Err(Error::Invalid(format!(
                "Cannot register an empty metadata file location as a {kind}"
            )));
        }
        // The location is checked first, because some object stores do not report a file with an
        // invalid name as missing.
        self.core.objects().check(cx.warehouse.id, location)?;
        self.core.access.permit_file(cx, location).await?;
        let json = metadata_file::read(&self.core.objects(), cx.warehouse.id, location).await?;
        let invalid = |source| Error::InvalidMetadataFile { location: location.to_owned(), source };
        let metadata = M::parse(&json).map_err(invalid)?;
        let max = self.core.settings().format_version_max();
        supported_format_version(metadata.format_version().into(), max).map_err(invalid)?;
        self.core.objects().check(cx.warehouse.id, metadata.location())?;
        let described = (metadata.location(), metadata.uuid());
        self.core.access.permit_metadata(cx, location, described).await?;
        let (text, room) = json.into_parts();
        Ok((metadata, text.into(), room))
    }
}

/// Returns the version for a registration. Its metadata file exists already.
fn registered(
    before: Option<PreviousVersion>,
    record: TabularRecord,
    text: SegmentedJson,
) -> NewVersion {
    NewVersion {
        before,
        record,
        text,
        parsed: None,
        outdated: Vec::new(),
        publish: false,
        lists: Vec::new(),
        left_behind: LeftBehind::default(),
    }
}
