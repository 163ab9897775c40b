//! Files of tables that are read and written through an embedded catalog.

use std::collections::HashMap;

use iceberg::{Catalog, ErrorKind};

use crate::support::bucket::bucket;
use crate::support::embedded::{
    append, creation, data_files, make_table, namespace, open_in, open_on, table_ident,
    with_any_files,
};

#[tokio::test]
async fn table_in_a_directory_has_its_files_there() {
    let directory = tempfile::tempdir().expect("there is room");
    let opened = open_in(directory.path()).await;
    let catalog = opened.as_iceberg();
    let t = make_table(&catalog).await;
    let loaded = catalog.load_table(&t).await.expect("it is there");
    append(&catalog, &loaded, "a").await.expect("it is committed");

    let after = catalog.load_table(&t).await.expect("it is there");
    assert_eq!(data_files(&after).await, ["a.parquet"]);
    let list = after.metadata().current_snapshot().expect("there is one").manifest_list();
    let path = list.strip_prefix("file://").expect("the warehouse is in a directory");
    assert!(path.starts_with(directory.path().to_str().expect("UTF-8")), "{path}");
    assert!(std::path::Path::new(path).is_file(), "{path}");
    opened.close().await.expect("it closes");
}

#[tokio::test]
async fn creating_and_loading_a_table_need_a_file_io() {
    let opened = open_on(bucket()).await;
    let catalog = opened.as_iceberg();
    let ns = namespace(&["ns"]);
    catalog.create_namespace(&ns, HashMap::new()).await.expect("it needs no files");
    let error = catalog.create_table(&ns, creation("t")).await.expect_err("no FileIO");
    assert_eq!(error.kind(), ErrorKind::FeatureUnsupported);
    assert_eq!(catalog.list_tables(&ns).await.expect("a list"), []);

    with_any_files(&opened).create_table(&ns, creation("t")).await.expect("a FileIO");
    let t = table_ident("ns", "t");
    let error = catalog.load_table(&t).await.expect_err("no FileIO");
    assert_eq!(error.kind(), ErrorKind::FeatureUnsupported);
    catalog.drop_table(&t).await.expect("it needs no files");
}
