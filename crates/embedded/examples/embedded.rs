//! Embeds a catalog: opens it, uses it as `iceberg::Catalog`, closes it, and opens it again.
//!
//! `cargo run --example embedded`. The page docs/embedding.md explains the parts.

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use iceberg::transaction::{ApplyTransactionAction, Transaction};
use iceberg::{Catalog, NamespaceIdent, TableCreation, TableIdent};
use slateberg_embedded::{EmbeddedCatalog, Identity, Settings};
use slateberg_model::ident;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    run(directory.path()).await
}

/// Runs all steps in a directory.
pub(crate) async fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    let settings = Settings { data_dir: directory.to_owned(), ..Settings::default() };
    let opened = EmbeddedCatalog::open(settings.clone()).await?;
    let catalog: Arc<dyn Catalog> = Arc::new(opened.as_iceberg());

    let orders = make_table(catalog.as_ref()).await?;
    set_retention(catalog.as_ref(), &orders).await?;
    let listed = catalog.list_tables(orders.namespace()).await?;
    println!("there are {} tables: {listed:?}", listed.len());

    read_as_reports(&opened, &orders).await?;
    opened.close().await?;

    let again = EmbeddedCatalog::open(settings).await?;
    let table = again.as_iceberg().load_table(&orders).await?;
    println!("{orders} is at {:?}", table.metadata_location());
    println!("its properties are {:?}", table.metadata().properties());
    again.close().await?;
    Ok(())
}

/// Creates a namespace and a table in it.
async fn make_table(catalog: &dyn Catalog) -> Result<TableIdent, Box<dyn Error>> {
    let sales = NamespaceIdent::new("sales".to_owned());
    catalog.create_namespace(&sales, HashMap::new()).await?;
    let id = NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
    let schema = Schema::builder().with_fields([Arc::new(id)]).build()?;
    let creation = TableCreation::builder().name("orders".to_owned()).schema(schema).build();
    let table = catalog.create_table(&sales, creation).await?;
    Ok(table.identifier().clone())
}

/// Commits a change. The transaction retries conflicts with other writers.
async fn set_retention(catalog: &dyn Catalog, orders: &TableIdent) -> Result<(), Box<dyn Error>> {
    let table = catalog.load_table(orders).await?;
    let transaction = Transaction::new(&table);
    let action = transaction.update_table_properties();
    let action = action.set("retention-days".to_owned(), "90".to_owned());
    let table = action.apply(transaction)?.commit(catalog).await?;
    println!("committed: {:?}", table.metadata_location());
    Ok(())
}

/// Uses the typed API as a principal that may only read.
async fn read_as_reports(
    opened: &EmbeddedCatalog,
    orders: &TableIdent,
) -> Result<(), Box<dyn Error>> {
    let reports = opened.acting_as(Identity::embedded("reports").with_roles(["reader"]));
    let orders = ident::TabularIdent {
        namespace: ident::NamespaceIdent(orders.namespace().to_vec()),
        name: orders.name().to_owned(),
    };
    let loaded = reports.load_table(&orders).await?;
    println!("reports may read version {} of {orders}", loaded.state.version);
    match reports.drop_table(orders, false).await {
        Err(slateberg_embedded::Error::Forbidden(why)) => println!("{why}"),
        other => return Err(format!("expected a refusal, got {other:?}").into()),
    }
    Ok(())
}
