//! Namespaces: the typed API.

use std::collections::BTreeSet;

use super::call::named;
use super::fingerprint::RequestMembers;
use super::{EmbeddedCatalog, Result};
use slateberg_catalog::namespaces::{Properties, Removals};
use slateberg_model::ident::NamespaceIdent;
use slateberg_model::page::{Page, PageRequest};

impl EmbeddedCatalog {
    /// Creates a namespace. Its parent must exist.
    pub async fn create_namespace(
        &self,
        ident: NamespaceIdent,
        properties: Properties,
    ) -> Result<()> {
        let call = self.changing(named!("create_namespace"), || {
            RequestMembers::of("ident", &ident).and("properties", &properties)
        })?;
        let making = call.catalog.namespaces().create_namespace(&call.cx, ident, properties);
        call.done(making).await.map(|_| ())
    }

    /// Lists the names of the namespaces directly below `parent`, or of the top-level ones.
    pub async fn list_namespaces(
        &self,
        parent: Option<&NamespaceIdent>,
        page: &PageRequest,
    ) -> Result<Page> {
        let call = self.reading(named!("list_namespaces"))?;
        call.done(call.catalog.namespaces().list_namespaces(&call.cx, parent, page)).await
    }

    /// Returns the properties of a namespace, always including `location`.
    pub async fn load_namespace(&self, ident: &NamespaceIdent) -> Result<Properties> {
        let call = self.reading(named!("load_namespace"))?;
        call.done(call.catalog.namespaces().load_namespace(&call.cx, ident)).await
    }

    /// Whether a namespace exists and the principal may see it.
    pub async fn namespace_exists(&self, ident: &NamespaceIdent) -> Result<bool> {
        let call = self.reading(named!("namespace_exists"))?;
        call.is_there(call.catalog.namespaces().namespace_exists(&call.cx, ident)).await
    }

    /// Removes and sets properties of a namespace.
    pub async fn update_namespace_properties(
        &self,
        ident: NamespaceIdent,
        removals: BTreeSet<String>,
        updates: Properties,
    ) -> Result<()> {
        self.update_properties(ident, Removals::Keys(removals), updates).await
    }

    /// Replaces all properties of a namespace.
    pub async fn set_namespace_properties(
        &self,
        ident: NamespaceIdent,
        properties: Properties,
    ) -> Result<()> {
        self.update_properties(ident, Removals::AllOthers, properties).await
    }

    async fn update_properties(
        &self,
        ident: NamespaceIdent,
        removals: Removals,
        updates: Properties,
    ) -> Result<()> {
        let removed = match &removals {
            Removals::Keys(keys) => Some(keys),
            Removals::AllOthers => None,
        };
        let members =
            RequestMembers::of("ident", &ident).and("removals", &removed).and("updates", &updates);
        let call = self.changing(named!("update_namespace_properties"), || members)?;
        let updating = call
            .catalog
            .namespaces()
            .update_namespace_properties(&call.cx, ident, removals, updates);
        call.done(updating).await.map(|_| ())
    }

    /// Drops an empty namespace.
    pub async fn drop_namespace(&self, ident: NamespaceIdent) -> Result<()> {
        let call =
            self.changing(named!("drop_namespace"), || RequestMembers::of("ident", &ident))?;
        call.done(call.catalog.namespaces().drop_namespace(&call.cx, ident)).await
    }
}
