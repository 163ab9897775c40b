//! Registering an existing metadata file as a table, and taking a table out without touching its files.

use crate::mutation::Answer;
use crate::overlaps::Placed;
use crate::permits::{Creation, Target};
use crate::places::further_paths;
use crate::reading::Readable;
use crate::removal::Removal;
use crate::tabulars::{
    NewRecord, NewTabular, NewVersion, Replacement, TabularState, outcome_of, unreadable_file,
};
use crate::{Catalog, Error, Operation, Result};
use slateberg_authz::action::{Drop, Register};
use slateberg_authz::permit::Permit;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::table::TableMetadata;
use slateberg_model::text::Text;
use slateberg_model::warehouse::Warehouse;
use slateberg_objects::content::Room;
use slateberg_objects::metadata_file;
use slateberg_store::records::TabularRecord;

/// How often an overwriting registration begins anew because the table under it moved.
const REGISTER_ATTEMPTS_MAX: usize = 16;

/// What `registerTable` asks for.
#[derive(Debug, Clone)]
pub struct RegisterTable {
    /// The name that the table gets.
    pub ident: TabularIdent,
    /// Its metadata file, which becomes its current one as it is.
    pub metadata_location: String,
    /// Whether a table of that name may be there, and then gets this metadata.
    pub overwrite: bool,
}

impl Catalog {
    /// Brings an existing metadata file into the catalog.
    pub async fn register_table(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        request: RegisterTable,
    ) -> Result<Readable> {
        let ident = request.ident.clone();
        let inside = warehouse.clone();
        let made = self.mutate(operation, |catalog, operation| async move {
            catalog.register_table_once(&operation, &inside, &request).await
        });
        let made = made.await?.into_tabular()?;
        self.made_readable(operation, warehouse, &ident, made).await
    }

    async fn register_table_once(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        request: &RegisterTable,
    ) -> Result<Answer> {
        let ident = &request.ident;
        let creation = Creation::registered(TabularKind::Table, ident);
        let permit: &Permit<Register> =
            &self.permit_creation(operation, warehouse, creation).await?;
        for _ in 0..REGISTER_ATTEMPTS_MAX {
            let free = self.free_name(warehouse, TabularKind::Table, ident).await;
            let namespace = match free {
                Ok(namespace) => namespace,
                Err(Error::AlreadyExists(_)) if request.overwrite => {
                    match self.register_over(operation, permit, warehouse, request).await? {
                        Some(answer) => return Ok(answer),
                        None => continue,
                    }
                }
                Err(error) => return Err(error),
            };
            let (metadata, text, _room) =
                self.read_table(operation, warehouse, &request.metadata_location).await?;
            let record = NewRecord {
                id: self.ids().random(),
                kind: TabularKind::Table,
                warehouse,
                namespace: namespace.id,
                name: &ident.name,
                uuid: metadata.table_uuid,
                location: &metadata.location,
                properties: &metadata.properties,
                metadata_location: &request.metadata_location,
                now_ms: self.now_ms(),
                owner: operation.owner(),
            }
            .build();
            let new = NewTabular { record, text, publish: false };
            return self.insert(operation, permit, "register_table", ident, new).await;
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the table is changed concurrently. Retry later",
            ident,
        ))
    }

    /// Gives the table of that name the registered metadata. None if it is gone by now.
    async fn register_over(
        &self,
        operation: &Operation,
        permit: &Permit<Register>,
        warehouse: &Warehouse,
        request: &RegisterTable,
    ) -> Result<Option<Answer>> {
        let ident = &request.ident;
        self.permit_over(operation, warehouse, ident).await?;
        let (metadata, text, _room) =
            self.read_table(operation, warehouse, &request.metadata_location).await?;
        let entered = match self.enter(warehouse, TabularKind::Table, ident).await {
            // The name is a view's, which no registration replaces, or free by now.
            Err(Error::NoSuchTable(_)) => {
                self.free_name(warehouse, TabularKind::Table, ident).await?;
                return Ok(None);
            }
            entered => entered?,
        };
        let Some((found, lanes)) = entered else { return Ok(None) };
        self.permit_over(operation, warehouse, ident).await?;
        let before = found.record.clone();
        let changed = before.metadata_location != request.metadata_location;
        let after = TabularRecord {
            uuid: metadata.table_uuid,
            further_paths: further_paths(&metadata.location, &metadata.properties),
            location: metadata.location,
            metadata_location: request.metadata_location.clone(),
            version: before.version + 1,
            updated_ms: self.now_ms(),
            ..before.clone()
        };
        self.check_free(&self.store().latest(), Placed::by(Some(&before), &after)).await?;
        // The file is somebody else's and there already, so that there is nothing to publish.
        let text_before = found.document.text.clone();
        let outdated = Vec::new();
        let version = NewVersion { before, after, text_before, text, outdated, publish: false };
        let new = changed.then_some(version);
        let replacement = Replacement { action: "register_table", ident, found, new, lanes };
        self.replace(operation, permit, replacement).await
    }

    /// The permit that putting other metadata in the place of a table's needs besides: the table that was
    /// there is gone, as by a drop.
    async fn permit_over(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: &TabularIdent,
    ) -> Result<Permit<Drop>> {
        let target = Target { warehouse, kind: TabularKind::Table, ident };
        self.permit_tabular(&self.store().latest(), operation, target).await
    }

    /// Reads a table's metadata file that a request names. The text has its room for as long as the request
    /// has it.
    async fn read_table(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        location: &str,
    ) -> Result<(TableMetadata, Text, Room)> {
        if location.is_empty() {
            return Err(Error::Invalid(
                "Cannot register an empty metadata file location as a table".to_owned(),
            ));
        }
        // Not every store says of a name that it would never take that nothing is there.
        self.objects().check(warehouse.id, location)?;
        self.permit_file(operation, warehouse, location).await?;
        let json = metadata_file::read(&self.objects(), warehouse.id, location).await?;
        let metadata = TableMetadata::parse(&json).map_err(unreadable_file(location))?;
        self.objects().check(warehouse.id, &metadata.location)?;
        let described = (metadata.location.as_str(), metadata.table_uuid);
        self.permit_described(operation, warehouse, location, described).await?;
        let (text, room) = json.into_parts();
        Ok((metadata, text.into(), room))
    }

    /// Takes a table out of the catalog and leaves its files: the answer holds its last state, behind
    /// which no commit can come any more.
    pub async fn unregister_table(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: TabularIdent,
    ) -> Result<TabularState> {
        let warehouse = warehouse.clone();
        self.mutate(operation, |catalog, operation| async move {
            let removal = Removal {
                action: "unregister_table",
                kind: TabularKind::Table,
                ident: &ident,
                purge: None,
                outcome: |found| outcome_of(&found.record),
            };
            let found = catalog.remove(&operation, &warehouse, removal).await?;
            Ok(Answer::Tabular(found.into()))
        })
        .await?
        .into_tabular()
    }
}
