//! The OpenAPI document. Its operations come from `docs/openapi/operations.json`, and its schemas
//! from the types.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use slateberg_management::openapi::Components;
use utoipa::OpenApi;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi").join(name)
}

fn read(name: &str) -> Value {
    let text = fs::read_to_string(file(name)).expect("the file can be read");
    serde_json::from_str(&text).expect("the file is JSON")
}

/// Replaces each flattened optional field with the members of its type, and makes all these members
/// optional. utoipa describes such a field as "the schema or null", which does not permit an object
/// without these members.
fn with_optional_parts(schemas: &Value) -> Value {
    let mut optional = schemas.clone();
    let parts = optional.as_object_mut().into_iter().flat_map(|all| all.values_mut());
    let parts = parts.filter_map(|schema| schema.get_mut("allOf")?.as_array_mut()).flatten();
    for part in parts {
        let Some(pointer) = part.pointer("/oneOf/0/$ref").and_then(Value::as_str) else { continue };
        let name = pointer.trim_start_matches("#/components/schemas/");
        let mut members = schemas[name].clone();
        if let Some(members) = members.as_object_mut() {
            members.remove("required");
            members.remove("description");
        }
        *part = members;
    }
    optional
}

#[test]
fn openapi_document_in_docs_matches_the_types() {
    let mut document = read("operations.json");
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    let derived = serde_json::to_value(Components::openapi()).expect("the document is JSON");
    document["components"]["schemas"] = with_optional_parts(&derived["components"]["schemas"]);
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        let text = format!("{document:#}\n");
        fs::write(file("management.json"), text).expect("the file can be written");
    }
    assert_eq!(
        read("management.json"),
        document,
        "run UPDATE_OPENAPI=1 cargo test -p slateberg-management, then python3 docs/openapi/page.py"
    );
}
