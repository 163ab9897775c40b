//! Pages of listings, with tokens that stay valid under concurrent changes.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::function::{FUNCTIONS, function};
use crate::support::path;
use crate::support::table::create_table;

/// Returns one page: its names, and the token of the next page.
async fn page(app: &TestApp, listing: &str, query: &str) -> (Vec<String>, Option<String>) {
    let separator = if listing.contains('?') { '&' } else { '?' };
    let response = app.get(&format!("{listing}{separator}{query}")).await.expect(200);
    let named = |item: &Value| match item.as_array() {
        Some(levels) => levels.last().expect("a level").clone(),
        None => item["name"].clone(),
    };
    let items = response.body.get("identifiers").or_else(|| response.body.get("namespaces"));
    let items = items.and_then(Value::as_array).expect("a list").iter();
    let names = items.map(|item| named(item).as_str().expect("a name").to_owned()).collect();
    assert!(response.body.get("next-page-token").is_some(), "a missing token instead of null");
    (names, response.body["next-page-token"].as_str().map(ToOwned::to_owned))
}

/// Returns all pages of this size.
async fn pages(app: &TestApp, listing: &str, size: usize) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut token = Some(String::new());
    while let Some(current) = token {
        let query = format!("pageToken={}&pageSize={size}", path::segment(&current));
        let (names, next) = page(app, listing, &query).await;
        pages.push(names);
        token = next;
    }
    pages
}

/// A namespace `ns` with five children, tables, views and functions, each named `a` to `e`.
async fn five_of_each() -> TestApp {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    app.create_namespace(&["views"]).await;
    for name in ["d", "b", "a", "e", "c"] {
        app.create_namespace(&["ns", name]).await;
        app.create_table("ns", name).await;
        app.create_view("views", name).await;
        let resource = format!("function:default/ns/{name}");
        app.post(FUNCTIONS, function(&resource, "x")).await.expect(201);
    }
    app
}

const LISTINGS: [&str; 4] = [
    "/v1/namespaces?parent=ns",
    "/v1/namespaces/ns/tables",
    "/v1/namespaces/views/views",
    "/v1/namespaces/ns/functions",
];

#[tokio::test]
async fn page_has_the_requested_size() {
    let app = five_of_each().await;
    let all = ["a", "b", "c", "d", "e"];
    for listing in LISTINGS {
        for size in 1..=6 {
            let expected: Vec<Vec<_>> = all.chunks(size).map(<[_]>::to_vec).collect();
            assert_eq!(pages(&app, listing, size).await, expected, "{listing} by {size}");
        }
    }
}

#[tokio::test]
async fn listing_without_a_page_token_is_complete() {
    let app = TestApp::with_settings(|settings| settings.catalog.page_size_max = 2).await;
    app.create_namespace(&["ns"]).await;
    for name in ["a", "b", "c", "d", "e"] {
        app.create_table("ns", name).await;
    }
    let listing = "/v1/namespaces/ns/tables";
    for query in ["", "pageSize=1"] {
        let (names, next) = page(&app, listing, query).await;
        assert_eq!((names.len(), next), (5, None), "{query}");
    }
    // The server's page size applies if the client sets none or a larger one.
    for query in ["pageToken=", "pageToken=&pageSize=1000"] {
        let (names, next) = page(&app, listing, query).await;
        assert_eq!(names, ["a", "b"], "{query}");
        assert!(next.is_some());
    }
}

#[tokio::test]
async fn names_created_or_dropped_between_pages_do_not_affect_the_others() {
    let app = five_of_each().await;
    let listing = "/v1/namespaces/ns/tables";
    let (first, token) = page(&app, listing, "pageToken=&pageSize=2").await;
    assert_eq!(first, ["a", "b"]);
    // Between two pages, the table in the token and a later table are dropped, and tables are
    // created before and after the name in the token.
    app.delete("/v1/namespaces/ns/tables/b").await.expect(204);
    app.delete("/v1/namespaces/ns/tables/d").await.expect(204);
    for name in ["aa", "bb", "ee"] {
        app.create_table("ns", name).await;
    }
    let token = token.expect("there is more");
    let (second, last) = page(&app, listing, &format!("pageToken={token}&pageSize=2")).await;
    assert_eq!(second, ["bb", "c"]);
    let token = last.expect("there is more");
    let (third, last) = page(&app, listing, &format!("pageToken={token}&pageSize=9")).await;
    assert_eq!(third, ["e", "ee"]);
    assert_eq!(last, None);
}

