//! [`FunctionType`]: the type of a parameter or of a result. Unlike the types of columns, it has no
//! field ids, and all of its parts are optional.

use std::fmt;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::members::brief;
use crate::types::PrimitiveType;

/// The type of a parameter or of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionType {
    /// A primitive type or `variant`, without spaces.
    Simple(String),
    /// A list with elements of this type.
    List(Box<Self>),
    /// A map with keys and values of these types.
    Map(Box<(Self, Self)>),
    /// A struct with these fields.
    Struct(Vec<(String, Self)>),
}

impl FunctionType {
    /// Parses a type: a string, or an object for a list, map or struct.
    pub fn parse(json: &Value) -> Result<Self, String> {
        match json {
            Value::String(name) => Self::from_name(name),
            Value::Object(members) => Self::from_members(members),
            _ => Err(format!("not a type: {}", brief(json))),
        }
    }

    fn from_name(name: &str) -> Result<Self, String> {
        if name.eq_ignore_ascii_case("variant") {
            return Ok(Self::Simple("variant".to_owned()));
        }
        let primitive = PrimitiveType::from_name(name).map_err(|_| {
            format!(
                "not a type: '{}'. Expected a primitive type such as int, string or decimal(9,2), \
                 or an object for a list, map or struct",
                brief(name)
            )
        })?;
        Ok(Self::Simple(primitive.to_string().split_whitespace().collect()))
    }

    fn from_members(members: &Map<String, Value>) -> Result<Self, String> {
        let member = |name: &str| {
            let found = members.get(name);
            found.ok_or_else(|| format!("the type has no member \"{name}\""))
        };
        match members.get("type").and_then(Value::as_str) {
            Some("list") => Ok(Self::List(Box::new(Self::parse(member("element")?)?))),
            Some("map") => {
                let (key, value) = (Self::parse(member("key")?)?, Self::parse(member("value")?)?);
                Ok(Self::Map(Box::new((key, value))))
            }
            Some("struct") => {
                let fields = member("fields")?.as_array().ok_or("\"fields\" is not an array")?;
                let fields: Result<Vec<_>, String> = fields.iter().map(Self::field).collect();
                Ok(Self::Struct(fields?))
            }
            _ => Err("the \"type\" of a type is not list, map or struct".to_owned()),
        }
    }

    fn field(json: &Value) -> Result<(String, Self), String> {
        let name = json.get("name").and_then(Value::as_str);
        let name = name.ok_or("a field of a struct has no name")?;
        check_name("name of a field", name)?;
        let data_type = json.get("type").ok_or("a field of a struct has no type")?;
        Ok((name.to_owned(), Self::parse(data_type)?))
    }

    /// Whether this is a struct.
    pub(super) fn is_struct(&self) -> bool {
        matches!(self, Self::Struct(_))
    }
}

impl fmt::Display for FunctionType {
    /// Writes the canonical form, which ids of definitions contain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(name) => f.write_str(name),
            Self::List(element) => write!(f, "list<{element}>"),
            Self::Map(fields) => write!(f, "map<{},{}>", fields.0, fields.1),
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (position, (name, data_type)) in fields.iter().enumerate() {
                    let separator = if position > 0 { "," } else { "" };
                    write!(f, "{separator}{name}:{data_type}")?;
                }
                f.write_str(">")
            }
        }
    }
}

impl Serialize for FunctionType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Simple(name) = self {
            return serializer.serialize_str(name);
        }
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Simple(_) => {}
            Self::List(element) => {
                map.serialize_entry("type", "list")?;
                map.serialize_entry("element", element)?;
            }
            Self::Map(fields) => {
                map.serialize_entry("type", "map")?;
                map.serialize_entry("key", &fields.0)?;
                map.serialize_entry("value", &fields.1)?;
            }
            Self::Struct(fields) => {
                let fields = fields.iter().map(|(name, it)| json!({ "name": name, "type": it }));
                map.serialize_entry("type", "struct")?;
                map.serialize_entry("fields", &fields.collect::<Vec<_>>())?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for FunctionType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Refuses an empty name, and a name with control characters.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), String> {
    match name.is_empty() || name.chars().any(char::is_control) {
        true => Err(format!("the {what} is empty, or contains a control character")),
        false => Ok(()),
    }
}
