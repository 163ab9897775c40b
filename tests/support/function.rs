//! Bodies of requests on functions.

use serde_json::{Value, json};

/// The path of the management API for functions.
pub const FUNCTIONS: &str = "/management/v1/functions";

/// The body that creates or replaces a function of one parameter.
pub fn function(resource: &str, sql: &str) -> Value {
    json!({
        "resource": resource,
        "definitions": [{
            "parameters": [{ "name": "x", "type": "int" }],
            "return-type": "int",
            "representations": [{ "dialect": "spark", "sql": sql }],
        }],
    })
}
