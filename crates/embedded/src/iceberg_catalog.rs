//! Implementation of `iceberg::Catalog` with the typed API.

use std::collections::HashMap;

use async_trait::async_trait;
use iceberg::io::FileIO;
use iceberg::table::Table;
use iceberg::{
    Catalog, ErrorKind, Namespace, NamespaceIdent, Result, Runtime, TableCommit, TableCreation,
    TableIdent,
};

use super::cause::{about_namespace, about_table};
use super::translate::{
    change_of, creation_of, metadata_of, namespace_below, namespace_of, table_of,
};
use super::{EmbeddedCatalog, Error};
use slateberg_catalog::TabularState;
use slateberg_catalog::tables::RegisterTable;
use slateberg_catalog::{ReadAccess, Readable};
use slateberg_model::ident::TabularIdent;
use slateberg_model::page::{Listing, PageRequest};

/// Prefix of local locations. The default file I/O of the `iceberg` crate supports only these.
const LOCAL: &str = "file:";
/// Requests a whole listing as a single page.
const EVERYTHING: PageRequest = PageRequest { listing: Listing(0), after: None, limit: None };

/// An open catalog for engines that use `iceberg::Catalog`: one warehouse and one principal. Cheap
/// to clone.
///
/// Errors have the kinds that the trait specifies. Their source is the error of the catalog
/// ([`super::cause()`]).
#[derive(Debug, Clone)]
pub struct IcebergCatalog {
    catalog: EmbeddedCatalog,
    file_io: Option<FileIO>,
}

impl EmbeddedCatalog {
    /// Returns the catalog for engines that use `iceberg::Catalog`.
    pub fn as_iceberg(&self) -> IcebergCatalog {
        IcebergCatalog { catalog: self.clone(), file_io: None }
    }
}

impl IcebergCatalog {
    /// Sets the file I/O with which tables access their files. Warehouses in local directories do
    /// not need this setting, because their tables use the file I/O of the `iceberg` crate by
    /// default. For other warehouses, methods that return a table fail without this setting: they
    /// return [`ErrorKind::FeatureUnsupported`] before they change anything.
    #[must_use]
    pub fn with_file_io(self, file_io: FileIO) -> Self {
        Self { file_io: Some(file_io), ..self }
    }

    /// Returns the file I/O. Uses the default only if all locations are local, because the default
    /// would treat the URL of a bucket as the name of a local directory.
    fn file_io(&self) -> Result<FileIO> {
        if let Some(file_io) = &self.file_io {
            return Ok(file_io.clone());
        }
        let warehouse = self.catalog.warehouse().map_err(|error| self.about_table(error))?;
        match warehouse.storage.locations().find(|location| !location.starts_with(LOCAL)) {
            None => Ok(FileIO::new_with_fs()),
            Some(location) => Err(iceberg::Error::new(
                ErrorKind::FeatureUnsupported,
                format!("there is no FileIO for {location}: set one with with_file_io"),
            )),
        }
    }

    /// Converts an error. Errors of a closed catalog are not retryable, because the catalog stays
    /// closed.
    fn about_table(&self, error: Error) -> iceberg::Error {
        let error = about_table(error);
        let retryable = error.retryable() && !self.catalog.is_closed();
        error.with_retryable(retryable)
    }

    fn about_namespace(&self, error: Error) -> iceberg::Error {
        let error = about_namespace(error);
        let retryable = error.retryable() && !self.catalog.is_closed();
        error.with_retryable(retryable)
    }
}

/// Returns the state of a table. Errors if the principal has read restrictions, because a table of
/// the `iceberg` crate scans all rows and columns and cannot represent restrictions.
fn whole(ident: &TabularIdent, readable: Readable) -> Result<TabularState> {
    match readable.access {
        ReadAccess::Whole => Ok(readable.state),
        ReadAccess::Restricted { .. } => Err(iceberg::Error::new(
            ErrorKind::FeatureUnsupported,
            format!(
                "policies restrict the readable rows or columns of {ident}, which this trait cannot express: load the table with the typed API"
            ),
        )),
    }
}

fn table(ident: TableIdent, state: &TabularState, file_io: FileIO) -> Result<Table> {
    let metadata = metadata_of(&ident, &state.text)?;
    let builder = Table::builder()
        .identifier(ident)
        .metadata(metadata)
        .file_io(file_io)
        .runtime(Runtime::try_current()?);
    match &state.metadata_location {
        Some(location) => builder.metadata_location(location).build(),
        None => builder.build(),
    }
}

