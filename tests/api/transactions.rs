//! `POST /v1/{prefix}/transactions/commit`: all tables or none.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::{append, create_table, main_is, set_property};

const COMMIT: &str = "/v1/transactions/commit";

async fn with_tables(names: &[&str]) -> TestApp {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    for name in names {
        app.create_table("ns", name).await;
    }
    app
}

fn change(table: &str, requirements: Value, updates: Value) -> Value {
    json!({
        "identifier": { "namespace": ["ns"], "name": table },
        "requirements": requirements,
        "updates": updates,
    })
}

fn transaction(changes: impl IntoIterator<Item = Value>) -> Value {
    json!({ "table-changes": changes.into_iter().collect::<Vec<_>>() })
}

async fn property(app: &TestApp, table: &str, key: &str) -> Value {
    let loaded = app.get(&format!("/v1/namespaces/ns/tables/{table}")).await.expect(200);
    loaded.body["metadata"]["properties"][key].clone()
}

#[tokio::test]
async fn transaction_changes_all_tables() {
    let app = with_tables(&["a", "b", "c"]).await;
    let changes = ["a", "b", "c"].map(|name| change(name, json!([]), json!(append(1, None, 1))));
    assert_eq!(app.post(COMMIT, transaction(changes)).await.expect(204).body, Value::Null);
    for name in ["a", "b", "c"] {
        let loaded = app.get(&format!("/v1/namespaces/ns/tables/{name}")).await.expect(200);
        assert_eq!(loaded.body["metadata"]["current-snapshot-id"], 1);
        let file = loaded.body["metadata-location"].as_str().expect("a location");
        assert!(app.file(file).await.is_some());
    }
}

#[tokio::test]
async fn repeated_transaction_of_appends_is_acknowledged_again() {
    let app = with_tables(&["a", "b"]).await;
    let appends = || {
        let change_of = |name| change(name, json!([main_is(None)]), json!(append(1, None, 1)));
        transaction(["a", "b"].map(change_of))
    };
    app.post(COMMIT, appends()).await.expect(204);
    let before = app.dump().await;
    app.post(COMMIT, appends()).await.expect(204);
    assert_eq!(app.dump().await, before);
}

#[tokio::test]
async fn transaction_with_one_failing_change_changes_no_table() {
    let app = with_tables(&["a", "b", "c"]).await;
    app.create_view("ns", "v").await;
    let set = || json!([set_property("k", "v")]);
    let good = |name: &str| change(name, json!([]), set());
    let cases = [
        (
            change("c", json!([main_is(Some(1))]), set()),
            409,
            "CommitFailedException",
            "Requirement failed: branch or tag main is missing, expected 1",
        ),
        (
            change("nope", json!([]), set()),
            404,
            "NoSuchTableException",
            "Table does not exist: ns.nope",
        ),
        (change("v", json!([]), set()), 404, "NoSuchTableException", "Table does not exist: ns.v"),
        (
            change("c", json!([]), json!([{ "action": "explode" }])),
            400,
            "IllegalArgumentException",
            "Cannot parse metadata update. Unrecognized action: explode",
        ),
        (
            change("c", json!([{ "type": "assert-create" }]), set()),
            409,
            "CommitFailedException",
            "Requirement failed: table already exists",
        ),
        (
            change("a", json!([]), set()),
            400,
            "IllegalArgumentException",
            "Invalid table changes: ns.a occurs more than once",
        ),
        (
            json!({ "requirements": [], "updates": [] }),
            400,
            "BadRequestException",
            "Invalid table changes: table identifier is required",
        ),
    ];
    for (bad, status, kind, message) in cases {
        // The invalid change is either the last or the first one of the list.
        for changes in [vec![good("a"), good("b"), bad.clone()], vec![bad, good("b"), good("a")]] {
            let response = app.post_rejected(COMMIT, transaction(changes)).await;
            assert_eq!(response.error(), (status, kind, message));
        }
    }
}

