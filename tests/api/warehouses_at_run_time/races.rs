//! Concurrent changes. Of two requests for one name, one succeeds. A creation in a warehouse that
//! is deleted concurrently either prevents the deletion or fails.

use std::sync::Arc;

use serde_json::json;

use super::{LAKE, WAREHOUSES, at, lake};
use crate::support::app::TestApp;
use crate::support::fsck::assert_sound;
use slateberg_catalog::{Operation, RequestContext};

const ROUNDS: usize = 60;
const MAKERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_creations_with_one_name_or_location_succeed_once() {
    let app = Arc::new(TestApp::new().await);
    for round in 0..ROUNDS {
        let names = if round % 2 == 0 { ["lake", "lake"] } else { ["lake", "sea"] };
        let making = names.map(|name| {
            let app = Arc::clone(&app);
            let location = format!("memory:///place{round}");
            tokio::spawn(async move { app.post(WAREHOUSES, at(name, &location)).await })
        });
        let mut created = 0;
        for response in futures::future::join_all(making).await {
            match response.expect("no panic").status.as_u16() {
                201 => created += 1,
                400 | 409 => {}
                other => panic!("{other}"),
            }
        }
        assert_eq!(created, 1, "round {round}");
        for name in ["lake", "sea"] {
            app.delete(&format!("{WAREHOUSES}/{name}")).await;
        }
        assert_eq!(app.app.runtime.catalog.warehouses().served().all().count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creation_in_a_deleted_warehouse_fails() {
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
        let (created, gone) = tokio::join!(making, deleting);
        let created: Vec<_> = created.into_iter().map(|it| it.expect("no panic")).collect();
        let count = created.iter().filter(|response| response.status == 200).count();
        match gone.status.as_u16() {
            204 => {
                assert_eq!(count, 0, "round {round}: created in a deleted warehouse");
                deleted += 1;
            }
            409 => {
                assert_eq!(count, MAKERS, "round {round}: rejected, though nothing was deleted");
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
async fn request_begun_before_a_delete_creates_nothing_in_the_next_warehouse_of_the_name() {
    let app = TestApp::new().await;
    app.post(WAREHOUSES, lake()).await.expect(201);
    let catalog = &app.app.runtime.catalog;
    let early = catalog.warehouses().served().by_prefix(Some("lake")).expect("it is there");
    app.delete(LAKE).await.expect(204);
    for _ in 0..2 {
        let cx = RequestContext::new(Operation::anonymous(), Arc::clone(&early));
        let ident = slateberg_model::ident::NamespaceIdent(vec!["ns".to_owned()]);
        let created = catalog.namespaces().create_namespace(&cx, ident, Default::default()).await;
        let error = created.expect_err("its warehouse is gone").to_string();
        assert_eq!(error, "Warehouse does not exist: lake");
        // The request also fails after another warehouse has taken the name.
        app.post(WAREHOUSES, lake()).await;
    }
    assert_eq!(app.visible_state("/v1/lake").await, json!({}));
    assert_sound(Arc::clone(&app.bucket)).await;
}
