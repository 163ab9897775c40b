//! Embedded catalogs in the process of the test.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, NestedField, PrimitiveType, Schema, Type,
};
use iceberg::table::Table;
use iceberg::transaction::{ApplyTransactionAction, Transaction};
use iceberg::{Catalog, NamespaceIdent, TableCreation, TableIdent};
use object_store::ObjectStore;
use slateberg_config::Settings;
use slateberg_embedded::{Builder, EmbeddedCatalog, IcebergCatalog};
use slateberg_runtime::dependencies::Dependencies;

use super::app::{bucket_opener, memory_settings};
use super::bucket::encrypt_if_enabled;

/// Returns settings of a catalog in this directory.
pub fn settings_in(directory: &Path) -> Settings {
    let mut settings = Settings { data_dir: directory.to_owned(), ..Settings::default() };
    encrypt_if_enabled(&mut settings);
    settings
}

/// Opens a catalog in this directory.
pub async fn open_in(directory: &Path) -> EmbeddedCatalog {
    EmbeddedCatalog::open(settings_in(directory)).await.expect("the catalog opens")
}

/// Returns a builder of a catalog with its state and its warehouse in this bucket.
pub fn builder_on(bucket: Arc<dyn ObjectStore>, settings: Settings) -> Builder {
    let dependencies = Dependencies { opener: bucket_opener(bucket), ..Dependencies::default() };
    EmbeddedCatalog::builder(settings).with_dependencies(dependencies)
}

/// Opens a catalog with its state and its warehouse in this bucket.
pub async fn open_on(bucket: Arc<dyn ObjectStore>) -> EmbeddedCatalog {
    builder_on(bucket, memory_settings()).open().await.expect("the catalog opens")
}

/// Returns the catalog in the form of the `iceberg` crate. Its tables' files are only in memory.
pub fn with_any_files(catalog: &EmbeddedCatalog) -> IcebergCatalog {
    catalog.as_iceberg().with_file_io(FileIO::new_with_memory())
}

/// Returns a namespace in the form of the `iceberg` crate.
pub fn namespace(levels: &[&str]) -> NamespaceIdent {
    NamespaceIdent::from_strs(levels).expect("there is a level")
}

/// Returns the name of a table in a namespace of one level.
pub fn table_ident(namespace: &str, name: &str) -> TableIdent {
    TableIdent::from_strs([namespace, name]).expect("there are two names")
}

/// Returns a schema with a required long `id` and an optional string `data`.
pub fn schema() -> Schema {
    let id = NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
    let data = NestedField::optional(2, "data", Type::Primitive(PrimitiveType::String));
    Schema::builder().with_fields([id.into(), data.into()]).build().expect("it is valid")
}

/// Returns the request for a table with that schema.
pub fn creation(name: &str) -> TableCreation {
    TableCreation::builder().name(name.to_owned()).schema(schema()).build()
}

/// Creates the namespace `ns` and the table `ns.t`.
pub async fn make_table(catalog: &dyn Catalog) -> TableIdent {
    let ns = namespace(&["ns"]);
    catalog.create_namespace(&ns, HashMap::new()).await.expect("it is made");
    catalog.create_table(&ns, creation("t")).await.expect("it is made").identifier().clone()
}

/// Sets a property of a table.
pub async fn set_property(
    catalog: &dyn Catalog,
    ident: &TableIdent,
    (key, value): (&str, &str),
) -> iceberg::Result<Table> {
    let table = catalog.load_table(ident).await?;
    let transaction = Transaction::new(&table);
    let action = transaction.update_table_properties().set(key.to_owned(), value.to_owned());
    action.apply(transaction)?.commit(catalog).await
}

/// Appends a data file of one row to the loaded table, or to its current state if it has changed.
/// The file itself is never written or read.
pub async fn append(catalog: &dyn Catalog, loaded: &Table, name: &str) -> iceberg::Result<Table> {
    let file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(format!("{}/data/{name}.parquet", loaded.metadata().location()))
        .file_format(DataFileFormat::Parquet)
        .record_count(1)
        .file_size_in_bytes(100)
        .build()
        .expect("nothing is missing");
    let transaction = Transaction::new(loaded);
    let action = transaction.fast_append().add_data_files([file]);
    action.apply(transaction)?.commit(catalog).await
}

/// Returns the data files in the scan of a table, in order.
pub async fn data_files(table: &Table) -> Vec<String> {
    let scan = table.scan().build().expect("a scan of everything");
    let tasks = scan.plan_files().await.expect("its files are there");
    let tasks: Vec<_> = tasks.try_collect().await.expect("manifests can be read");
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut names: Vec<_> = tasks.iter().map(|task| name(&task.data_file_path)).collect();
    names.sort();
    names
}
