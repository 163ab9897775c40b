//! Creates tables and views, and stages tables that a later commit creates.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::change::Change;
use super::metadata::TabularMetadata;
use super::state::{NewRecord, NewVersion, TabularState};
use super::target::Creation;
use crate::jobs::left_behind::LeftBehind;
use crate::location_index::further_paths;
use crate::locations::{LOCATION_PROPERTY, default_location, without_trailing_slash};
use crate::overlaps::FileLocations;
use crate::tabular::Tabulars;
use crate::{Error, RequestContext, Result, lookup};
use slateberg_authz::action::Create;
use slateberg_authz::permit::Permit;
use slateberg_model::commit::CommitContext;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::refusal::Refusal;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::metadata_file::next_location;
use slateberg_store::keys::TabularNameKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::NamespaceRecord;

/// A request that creates a table or view.
pub(crate) struct NewTabular<F> {
    /// The name of the table or view.
    pub(crate) ident: TabularIdent,
    /// The location. `None` for the default location.
    pub(crate) location: Option<String>,
    /// The properties of the table or view.
    pub(crate) properties: BTreeMap<String, String>,
    /// Whether the table is only staged: the response contains the metadata, and a later commit
    /// creates the table.
    pub(crate) stage: bool,
    /// Builds the metadata from the location and the properties.
    pub(crate) metadata: F,
}

impl Tabulars {
    /// Creates or stages a table or view.
    pub(crate) async fn create_tabular<M, F>(
        &self,
        cx: &RequestContext,
        request: NewTabular<F>,
    ) -> Result<TabularState>
    where
        M: TabularMetadata,
        F: FnOnce(
                String,
                BTreeMap<String, String>,
                &CommitContext,
            ) -> std::result::Result<M, Refusal>
            + Send
            + 'static,
    {
        let create = |tabulars: Self, cx: RequestContext| async move {
            tabulars.create_tabular_once(&cx, request).await
        };
        self.core.mutate(self, cx, create).await
    }

    async fn create_tabular_once<M, F>(
        &self,
        cx: &RequestContext,
        request: NewTabular<F>,
    ) -> Result<TabularState>
    where
        M: TabularMetadata,
        F: FnOnce(
            String,
            BTreeMap<String, String>,
            &CommitContext,
        ) -> std::result::Result<M, Refusal>,
    {
        let NewTabular { ident, location, properties, stage, metadata } = request;
        let creation = Creation {
            kind: M::KIND,
            ident: &ident,
            properties: &properties,
            location: location.as_ref(),
        };
        let permit: Permit<Create> = self.core.access.permit_creation(cx, creation).await?;
        let namespace = self.free_name(&cx.warehouse, M::KIND, &ident).await?;
        let id = self.core.ids().random();
        let location = match location {
            Some(location) => without_trailing_slash(&location),
            None => self.default_location(&cx.warehouse, &namespace, &ident, id),
        };
        let now_ms = self.core.now_ms();
        let context = CommitContext {
            now_ms,
            new_uuid: self.core.ids().random(),
            default_location: None,
            format_version_max: self.core.settings().format_version_max(),
        };
        let metadata = metadata(location, properties, &context)?;
        if stage {
            return self.stage(&cx.warehouse, id, &metadata).await;
        }
        let new = self.new_version(cx, &namespace, (id, &ident), metadata, now_ms);
        let new = new.await?;
        self.commit_new(&cx.operation, &permit, (M::ACTIONS.create, &ident), &new).await
    }

    /// Checks the locations of a staged table. The commit that creates the table checks them again.
    async fn stage<M: TabularMetadata>(
        &self,
        warehouse: &Warehouse,
        id: Uuid,
        metadata: &M,
    ) -> Result<TabularState> {
        let (location, properties) = (metadata.location(), metadata.properties());
        let (location, _) = self.check_locations(warehouse, location, properties, None).await?;
        let further_paths = &further_paths(&location, properties);
        let (warehouse, location) = (warehouse.id, &location);
        let placed = FileLocations { id, warehouse, before: None, location, further_paths };
        self.core.environment.check_locations_free(&self.core.store().latest(), placed).await?;
        Ok(TabularState {
            id,
            version: 0,
            metadata_location: None,
            text: metadata.to_segmented_json(),
        })
    }

