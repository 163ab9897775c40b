//! Tables: the typed API.

use std::convert::Infallible;

use super::asked::Asked;
use super::call::named;
use super::{EmbeddedCatalog, Result};
use slateberg_catalog::Delegated;
use slateberg_catalog::Loaded;
use slateberg_catalog::Readable;
use slateberg_catalog::TabularState;
use slateberg_catalog::tables::CreateTable;
use slateberg_catalog::tables::RegisterTable;
use slateberg_catalog::tables::TableChange;
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::page::{Page, PageRequest};

impl EmbeddedCatalog {
    /// Makes a table, or stages one.
    pub async fn create_table(&self, request: CreateTable) -> Result<Readable> {
        let call = self.changing(named!("create_table"), || (&request).into())?;
        call.done(call.catalog.tabulars().create_table(&call.cx, request)).await
    }

    /// Brings an existing metadata file into the catalog.
    pub async fn register_table(&self, request: RegisterTable) -> Result<Readable> {
        let call = self.changing(named!("register_table"), || (&request).into())?;
        call.done(call.catalog.tabulars().register_table(&call.cx, request)).await
    }

    /// Takes a table out of the catalog, and leaves its files. Returns its last state.
    pub async fn unregister_table(&self, ident: TabularIdent) -> Result<TabularState> {
        let call = self.changing(named!("unregister_table"), || Asked::of("ident", &ident))?;
        call.done(call.catalog.tabulars().unregister_table(&call.cx, ident)).await
    }

    /// A table's state, and how much of it may be read: whoever is restricted has to be shown its rows as
    /// [`Readable::access`] says, which nobody but the host can do.
    pub async fn load_table(&self, ident: &TabularIdent) -> Result<Readable> {
        let call = self.reading(named!("load_table"))?;
        let nothing = |_, _: Option<&Delegated>| None::<Infallible>;
        let loading = call.catalog.tabulars().load_table(&call.cx, ident, None, nothing);
        match call.done(loading).await? {
            Loaded::State(readable, _) => Ok(readable),
            Loaded::Known(never) => match never {},
        }
    }

    /// Whether a table is there, for all that its asker may know.
    pub async fn table_exists(&self, ident: &TabularIdent) -> Result<bool> {
        let call = self.reading(named!("table_exists"))?;
        call.is_there(call.catalog.tabulars().table_exists(&call.cx, ident)).await
    }

    /// The names of the tables in a namespace.
    pub async fn list_tables(
        &self,
        namespace: &NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        let call = self.reading(named!("list_tables"))?;
        call.done(call.catalog.tabulars().list_tables(&call.cx, namespace, page)).await
    }

    /// Changes a table, or makes it where the change requires that it is not there. Returns the state that
    /// this ends with.
    pub async fn commit_table(&self, change: TableChange) -> Result<TabularState> {
        let call = self.changing(named!("commit_table"), || (&change).into())?;
        call.done(call.catalog.tabulars().commit_table(&call.cx, change)).await
    }

    /// Changes several tables: all of them or none.
    pub async fn commit_transaction(&self, changes: Vec<TableChange>) -> Result<()> {
        let call = self.changing(named!("commit_transaction"), || changes.as_slice().into())?;
        call.done(call.catalog.tabulars().commit_transaction(&call.cx, changes)).await
    }

    /// Gives a table another name, in the same namespace or another.
    pub async fn rename_table(
        &self,
        source: TabularIdent,
        destination: TabularIdent,
    ) -> Result<()> {
        let call = self.changing(named!("rename_table"), || {
            Asked::of("source", &source).and("destination", &destination)
        })?;
        call.done(call.catalog.tabulars().rename_table(&call.cx, source, destination)).await
    }

    /// Drops a table. With `purge` its files are deleted too, in the background.
    pub async fn drop_table(&self, ident: TabularIdent, purge: bool) -> Result<()> {
        let call = self
            .changing(named!("drop_table"), || Asked::of("ident", &ident).and("purge", &purge))?;
        call.done(call.catalog.tabulars().drop_table(&call.cx, ident, purge)).await
    }
}