#[tokio::test]
async fn transaction_without_tables_or_with_too_many_is_rejected() {
    let app = TestApp::with_settings(|settings| settings.catalog.transaction_tables_max = 2).await;
    app.create_namespace(&["ns"]).await;
    for name in ["a", "b", "c"] {
        app.create_table("ns", name).await;
    }
    let set = |name: &str| change(name, json!([]), json!([set_property("k", "v")]));
    let none = app.post_rejected(COMMIT, transaction([])).await;
    assert_eq!(none.error(), (400, "IllegalArgumentException", "Invalid table changes: empty"));
    let many = app.post_rejected(COMMIT, transaction([set("a"), set("b"), set("c")])).await;
    assert_eq!(many.message(), "Invalid table changes: 3 tables, at most 2 are allowed");
    app.post(COMMIT, transaction([set("a"), set("b")])).await.expect(204);
}

#[tokio::test]
async fn transaction_changes_one_table_and_creates_another() {
    let app = with_tables(&["a"]).await;
    let mut staged = create_table("new");
    staged["stage-create"] = json!(true);
    let staged = app.post("/v1/namespaces/ns/tables", staged).await.expect(200);
    let metadata = &staged.body["metadata"];
    let create = change(
        "new",
        json!([{ "type": "assert-create" }]),
        json!([
            { "action": "assign-uuid", "uuid": metadata["table-uuid"] },
            { "action": "upgrade-format-version", "format-version": 2 },
            { "action": "add-schema", "schema": metadata["schemas"][0] },
            { "action": "set-current-schema", "schema-id": -1 },
            { "action": "add-spec", "spec": metadata["partition-specs"][0] },
            { "action": "set-default-spec", "spec-id": -1 },
            { "action": "add-sort-order", "sort-order": metadata["sort-orders"][0] },
            { "action": "set-default-sort-order", "sort-order-id": -1 },
            { "action": "set-location", "location": metadata["location"] },
        ]),
    );
    let failing = change("a", json!([main_is(Some(1))]), json!([]));
    app.post_rejected(COMMIT, transaction([create.clone(), failing])).await;
    let passing = change("a", json!([main_is(None)]), json!([set_property("k", "v")]));
    app.post(COMMIT, transaction([create, passing])).await.expect(204);
    assert_eq!(property(&app, "a", "k").await, "v");
    let response = app.get("/v1/namespaces/ns/tables/new").await.expect(200);
    assert_eq!(response.body["metadata"]["table-uuid"], metadata["table-uuid"]);
}

#[tokio::test]
async fn crossing_transactions_complete_and_are_atomic() {
    let names = ["a", "b", "c", "d"];
    let app = with_tables(&names).await;
    let transactions = (0..24).map(|n: usize| {
        // Each transaction changes two tables. Other transactions change the same tables in the
        // reverse order.
        let (first, second) = (names[n % 4], names[(n + 1 + n / 4 % 3) % 4]);
        let value = n.to_string();
        let set = json!([set_property("first-and-second", &value)]);
        let changes = [change(first, json!([]), set.clone()), change(second, json!([]), set)];
        let app = &app;
        async move { app.post(COMMIT, transaction(changes)).await }
    });
    for response in join_all(transactions).await {
        response.expect(204);
    }
}

#[tokio::test]
async fn transaction_writes_only_tables_that_change() {
    let app = with_tables(&["a", "b"]).await;
    let set = |name: &str| change(name, json!([]), json!([set_property("k", "v")]));
    app.post(COMMIT, transaction([set("a")])).await.expect(204);
    let before = app.get("/v1/namespaces/ns/tables/a").await.expect(200);
    app.post(COMMIT, transaction([set("a"), set("b")])).await.expect(204);
    assert_eq!(app.get("/v1/namespaces/ns/tables/a").await.expect(200).body, before.body);
    assert_eq!(property(&app, "b", "k").await, "v");
}