    /// Evaluates a commit that creates its table.
    pub(super) async fn plan_new<M: TabularMetadata>(
        &self,
        cx: &RequestContext,
        change: Change<M>,
    ) -> Result<NewVersion> {
        let Change { ident, requirements, updates, .. } = change;
        let namespace = self.free_name(&cx.warehouse, M::KIND, &ident).await?;
        let id = self.core.ids().random();
        let now_ms = self.core.now_ms();
        let context = CommitContext {
            now_ms,
            new_uuid: self.core.ids().random(),
            default_location: Some(self.default_location(&cx.warehouse, &namespace, &ident, id)),
            format_version_max: self.core.settings().format_version_max(),
        };
        let unchanged = || Error::internal("a commit that creates a table has no effect");
        let metadata = M::apply(None, &requirements, &updates, &context)?.ok_or_else(unchanged)?;
        self.new_version(cx, &namespace, (id, &ident), metadata, now_ms).await
    }

    /// Checks the locations of a new table or view, and returns its first version.
    async fn new_version<M: TabularMetadata>(
        &self,
        cx: &RequestContext,
        namespace: &NamespaceRecord,
        (id, ident): (Uuid, &TabularIdent),
        metadata: M,
        now_ms: i64,
    ) -> Result<NewVersion> {
        let (location, properties) = (metadata.location(), metadata.properties());
        let (location, metadata_location) =
            self.check_locations(&cx.warehouse, location, properties, None).await?;
        let record = NewRecord {
            id,
            kind: M::KIND,
            warehouse: &cx.warehouse,
            namespace: namespace.id,
            name: &ident.name,
            uuid: metadata.uuid(),
            location: &location,
            properties,
            metadata_location: &metadata_location,
            now_ms,
            owner: cx.operation.owner(),
        }
        .build();
        Ok(NewVersion {
            before: None,
            record,
            text: metadata.to_segmented_json(),
            parsed: Some(M::into_parsed(metadata.into())),
            outdated: Vec::new(),
            publish: true,
            lists: Vec::new(),
            left_behind: LeftBehind::default(),
        })
    }

    /// Returns the namespace of a new table or view. Errors if the name is not free in the
    /// namespace.
    pub(super) async fn free_name(
        &self,
        warehouse: &Warehouse,
        kind: TabularKind,
        ident: &TabularIdent,
    ) -> Result<NamespaceRecord> {
        let store = self.core.store().latest();
        let namespace = lookup::namespace(&store, warehouse.id, &ident.namespace).await?;
        for taken_by in [kind, kind.other()] {
            let key = TabularNameKey {
                kind: taken_by,
                namespace: namespace.id,
                name: ident.name.clone(),
            };
            if store.get(&key).await?.is_some() {
                return Err(Error::taken(kind, taken_by, ident));
            }
        }
        Ok(namespace)
    }

    /// Returns the default location of a table or view.
    fn default_location(
        &self,
        warehouse: &Warehouse,
        namespace: &NamespaceRecord,
        ident: &TabularIdent,
        id: Uuid,
    ) -> String {
        let namespace_location = namespace.properties.get(LOCATION_PROPERTY).map(String::as_str);
        default_location(warehouse, &ident.namespace, namespace_location, &ident.name, id)
    }

    /// Returns the location of a table or view, and the location of its next metadata file. Errors
    /// if the warehouse does not allow one of these two locations.
    pub(super) async fn check_locations(
        &self,
        warehouse: &Warehouse,
        location: &str,
        properties: &BTreeMap<String, String>,
        previous: Option<&str>,
    ) -> Result<(String, String)> {
        self.core.pipeline().space.check(warehouse.id)?;
        self.core.objects().check(warehouse.id, location)?;
        let metadata_location =
            next_location(location, properties, previous, self.core.ids().random())?;
        self.core.objects().check(warehouse.id, &metadata_location)?;
        let is_usual = match previous {
            Some(previous) => directory_of(previous) == directory_of(&metadata_location),
            None => is_default_location(location, &metadata_location),
        };
        if !is_usual {
            self.core.objects().check_above(warehouse.id, &metadata_location).await?;
        }
        Ok((location.to_owned(), metadata_location))
    }
}

/// Returns the directory of a file.
fn directory_of(location: &str) -> Option<&str> {
    location.rsplit_once('/').map(|(directory, _)| directory)
}

/// Whether `location` has the form of a default location, and the metadata file is in its directory
/// `metadata`. No other table uses a default location, because it ends with a random id.
fn is_default_location(location: &str, metadata_location: &str) -> bool {
    let id = location.rsplit_once('-').map(|(_, id)| id);
    id.is_some_and(|id| Uuid::try_parse(id).is_ok())
        && directory_of(metadata_location) == Some(&format!("{location}/metadata"))
}
