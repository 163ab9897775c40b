//! `iceberg::Catalog`: namespaces.

use std::collections::HashMap;
use std::slice::from_ref;

use iceberg::{Catalog, ErrorKind, NamespaceIdent};

use crate::support::bucket::bucket;
use crate::support::embedded::{creation, namespace, open_on, with_any_files};

fn properties(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns the properties of a namespace, without the location that every namespace has.
async fn own_properties(catalog: &dyn Catalog, ident: &NamespaceIdent) -> HashMap<String, String> {
    let found = catalog.get_namespace(ident).await.expect("it is there");
    assert_eq!(found.name(), ident);
    let mut properties = found.properties().clone();
    properties.remove("location").expect("every namespace has one");
    properties
}

#[tokio::test]
async fn namespaces_are_created_listed_and_dropped() {
    let catalog = with_any_files(&open_on(bucket()).await);
    let (outer, inner) = (namespace(&["a.b"]), namespace(&["a.b", "c"]));
    let created = catalog.create_namespace(&outer, properties(&[("owner", "me")])).await;
    assert_eq!(created.expect("it is made").properties(), &properties(&[("owner", "me")]));
    catalog.create_namespace(&inner, HashMap::new()).await.expect("it is made");

    assert_eq!(catalog.list_namespaces(None).await.expect("a list"), from_ref(&outer));
    assert_eq!(catalog.list_namespaces(Some(&outer)).await.expect("a list"), from_ref(&inner));
    assert_eq!(catalog.list_namespaces(Some(&inner)).await.expect("a list"), []);
    assert_eq!(own_properties(&catalog, &outer).await, properties(&[("owner", "me")]));

    assert!(catalog.namespace_exists(&inner).await.expect("an answer"));
    catalog.drop_namespace(&inner).await.expect("it is empty");
    assert!(!catalog.namespace_exists(&inner).await.expect("an answer"));
}

#[tokio::test]
async fn namespace_update_replaces_all_properties_except_the_default_location() {
    let catalog = with_any_files(&open_on(bucket()).await);
    let ns = namespace(&["ns"]);
    let given = properties(&[("kept", "1"), ("gone", "2")]);
    catalog.create_namespace(&ns, given).await.expect("it is made");
    let mut output = catalog.get_namespace(&ns).await.expect("it is there").properties().clone();
    output.remove("gone");
    output.insert("new".to_owned(), "3".to_owned());
    catalog.update_namespace(&ns, output).await.expect("it is updated");
    assert_eq!(own_properties(&catalog, &ns).await, properties(&[("kept", "1"), ("new", "3")]));

    // A location that the host sets is a normal property. Without it, the namespace has the default
    // location.
    let by_default = catalog.get_namespace(&ns).await.expect("it is there");
    let own = properties(&[("location", "memory:///warehouse/elsewhere")]);
    catalog.update_namespace(&ns, own.clone()).await.expect("it is updated");
    assert_eq!(catalog.get_namespace(&ns).await.expect("it is there").properties(), &own);
    catalog.update_namespace(&ns, HashMap::new()).await.expect("it is updated");
    let again = catalog.get_namespace(&ns).await.expect("it is there");
    assert_eq!(again.properties().get("location"), by_default.properties().get("location"));
    assert_eq!(again.properties().len(), 1);
}

#[tokio::test]
async fn failures_have_the_error_kind_of_iceberg() {
    let catalog = with_any_files(&open_on(bucket()).await);
    let (ns, absent) = (namespace(&["ns"]), namespace(&["absent"]));
    catalog.create_namespace(&ns, HashMap::new()).await.expect("it is made");
    catalog.create_table(&ns, creation("t")).await.expect("it is made");
    let kind = |error: iceberg::Error| (error.kind(), error.retryable());

    let failed = [
        catalog.create_namespace(&ns, HashMap::new()).await.map(|_| ()),
        catalog.create_namespace(&namespace(&["absent", "x"]), HashMap::new()).await.map(|_| ()),
        catalog.create_namespace(&namespace(&[".."]), HashMap::new()).await.map(|_| ()),
        catalog.get_namespace(&absent).await.map(|_| ()),
        catalog.update_namespace(&absent, HashMap::new()).await,
        catalog.drop_namespace(&absent).await,
        catalog.drop_namespace(&ns).await,
        catalog.list_namespaces(Some(&absent)).await.map(|_| ()),
        catalog.list_tables(&absent).await.map(|_| ()),
    ];
    let kinds = failed.map(|failed| kind(failed.expect_err("it fails")));
    let requested = [
        ErrorKind::NamespaceAlreadyExists,
        ErrorKind::NamespaceNotFound,
        ErrorKind::DataInvalid,
        ErrorKind::NamespaceNotFound,
        ErrorKind::NamespaceNotFound,
        ErrorKind::NamespaceNotFound,
        ErrorKind::PreconditionFailed,
        ErrorKind::NamespaceNotFound,
        ErrorKind::NamespaceNotFound,
    ];
    assert_eq!(kinds, requested.map(|kind| (kind, false)));
}
