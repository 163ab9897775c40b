//! Request paths from arbitrary names.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Returns a name as one segment of a path.
pub fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// Returns the levels of a namespace as one segment of a path.
pub fn namespace(levels: &[&str]) -> String {
    levels.iter().map(|level| segment(level)).collect::<Vec<_>>().join("%1F")
}

/// Returns the path of a namespace in a listing.
pub fn of_namespace(levels: &Value) -> String {
    format!("namespaces/{}", namespace(&strings(levels)))
}

/// Returns the path of a table or view in a listing; `kind` is `tables` or `views`.
pub fn of_tabular(kind: &str, identifier: &Value) -> String {
    let name = identifier["name"].as_str().expect("an identifier has a name");
    format!("{}/{kind}/{}", of_namespace(&identifier["namespace"]), segment(name))
}

fn strings(levels: &Value) -> Vec<&str> {
    let levels = levels.as_array().expect("a namespace is a list");
    levels.iter().map(|level| level.as_str().expect("of strings")).collect()
}
