//! [`Term`]: the operand of a predicate.

use serde_json::{Map, Value, json};

use crate::members::brief;
use crate::refusal::Refusal;
use crate::transform::Transform;

/// The operand of a predicate that has one value in each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// The column with this full name.
    Column(String),
    /// The column with this field id.
    Field(i32),
    /// A column's value after this transform.
    Transform(Transform, Box<Self>),
}

impl Term {
    /// Returns the older of the two JSON forms of the specification, which all clients read.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Column(name) => json!(name),
            Self::Field(id) => json!({ "type": "reference", "id": id }),
            Self::Transform(transform, term) => {
                let transform = transform.to_string();
                json!({ "type": "transform", "transform": transform, "term": term.to_json() })
            }
        }
    }

    /// Parses an operand of a scan's filter: a name, a reference, a transform, or a call of a
    /// function that is a transform. `None` for calls of other functions.
    pub(super) fn parse(json: &Value) -> Result<Option<Self>, Refusal> {
        if let Value::Object(members) = json
            && members.get("type").and_then(Value::as_str) == Some("apply")
        {
            return Ok(Self::parse_function(members));
        }
        Self::parse_column(json).map(Some).ok_or_else(|| {
            let term = brief(json);
            Refusal::invalid(format!("Cannot parse expression: expected a column, got {term}"))
        })
    }

    fn parse_column(json: &Value) -> Option<Self> {
        let members = match json {
            Value::String(name) => return Some(Self::Column(name.clone())),
            Value::Object(members) => members,
            _ => return None,
        };
        match members.get("type")?.as_str()? {
            "reference" => Self::parse_reference(members),
            "transform" => {
                let transform = Transform::parse(members.get("transform")?.as_str()?).ok()?;
                Some(Self::transformed(transform, Self::parse_reference(members)?))
            }
            _ => None,
        }
    }

    /// Parses the column of a reference, or of a transform in the older JSON form.
    fn parse_reference(members: &Map<String, Value>) -> Option<Self> {
        if let Some(id) = members.get("id") {
            return id.as_i64().and_then(|id| i32::try_from(id).ok()).map(Self::Field);
        }
        match members.get("term").or_else(|| members.get("name"))? {
            Value::String(name) => Some(Self::Column(name.clone())),
            Value::Object(inner) if inner.get("type")?.as_str()? == "reference" => {
                // A reference inside a reference must contain a name, so the nesting ends here.
                let name = inner.get("term").or_else(|| inner.get("name"))?.as_str()?;
                Some(Self::Column(name.to_owned()))
            }
            _ => None,
        }
    }

    fn transformed(transform: Transform, column: Self) -> Self {
        match transform {
            Transform::Identity => column,
            transform => Self::Transform(transform, Box::new(column)),
        }
    }

    /// Parses a call of a function from `iceberg_functions`, the function catalog of Iceberg's
    /// transforms. `None` for other functions.
    fn parse_function(members: &Map<String, Value>) -> Option<Self> {
        let function = members.get("function")?;
        if function.get("catalog")?.as_str()? != "iceberg_functions" {
            return None;
        }
        let [Value::String(name)] = function.get("identifier")?.as_array()?.as_slice() else {
            return None;
        };
        let (width, column) = match members.get("arguments")?.as_array()?.as_slice() {
            [column] => (String::new(), column),
            [width, column] => (format!("[{}]", literal_of(width)?.as_u64()?), column),
            _ => return None,
        };
        let transform = Transform::parse(&format!("{name}{width}")).ok()?;
        if matches!(transform, Transform::Unknown(_) | Transform::Void) || !column.is_object() {
            return None;
        }
        match Self::parse_column(column)? {
            Self::Transform(..) => None,
            column => Some(Self::transformed(transform, column)),
        }
    }
}

/// Returns the value of a literal, which may be wrapped in an object.
fn literal_of(json: &Value) -> Option<&Value> {
    match json {
        Value::Object(members) => members.get("value"),
        other => Some(other),
    }
}
