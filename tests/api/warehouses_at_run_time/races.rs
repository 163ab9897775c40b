//! Concurrent changes: of two requests for a name one succeeds, and creations in a warehouse either
//! keep it or fail because it was deleted.

use std::sync::Arc;

use serde_json::json;

use super::{LAKE, WAREHOUSES, at, lake};
use crate::support::app::TestApp;
use crate::support::fsck::assert_sound;
use slateberg_catalog::{Operation, RequestContext};

const ROUNDS: usize = 60;
const MAKERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_and_a_place_are_given_once() {
    let app = Arc::new(TestApp::new().await);
    for round in 0..ROUNDS {
        let names = if round % 2 == 0 { ["lake", "lake"] } else { ["lake", "sea"] };
        let making = names.map(|name| {
            let app = Arc::clone(&app);
            let location = format!("memory:///place{round}");
            tokio::spawn(async move { app.post(WAREHOUSES, at(name, &location)).await })
        });
        let mut made = 0;
        for answer in futures::future::join_all(making).await {
            match answer.expect("no panic").status.as_u16() {
                201 => made += 1,
                400 | 409 => {}
                other => panic!("{other}"),
            }
        }
        assert_eq!(made, 1, "round {round}");
        for name in ["lake", "sea"] {
            app.delete(&format!("{WAREHOUSES}/{name}")).await;
        }
        assert_eq!(app.app.runtime.catalog.warehouses().served().all().count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_made_in_a_warehouse_that_is_deleted() {
    let app = Arc::new(TestApp::new().await);
    let (mut kept, mut deleted) = (0, 0);
    for round in 0..ROUNDS {
        app.post(WAREHOUSES, lake()).await.expect(201);
        let making = |number: usize| {
            let app = Arc::clone(&app);
            tokio::spawn(async move {
                // Vary the order of the tasks.
                for _ in 0..(number * round) % 16 {
                    tokio::task::yield_now().await;
                }
                let body = json!({ "namespace": [format!("n{number}")] });
                app.post("/v1/lake/namespaces", body).await
            })
        };
        let making = futures::future::join_all((0..MAKERS).map(making));
        let deleting = async { app.delete(LAKE).await };
        let (made, gone) = tokio::join!(making, deleting);
        let made: Vec<_> = made.into_iter().map(|it| it.expect("no panic")).collect();
        let count = made.iter().filter(|answer| answer.status == 200).count();
        match gone.status.as_u16() {
            204 => {
                assert_eq!(count, 0, "round {round}: made in a warehouse that is gone");
                deleted += 1;
            }
            409 => {
                assert_eq!(count, MAKERS, "round {round}: it was there all the time");
                kept += 1;
                for number in 0..MAKERS {
                    app.delete(&format!("/v1/lake/namespaces/n{number}")).await.expect(204);
                }
                app.delete(LAKE).await.expect(204);
            }
            other => panic!("round {round}: {other} {}", gone.body),
        }
    }
    assert_eq!(kept + deleted, ROUNDS);
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn a_namespace_of_a_request_that_came_before_the_delete_is_not_made_in_the_next_warehouse() {
    let app = TestApp::new().await;
    app.post(WAREHOUSES, lake()).await.expect(201);
    let catalog = &app.app.runtime.catalog;
    let early = catalog.warehouses().served().by_prefix(Some("lake")).expect("it is there");
    app.delete(LAKE).await.expect(204);
    for _ in 0..2 {
        let cx = RequestContext::new(Operation::anonymous(), Arc::clone(&early));
        let ident = slateberg_model::ident::NamespaceIdent(vec!["ns".to_owned()]);
        let made = catalog.namespaces().create_namespace(&cx, ident, Default::default()).await;
        let refused = made.expect_err("its warehouse is gone").to_string();
        assert_eq!(refused, "Warehouse does not exist: lake");
        // The same after another warehouse has taken the name.
        app.post(WAREHOUSES, lake()).await;
    }
    assert_eq!(app.seen("/v1/lake").await, json!({}));
    assert_sound(Arc::clone(&app.bucket)).await;
}
