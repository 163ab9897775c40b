//! Tests of commits to views.

use serde_json::{Value, json};

use super::super::testing::{CREATED_MS, ctx, raw};
use super::super::view::ViewRepresentation;
use super::*;

fn columns(names: &[&str]) -> Value {
    let fields: Vec<Value> = (3..)
        .zip(names)
        .map(|(id, name)| json!({"id": id, "name": name, "required": true, "type": "int"}))
        .collect();
    json!({"type": "struct", "schema-id": 5, "fields": fields})
}

fn version(id: i32, schema_id: i32, queries: &[(&str, &str)]) -> Value {
    let queries: Vec<Value> = queries
        .iter()
        .map(|(dialect, sql)| json!({"type": "sql", "dialect": dialect, "sql": sql}))
        .collect();
    json!({"version-id": id, "schema-id": schema_id, "timestamp-ms": CREATED_MS + i64::from(id),
        "summary": {"engine": "test"}, "default-namespace": ["ns"], "representations": queries})
}

fn request(version: &Value) -> NewView {
    NewView {
        location: "s3://b/v".to_owned(),
        schema: Schema::parse(&raw(&columns(&["a"]))).expect("a schema"),
        view_version: ViewVersion::parse(&raw(version)).expect("a version"),
        properties: BTreeMap::new(),
    }
}

fn view() -> ViewMetadata {
    let version = version(1, -1, &[("spark", "select 1"), ("trino", "select 1")]);
    new_view(request(&version), &ctx(CREATED_MS)).expect("a view")
}

fn commit(base: &ViewMetadata, changes: Value) -> Result<AppliedViewCommit, Refusal> {
    let changes = changes.as_array().expect("a list").iter();
    let changes: Vec<ViewUpdate> =
        changes.map(|update| ViewUpdate::parse(&raw(update))).collect::<Result<_, _>>()?;
    apply(Some(base), &[], changes, &ctx(CREATED_MS + 60_000))
}

#[track_caller]
fn committed(base: &ViewMetadata, changes: Value) -> ViewMetadata {
    let applied = commit(base, changes).expect("the commit is accepted");
    assert!(applied.changed, "the commit changed nothing");
    assert_eq!(ViewMetadata::parse(&applied.metadata.to_json()), Ok(applied.metadata.clone()));
    applied.metadata
}

#[track_caller]
fn invalid(base: &ViewMetadata, changes: Value) -> String {
    match commit(base, changes) {
        Err(Refusal::Invalid(text)) => text,
        other => panic!("not invalid: {other:?}"),
    }
}

fn add_version(version: Value) -> Value {
    json!({"action": "add-view-version", "view-version": version})
}

fn set_current(id: i32) -> Value {
    json!({"action": "set-current-view-version", "view-version-id": id})
}

fn set_properties(properties: Value) -> Value {
    json!({"action": "set-properties", "updates": properties})
}

fn log(view: &ViewMetadata) -> Vec<(i64, i32)> {
    let entries = view.version_log.iter();
    entries.map(|entry| (entry.timestamp_ms - CREATED_MS, entry.version_id)).collect()
}

