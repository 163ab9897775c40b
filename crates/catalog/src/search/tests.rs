//! Tests of the index of the search.

use std::borrow::Cow;
use std::collections::HashSet;

use uuid::Uuid;

use super::best::{AfterMatch, Cursor, Match, SearchScope, SearchSource};
use super::columns::ColumnText;
use super::containers::{Container, ContainerId};
use super::name_index::NameIndex;
use super::query::SearchQuery;
use slateberg_authz::resource::Kind;

const KINDS: [Kind; 4] = [Kind::Namespace, Kind::Table, Kind::View, Kind::Function];

fn index(names: &[&str]) -> (NameIndex, ContainerId) {
    let mut index = NameIndex::default();
    let levels = vec!["Sales".to_owned()];
    let inside = index.container(Container { warehouse: Uuid::nil(), levels }).expect("room");
    names
        .iter()
        .for_each(|name| index.insert(inside, Kind::Table, name, Uuid::nil()).expect("room"));
    (index, inside)
}

fn scope(sources: &[SearchSource]) -> SearchScope {
    SearchScope { sources: sources.to_vec(), ..SearchScope::default() }
}

fn matches(index: &NameIndex, query: &str, sources: &[SearchSource], count: usize) -> Vec<Match> {
    let query = SearchQuery::parse(query).expect("it is valid");
    let found = index.best(&query, &scope(sources), None, count);
    // The order of the entries in memory does not change the result.
    let compacted = index.compacted().expect("room").best(&query, &scope(sources), None, count);
    let compared = |found: &[Match]| -> Vec<_> {
        found.iter().map(|it| (it.rank, it.kind, it.name.clone(), it.field.clone())).collect()
    };
    assert_eq!(compared(&found), compared(&compacted));
    found
}

fn names(index: &NameIndex, query: &str, count: usize) -> Vec<String> {
    matches(index, query, &[SearchSource::Names], count).into_iter().map(|it| it.name).collect()
}

fn page(index: &NameIndex, query: &str, after: Option<&AfterMatch>, count: usize) -> Vec<Match> {
    let query = SearchQuery::parse(query).expect("it is valid");
    index.best(&query, &scope(&SearchSource::ALL), after, count)
}

/// Adds columns with their comments to a table.
fn add_columns(index: &mut NameIndex, inside: ContainerId, table: &str, columns: &[(&str, &str)]) {
    let columns: Vec<_> = columns
        .iter()
        .map(|(path, comment)| ColumnText {
            path: (*path).into(),
            comment: Some((*comment).into()).filter(|comment: &Cow<'_, str>| !comment.is_empty()),
        })
        .collect();
    let terms = index.fields_mut().columns(&columns, true).expect("room");
    index.assign_fields((inside, Kind::Table, table), Uuid::nil(), terms);
}

/// Returns the table and the column of each match.
fn columns(index: &NameIndex, query: &str, sources: &[SearchSource]) -> Vec<(String, String)> {
    let found = matches(index, query, sources, 99).into_iter();
    let column = |it: &Match| it.field.as_ref().and_then(|field| field.column.clone());
    found.map(|it| (it.name.clone(), column(&it).unwrap_or_default())).collect()
}

fn pairs<'a>(expected: &[(&'a str, &'a str)]) -> Vec<(String, String)> {
    expected.iter().map(|(table, column)| ((*table).to_owned(), (*column).to_owned())).collect()
}

#[test]
fn best_matches_come_first_and_are_ordered_by_name() {
    let (index, _) = index(&["reorders", "x_orders", "ORDERS", "orders_b", "Orders_a", "else"]);
    let all = ["ORDERS", "Orders_a", "orders_b", "x_orders", "reorders"];
    for count in 1..=6 {
        assert_eq!(names(&index, "orders", count), all[..count.min(5)], "{count}");
    }
}

#[test]
fn name_is_found_once_although_it_contains_several_words() {
    let (index, _) = index(&["orders_orders_sales", "sales_orders", "sales"]);
    assert_eq!(names(&index, "sales orders", 9), ["orders_orders_sales", "sales_orders"]);
    assert_eq!(names(&index, "orders", 9), ["orders_orders_sales", "sales_orders"]);
}

#[test]
fn removed_name_is_not_found_until_it_is_added_again() {
    let (mut index, inside) = index(&["Orders", "orders"]);
    index.remove(inside, Kind::View, "Orders");
    index.remove(inside, Kind::Table, "Orders");
    index.remove(inside, Kind::Table, "Orders");
    assert_eq!((names(&index, "orders", 9), index.len()), (vec!["orders".to_owned()], 1));
    index.insert(inside, Kind::Table, "Orders", Uuid::nil()).expect("room");
    index.insert(inside, Kind::Table, "Orders", Uuid::nil()).expect("room");
    assert_eq!((names(&index, "orders", 9).len(), index.len()), (2, 2));
}

