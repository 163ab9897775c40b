//! Updates of tables except those of snapshots: effects and rejections.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::{schema, set_property};

const TABLE: &str = "/v1/namespaces/ns/tables/t";

/// Commits updates that must succeed, and returns the new metadata.
async fn updated(app: &TestApp, updates: Value) -> Value {
    let body = json!({ "requirements": [], "updates": updates });
    let response = app.post(TABLE, body).await.expect(200);
    assert_eq!(app.get(TABLE).await.expect(200).body["metadata"], response.body["metadata"]);
    response.body["metadata"].clone()
}

/// Commits updates that must be rejected, one by one.
async fn assert_rejected(app: &TestApp, cases: &[(Value, &str)]) {
    for (update, message) in cases {
        let updates = if update.is_array() { update.clone() } else { json!([update]) };
        let body = json!({ "requirements": [], "updates": updates });
        let response = app.post_rejected(TABLE, body).await;
        assert_eq!(response.error(), (400, "IllegalArgumentException", *message), "{update}");
    }
}

fn wider_schema() -> Value {
    let mut schema = schema();
    let more = json!({ "id": 3, "name": "more", "required": false, "type": "date" });
    schema["fields"].as_array_mut().expect("fields").push(more);
    schema
}

#[tokio::test]
async fn schemas_are_added_made_current_and_removed() {
    let app = TestApp::with_table().await;
    let added = updated(
        &app,
        json!([
            { "action": "add-schema", "schema": wider_schema(), "last-column-id": 3 },
            { "action": "set-current-schema", "schema-id": -1 },
        ]),
    )
    .await;
    assert_eq!(added["current-schema-id"], 1);
    assert_eq!(added["last-column-id"], 3);
    assert_eq!(added["schemas"].as_array().map(Vec::len), Some(2));
    let back = updated(&app, json!([{ "action": "set-current-schema", "schema-id": 0 }])).await;
    assert_eq!((&back["current-schema-id"], &back["last-column-id"]), (&json!(0), &json!(3)));
    let removed = updated(&app, json!([{ "action": "remove-schemas", "schema-ids": [1] }])).await;
    assert_eq!(removed["schemas"].as_array().map(Vec::len), Some(1));
    let current = json!({ "action": "remove-schemas", "schema-ids": [0] });
    assert_rejected(&app, &[(current, "Cannot remove the current schema")]).await;
}

#[tokio::test]
async fn specs_are_added_made_default_and_removed() {
    let app = TestApp::with_table().await;
    let spec = json!({ "spec-id": 9, "fields": [
        { "source-id": 1, "name": "id_bucket", "transform": "bucket[16]" } ]});
    let added = updated(
        &app,
        json!([{ "action": "add-spec", "spec": spec }, { "action": "set-default-spec", "spec-id": -1 }]),
    )
    .await;
    assert_eq!(added["default-spec-id"], 1);
    assert_eq!(added["last-partition-id"], 1000);
    assert_eq!(added["partition-specs"][1]["fields"][0]["field-id"], 1000);
    updated(&app, json!([{ "action": "set-default-spec", "spec-id": 0 }])).await;
    let removed =
        updated(&app, json!([{ "action": "remove-partition-specs", "spec-ids": [1] }])).await;
    assert_eq!(removed["partition-specs"].as_array().map(Vec::len), Some(1));
    let field = |source: i64, transform: &str| {
        json!({ "action": "add-spec", "spec": { "fields": [
            { "source-id": source, "name": "p", "transform": transform } ]}})
    };
    assert_rejected(
        &app,
        &[
            (
                json!({ "action": "remove-partition-specs", "spec-ids": [0] }),
                "Cannot remove the default partition spec",
            ),
            (
                json!({ "action": "set-default-spec", "spec-id": 7 }),
                "Cannot set default partition spec to unknown spec: 7",
            ),
            (
                json!({ "action": "set-default-spec", "spec-id": -1 }),
                "Cannot set last added spec: no spec has been added",
            ),
            (field(2, "day"), "Invalid source type string for transform: day"),
        ],
    )
    .await;
}

