//! Reading tables: one, whether it is there, and the names of all.

use crate::delegation::Delegated;
use crate::lookup::Loaded;
use crate::permits::Target;
use crate::reading::ReadVersion;
use crate::{Catalog, Operation, Result};
use slateberg_authz::action::{Load, ReportMetrics};
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::page::{Page, PageRequest};
use slateberg_model::warehouse::{Delegation, Warehouse};

impl Catalog {
    /// A table's state, unless the caller has it already: `known` says what it has of a version, whose
    /// files whoever asks gets at in this way. They are told of one only if they ask for some.
    pub async fn load_table<K>(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: &TabularIdent,
        ways: Option<&[Delegation]>,
        known: impl Fn(ReadVersion, Option<&Delegated>) -> Option<K>,
    ) -> Result<Loaded<K>> {
        let target = Target { warehouse, kind: TabularKind::Table, ident };
        self.load(operation, target, ways, known).await
    }

    /// Whether a table is there.
    pub async fn table_exists(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: &TabularIdent,
    ) -> Result<()> {
        self.exists::<Load>(operation, warehouse, TabularKind::Table, ident).await
    }

    /// The names of the tables in a namespace.
    pub async fn list_tables(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        namespace: &NamespaceIdent,
        page: &PageRequest,
    ) -> Result<Page> {
        self.list(operation, warehouse, TabularKind::Table, namespace, page).await
    }

    /// Takes note of what a scan or a commit of a table cost; the table has to be there.
    pub async fn report_metrics(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        ident: &TabularIdent,
    ) -> Result<()> {
        self.exists::<ReportMetrics>(operation, warehouse, TabularKind::Table, ident).await
    }
}
