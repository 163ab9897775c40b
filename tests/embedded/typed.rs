//! The typed API: features that `iceberg::Catalog` does not have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use serde_json::value::to_raw_value;
use slateberg_catalog::tables::CreateTable;
use slateberg_catalog::tables::RegisterTable;
use slateberg_catalog::tables::TableChange;
use slateberg_catalog::views::CreateView;
use slateberg_catalog::views::ViewChange;
use slateberg_config::WarehouseSettings;
use slateberg_embedded::{EmbeddedCatalog, Error, Identity};
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::page::{Listing, PageRequest, decode_token};
use slateberg_model::requirement::TableRequirement;
use slateberg_model::schema::Schema;
use slateberg_model::table::TableMetadata;
use slateberg_model::update::TableUpdate;
use slateberg_model::view::{ViewMetadata, ViewVersion};
use slateberg_model::view_update::ViewUpdate;

use crate::support::app::memory_settings;
use crate::support::bucket::{bucket, fresh_id};
use crate::support::embedded::{builder_on, open_on};
use crate::support::table::schema;

fn namespace(level: &str) -> NamespaceIdent {
    NamespaceIdent(vec![level.to_owned()])
}

fn named(name: &str) -> TabularIdent {
    TabularIdent { namespace: namespace("ns"), name: name.to_owned() }
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn columns() -> Schema {
    Schema::from_json(&schema()).expect("it is valid")
}

fn table(name: &str) -> CreateTable {
    CreateTable {
        ident: named(name),
        location: None,
        schema: columns(),
        partition_spec: None,
        write_order: None,
        properties: BTreeMap::new(),
        stage: false,
    }
}

fn setting(name: &str, key: &str, requirements: Vec<TableRequirement>) -> TableChange {
    let updates = vec![TableUpdate::SetProperties { updates: pairs(&[(key, "1")]) }];
    TableChange { ident: named(name), requirements, updates, blind_append: false }
}

fn view(name: &str) -> CreateView {
    let version = json!({
        "version-id": 1, "timestamp-ms": 1_700_000_000_000_i64, "schema-id": 0, "summary": {},
        "default-namespace": ["ns"],
        "representations": [{ "type": "sql", "sql": "SELECT 1", "dialect": "spark" }],
    });
    let version = to_raw_value(&version).expect("it is JSON");
    CreateView {
        ident: named(name),
        location: None,
        schema: columns(),
        view_version: ViewVersion::parse(&version).expect("it is valid"),
        properties: BTreeMap::new(),
    }
}

/// Returns a catalog with the namespace `ns`.
async fn opened() -> EmbeddedCatalog {
    let catalog = open_on(bucket()).await;
    catalog.create_namespace(namespace("ns"), BTreeMap::new()).await.expect("it is made");
    catalog
}

async fn properties(catalog: &EmbeddedCatalog, name: &str) -> BTreeMap<String, String> {
    let loaded = catalog.load_table(&named(name)).await.expect("it is there");
    let metadata = TableMetadata::from_segmented_json(&loaded.state.text).expect("it is valid");
    metadata.properties
}

#[tokio::test]
async fn each_handle_uses_its_own_warehouse() {
    let mut settings = memory_settings();
    let lake = WarehouseSettings { location: "memory:///lake".to_owned(), ..Default::default() };
    settings.warehouses.insert("lake".to_owned(), lake);
    let builder = builder_on(bucket(), settings).in_warehouse("lake");
    let lake = builder.open().await.expect("the catalog opens");
    lake.create_namespace(namespace("ns"), BTreeMap::new()).await.expect("it is made");
    let created = lake.create_table(table("t")).await.expect("it is made");
    let location = created.state.metadata_location.expect("it has a file");
    assert!(location.starts_with("memory:///lake/"), "{location}");
    let other = lake.in_warehouse("default");
    assert_eq!(other.namespace_exists(&namespace("ns")).await, Ok(false));
    assert_eq!(other.in_warehouse("lake").table_exists(&named("t")).await, Ok(true));

    // A principal that is limited to one warehouse does not see the other warehouse.
    let scoped = Identity {
        warehouses: Some(BTreeSet::from(["default".to_owned()])),
        ..Identity::embedded("etl").with_roles(["admin"])
    };
    other.acting_as(scoped.clone()).warehouse().expect("it may use this warehouse");
    let hidden = lake.acting_as(scoped).warehouse().err();
    assert_eq!(hidden, Some(Error::NoSuchWarehouse("lake".to_owned())));
}

#[tokio::test]
async fn transaction_over_several_tables_is_atomic() {
    let catalog = opened().await;
    for name in ["t", "u"] {
        catalog.create_table(table(name)).await.expect("it is made");
    }
    let wrong = vec![TableRequirement::UuidMatch { uuid: fresh_id() }];
    let changes = vec![setting("t", "a", Vec::new()), setting("u", "a", wrong)];
    let error = catalog.commit_transaction(changes).await.expect_err("one requirement fails");
    assert!(matches!(error, Error::CommitFailed(_)), "{error}");
    assert!(!properties(&catalog, "t").await.contains_key("a"));
    let changes = vec![setting("t", "a", Vec::new()), setting("u", "b", Vec::new())];
    catalog.commit_transaction(changes).await.expect("both changes are valid");
    assert!(properties(&catalog, "t").await.contains_key("a"));
    assert!(properties(&catalog, "u").await.contains_key("b"));
}

#[tokio::test]
async fn repeated_change_with_an_idempotency_key_is_applied_once() {
    let catalog = opened().await;
    let (key, change) = (fresh_id(), || setting("t", "a", Vec::new()));
    let created = catalog.once(fresh_id()).create_table(table("t")).await.expect("it is made");
    let first = catalog.once(key).commit_table(change()).await.expect("it is committed");
    assert_ne!(created.state.version, first.version);
    // A later commit removes the property. If the first commit is repeated, it must not set the
    // property again.
    let removal = TableUpdate::RemoveProperties { removals: vec!["a".to_owned()] };
    let later = TableChange { updates: vec![removal], ..change() };
    let last = catalog.commit_table(later).await.expect("it is committed");
    let again = catalog.once(key).commit_table(change()).await.expect("it was committed");
    assert_eq!(again.version, last.version);
    assert!(!properties(&catalog, "t").await.contains_key("a"));

    let other = catalog.once(key).drop_table(named("t"), false).await;
    assert!(matches!(other, Err(Error::Unprocessable(_))), "{other:?}");
    // Two principals can use the same idempotency key independently of each other.
    let somebody = catalog.acting_as(Identity::embedded("etl").with_roles(["writer"]));
    somebody.once(key).commit_table(change()).await.expect("the key of another principal");
    assert!(properties(&catalog, "t").await.contains_key("a"));
}

#[tokio::test]
async fn tables_are_registered_overwritten_unregistered_and_paginated() {
    let catalog = opened().await;
    for name in ["t", "u", "v"] {
        catalog.create_table(table(name)).await.expect("it is made");
    }
    let last = catalog.unregister_table(named("t")).await.expect("it is there");
    assert_eq!(catalog.table_exists(&named("t")).await, Ok(false));
    let metadata_location = last.metadata_location.clone().expect("it is not staged");
    let over = RegisterTable { ident: named("u"), metadata_location, overwrite: true };
    let registered = catalog.register_table(over).await.expect("it is overwritten");
    assert_eq!(registered.state.metadata_location, last.metadata_location);

    let first = PageRequest { limit: Some(1), ..PageRequest::default() };
    let page = catalog.list_tables(&namespace("ns"), &first).await.expect("a page");
    assert_eq!(page.names().collect::<Vec<_>>(), ["u"]);
    let after = page.next.as_deref().expect("there is more");
    let after = decode_token(after, Listing::default()).expect("a token");
    let rest = PageRequest { after, ..PageRequest::default() };
    let page = catalog.list_tables(&namespace("ns"), &rest).await.expect("a page");
    assert_eq!((page.names().collect::<Vec<_>>(), page.next.as_ref()), (vec!["v"], None));

    catalog.rename_table(named("v"), named("w")).await.expect("it is renamed");
    catalog.drop_table(named("w"), true).await.expect("it is dropped");
    assert_eq!(catalog.table_exists(&named("w")).await, Ok(false));
}

#[tokio::test]
async fn views_are_created_changed_renamed_and_dropped() {
    let catalog = opened().await;
    let created = catalog.create_view(view("v")).await.expect("it is made");
    let taken = catalog.create_table(table("v")).await.expect_err("a view has the name");
    assert!(matches!(taken, Error::AlreadyExists(_)), "{taken}");

    let updates = vec![ViewUpdate::SetProperties { updates: pairs(&[("a", "1")]) }];
    let change =
        ViewChange { ident: named("v"), requirements: Vec::new(), updates, blind_append: false };
    let changed = catalog.commit_view(change).await.expect("it is committed");
    let metadata = ViewMetadata::parse(&changed.text.to_bytes()).expect("it is valid");
    assert_eq!(metadata.properties.get("a").map(String::as_str), Some("1"));

    catalog.rename_view(named("v"), named("w")).await.expect("it is renamed");
    assert_eq!(catalog.load_view(&named("w")).await.expect("it is there").text, changed.text);
    let everything = PageRequest::default();
    let page = catalog.list_views(&namespace("ns"), &everything).await.expect("a page");
    assert_eq!(page.names().collect::<Vec<_>>(), ["w"]);
    catalog.drop_view(named("w")).await.expect("it is there");
    assert_eq!(catalog.view_exists(&named("w")).await, Ok(false));

    let location = created.metadata_location.expect("it has a file");
    let again = catalog.register_view(named("again"), location).await.expect("it is a view");
    assert_eq!(again.text, created.text);
}

#[tokio::test]
async fn namespace_properties_change_individually() {
    let catalog = opened().await;
    let ns = || namespace("ns");
    let set = pairs(&[("a", "1"), ("b", "2")]);
    catalog.update_namespace_properties(ns(), BTreeSet::new(), set).await.expect("it is updated");
    let both = (BTreeSet::from(["a".to_owned()]), pairs(&[("a", "2")]));
    let rejection = catalog.update_namespace_properties(ns(), both.0, both.1).await;
    assert!(matches!(rejection, Err(Error::Unprocessable(_))), "{rejection:?}");
    let absent = BTreeSet::from(["a".to_owned()]);
    catalog.update_namespace_properties(ns(), absent, pairs(&[])).await.expect("it is updated");
    let loaded = catalog.load_namespace(&ns()).await.expect("it is there");
    assert_eq!(loaded.keys().collect::<Vec<_>>(), ["b", "location"]);
    catalog.drop_namespace(ns()).await.expect("it is empty");
    assert_eq!(catalog.namespace_exists(&ns()).await, Ok(false));
}

/// The message of an error is the same as in a response over HTTP.
#[tokio::test]
async fn invalid_input_gets_the_same_messages_as_over_http() {
    let catalog = opened().await;
    let wrong = catalog.create_table(table("a\nb")).await.expect_err("a name has no line break");
    assert_eq!(wrong, Error::Invalid("Invalid name: contains a control character".to_owned()));
}