#[async_trait]
impl Catalog for IcebergCatalog {
    async fn list_namespaces(
        &self,
        parent: Option<&NamespaceIdent>,
    ) -> Result<Vec<NamespaceIdent>> {
        let inside = parent.map(namespace_of);
        let listed = self.catalog.list_namespaces(inside.as_ref(), &EVERYTHING).await;
        let page = listed.map_err(|error| self.about_namespace(error))?;
        page.names().map(|name| namespace_below(parent, name)).collect()
    }

    /// Creates a namespace. The result has only the given properties, not the default location that
    /// the catalog adds.
    async fn create_namespace(
        &self,
        namespace: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> Result<Namespace> {
        let given = properties.clone().into_iter().collect();
        let created = self.catalog.create_namespace(namespace_of(namespace), given).await;
        created.map_err(|error| self.about_namespace(error))?;
        Ok(Namespace::with_properties(namespace.clone(), properties))
    }

    async fn get_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace> {
        let loaded = self.catalog.load_namespace(&namespace_of(namespace)).await;
        let properties = loaded.map_err(|error| self.about_namespace(error))?;
        Ok(Namespace::with_properties(namespace.clone(), properties.into_iter().collect()))
    }

    async fn namespace_exists(&self, namespace: &NamespaceIdent) -> Result<bool> {
        let found = self.catalog.namespace_exists(&namespace_of(namespace)).await;
        found.map_err(|error| self.about_namespace(error))
    }

    async fn update_namespace(
        &self,
        namespace: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> Result<()> {
        let properties = properties.into_iter().collect();
        let set = self.catalog.set_namespace_properties(namespace_of(namespace), properties).await;
        set.map_err(|error| self.about_namespace(error))
    }

    async fn drop_namespace(&self, namespace: &NamespaceIdent) -> Result<()> {
        let dropped = self.catalog.drop_namespace(namespace_of(namespace)).await;
        dropped.map_err(|error| self.about_namespace(error))
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        let listed = self.catalog.list_tables(&namespace_of(namespace), &EVERYTHING).await;
        let page = listed.map_err(|error| self.about_table(error))?;
        let named = |name: &str| TableIdent::new(namespace.clone(), name.to_owned());
        Ok(page.names().map(named).collect())
    }

    async fn create_table(
        &self,
        namespace: &NamespaceIdent,
        creation: TableCreation,
    ) -> Result<Table> {
        let file_io = self.file_io()?;
        let request = creation_of(namespace, creation).map_err(|error| self.about_table(error))?;
        let ident = request.ident.clone();
        let created = self.catalog.create_table(request).await;
        let created = whole(&ident, created.map_err(|error| self.about_table(error))?)?;
        table(TableIdent::new(namespace.clone(), ident.name), &created, file_io)
    }

    async fn load_table(&self, ident: &TableIdent) -> Result<Table> {
        let file_io = self.file_io()?;
        let found = table_of(ident);
        let loaded = self.catalog.load_table(&found).await;
        let loaded = whole(&found, loaded.map_err(|error| self.about_table(error))?)?;
        table(ident.clone(), &loaded, file_io)
    }

    async fn drop_table(&self, ident: &TableIdent) -> Result<()> {
        let dropped = self.catalog.drop_table(table_of(ident), false).await;
        dropped.map_err(|error| self.about_table(error))
    }

    /// Drops a table. A background job deletes its files.
    async fn purge_table(&self, ident: &TableIdent) -> Result<()> {
        let purged = self.catalog.drop_table(table_of(ident), true).await;
        purged.map_err(|error| self.about_table(error))
    }

    async fn table_exists(&self, ident: &TableIdent) -> Result<bool> {
        let found = self.catalog.table_exists(&table_of(ident)).await;
        found.map_err(|error| self.about_table(error))
    }

    async fn rename_table(&self, source: &TableIdent, destination: &TableIdent) -> Result<()> {
        let renamed = self.catalog.rename_table(table_of(source), table_of(destination)).await;
        renamed.map_err(|error| self.about_table(error))
    }

    async fn register_table(&self, ident: &TableIdent, metadata_location: String) -> Result<Table> {
        let file_io = self.file_io()?;
        let ident_wanted = table_of(ident);
        let request =
            RegisterTable { ident: ident_wanted.clone(), metadata_location, overwrite: false };
        let created = self.catalog.register_table(request).await;
        let created = whole(&ident_wanted, created.map_err(|error| self.about_table(error))?)?;
        table(ident.clone(), &created, file_io)
    }

    async fn update_table(&self, commit: TableCommit) -> Result<Table> {
        let file_io = self.file_io()?;
        let ident = commit.identifier().clone();
        let change = change_of(commit).map_err(|error| self.about_table(error))?;
        let committed = self.catalog.commit_table(change).await;
        let committed = committed.map_err(|error| self.about_table(error))?;
        table(ident, &committed, file_io)
    }
}