#[test]
fn scope_limits_warehouse_kind_and_visible_contents() {
    let (mut index, inside) = index(&["orders"]);
    index.insert(inside, Kind::View, "orders_v", Uuid::nil()).expect("room");
    let query = SearchQuery::parse("orders").expect("it is valid");
    let found = |narrow: SearchScope| {
        let sources = vec![SearchSource::Names];
        index.best(&query, &SearchScope { sources, ..narrow }, None, 9).len()
    };
    assert_eq!(found(SearchScope::default()), 2);
    assert_eq!(found(SearchScope { warehouse: Some(Uuid::max()), ..SearchScope::default() }), 0);
    assert_eq!(found(SearchScope { kinds: vec![Kind::View], ..SearchScope::default() }), 1);
    let hidden = HashSet::from([(inside, Kind::Table)]);
    assert_eq!(found(SearchScope { hidden, ..SearchScope::default() }), 1);
}

#[test]
fn pages_contain_each_match_exactly_once() {
    let all: Vec<_> = (0..100).map(|number| format!("t{number}_T{}", number % 7)).collect();
    let (mut index, inside) = index(&all.iter().map(String::as_str).collect::<Vec<_>>());
    for number in 0..50 {
        let table = format!("c{number}");
        index.insert(inside, Kind::Table, &table, Uuid::nil()).expect("room");
        add_columns(&mut index, inside, &table, &[("total", "the total"), ("x", "a thing")]);
    }
    for index in [index.compacted().expect("room"), index] {
        let container = index.containers().of(inside).clone();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let matches = page(&index, "t", after.as_ref(), 7);
            let Some(last) = matches.last() else { break };
            let cursor = Cursor {
                source: last.rank.source.as_str().to_owned(),
                quality: last.rank.quality.as_str().to_owned(),
                kind: last.kind.as_str().to_owned(),
                warehouse: container.warehouse,
                levels: container.levels.clone(),
                name: last.name.clone(),
            };
            after = AfterMatch::parse(cursor, &KINDS);
            found.extend(matches.into_iter().map(|it| it.name));
        }
        assert_eq!(found.len(), 150);
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), 150);
        let whole: Vec<_> = page(&index, "t", None, 1000).into_iter().map(|it| it.name).collect();
        assert_eq!(found, whole);
    }
}

#[test]
fn changes_after_a_compaction_are_found_in_order() {
    let (index, inside) = index(&["orders_a", "orders_c", "x"]);
    let mut index = index.compacted().expect("room");
    index.insert(inside, Kind::Table, "orders_b", Uuid::nil()).expect("room");
    index.insert(inside, Kind::Table, "orders", Uuid::nil()).expect("room");
    index.remove(inside, Kind::Table, "orders_a");
    for count in 1..5 {
        let expected = ["orders", "orders_b", "orders_c"];
        assert_eq!(names(&index, "orders", count), expected[..count.min(3)]);
    }
}

#[test]
fn column_is_found_in_the_best_form_and_once_for_each_table() {
    use SearchSource::{Columns, Comments, Names};
    let (mut index, inside) = index(&["b", "a", "customers", "c"]);
    let shared = [("id", ""), ("customer_id", "who pays"), ("Customer", "")];
    for table in ["a", "b", "customers"] {
        add_columns(&mut index, inside, table, &shared);
    }
    add_columns(&mut index, inside, "c", &[("who", "the customer"), ("recustomer", "")]);
    let all =
        pairs(&[("customers", ""), ("a", "Customer"), ("b", "Customer"), ("c", "recustomer")]);
    assert_eq!(columns(&index, "customer", &[Names, Columns, Comments]), all);
    let in_columns = pairs(&[
        ("a", "Customer"),
        ("b", "Customer"),
        ("customers", "Customer"),
        ("c", "recustomer"),
    ]);
    assert_eq!(columns(&index, "customer", &[Columns]), in_columns);
    assert_eq!(columns(&index, "customer", &[Comments]), pairs(&[("c", "who")]));
    assert_eq!(columns(&index, "who", &[Comments])[0], pairs(&[("a", "customer_id")])[0]);
    // The other words may be in the name of the table or of its namespace.
    assert_eq!(columns(&index, "sales b customer", &[Columns]), pairs(&[("b", "Customer")]));
    assert_eq!(columns(&index, "hr b customer", &[Columns]), []);
}

#[test]
fn replaced_and_removed_columns_are_not_found() {
    let (mut index, inside) = index(&["a", "b"]);
    for table in ["a", "b"] {
        add_columns(&mut index, inside, table, &[("price", "")]);
    }
    let prices = |index: &NameIndex| columns(index, "price", &[SearchSource::Columns]);
    assert_eq!(prices(&index).len(), 2);
    add_columns(&mut index, inside, "a", &[("amount", "")]);
    assert_eq!(prices(&index), pairs(&[("b", "price")]));
    index.remove(inside, Kind::Table, "b");
    assert_eq!(prices(&index), []);
    index.insert(inside, Kind::Table, "b", Uuid::nil()).expect("room");
    assert_eq!(prices(&index), []);
}
