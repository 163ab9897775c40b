//! Making a view, and registering an existing metadata file as one.

use std::collections::BTreeMap;

use crate::locations::without_trailing_slash;
use crate::mutation::Answer;
use crate::permits::Creation;
use crate::tabulars::{NewRecord, NewTabular, TabularState, unreadable_file};
use crate::{Catalog, Error, Operation, Result};
use slateberg_authz::action::{Create, Register};
use slateberg_authz::permit::Permit;
use slateberg_model::commit::CommitContext;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::schema::Schema;
use slateberg_model::view::{ViewMetadata, ViewVersion};
use slateberg_model::view_commit::{NewView, new_view};
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::metadata_file;

/// What `createView` asks for.
#[derive(Debug, Clone)]
pub struct CreateView {
    /// Its name.
    pub ident: TabularIdent,
    /// Where its metadata files go; a default location if there is none.
    pub location: Option<String>,
    /// Its schema.
    pub schema: Schema,
    /// Its first version.
    pub view_version: ViewVersion,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
}

impl Catalog {
    /// Makes a view.
    pub async fn create_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        request: CreateView,
    ) -> Result<TabularState> {
        let warehouse = warehouse.clone();
        self.mutate(operation, |catalog, operation| async move {
            catalog.create_view_once(&operation, &warehouse, request).await
        })
        .await?
        .into_tabular()
    }

    async fn create_view_once(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        request: CreateView,
    ) -> Result<Answer> {
        let ident = request.ident;
        let properties = &request.properties;
        let location = request.location.as_ref();
        let kind = TabularKind::View;
        let creation = Creation { kind, ident: &ident, properties, location };
        let permit: Permit<Create> = self.permit_creation(operation, warehouse, creation).await?;
        let namespace = self.free_name(warehouse, TabularKind::View, &ident).await?;
        let id = self.ids().random();
        let location = match request.location {
            Some(location) => without_trailing_slash(&location),
            None => self.default_location(warehouse, &namespace, &ident, id),
        };
        let now_ms = self.now_ms();
        let context =
            CommitContext { now_ms, new_uuid: self.ids().random(), default_location: None };
        let view = NewView {
            location,
            schema: request.schema,
            view_version: request.view_version,
            properties: request.properties,
        };
        let metadata = new_view(view, &context)?;
        let (location, metadata_location) =
            self.check_locations(warehouse, &metadata.location, &metadata.properties, None).await?;
        let record = NewRecord {
            id,
            kind: TabularKind::View,
            warehouse,
            namespace: namespace.id,
            name: &ident.name,
            uuid: metadata.view_uuid,
            location: &location,
            properties: &metadata.properties,
            metadata_location: &metadata_location,
            now_ms,
            owner: operation.owner(),
        }
        .build();
        let new = NewTabular { record, text: metadata.to_json().into(), publish: true };
        self.insert(operation, &permit, "create_view", &ident, new).await
    }

    /// Brings an existing metadata file into the catalog as a view.
    pub async fn register_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: TabularIdent,
        metadata_location: String,
    ) -> Result<TabularState> {
        let warehouse = warehouse.clone();
        self.mutate(operation, |catalog, operation| async move {
            catalog.register_view_once(&operation, &warehouse, &ident, &metadata_location).await
        })
        .await?
        .into_tabular()
    }

    async fn register_view_once(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: &TabularIdent,
        metadata_location: &str,
    ) -> Result<Answer> {
        let creation = Creation::registered(TabularKind::View, ident);
        let permit: Permit<Register> = self.permit_creation(operation, warehouse, creation).await?;
        let namespace = self.free_name(warehouse, TabularKind::View, ident).await?;
        if metadata_location.is_empty() {
            return Err(Error::Invalid(
                "Cannot register an empty metadata file location as a view".to_owned(),
            ));
        }
        // Not every store says of a name that it would never take that nothing is there.
        self.objects().check(warehouse.id, metadata_location)?;
        self.permit_file(operation, warehouse, metadata_location).await?;
        let json = metadata_file::read(&self.objects(), warehouse.id, metadata_location).await?;
        let metadata = ViewMetadata::parse(&json).map_err(unreadable_file(metadata_location))?;
        self.objects().check(warehouse.id, &metadata.location)?;
        let described = (metadata.location.as_str(), metadata.view_uuid);
        self.permit_described(operation, warehouse, metadata_location, described).await?;
        let record = NewRecord {
            id: self.ids().random(),
            kind: TabularKind::View,
            warehouse,
            namespace: namespace.id,
            name: &ident.name,
            uuid: metadata.view_uuid,
            location: &metadata.location,
            properties: &metadata.properties,
            metadata_location,
            now_ms: self.now_ms(),
            owner: operation.owner(),
        }
        .build();
        let (text, _room) = json.into_parts();
        let new = NewTabular { record, text: text.into(), publish: false };
        self.insert(operation, &permit, "register_view", ident, new).await
    }
}