#[tokio::test]
async fn sort_orders_are_added_and_made_default() {
    let app = TestApp::with_table().await;
    let order = json!({ "order-id": 5, "fields": [
        { "source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first" }
    ]});
    let added = updated(
        &app,
        json!([
            { "action": "add-sort-order", "sort-order": order },
            { "action": "set-default-sort-order", "sort-order-id": -1 },
        ]),
    )
    .await;
    assert_eq!(added["default-sort-order-id"], 1);
    assert_eq!(added["sort-orders"].as_array().map(Vec::len), Some(2));
    let unsorted =
        updated(&app, json!([{ "action": "set-default-sort-order", "sort-order-id": 0 }])).await;
    assert_eq!(unsorted["default-sort-order-id"], 0);
    assert_rejected(
        &app,
        &[
            (
                json!({ "action": "set-default-sort-order", "sort-order-id": 6 }),
                "Cannot set default sort order to unknown sort order: 6",
            ),
            (
                json!({ "action": "set-default-sort-order", "sort-order-id": -1 }),
                "Cannot set last added sort order: no sort order has been added",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn properties_are_set_and_removed_in_both_spellings() {
    let app = TestApp::with_table().await;
    updated(&app, json!([set_property("a", "1"), set_property("b", "2")])).await;
    let old_spelling = json!([
        { "action": "set-properties", "updated": { "c": "3" } },
        { "action": "remove-properties", "removed": ["a", "not-there"] },
    ]);
    let after = updated(&app, old_spelling).await;
    assert_eq!(after["properties"]["b"], "2");
    assert_eq!(after["properties"]["c"], "3");
    assert_eq!(after["properties"].get("a"), None);
    let after = updated(&app, json!([{ "action": "remove-properties", "removals": ["b"] }])).await;
    assert_eq!(after["properties"].get("b"), None);
}

#[tokio::test]
async fn uuid_and_location_are_kept_and_the_format_version_only_increases() {
    let app = TestApp::with_table().await;
    let before = app.get(TABLE).await.expect(200).body["metadata"].clone();
    let uuid = before["table-uuid"].as_str().expect("a UUID");
    let same = json!([
        { "action": "assign-uuid", "uuid": uuid },
        { "action": "upgrade-format-version", "format-version": 2 },
        { "action": "set-location", "location": before["location"] },
    ]);
    assert_eq!(updated(&app, same).await, before);
    let location = "memory:///warehouse/moved";
    let moved = updated(&app, json!([{ "action": "set-location", "location": location }])).await;
    assert_eq!(moved["location"], location);
    let loaded = app.get(TABLE).await.expect(200);
    let file = loaded.body["metadata-location"].as_str().expect("a location");
    assert!(file.starts_with("memory:///warehouse/moved/metadata/00001-"), "{file}");
    let upgraded =
        updated(&app, json!([{ "action": "upgrade-format-version", "format-version": 3 }])).await;
    assert_eq!((&upgraded["format-version"], &upgraded["next-row-id"]), (&json!(3), &json!(0)));
    let other = "00000000-0000-4000-8000-000000000001";
    assert_rejected(
        &app,
        &[
            (
                json!({ "action": "assign-uuid", "uuid": other }),
                &format!("Cannot reassign uuid: {uuid} != {other}"),
            ),
            (
                json!({ "action": "upgrade-format-version", "format-version": 2 }),
                "Cannot downgrade v3 table to v2",
            ),
            (
                json!({ "action": "upgrade-format-version", "format-version": 5 }),
                "Cannot upgrade table to unsupported format version: v5 (supported: v4)",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn unknown_updates_and_requirements_are_rejected() {
    let app = TestApp::with_table().await;
    assert_rejected(
        &app,
        &[
            (
                json!({ "action": "explode" }),
                "Cannot parse metadata update. Unrecognized action: explode",
            ),
            (json!({}), "Cannot parse metadata update. Missing field: action"),
            (
                json!([set_property("a", "1"), { "action": "explode" }]),
                "Cannot parse metadata update. Unrecognized action: explode",
            ),
            (
                json!({ "action": "add-view-version" }),
                "Cannot apply update add-view-version to a table",
            ),
            (json!({ "action": "set-location" }), "Cannot parse missing string: location"),
        ],
    )
    .await;
    let requirements = [
        (
            json!({ "type": "assert-nothing" }),
            "Cannot parse update requirement. Unrecognized type: assert-nothing",
        ),
        (json!({}), "Cannot parse update requirement. Missing field: type"),
        (
            json!({ "type": "assert-view-uuid", "uuid": "00000000-0000-4000-8000-000000000001" }),
            "Cannot validate assert-view-uuid against a table",
        ),
    ];
    for (requirement, message) in requirements {
        let body = json!({ "requirements": [requirement], "updates": [set_property("a", "1")] });
        let response = app.post_rejected(TABLE, body).await;
        assert_eq!(response.error(), (400, "IllegalArgumentException", message));
    }
}

#[tokio::test]
async fn unknown_request_members_are_ignored() {
    let app = TestApp::with_table().await;
    let body = json!({
        "requirements": [{ "type": "assert-default-spec-id", "default-spec-id": 0, "new": 1 }],
        "updates": [{ "action": "set-properties", "updates": { "a": "1" }, "new": [] }],
        "new": {},
    });
    app.post(TABLE, body).await.expect(200);
}