#[test]
fn a_new_view_has_one_version_and_its_own_ids() {
    let mut sent = version(7, 5, &[("spark", "select 1")]);
    sent["default-catalog"] = json!("c");
    let view = new_view(request(&sent), &ctx(CREATED_MS)).expect("a view");
    let json: Value = serde_json::from_slice(&view.to_json()).expect("JSON");
    let mut schema = columns(&["a"]);
    schema["schema-id"] = json!(0);
    assert_eq!(
        json,
        json!({
            "view-uuid": "00000000-0000-0000-0000-000000000007",
            "format-version": 1,
            "location": "s3://b/v",
            "schemas": [schema],
            "current-version-id": 1,
            "versions": [{"version-id": 1, "timestamp-ms": CREATED_MS, "schema-id": 0,
                "summary": {"engine": "test"}, "default-catalog": "c", "default-namespace": ["ns"],
                "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}]}],
            "version-log": [{"timestamp-ms": CREATED_MS, "version-id": 1}],
        })
    );
    assert_eq!(ViewMetadata::parse(&view.to_json()), Ok(view));
}

#[test]
fn invalid_new_views_are_refused() {
    let refusal = |version: Value| match new_view(request(&version), &ctx(CREATED_MS)) {
        Err(Refusal::Invalid(text)) => text,
        other => panic!("not invalid: {other:?}"),
    };
    assert_eq!(
        refusal(version(1, -1, &[("trino", "select 1"), ("Trino", "select 2")])),
        "Invalid view version: Cannot add multiple queries for dialect trino"
    );
    assert_eq!(refusal(version(1, -1, &[])), "Cannot create view without specifying a query");
    let mut other = version(1, -1, &[]);
    other["representations"] = json!([{"type": "substrait", "plan": "x"}]);
    assert_eq!(refusal(other), "Found unsupported view representations: [substrait]");
}

#[test]
fn a_replaced_view_keeps_its_versions_and_logs_when_each_was_current() {
    let both = &[("spark", "select 2"), ("trino", "select 2")];
    let base = view();
    let next = committed(
        &base,
        json!([
            {"action": "add-schema", "schema": columns(&["a", "b"])},
            add_version(version(2, -1, both)),
            set_current(-1)]),
    );
    assert_eq!((next.current_version_id, next.versions.len(), next.schemas.len()), (2, 2, 2));
    assert_eq!(next.current_version().expect("a version").schema_id, 1);
    assert_eq!(log(&next), [(0, 1), (2, 2)]);
    // Another client has added version 2, so this version becomes 3. It reuses the existing schema.
    let both = &[("spark", "select 3"), ("trino", "select 3")];
    let third = committed(
        &next,
        json!([
            {"action": "add-schema", "schema": columns(&["a"])},
            add_version(version(2, -1, both)),
            set_current(-1)]),
    );
    assert_eq!((third.current_version_id, third.schemas.len()), (3, 2));
    assert_eq!(third.current_version().expect("a version").schema_id, 0);
    // The first version becomes current again, first by its id, then by adding an equal version.
    let back = committed(&third, json!([set_current(1)]));
    assert_eq!(log(&back), [(0, 1), (2, 2), (2, 3), (60_000, 1)]);
    let first = version(9, 0, &[("spark", "select 1"), ("trino", "select 1")]);
    let again = committed(&third, json!([add_version(first), set_current(-1)]));
    assert_eq!((again.current_version_id, again.versions.len()), (1, 3));
}

#[test]
fn invalid_view_commits_are_refused() {
    let base = view();
    let both = &[("spark", "x"), ("trino", "x")];
    let table = [
        (
            json!([set_current(-1)]),
            "Cannot set last version id: no current version id has been set",
        ),
        (json!([set_current(9)]), "Cannot set current version to unknown version: 9"),
        (
            json!([add_version(version(2, -1, both))]),
            "Cannot set last added schema: no schema has been added",
        ),
        (json!([add_version(version(2, 8, both))]), "Cannot add version with unknown schema: 8"),
        (
            json!([add_version(version(2, 0, &[("a", "x"), ("A", "y")]))]),
            "Invalid view version: Cannot add multiple queries for dialect a",
        ),
        (json!([{"action": "assign-uuid", "uuid": Uuid::from_u128(8)}]), "Cannot reassign uuid"),
        (
            json!([{"action": "upgrade-format-version", "format-version": 2}]),
            "Unsupported format version: 2",
        ),
        (
            json!([{"action": "upgrade-format-version", "format-version": 0}]),
            "Cannot downgrade v1 view to v0",
        ),
        (
            json!([{"action": "set-location", "location": ""}]),
            "Invalid location: must not be empty",
        ),
        (
            json!([set_properties(json!({"version.history.num-entries": "0"}))]),
            "version.history.num-entries must be positive but was 0",
        ),
        (json!([{"action": "add-snapshot"}]), "Cannot apply update add-snapshot to a view"),
        (json!([{"action": "fly"}]), "Cannot parse metadata update. Unrecognized action: fly"),
        (
            json!([add_version(json!({"version-id": 1}))]),
            "Cannot parse missing field: representations",
        ),
        (
            json!([add_version(version(2, 0, &[("spark", "x")])), set_current(-1)]),
            "Cannot replace view due to loss of view dialects (replace.drop-dialect.allowed=false):\n\
             Previous dialects: [spark, trino]\nNew dialects: [spark]",
        ),
    ];
    for (changes, text) in table {
        assert_eq!(invalid(&base, changes), text);
    }
    let allowed = json!([
        set_properties(json!({"replace.drop-dialect.allowed": "true"})),
        add_version(version(2, 0, &[("spark", "x")])),
        set_current(-1)
    ]);
    assert_eq!(committed(&base, allowed).current_version_id, 2);
}

#[test]
fn a_commit_without_effect_changes_nothing() {
    let base = view();
    let same = version(4, 0, &[("spark", "select 1"), ("trino", "select 1")]);
    for changes in [
        json!([]),
        json!([set_current(1), set_properties(json!({})), add_version(same), set_current(-1)]),
        json!([{"action": "assign-uuid", "uuid": base.view_uuid}]),
        json!([{"action": "set-location", "location": "s3://b/v"}]),
        json!([{"action": "remove-properties", "removals": ["a"]}]),
    ] {
        let applied = commit(&base, changes).expect("the commit is accepted");
        assert!(!applied.changed);
        assert_eq!(applied.metadata, base);
    }
}

#[test]
fn old_versions_expire_and_the_log_is_cut_after_them() {
    let replace = |view: ViewMetadata, number: i32| {
        let sql = format!("select {number}");
        let queries = &[("spark", sql.as_str()), ("trino", sql.as_str())];
        committed(&view, json!([add_version(version(number, 0, queries)), set_current(-1)]))
    };
    let ids = |view: &ViewMetadata| {
        view.versions.iter().map(|version| version.version_id).collect::<Vec<_>>()
    };
    let ten = (2..=12).fold(view(), replace);
    assert_eq!(ids(&ten), (3..=12).collect::<Vec<_>>());
    assert_eq!(ten.version_log.first().map(|entry| entry.version_id), Some(3));
    let old = committed(&ten, json!([set_current(4)]));
    let two = committed(&old, json!([set_properties(json!({"version.history.num-entries": "2"}))]));
    assert_eq!(ids(&two), [4, 12]);
    assert_eq!(log(&two), [(12, 12), (60_000, 4)]);
}

#[test]
fn view_requirements_fail_with_the_message_of_the_reference() {
    let base = view();
    let parse = |json: Value| ViewRequirement::parse(&raw(&json));
    let same = parse(json!({"type": "assert-view-uuid", "uuid": base.view_uuid})).expect("one");
    let other = Uuid::from_u128(8);
    let differs = parse(json!({"type": "assert-view-uuid", "uuid": other})).expect("one");
    let check = |base: Option<&ViewMetadata>, requirement: ViewRequirement| {
        apply(base, &[requirement], Vec::new(), &ctx(CREATED_MS)).map(|applied| applied.changed)
    };
    assert_eq!(check(Some(&base), same), Ok(false));
    assert_eq!(
        check(Some(&base), differs),
        Err(Refusal::conflict(format!(
            "Requirement failed: view UUID does not match: expected {} != {other}",
            base.view_uuid
        )))
    );
    assert!(matches!(check(None, same), Err(Refusal::Conflict(_))));
    assert!(parse(json!({"type": "assert-create"})).is_err());
    assert!(parse(json!({})).is_err());
}

#[test]
fn inconsistent_view_documents_are_refused() {
    let good: Value = serde_json::from_slice(&view().to_json()).expect("JSON");
    let refusal = |path: &str, value: Value| {
        let mut json = good.clone();
        *json.pointer_mut(path).expect("a member") = value;
        ViewMetadata::parse(json.to_string().as_bytes()).map(|_| ())
    };
    let table = [
        ("/format-version", json!(2), "Unsupported format version: 2"),
        ("/current-version-id", json!(4), "Cannot find current version 4 in view versions"),
        ("/versions/0/schema-id", json!(4), "Cannot find current schema with id 4 in schemas"),
        ("/schemas", json!({}), "Cannot parse schemas from non-array: {}"),
        ("/version-log/0", json!([]), "Cannot parse view history entry from a non-object: []"),
        ("/view-uuid", json!(1), "Cannot parse to a string value: view-uuid: 1"),
    ];
    for (path, value, text) in table {
        assert_eq!(refusal(path, value), Err(Refusal::invalid(text)));
    }
    // A representation of a later specification is read and stored, and not treated as SQL.
    let mut json = good.clone();
    json["future"] = json!([1]);
    json["versions"][0]["representations"][1] = json!({"type": "substrait", "plan": [1]});
    let view = ViewMetadata::parse(json.to_string().as_bytes()).expect("a document");
    let representations = &view.current_version().expect("a version").representations;
    assert!(
        matches!(&representations[1], ViewRepresentation::Other { kind, .. } if kind == "substrait")
    );
    assert_eq!(serde_json::from_slice::<Value>(&view.to_json()).expect("JSON"), json);
}
