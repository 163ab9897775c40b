//! `iceberg::Catalog`: tables, without commits.

use iceberg::spec::{FormatVersion, NullOrder, SortDirection, SortField, SortOrder, Transform};
use iceberg::spec::{UnboundPartitionField, UnboundPartitionSpec};
use iceberg::{Catalog, ErrorKind, TableCreation};

use crate::support::bucket::bucket;
use crate::support::embedded::{
    creation, make_table, namespace, open_in, open_on, schema, set_property, table_ident,
    with_any_files,
};

#[tokio::test]
async fn table_is_created_as_described_and_loaded_unchanged() {
    let catalog = with_any_files(&open_on(bucket()).await);
    make_table(&catalog).await;
    let by_id = UnboundPartitionField::builder()
        .source_id(1)
        .name("id_bucket".to_owned())
        .transform(Transform::Bucket(4))
        .build();
    let spec = UnboundPartitionSpec::builder().add_partition_fields([by_id]).expect("it is valid");
    let newest_first = SortField::builder()
        .source_id(2)
        .transform(Transform::Identity)
        .direction(SortDirection::Descending)
        .null_order(NullOrder::Last)
        .build();
    let order = SortOrder::builder().with_order_id(1).with_sort_field(newest_first).build_unbound();
    let described = TableCreation::builder()
        .name("whole".to_owned())
        .location("memory:///warehouse/here".to_owned())
        .schema(schema())
        .partition_spec(spec.build())
        .sort_order(order.expect("it is valid"))
        .properties([("owner".to_owned(), "me".to_owned())])
        .format_version(FormatVersion::V3)
        .build();
    let created = catalog.create_table(&namespace(&["ns"]), described).await.expect("it is made");
    let metadata = created.metadata();
    assert_eq!(metadata.format_version(), FormatVersion::V3);
    assert_eq!(metadata.location(), "memory:///warehouse/here");
    assert_eq!(metadata.current_schema().as_struct(), schema().as_struct());
    assert_eq!(metadata.default_partition_spec().fields()[0].transform, Transform::Bucket(4));
    assert_eq!(metadata.default_sort_order().fields[0].direction, SortDirection::Descending);
    assert_eq!(metadata.properties().get("owner").map(String::as_str), Some("me"));

    let loaded = catalog.load_table(created.identifier()).await.expect("it is there");
    assert_eq!(loaded.metadata(), metadata);
    assert_eq!(loaded.metadata_location(), created.metadata_location());
    assert!(created.metadata_location().expect("there is one").starts_with(metadata.location()));
}

#[tokio::test]
async fn tables_are_listed_renamed_and_dropped() {
    let catalog = with_any_files(&open_on(bucket()).await);
    let (ns, t) = (namespace(&["ns"]), make_table(&catalog).await);
    catalog.create_table(&ns, creation("u")).await.expect("it is made");
    let u = table_ident("ns", "u");
    assert_eq!(catalog.list_tables(&ns).await.expect("a list"), [t.clone(), u.clone()]);

    let before = catalog.load_table(&t).await.expect("it is there");
    let other = table_ident("ns", "v");
    catalog.rename_table(&t, &other).await.expect("it is renamed");
    let after = catalog.load_table(&other).await.expect("it is there");
    assert_eq!((after.identifier(), after.metadata()), (&other, before.metadata()));
    assert!(!catalog.table_exists(&t).await.expect("an answer"));

    catalog.drop_table(&other).await.expect("it is dropped");
    assert!(!catalog.table_exists(&other).await.expect("an answer"));
    assert!(catalog.table_exists(&u).await.expect("an answer"));
    assert_eq!(catalog.list_tables(&ns).await.expect("a list"), [u]);
}

