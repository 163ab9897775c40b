//! Responses of listings. The names of a page are written into one buffer directly; the JSON that
//! all entries share is rendered once.

use serde::Serialize;

use slateberg_model::ident::NamespaceIdent;
use slateberg_model::page::Page;

/// Expected bytes of a name, to size the buffer.
const NAME_BYTES: usize = 24;

/// Renders a `ListTablesResponse` for a page of tables or views in `namespace`.
pub fn list_tables_response(namespace: &NamespaceIdent, page: &Page) -> Vec<u8> {
    let mut prefix = br#"{"namespace":"#.to_vec();
    write_json(&mut prefix, namespace);
    prefix.extend_from_slice(br#","name":"#);
    listing("identifiers", page, &prefix, b'}')
}

/// Renders a `ListFunctionsResponse` for a page of functions in `namespace`.
pub fn list_functions_response(namespace: &NamespaceIdent, page: &Page) -> Vec<u8> {
    listing("identifiers", page, &levels_of(namespace), b']')
}

/// Renders a `ListNamespacesResponse` for a page of namespaces directly below `parent`.
pub fn list_namespaces_response(parent: &NamespaceIdent, page: &Page) -> Vec<u8> {
    listing("namespaces", page, &levels_of(parent), b']')
}

/// Renders the beginning of an array that contains the levels of a namespace and one more name.
fn levels_of(namespace: &NamespaceIdent) -> Vec<u8> {
    let mut prefix = vec![b'['];
    for level in &namespace.0 {
        write_json(&mut prefix, level);
        prefix.push(b',');
    }
    prefix
}

/// Renders a page. Writes `prefix` before each name, and `end` after it.
fn listing(member: &str, page: &Page, prefix: &[u8], end: u8) -> Vec<u8> {
    let names = page.names();
    let mut body = Vec::with_capacity(128 + names.len() * (prefix.len() + NAME_BYTES));
    body.extend_from_slice(br#"{"next-page-token":"#);
    write_json(&mut body, &page.next);
    body.push(b',');
    write_json(&mut body, member);
    body.extend_from_slice(b":[");
    for (at, name) in names.enumerate() {
        if at > 0 {
            body.push(b',');
        }
        body.extend_from_slice(prefix);
        write_json(&mut body, name);
        body.push(end);
    }
    body.extend_from_slice(b"]}");
    body
}

fn write_json(body: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(body, value).expect("names are JSON, and memory can be written to");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use slateberg_model::page::PageRequest;

    fn limited(limit: Option<usize>) -> PageRequest {
        PageRequest { limit, ..PageRequest::default() }
    }

    fn read(body: Vec<u8>) -> Value {
        serde_json::from_slice(&body).expect("it is JSON")
    }

    #[test]
    fn tables_and_namespaces_are_listed_with_their_namespace() {
        let page = Page::cut(Arc::new(["t", "\"u\""].into_iter().collect()), &limited(None));
        let namespace = NamespaceIdent(vec!["a".to_owned(), "b\\c".to_owned()]);
        assert_eq!(
            read(list_tables_response(&namespace, &page)),
            json!({
                "next-page-token": null,
                "identifiers": [
                    { "namespace": ["a", "b\\c"], "name": "t" },
                    { "namespace": ["a", "b\\c"], "name": "\"u\"" },
                ],
            })
        );
        let namespaces = read(list_namespaces_response(&namespace, &page));
        assert_eq!(namespaces["namespaces"], json!([["a", "b\\c", "t"], ["a", "b\\c", "\"u\""]]));
        let functions = read(list_functions_response(&namespace, &page));
        assert_eq!(functions["identifiers"], json!([["a", "b\\c", "t"], ["a", "b\\c", "\"u\""]]));
        let top = read(list_namespaces_response(&NamespaceIdent::default(), &page));
        assert_eq!(top["namespaces"], json!([["t"], ["\"u\""]]));
    }

    #[test]
    fn empty_page_and_page_with_a_next_token() {
        let empty = Page::cut(Arc::default(), &limited(Some(1)));
        let body = read(list_tables_response(&NamespaceIdent::default(), &empty));
        assert_eq!(body, json!({ "next-page-token": null, "identifiers": [] }));
        let first = Page::cut(Arc::new(["t", "u"].into_iter().collect()), &limited(Some(1)));
        let body = read(list_namespaces_response(&NamespaceIdent::default(), &first));
        assert_eq!(body, json!({ "next-page-token": first.next, "namespaces": [["t"]] }));
    }
}
