//! Reading views: one, whether it is there, and the names of all.

use std::convert::Infallible;

use crate::delegation::Delegated;
use crate::lookup::Loaded;
use crate::permits::Target;
use crate::tabulars::TabularState;
use crate::{Catalog, Operation, Result};
use slateberg_authz::action::Load;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::page::{Page, PageRequest};
use slateberg_model::warehouse::Warehouse;

impl Catalog {
    /// A view's state.
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

    /// Whether a view is there.
    pub async fn view_exists(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: &TabularIdent,
    ) -> Result<()> {
        self.exists::<Load>(operation, warehouse, TabularKind::View, ident).await
    }

    /// The names of the views in a namespace.
    pub async fn list_views(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        namespace: &NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        self.list(operation, warehouse, TabularKind::View, namespace, page).await
    }
}
