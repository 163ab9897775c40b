//! Answers of listings, written straight from the names on a page: nothing is built for each name.

use serde::{Serialize, Serializer};

use crate::model::ident::NamespaceIdent;
use crate::model::page::Page;

/// Answer of `GET /v1/{prefix}/namespaces`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListNamespacesResponse<'a> {
    next_page_token: Option<&'a str>,
    namespaces: Children<'a>,
}

impl<'a> ListNamespacesResponse<'a> {
    /// The namespaces on a page, all of them directly below `parent`.
    pub fn new(parent: &'a NamespaceIdent, page: &'a Page) -> Self {
        Self { next_page_token: page.next.as_deref(), namespaces: Children { parent, page } }
    }
}

/// Answer of the listings of tables and of views.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListTablesResponse<'a> {
    next_page_token: Option<&'a str>,
    identifiers: Identifiers<'a>,
}

impl<'a> ListTablesResponse<'a> {
    /// The tables or views on a page, all of them in `namespace`.
    pub fn new(namespace: &'a NamespaceIdent, page: &'a Page) -> Self {
        Self { next_page_token: page.next.as_deref(), identifiers: Identifiers { namespace, page } }
    }
}

#[derive(Debug)]
struct Children<'a> {
    parent: &'a NamespaceIdent,
    page: &'a Page,
}

impl Serialize for Children<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parent = &self.parent.0;
        serializer.collect_seq(self.page.names().map(|name| Levels { parent, name }))
    }
}

/// A namespace: the levels of its parent, and its own.
struct Levels<'a> {
    parent: &'a [String],
    name: &'a str,
}

impl Serialize for Levels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.parent.iter().map(String::as_str).chain([self.name]))
    }
}

#[derive(Debug)]
struct Identifiers<'a> {
    namespace: &'a NamespaceIdent,
    page: &'a Page,
}

impl Serialize for Identifiers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let namespace = self.namespace;
        serializer.collect_seq(self.page.names().map(|name| Identifier { namespace, name }))
    }
}

/// A `TableIdentifier`.
#[derive(Serialize)]
struct Identifier<'a> {
    namespace: &'a NamespaceIdent,
    name: &'a str,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_told_with_the_namespace_that_they_are_in() {
        let page = Page::cut(Arc::new(["t", "\"u\""].into_iter().collect()), None);
        let namespace = NamespaceIdent(vec!["a".to_owned(), "b.c".to_owned()]);
        let tables = serde_json::to_value(ListTablesResponse::new(&namespace, &page));
        assert_eq!(
            tables.expect("it is JSON"),
            json!({
                "next-page-token": null,
                "identifiers": [
                    { "namespace": ["a", "b.c"], "name": "t" },
                    { "namespace": ["a", "b.c"], "name": "\"u\"" },
                ],
            })
        );
        let namespaces = serde_json::to_value(ListNamespacesResponse::new(&namespace, &page));
        assert_eq!(
            namespaces.expect("it is JSON")["namespaces"],
            json!([["a", "b.c", "t"], ["a", "b.c", "\"u\""]])
        );
    }
}