#[tokio::test]
async fn page_token_stays_valid_after_its_names_are_dropped() {
    let app = five_of_each().await;
    let listing = "/v1/namespaces/ns/tables";
    let (_, token) = page(&app, listing, "pageToken=&pageSize=4").await;
    let token = token.expect("there is more");
    for name in ["a", "b", "c", "d", "e"] {
        app.delete(&format!("{listing}/{name}")).await.expect(204);
    }
    let query = format!("pageToken={token}");
    assert_eq!(page(&app, listing, &query).await, (vec![], None));
    let app = app.restart().await;
    app.create_table("ns", "z").await;
    assert_eq!(page(&app, listing, &query).await, (vec!["z".to_owned()], None));
}

#[tokio::test]
async fn names_of_any_script_are_paginated() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let mut names = ["%2F", "+", "a b", "a.b", "a/b", "ü", "名前", "🦀", "A", "a", "ab", "\u{a0}"];
    for name in names {
        app.post("/v1/namespaces/ns/tables", create_table(name)).await.expect(200);
    }
    names.sort_unstable();
    for size in [1, 5, 100] {
        let listed = pages(&app, "/v1/namespaces/ns/tables", size).await.concat();
        assert_eq!(listed, names, "names are sorted by their bytes");
    }
}

#[tokio::test]
async fn invalid_page_token_or_size_is_rejected() {
    let app = five_of_each().await;
    for listing in LISTINGS {
        let separator = if listing.contains('?') { '&' } else { '?' };
        // The last token has the format of older servers, which does not contain the listing to
        // which the token belongs.
        for token in ["!", "AA", "YWJj", "a", "%00", "Af8", "b", "%FF", "AWE%3D%3D", "AWI"] {
            let response = app.get(&format!("{listing}{separator}pageToken={token}")).await;
            let (status, kind, message) = response.error();
            assert_eq!((status, kind), (400, "IllegalArgumentException"), "{token}");
            assert!(message.starts_with("Invalid page token"), "{token}: {message}");
        }
        for size in ["0", "-1", "1.5", "x", "", "99999999999999999999999", "%31%20"] {
            for token in ["", "pageToken=&"] {
                let response =
                    app.get(&format!("{listing}{separator}{token}pageSize={size}")).await;
                response.expect_error(400, "BadRequestException");
            }
        }
    }
}

#[tokio::test]
async fn page_token_of_another_listing_is_rejected() {
    let app = five_of_each().await;
    app.create_namespace(&["other"]).await;
    let listings = [&LISTINGS[..], &["/v1/namespaces/other/tables", "/v1/namespaces"]].concat();
    for from in LISTINGS {
        let (_, token) = page(&app, from, "pageToken=&pageSize=2").await;
        let token = token.expect("there is more");
        for listing in &listings {
            let separator = if listing.contains('?') { '&' } else { '?' };
            let path = format!("{listing}{separator}pageToken={token}");
            let expected = if *listing == from { 200 } else { 400 };
            assert_eq!(app.get(&path).await.status, expected, "{from} in {listing}");
        }
    }
}

#[tokio::test]
async fn an_empty_listing_is_one_page() {
    let app = TestApp::new().await;
    assert_eq!(page(&app, "/v1/namespaces", "pageToken=").await, (vec![], None));
    app.create_namespace(&["ns"]).await;
    for kind in ["tables", "views"] {
        let response = app.get(&format!("/v1/namespaces/ns/{kind}?pageToken=&pageSize=1")).await;
        assert_eq!(
            response.expect(200).body,
            json!({ "next-page-token": null, "identifiers": [] })
        );
    }
}
