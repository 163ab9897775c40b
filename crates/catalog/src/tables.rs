//! The operations on tables that the Iceberg REST specification defines.

use std::collections::BTreeMap;

use crate::tabular::Tabulars;
pub use crate::tabular::change::Change;
use crate::tabular::create::NewTabular;
use crate::tabular::delegation::DelegatedAccess;
use crate::tabular::load::Loaded;
use crate::tabular::read_access::{ReadVersion, Readable};
pub use crate::tabular::register::RegisterTable;
use crate::tabular::removal::Removal;
use crate::tabular::state::TabularState;
use crate::tabular::target::Target;
use crate::{RequestContext, Result};
use slateberg_authz::action::Load;
use slateberg_base::boxed;
use slateberg_model::create::{NewTable, new_table};
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::page::{Page, PageRequest};
use slateberg_model::partition::UnboundPartitionSpec;
use slateberg_model::schema::Schema;
use slateberg_model::sort::UnboundSortOrder;
use slateberg_model::table::TableMetadata;
use slateberg_model::warehouse::Delegation;
use slateberg_store::records::ChangeAction;

/// A commit to a table.
pub type TableChange = Change<TableMetadata>;

/// The request of `createTable`.
#[derive(Debug, Clone)]
pub struct CreateTable {
    /// The name of the table.
    pub ident: TabularIdent,
    /// The location. `None` for the default location.
    pub location: Option<String>,
    /// The schema. The catalog replaces the field ids.
    pub schema: Schema,
    /// The partition spec. `None` if the table is not partitioned.
    pub partition_spec: Option<UnboundPartitionSpec>,
    /// The sort order. `None` if the table is not sorted.
    pub write_order: Option<UnboundSortOrder>,
    /// The properties of the table.
    pub properties: BTreeMap<String, String>,
    /// Whether the table is only staged: the response contains the metadata, and a later commit
    /// creates the table.
    pub stage: bool,
}

impl Tabulars {
    /// Creates or stages a table.
    #[boxed]
    pub async fn create_table(
        &self,
        cx: &RequestContext,
        request: CreateTable,
    ) -> Result<Readable> {
        let CreateTable { schema, partition_spec, write_order: sort_order, .. } = request;
        let ident = request.ident.clone();
        let request = NewTabular {
            ident: request.ident,
            location: request.location,
            properties: request.properties,
            stage: request.stage,
            metadata: |location, properties, context: &_| {
                let table = NewTable { location, schema, partition_spec, sort_order, properties };
                new_table(table, context)
            },
        };
        let created = self.create_tabular(cx, request).await?;
        self.core.creator_read_access(cx, &ident, created).await
    }

    /// Registers an existing metadata file as a table.
    #[boxed]
    pub async fn register_table(
        &self,
        cx: &RequestContext,
        request: RegisterTable,
    ) -> Result<Readable> {
        let ident = request.ident.clone();
        let registered = self.register_tabular::<TableMetadata>(cx, request).await?;
        self.core.creator_read_access(cx, &ident, registered).await
    }

    /// Commits a change to a table. Creates the table if the commit requires that it does not
    /// exist.
    #[boxed]
    pub async fn commit_table(
        &self,
        cx: &RequestContext,
        change: TableChange,
    ) -> Result<TabularState> {
        self.commit_tabular(cx, change).await
    }

    /// Drops a table. The table can be restored until its retention ends. With `purge`, a
    /// background job deletes the files of the table after the retention. If the caller has the
    /// permission `PurgeNow`, the job deletes the files at once. The response then waits for the
    /// job, at most `purge_wait_ms`.
    #[boxed]
    pub async fn drop_table(
        &self,
        cx: &RequestContext,
        ident: TabularIdent,
        purge: bool,
    ) -> Result<()> {
        let job = purge.then(|| self.core.ids().ordered());
        let action = if purge { ChangeAction::PurgeTable } else { ChangeAction::DropTable };
        let respond = |_| ();
        let removal = Removal { action, ident, retained: true, purge: job, respond };
        self.remove_tabular::<TableMetadata, ()>(cx, removal).await?;
        // The drop is durable, and the lanes of the table and of the `Idempotency-Key` are free
        // again.
        if let Some(job) = job {
            self.jobs.await_purge(job).await;
        }
        Ok(())
    }

    /// Removes a table from the catalog without deleting its files. Returns the final state of the
    /// table: no commit can follow.
    #[boxed]
    pub async fn unregister_table(
        &self,
        cx: &RequestContext,
        ident: TabularIdent,
    ) -> Result<TabularState> {
        let respond = TabularState::from;
        let (action, purge) = (ChangeAction::UnregisterTable, None);
        let removal = Removal { action, ident, retained: false, purge, respond };
        self.remove_tabular::<TableMetadata, _>(cx, removal).await
    }

    /// Renames a table within its namespace, or moves it to another namespace.
    #[boxed]
    pub async fn rename_table(
        &self,
        cx: &RequestContext,
        source: TabularIdent,
        destination: TabularIdent,
    ) -> Result<()> {
        self.rename_tabular::<TableMetadata>(cx, source, destination).await
    }

    /// Returns the state of a table, or the value that `known` returns, such as a cached response.
    /// The arguments of `known` are the current version, and the access to the table's files that
    /// the response would contain. If `known` returns a value, the metadata is not read. The access
    /// is determined only if the client requests delegation (`ways`).
    pub async fn load_table<K>(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        ways: Option<&[Delegation]>,
        known: impl Fn(ReadVersion, Option<&DelegatedAccess>) -> Option<K>,
    ) -> Result<Loaded<K>> {
        let target = Target { warehouse: &cx.warehouse, kind: TabularKind::Table, ident };
        self.load(&cx.operation, target, ways, known).await
    }

    /// Returns an error if a table does not exist.
    #[boxed]
    pub async fn table_exists(&self, cx: &RequestContext, ident: &TabularIdent) -> Result<()> {
        let target = Target { warehouse: &cx.warehouse, kind: TabularKind::Table, ident };
        self.existing::<Load>(&cx.operation, target).await.map(|_| ())
    }

    /// Returns the names of the tables in a namespace.
    #[boxed]
    pub async fn list_tables(
        &self,
        cx: &RequestContext,
        namespace: &NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        self.list_tabulars(cx, TabularKind::Table, namespace, page).await
    }
}
