//! Views: the typed API.

use super::call::named;
use super::fingerprint::RequestMembers;
use super::{EmbeddedCatalog, Result};
use slateberg_catalog::TabularState;
use slateberg_catalog::views::CreateView;
use slateberg_catalog::views::ViewChange;
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::page::{Page, PageRequest};

impl EmbeddedCatalog {
    /// Creates a view.
    pub async fn create_view(&self, request: CreateView) -> Result<TabularState> {
        let call = self.changing(named!("create_view"), || (&request).into())?;
        call.done(call.catalog.tabulars().create_view(&call.cx, request)).await
    }

    /// Registers an existing metadata file as a view.
    pub async fn register_view(
        &self,
        ident: TabularIdent,
        metadata_location: String,
    ) -> Result<TabularState> {
        let call = self.changing(named!("register_view"), || {
            RequestMembers::of("ident", &ident).and("metadata-location", &metadata_location)
        })?;
        call.done(call.catalog.tabulars().register_view(&call.cx, ident, metadata_location)).await
    }

    /// Returns a view's state.
    pub async fn load_view(&self, ident: &TabularIdent) -> Result<TabularState> {
        let call = self.reading(named!("load_view"))?;
        let loaded = call.done(call.catalog.tabulars().load_view(&call.cx, ident)).await?;
        Ok(loaded.state)
    }

    /// Whether a view exists and the principal may see it.
    pub async fn view_exists(&self, ident: &TabularIdent) -> Result<bool> {
        let call = self.reading(named!("view_exists"))?;
        call.is_there(call.catalog.tabulars().view_exists(&call.cx, ident)).await
    }

    /// Lists the names of the views in a namespace.
    pub async fn list_views(&self, namespace: &NamespaceIdent, page: &PageRequest) -> Result<Page> {
        let call = self.reading(named!("list_views"))?;
        call.done(call.catalog.tabulars().list_views(&call.cx, namespace, page)).await
    }

    /// Commits to a view. Returns the resulting state.
    pub async fn commit_view(&self, change: ViewChange) -> Result<TabularState> {
        let call = self.changing(named!("commit_view"), || (&change).into())?;
        call.done(call.catalog.tabulars().commit_view(&call.cx, change)).await
    }

    /// Renames a view, within its namespace or into another one.
    pub async fn rename_view(&self, source: TabularIdent, destination: TabularIdent) -> Result<()> {
        let call = self.changing(named!("rename_view"), || {
            RequestMembers::of("source", &source).and("destination", &destination)
        })?;
        call.done(call.catalog.tabulars().rename_view(&call.cx, source, destination)).await
    }

    /// Drops a view.
    pub async fn drop_view(&self, ident: TabularIdent) -> Result<()> {
        let call = self.changing(named!("drop_view"), || RequestMembers::of("ident", &ident))?;
        call.done(call.catalog.tabulars().drop_view(&call.cx, ident)).await
    }
}
