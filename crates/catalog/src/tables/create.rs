//! Making a table, or staging one that a later commit makes.

use std::collections::BTreeMap;

use crate::locations::{LOCATION_PROPERTY, default_location, without_trailing_slash};
use crate::mutation::Answer;
use crate::overlaps::Placed;
use crate::permits::Creation;
use crate::places::further_paths;
use crate::reading::Readable;
use crate::tabulars::{NewRecord, NewTabular, TabularState};
use crate::{Catalog, Error, Operation, Result, lookup};
use slateberg_authz::action::Create;
use slateberg_authz::permit::Permit;
use slateberg_model::commit::CommitContext;
use slateberg_model::create::{NewTable, new_table};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::partition::UnboundPartitionSpec;
use slateberg_model::schema::Schema;
use slateberg_model::sort::UnboundSortOrder;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::metadata_file::next_location;
use slateberg_store::keys::TabularNameKey;
use slateberg_store::read::Read;
use slateberg_store::records::NamespaceRecord;

/// What `createTable` asks for.
#[derive(Debug, Clone)]
pub struct CreateTable {
    /// Its name.
    pub ident: TabularIdent,
    /// Where its files go; a default location if there is none.
    pub location: Option<String>,
    /// Its schema, with field ids that the catalog replaces.
    pub schema: Schema,
    /// Its partition spec; unpartitioned if there is none.
    pub partition_spec: Option<UnboundPartitionSpec>,
    /// Its sort order; unsorted if there is none.
    pub write_order: Option<UnboundSortOrder>,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
    /// Whether only the metadata is wanted, for a commit that makes the table later.
    pub stage: bool,
}

impl Catalog {
    /// Makes a table, or stages one.
    pub async fn create_table(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        request: CreateTable,
    ) -> Result<Readable> {
        let ident = request.ident.clone();
        let inside = warehouse.clone();
        let made = self.mutate(operation, |catalog, operation| async move {
            catalog.create_table_once(&operation, &inside, request).await
        });
        let made = made.await?.into_tabular()?;
        self.made_readable(operation, warehouse, &ident, made).await
    }

    async fn create_table_once(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        request: CreateTable,
    ) -> Result<Answer> {
        let ident = request.ident;
        let properties = &request.properties;
        let location = request.location.as_ref();
        let kind = TabularKind::Table;
        let creation = Creation { kind, ident: &ident, properties, location };
        let permit: Permit<Create> = self.permit_creation(operation, warehouse, creation).await?;
        let namespace = self.free_name(warehouse, TabularKind::Table, &ident).await?;
        let id = self.ids().random();
        let location = match request.location {
            Some(location) => without_trailing_slash(&location),
            None => self.default_location(warehouse, &namespace, &ident, id),
        };
        let now_ms = self.now_ms();
        let context =
            CommitContext { now_ms, new_uuid: self.ids().random(), default_location: None };
        let table = NewTable {
            location,
            schema: request.schema,
            partition_spec: request.partition_spec,
            sort_order: request.write_order,
            properties: request.properties,
        };
        let metadata = new_table(table, &context)?;
        let (location, metadata_location) =
            self.check_locations(warehouse, &metadata.location, &metadata.properties, None).await?;
        let text = metadata.to_text();
        if request.stage {
            // The commit that creates the table checks this again.
            let further_paths = &further_paths(&location, &metadata.properties);
            let (warehouse, location) = (warehouse.id, &location);
            let placed = Placed { id, warehouse, before: None, location, further_paths };
            self.check_free(&self.store().latest(), placed).await?;
            return Ok(Answer::Tabular(TabularState {
                id,
                version: 0,
                metadata_location: None,
                text,
            }));
        }
        let record = NewRecord {
            id,
            kind: TabularKind::Table,
            warehouse,
            namespace: namespace.id,
            name: &ident.name,
            uuid: metadata.table_uuid,
            location: &location,
            properties: &metadata.properties,
            metadata_location: &metadata_location,
            now_ms,
            owner: operation.owner(),
        }
        .build();
        let new = NewTabular { record, text, publish: true };
        self.insert(operation, &permit, "create_table", &ident, new).await
    }

    /// The namespace that a new table or view goes into, if its name is free there.
    pub(crate) async fn free_name(
        &self,
        warehouse: &Warehouse,
        kind: TabularKind,
        ident: &TabularIdent,
    ) -> Result<NamespaceRecord> {
        let store = self.store().latest();
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

    /// Where a table or view goes that was given no location.
    pub(crate) fn default_location(
        &self,
        warehouse: &Warehouse,
        namespace: &NamespaceRecord,
        ident: &TabularIdent,
        id: uuid::Uuid,
    ) -> String {
        let namespace_location = namespace.properties.get(LOCATION_PROPERTY).map(String::as_str);
        default_location(warehouse, &ident.namespace, namespace_location, &ident.name, id)
    }

    /// The location of a table or view and that of its next metadata file, if the warehouse may use
    /// both.
    pub(crate) async fn check_locations(
        &self,
        warehouse: &Warehouse,
        location: &str,
        properties: &BTreeMap<String, String>,
        previous: Option<&str>,
    ) -> Result<(String, String)> {
        self.check_space(warehouse.id)?;
        self.objects().check(warehouse.id, location)?;
        let metadata_location = next_location(location, properties, previous, self.ids().random())?;
        self.objects().check(warehouse.id, &metadata_location)?;
        let is_usual = match previous {
            Some(previous) => directory_of(previous) == directory_of(&metadata_location),
            None => is_own_place(location, &metadata_location),
        };
        if !is_usual {
            self.objects().check_above(warehouse.id, &metadata_location).await?;
        }
        Ok((location.to_owned(), metadata_location))
    }
}

/// The directory of a file.
fn directory_of(location: &str) -> Option<&str> {
    location.rsplit_once('/').map(|(directory, _)| directory)
}

/// Whether a table's first metadata file goes where nobody else has files: below the id that its location
/// ends with if nobody has said where it goes.
fn is_own_place(location: &str, metadata_location: &str) -> bool {
    let id = location.rsplit_once('-').map(|(_, id)| id);
    id.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok())
        && directory_of(metadata_location) == Some(&format!("{location}/metadata"))
}