#[tokio::test]
async fn dropped_table_keeps_its_files_and_can_be_registered_again() {
    let catalog = with_any_files(&open_on(bucket()).await);
    let t = make_table(&catalog).await;
    let last = set_property(&catalog, &t, ("a", "1")).await.expect("it is committed");
    let location = last.metadata_location().expect("there is one").to_owned();
    catalog.drop_table(&t).await.expect("it is dropped");

    let again = table_ident("ns", "again");
    let registered = catalog.register_table(&again, location.clone()).await.expect("it is there");
    assert_eq!(registered.metadata(), last.metadata());
    assert_eq!(registered.metadata_location(), Some(location.as_str()));
    let taken = catalog.register_table(&again, location).await.expect_err("it is there");
    assert_eq!(taken.kind(), ErrorKind::TableAlreadyExists);
}

#[tokio::test]
async fn a_purged_table_loses_its_files_to_a_background_job() {
    let directory = tempfile::tempdir().expect("there is room");
    let opened = open_in(directory.path()).await;
    let catalog = opened.as_iceberg();
    let t = make_table(&catalog).await;
    let table = catalog.load_table(&t).await.expect("it is there");
    let location = table.metadata_location().expect("there is one").to_owned();
    assert!(table.file_io().exists(&location).await.expect("an answer"));
    catalog.purge_table(&t).await.expect("it is dropped");
    let absent = async {
        while table.file_io().exists(&location).await.expect("an answer") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let at_most = std::time::Duration::from_secs(30);
    tokio::time::timeout(at_most, absent).await.expect("the job deletes it");
    opened.close().await.expect("it closes");
}

#[tokio::test]
async fn failures_have_the_error_kind_of_iceberg() {
    let catalog = with_any_files(&open_on(bucket()).await);
    let (ns, t) = (namespace(&["ns"]), make_table(&catalog).await);
    catalog.create_table(&ns, creation("u")).await.expect("it is made");
    let (absent, nowhere) = (table_ident("ns", "absent"), table_ident("nowhere", "t"));
    let of_version = |version: &str| {
        let said = [("format-version".to_owned(), version.to_owned())];
        TableCreation::builder().name("x".to_owned()).schema(schema()).properties(said).build()
    };
    let outside = TableCreation::builder()
        .name("x".to_owned())
        .location("memory:///elsewhere".to_owned())
        .schema(schema())
        .build();

    let failed = [
        catalog.create_table(&ns, creation("t")).await.map(|_| ()),
        catalog.create_table(&namespace(&["nowhere"]), creation("t")).await.map(|_| ()),
        catalog.create_table(&ns, creation("")).await.map(|_| ()),
        catalog.create_table(&ns, of_version("1")).await.map(|_| ()),
        catalog.create_table(&ns, outside).await.map(|_| ()),
        catalog.load_table(&absent).await.map(|_| ()),
        catalog.load_table(&nowhere).await.map(|_| ()),
        catalog.drop_table(&absent).await,
        catalog.purge_table(&absent).await,
        catalog.rename_table(&absent, &t).await,
        catalog.rename_table(&t, &table_ident("ns", "u")).await,
        catalog.rename_table(&t, &nowhere).await,
        catalog.register_table(&absent, "memory:///warehouse/none.json".into()).await.map(|_| ()),
        catalog.register_table(&absent, "memory:///elsewhere.json".into()).await.map(|_| ()),
    ];
    let kinds = failed.map(|failed| {
        let error = failed.expect_err("it fails");
        assert!(!error.retryable(), "{error}");
        error.kind()
    });
    let requested = [
        ErrorKind::TableAlreadyExists,
        ErrorKind::NamespaceNotFound,
        ErrorKind::DataInvalid,
        ErrorKind::DataInvalid,
        ErrorKind::DataInvalid,
        ErrorKind::TableNotFound,
        ErrorKind::TableNotFound,
        ErrorKind::TableNotFound,
        ErrorKind::TableNotFound,
        ErrorKind::TableNotFound,
        ErrorKind::TableAlreadyExists,
        ErrorKind::NamespaceNotFound,
        ErrorKind::DataInvalid,
        ErrorKind::DataInvalid,
    ];
    assert_eq!(kinds, requested);
    // The rejected requests have no effect.
    let there = [t, table_ident("ns", "u")];
    assert_eq!(catalog.list_tables(&ns).await.expect("a list"), there);
}
