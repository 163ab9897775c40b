//! Commits by `iceberg::transaction::Transaction`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use iceberg::spec::{NestedField, PrimitiveType, Type};
use iceberg::table::Table;
use iceberg::transaction::{AddColumn, ApplyTransactionAction, Transaction};
use iceberg::{
    Catalog, ErrorKind, Namespace, NamespaceIdent, Result, TableCommit, TableCreation, TableIdent,
};
use slateberg_embedded::{Error, IcebergCatalog, cause};
use tokio::sync::Barrier;

use crate::support::bucket::bucket;
use crate::support::embedded::{
    append, data_files, make_table, open_in, open_on, set_property, with_any_files,
};

/// A catalog whose first two commits wait for each other, so that both are based on the same state.
#[derive(Debug)]
struct CommitBarrier {
    catalog: IcebergCatalog,
    barrier: Barrier,
    commits: AtomicUsize,
    conflicts: AtomicUsize,
}

#[async_trait]
impl Catalog for CommitBarrier {
    async fn update_table(&self, commit: TableCommit) -> Result<Table> {
        if self.commits.fetch_add(1, Ordering::SeqCst) < 2 {
            self.barrier.wait().await;
        }
        let ended = self.catalog.update_table(commit).await;
        if let Err(error) = &ended {
            assert_eq!(error.kind(), ErrorKind::CatalogCommitConflicts, "{error}");
            assert!(error.retryable() && matches!(cause(error), Some(Error::CommitFailed(_))));
            self.conflicts.fetch_add(1, Ordering::SeqCst);
        }
        ended
    }

    async fn load_table(&self, table: &TableIdent) -> Result<Table> {
        self.catalog.load_table(table).await
    }

    async fn list_namespaces(&self, to: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        self.catalog.list_namespaces(to).await
    }

    async fn create_namespace(
        &self,
        namespace: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> Result<Namespace> {
        self.catalog.create_namespace(namespace, properties).await
    }

    async fn get_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace> {
        self.catalog.get_namespace(namespace).await
    }

    async fn namespace_exists(&self, namespace: &NamespaceIdent) -> Result<bool> {
        self.catalog.namespace_exists(namespace).await
    }

    async fn update_namespace(
        &self,
        namespace: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> Result<()> {
        self.catalog.update_namespace(namespace, properties).await
    }

    async fn drop_namespace(&self, namespace: &NamespaceIdent) -> Result<()> {
        self.catalog.drop_namespace(namespace).await
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        self.catalog.list_tables(namespace).await
    }

    async fn create_table(&self, to: &NamespaceIdent, creation: TableCreation) -> Result<Table> {
        self.catalog.create_table(to, creation).await
    }

    async fn drop_table(&self, table: &TableIdent) -> Result<()> {
        self.catalog.drop_table(table).await
    }

    async fn purge_table(&self, table: &TableIdent) -> Result<()> {
        self.catalog.purge_table(table).await
    }

    async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
        self.catalog.table_exists(table).await
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.catalog.rename_table(from, to).await
    }

    async fn register_table(&self, table: &TableIdent, location: String) -> Result<Table> {
        self.catalog.register_table(table, location).await
    }
}

#[tokio::test]
async fn concurrent_appends_both_succeed_with_one_retry() {
    let directory = tempfile::tempdir().expect("there is room");
    let opened = open_in(directory.path()).await;
    let catalog = opened.as_iceberg();
    let t = make_table(&catalog).await;
    let loaded = catalog.load_table(&t).await.expect("it is there");
    let both = CommitBarrier {
        catalog: catalog.clone(),
        barrier: Barrier::new(2),
        commits: AtomicUsize::new(0),
        conflicts: AtomicUsize::new(0),
    };
    let (a, b) = tokio::join!(append(&both, &loaded, "a"), append(&both, &loaded, "b"));
    a.expect("it is committed");
    b.expect("it is committed");
    assert_eq!(both.conflicts.load(Ordering::SeqCst), 1);

    let after = catalog.load_table(&t).await.expect("it is there");
    assert_eq!(after.metadata().snapshots().count(), 2);
    assert_eq!(data_files(&after).await, ["a.parquet", "b.parquet"]);
    opened.close().await.expect("it closes");
}

#[tokio::test]
async fn transactions_change_properties_schemas_and_versions() {
    let catalog = with_any_files(&open_on(bucket()).await);
    let t = make_table(&catalog).await;
    set_property(&catalog, &t, ("a", "1")).await.expect("it is committed");
    let loaded = catalog.load_table(&t).await.expect("it is there");
    let transaction = Transaction::new(&loaded);
    let removal = transaction.update_table_properties().remove("a".to_owned());
    let transaction = removal.apply(transaction).expect("it fits");
    let upgrade = transaction.upgrade_table_version();
    let upgrade = upgrade.set_format_version(iceberg::spec::FormatVersion::V3);
    let transaction = upgrade.apply(transaction).expect("it fits");
    let column = AddColumn::optional("note", Type::Primitive(PrimitiveType::String));
    let evolution = transaction.update_schema().add_column(column);
    let transaction = evolution.apply(transaction).expect("it fits");
    let committed = transaction.commit(&catalog).await.expect("it is committed");

    let after = catalog.load_table(&t).await.expect("it is there");
    assert_eq!(after.metadata(), committed.metadata());
    assert_eq!(after.metadata().format_version(), iceberg::spec::FormatVersion::V3);
    assert!(!after.metadata().properties().contains_key("a"));
    let note = NestedField::optional(3, "note", Type::Primitive(PrimitiveType::String));
    let found = after.metadata().current_schema().field_by_name("note").map(|it| (**it).clone());
    assert_eq!(found, Some(note));
}

#[tokio::test]
async fn commit_to_a_dropped_table_is_not_retried() {
    let catalog = with_any_files(&open_on(bucket()).await);
    let t = make_table(&catalog).await;
    let loaded = catalog.load_table(&t).await.expect("it is there");
    catalog.drop_table(&t).await.expect("it is dropped");
    let transaction = Transaction::new(&loaded);
    let action = transaction.update_table_properties().set("a".to_owned(), "1".to_owned());
    let transaction = action.apply(transaction).expect("it fits");
    let error = transaction.commit(&catalog).await.expect_err("it is gone");
    assert_eq!((error.kind(), error.retryable()), (ErrorKind::TableNotFound, false));
}
