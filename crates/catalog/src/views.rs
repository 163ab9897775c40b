//! The operations on views that the Iceberg REST specification defines.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::tabular::Tabulars;
use crate::tabular::change::Change;
use crate::tabular::create::NewTabular;
use crate::tabular::delegation::DelegatedAccess;
use crate::tabular::load::Loaded;
use crate::tabular::read_access::Readable;
use crate::tabular::register::RegisterTable;
use crate::tabular::removal::Removal;
use crate::tabular::state::TabularState;
use crate::tabular::target::Target;
use crate::{RequestContext, Result};
use slateberg_authz::action::Load;
use slateberg_base::boxed;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::page::{Page, PageRequest};
use slateberg_model::schema::Schema;
use slateberg_model::view::{ViewMetadata, ViewVersion};
use slateberg_model::view_commit::{NewView, new_view};
use slateberg_store::records::ChangeAction;

/// A commit to a view.
pub type ViewChange = Change<ViewMetadata>;

/// The request of `createView`.
#[derive(Debug, Clone)]
pub struct CreateView {
    /// The name of the view.
    pub ident: TabularIdent,
    /// The location of its metadata files. `None` for the default location.
    pub location: Option<String>,
    /// The schema of the view.
    pub schema: Schema,
    /// The first version of the view.
    pub view_version: ViewVersion,
    /// The properties of the view.
    pub properties: BTreeMap<String, String>,
}

impl Tabulars {
    /// Creates a view.
    #[boxed]
    pub async fn create_view(
        &self,
        cx: &RequestContext,
        request: CreateView,
    ) -> Result<TabularState> {
        let CreateView { ident, location, schema, view_version, properties } = request;
        let metadata = |location, properties, context: &_| {
            new_view(NewView { location, schema, view_version, properties }, context)
        };
        let request = NewTabular { ident, location, properties, stage: false, metadata };
        self.create_tabular(cx, request).await
    }

    /// Registers an existing metadata file as a view.
    #[boxed]
    pub async fn register_view(
        &self,
        cx: &RequestContext,
        ident: TabularIdent,
        metadata_location: String,
    ) -> Result<TabularState> {
        let request = RegisterTable { ident, metadata_location, overwrite: false };
        self.register_tabular::<ViewMetadata>(cx, request).await
    }

    /// Changes a view.
    #[boxed]
    pub async fn commit_view(
        &self,
        cx: &RequestContext,
        change: ViewChange,
    ) -> Result<TabularState> {
        self.commit_tabular(cx, change).await
    }

    /// Drops a view. The view can be restored until its retention ends. Its metadata files stay, so
    /// the view can be registered again later.
    #[boxed]
    pub async fn drop_view(&self, cx: &RequestContext, ident: TabularIdent) -> Result<()> {
        let (action, respond) = (ChangeAction::DropView, |_| ());
        let removal = Removal { action, ident, retained: true, purge: None, respond };
        self.remove_tabular::<ViewMetadata, ()>(cx, removal).await
    }

    /// Renames a view within its namespace, or moves it to another namespace.
    #[boxed]
    pub async fn rename_view(
        &self,
        cx: &RequestContext,
        source: TabularIdent,
        destination: TabularIdent,
    ) -> Result<()> {
        self.rename_tabular::<ViewMetadata>(cx, source, destination).await
    }

    /// Returns the state of a view, and its labels.
    #[boxed]
    pub async fn load_view(&self, cx: &RequestContext, ident: &TabularIdent) -> Result<Readable> {
        let nothing = |_, _: Option<&DelegatedAccess>| None::<Infallible>;
        let target = Target { warehouse: &cx.warehouse, kind: TabularKind::View, ident };
        match self.load(&cx.operation, target, None, nothing).await? {
            Loaded::State(readable, _) => Ok(readable),
            Loaded::Known(never) => match never {},
        }
    }

    /// Returns an error if a view does not exist.
    #[boxed]
    pub async fn view_exists(&self, cx: &RequestContext, ident: &TabularIdent) -> Result<()> {
        let target = Target { warehouse: &cx.warehouse, kind: TabularKind::View, ident };
        self.existing::<Load>(&cx.operation, target).await.map(|_| ())
    }

    /// Returns the names of the views in a namespace.
    #[boxed]
    pub async fn list_views(
        &self,
        cx: &RequestContext,
        namespace: &NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        self.list_tabulars(cx, TabularKind::View, namespace, page).await
    }
}
