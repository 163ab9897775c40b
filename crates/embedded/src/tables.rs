//! Tables: the typed API.

use std::convert::Infallible;

use super::call::named;
use super::fingerprint::RequestMembers;
use super::{EmbeddedCatalog, Result};
use slateberg_catalog::DelegatedAccess;
use slateberg_catalog::Loaded;
use slateberg_catalog::Readable;
use slateberg_catalog::TabularState;
use slateberg_catalog::tables::CreateTable;
use slateberg_catalog::tables::RegisterTable;
use slateberg_catalog::tables::TableChange;
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::page::{Page, PageRequest};

impl EmbeddedCatalog {
    /// Creates or stages a table.
    pub async fn create_table(&self, request: CreateTable) -> Result<Readable> {
        let call = self.changing(named!("create_table"), || (&request).into())?;
        call.done(call.catalog.tabulars().create_table(&call.cx, request)).await
    }

    /// Registers an existing metadata file as a table.
    pub async fn register_table(&self, request: RegisterTable) -> Result<Readable> {
        let call = self.changing(named!("register_table"), || (&request).into())?;
        call.done(call.catalog.tabulars().register_table(&call.cx, request)).await
    }

    /// Removes a table from the catalog without deleting its files. Returns its last state.
    pub async fn unregister_table(&self, ident: TabularIdent) -> Result<TabularState> {
        let call =
            self.changing(named!("unregister_table"), || RequestMembers::of("ident", &ident))?;
        call.done(call.catalog.tabulars().unregister_table(&call.cx, ident)).await
    }

    /// Returns a table's state and the principal's read access. The host must apply the
    /// restrictions in [`Readable::access`], because the catalog does not read the data.
    pub async fn load_table(&self, ident: &TabularIdent) -> Result<Readable> {
        let call = self.reading(named!("load_table"))?;
        let nothing = |_, _: Option<&DelegatedAccess>| None::<Infallible>;
        let loading = call.catalog.tabulars().load_table(&call.cx, ident, None, nothing);
        match call.done(loading).await? {
            Loaded::State(readable, _) => Ok(readable),
            Loaded::Known(never) => match never {},
        }
    }

    /// Whether a table exists and the principal may see it.
    pub async fn table_exists(&self, ident: &TabularIdent) -> Result<bool> {
        let call = self.reading(named!("table_exists"))?;
        call.is_there(call.catalog.tabulars().table_exists(&call.cx, ident)).await
    }

    /// Lists the names of the tables in a namespace.
    pub async fn list_tables(
        &self,
        namespace: &NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        let call = self.reading(named!("list_tables"))?;
        call.done(call.catalog.tabulars().list_tables(&call.cx, namespace, page)).await
    }

    /// Commits to a table, or creates it if the change requires that it does not exist. Returns the
    /// resulting state.
    pub async fn commit_table(&self, change: TableChange) -> Result<TabularState> {
        let call = self.changing(named!("commit_table"), || (&change).into())?;
        call.done(call.catalog.tabulars().commit_table(&call.cx, change)).await
    }

    /// Commits to several tables atomically.
    pub async fn commit_transaction(&self, changes: Vec<TableChange>) -> Result<()> {
        let call = self.changing(named!("commit_transaction"), || changes.as_slice().into())?;
        call.done(call.catalog.tabulars().commit_transaction(&call.cx, changes)).await
    }

    /// Renames a table, within its namespace or into another one.
    pub async fn rename_table(
        &self,
        source: TabularIdent,
        destination: TabularIdent,
    ) -> Result<()> {
        let call = self.changing(named!("rename_table"), || {
            RequestMembers::of("source", &source).and("destination", &destination)
        })?;
        call.done(call.catalog.tabulars().rename_table(&call.cx, source, destination)).await
    }

    /// Drops a table. With `purge`, a background job deletes its files.
    pub async fn drop_table(&self, ident: TabularIdent, purge: bool) -> Result<()> {
        let call = self.changing(named!("drop_table"), || {
            RequestMembers::of("ident", &ident).and("purge", &purge)
        })?;
        call.done(call.catalog.tabulars().drop_table(&call.cx, ident, purge)).await
    }
}
