//! Views: the use cases of the Iceberg REST specification.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::delegation::Delegated;
use crate::tabular::change::Change;
use crate::tabular::create::NewTabular;
use crate::tabular::load::Loaded;
use crate::tabular::register::RegisterTable;
use crate::tabular::removal::Removal;
use crate::tabular::state::TabularState;
use crate::tabular::target::Target;
use crate::{Catalog, Operation, Result};
use slateberg_authz::action::Load;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::page::{Page, PageRequest};
use slateberg_model::schema::Schema;
use slateberg_model::view::{ViewMetadata, ViewVersion};
use slateberg_model::view_commit::{NewView, new_view};
use slateberg_model::warehouse::Warehouse;

/// A commit to a view.
pub type ViewChange = Change<ViewMetadata>;

/// The request of `createView`.
#[derive(Debug, Clone)]
pub struct CreateView {
    /// Its name.
    pub ident: TabularIdent,
    /// The location of its metadata files; a default location if there is none.
    pub location: Option<String>,
    /// Its schema.
    pub schema: Schema,
    /// Its first version.
    pub view_version: ViewVersion,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
}

impl Catalog {
    /// Creates a view.
    pub async fn create_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        request: CreateView,
    ) -> Result<TabularState> {
        let CreateView { ident, location, schema, view_version, properties } = request;
        let metadata = |location, properties, context: &_| {
            new_view(NewView { location, schema, view_version, properties }, context)
        };
        let request = NewTabular { ident, location, properties, stage: false, metadata };
        self.create_tabular(operation, warehouse, request).await
    }

    /// Registers an existing metadata file as a view.
    pub async fn register_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: TabularIdent,
        metadata_location: String,
    ) -> Result<TabularState> {
        let request = RegisterTable { ident, metadata_location, overwrite: false };
        self.register_tabular::<ViewMetadata>(operation, warehouse, request).await
    }

    /// Changes a view.
    pub async fn commit_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        change: ViewChange,
    ) -> Result<TabularState> {
        self.commit_tabular(operation, warehouse, change).await
    }

    /// Drops a view. Its metadata files stay, so that it can be registered again.
    pub async fn drop_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: TabularIdent,
    ) -> Result<()> {
        let removal = Removal { action: "drop_view", ident, purge: None, respond: |_| () };
        self.remove_tabular::<ViewMetadata, ()>(operation, warehouse, removal).await
    }

    /// Gives a view another name, in the same namespace or another.
    pub async fn rename_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        source: TabularIdent,
        destination: TabularIdent,
    ) -> Result<()> {
        self.rename_tabular::<ViewMetadata>(operation, warehouse, source, destination).await
    }

    /// Returns the state of a view.
    pub async fn load_view(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: &TabularIdent,
    ) -> Result<TabularState> {
        let nothing = |_, _: Option<&Delegated>| None::<Infallible>;
        let target = Target { warehouse, kind: TabularKind::View, ident };
        match self.load(operation, target, None, nothing).await? {
            Loaded::State(readable, _) => Ok(readable.state),
            Loaded::Known(never) => match never {},
        }
    }

    /// Fails if a view does not exist.
    pub async fn view_exists(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: &TabularIdent,
    ) -> Result<()> {
        let target = Target { warehouse, kind: TabularKind::View, ident };
        self.check_exists::<Load>(operation, target).await
    }

    /// Returns the names of the views in a namespace.
    pub async fn list_views(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        namespace: &NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        self.list_tabulars(operation, warehouse, TabularKind::View, namespace, page).await
    }
}
