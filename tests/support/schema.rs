//! [`Schemas`]: validation of values against the schemas of an OpenAPI document.
//!
//! It supports only the parts of JSON Schema that slateberg's documents use: an unknown keyword
//! fails the test, so that no constraint remains unchecked.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keywords that constrain nothing.
const FOR_PEOPLE: [&str; 5] = ["description", "example", "examples", "format", "title"];

/// The schemas of a document.
pub struct Schemas<'a>(pub &'a Value);

impl Schemas<'_> {
    /// Returns the violations of a schema. A schema allows further members, because later versions
    /// may add some. Here, a further member is a violation, because this version must document all
    /// members that it returns.
    pub fn problems(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let named = self.look(schema, value, "", &mut found);
        if let Value::Object(members) = value
            && !named.is_empty()
        {
            let unknown = members.keys().filter(|name| !named.contains(*name));
            found.extend(unknown.map(|name| format!("{name} is not in the document")));
        }
        found
    }

    /// Adds the violations at `at` to `found`. Returns the members that the schema contains.
    fn look(
        &self,
        schema: &Value,
        value: &Value,
        at: &str,
        found: &mut Vec<String>,
    ) -> BTreeSet<String> {
        let schema = schema.as_object().expect("a schema is an object");
        let mut named = BTreeSet::new();
        for (keyword, says) in schema {
            match keyword.as_str() {
                "$ref" => {
                    let pointer = says.as_str().and_then(|target| target.strip_prefix('#'));
                    let target = pointer.and_then(|pointer| self.0.pointer(pointer));
                    named.extend(self.look(target.expect("it is there"), value, at, found));
                }
                "allOf" => {
                    for one in says.as_array().expect("schemas") {
                        named.extend(self.look(one, value, at, found));
                    }
                }
                "oneOf" => {
                    let fits = |one: &&Value| {
                        let mut problems = Vec::new();
                        self.look(one, value, at, &mut problems);
                        problems.is_empty()
                    };
                    if says.as_array().expect("schemas").iter().filter(fits).count() != 1 {
                        found.push(format!("{at}: {value} is not one of {says}"));
                    }
                }
                "properties" => {
                    named.extend(self.members(says, schema, value, at, found));
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.look(says, item, &format!("{at}/{index}"), found);
                    }
                }
                "propertyNames" => {
                    for name in value.as_object().into_iter().flat_map(Map::keys) {
                        self.look(says, &Value::from(name.as_str()), at, found);
                    }
                }
                keyword if FOR_PEOPLE.contains(&keyword) => {}
                keyword if holds(keyword, says, value) => {}
                keyword => found.push(format!("{at}: {value} is not {keyword} {says}")),
            }
        }
        named
    }

    fn members(
        &self,
        properties: &Value,
        schema: &Map<String, Value>,
        value: &Value,
        at: &str,
        found: &mut Vec<String>,
    ) -> BTreeSet<String> {
        let properties = properties.as_object().expect("schemas by name");
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        for (name, member) in value.as_object().into_iter().flatten() {
            match properties.get(name) {
                Some(schema) => {
                    self.look(schema, member, &format!("{at}/{name}"), found);
                }
                None if closed => found.push(format!("{at}/{name} is not in the document")),
                None => {}
            }
        }
        properties.keys().cloned().collect()
    }
}

/// Whether a value satisfies a keyword that concerns only the value itself.
fn holds(keyword: &str, says: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str().expect("a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the type {other} is not known here"),
    };
    match keyword {
        "type" => says.as_array().map_or_else(|| is(says), |kinds| kinds.iter().any(is)),
        "enum" => says.as_array().expect("values").contains(value),
        "required" => {
            let names = says.as_array().expect("names").iter();
            names.map(|name| name.as_str().expect("a name")).all(|name| value.get(name).is_some())
        }
        // These keywords do not constrain values of other types.
        "minimum" => value.as_i64().is_none_or(|number| Some(number) >= says.as_i64()),
        "maximum" => value.as_i64().is_none_or(|number| Some(number) <= says.as_i64()),
        "minLength" => length(value).is_none_or(|length| Some(length) >= says.as_u64()),
        "maxLength" => length(value).is_none_or(|length| Some(length) <= says.as_u64()),
        "uniqueItems" => {
            let items = value.as_array().into_iter().flatten().map(Value::to_string);
            let all: Vec<_> = items.collect();
            all.iter().collect::<BTreeSet<_>>().len() == all.len()
        }
        // Only requests have patterns, and these schemas are for responses.
        "pattern" => true,
        // This keyword is checked together with the members.
        "additionalProperties" => true,
        other => panic!("the keyword {other} is not known here"),
    }
}

/// Returns the number of characters of a string.
fn length(value: &Value) -> Option<u64> {
    value.as_str().map(|text| text.chars().count() as u64)
}
