//! The types of Iceberg: primitives, `variant`, struct, list and map, as defined in "Schemas and
//! Data Types" of the table specification, up to format version 3.
//!
//! The types of the `iceberg` crate end at version 2, so this module replaces them. The JSON is
//! that of "Appendix C" of the specification. `Display` formats types in the same way as messages
//! of the reference implementation.

pub(super) mod primitive;

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::defaults;
use super::members::{Members, brief, elements, object};
use super::refusal::Refusal;
pub use primitive::{EdgeAlgorithm, PrimitiveType};

/// The type of a column or of a nested field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A type without fields.
    Primitive(PrimitiveType),
    /// A semi-structured value (v3). It is not a primitive, so partitions, sort orders and
    /// identifiers cannot use it.
    Variant,
    /// Named fields, in order.
    Struct(Vec<NestedField>),
    /// Elements of one type. The field is always named `element`.
    List(Box<NestedField>),
    /// Keys and values. The fields are always named `key` and `value`.
    Map(Box<MapFields>),
}

/// The two fields of a map type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapFields {
    /// The key. Always required.
    pub key: NestedField,
    /// The value.
    pub value: NestedField,
}

/// A field of a struct, or the element, key or value of a list or map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedField {
    /// The field id, unique within a schema and stable over the life of a table.
    pub id: i32,
    /// The name within its struct.
    pub name: String,
    /// Whether null is forbidden.
    pub required: bool,
    /// The type.
    pub field_type: Type,
    /// The documentation of the field.
    pub doc: Option<String>,
    /// The value of rows that were written before the field existed (v3), as single-value JSON.
    pub initial_default: Option<Value>,
    /// The default value for writers (v3), as single-value JSON.
    pub write_default: Option<Value>,
}

impl Type {
    /// Parses a type: a string for primitives and `variant`, an object for all others.
    pub(super) fn parse(json: &Value) -> Result<Self, Refusal> {
        let unknown = || Refusal::invalid(format!("Cannot parse type from json: {}", brief(json)));
        match json {
            Value::String(name) => Self::from_name(name),
            Value::Object(members) => match members.get("type").and_then(Value::as_str) {
                Some("struct") => parse_struct(members).map(Self::Struct),
                Some("list") => parse_list(members),
                Some("map") => parse_map(members),
                _ => Err(unknown()),
            },
            _ => Err(unknown()),
        }
    }

    fn from_name(name: &str) -> Result<Self, Refusal> {
        if name.eq_ignore_ascii_case("variant") {
            return Ok(Self::Variant);
        }
        PrimitiveType::from_name(name).map(Self::Primitive)
    }

    /// Whether this is a struct.
    pub(super) fn is_struct(&self) -> bool {
        matches!(self, Self::Struct(_))
    }

    /// Returns the primitive type. `None` for other types.
    pub(super) fn as_primitive(&self) -> Option<&PrimitiveType> {
        match self {
            Self::Primitive(primitive) => Some(primitive),
            _ => None,
        }
    }

    /// Returns the first format version that supports this type.
    pub(super) fn min_format_version(&self) -> u8 {
        match self {
            Self::Variant => 3,
            Self::Primitive(
                PrimitiveType::TimestampNs
                | PrimitiveType::TimestamptzNs
                | PrimitiveType::Unknown
                | PrimitiveType::Geometry { .. }
                | PrimitiveType::Geography { .. },
            ) => 3,
            _ => 1,
        }
    }
}

pub(super) fn parse_struct(members: &Map<String, Value>) -> Result<Vec<NestedField>, Refusal> {
    let fields = members.required("fields")?;
    if !fields.is_array() {
        return Err(Refusal::invalid(format!(
            "Cannot parse struct fields from non-array: {}",
            brief(&*fields)
        )));
    }
    elements(&fields).iter().map(NestedField::parse).collect()
}

fn parse_list(members: &Map<String, Value>) -> Result<Type, Refusal> {
    let element = NestedField::nested(
        members.i32("element-id")?,
        "element",
        members.bool("element-required")?,
        Type::parse(&*members.required("element")?)?,
    )?;
    Ok(Type::List(Box::new(element)))
}

fn parse_map(members: &Map<String, Value>) -> Result<Type, Refusal> {
    let key_type = Type::parse(&*members.required("key")?)?;
    let key = NestedField::nested(members.i32("key-id")?, "key", true, key_type)?;
    let value = NestedField::nested(
        members.i32("value-id")?,
        "value",
        members.bool("value-required")?,
        Type::parse(&*members.required("value")?)?,
    )?;
    Ok(Type::Map(Box::new(MapFields { key, value })))
}

impl NestedField {
    fn parse(json: &Value) -> Result<Self, Refusal> {
        let members = object("struct field", json)?;
        let mut field = Self::nested(
            members.i32("id")?,
            &members.string("name")?,
            members.bool("required")?,
            Type::parse(&*members.required("type")?)?,
        )?;
        field.doc = members.opt_string("doc")?;
        field.initial_default = parse_default(members, "initial-default", &field.field_type)?;
        field.write_default = parse_default(members, "write-default", &field.field_type)?;
        Ok(field)
    }

    fn nested(id: i32, name: &str, required: bool, field_type: Type) -> Result<Self, Refusal> {
        if required && field_type == Type::Primitive(PrimitiveType::Unknown) {
            return Err(Refusal::invalid(format!(
                "Cannot create required field with unknown type: {}",
                brief(name)
            )));
        }
        Ok(Self {
            id,
            name: name.to_owned(),
            required,
            field_type,
            doc: None,
            initial_default: None,
            write_default: None,
        })
    }
}

fn parse_default(
    members: &Map<String, Value>,
    name: &str,
    field_type: &Type,
) -> Result<Option<Value>, Refusal> {
    let Some(value) = members.member(name)? else { return Ok(None) };
    check_default(field_type, &value)?;
    Ok(Some(value.into_owned()))
}

/// Refuses a default that is not valid for `field_type`.
fn check_default(field_type: &Type, value: &Value) -> Result<(), Refusal> {
    let Type::Primitive(primitive) = field_type else {
        return Err(Refusal::invalid(format!(
            "Invalid default value for {}: {} (must be null)",
            brief(field_type),
            brief(value)
        )));
    };
    if defaults::fits(primitive, value) {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "Cannot parse default as a {} value: {}",
        brief(primitive),
        brief(value)
    )))
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primitive(primitive) => primitive.fmt(f),
            Self::Variant => f.write_str("variant"),
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (position, field) in fields.iter().enumerate() {
                    if position > 0 {
                        f.write_str(", ")?;
                    }
                    field.fmt(f)?;
                }
                f.write_str(">")
            }
            Self::List(element) => write!(f, "list<{}>", element.field_type),
            Self::Map(fields) => {
                write!(f, "map<{}, {}>", fields.key.field_type, fields.value.field_type)
            }
        }
    }
}

impl fmt::Display for NestedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let required = if self.required { "required" } else { "optional" };
        write!(f, "{}: {}: {required} {}", self.id, self.name, self.field_type)?;
        match &self.doc {
            Some(doc) => write!(f, " ({doc})"),
            None => Ok(()),
        }
    }
}

impl Serialize for Type {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Primitive(primitive) => serializer.collect_str(primitive),
            Self::Variant => serializer.serialize_str("variant"),
            Self::Struct(fields) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("type", "struct")?;
                map.serialize_entry("fields", fields)?;
                map.end()
            }
            Self::List(element) => {
                let mut map = serializer.serialize_map(Some(4))?;
                map.serialize_entry("type", "list")?;
                map.serialize_entry("element-id", &element.id)?;
                map.serialize_entry("element", &element.field_type)?;
                map.serialize_entry("element-required", &element.required)?;
                map.end()
            }
            Self::Map(fields) => {
                let mut map = serializer.serialize_map(Some(6))?;
                map.serialize_entry("type", "map")?;
                map.serialize_entry("key-id", &fields.key.id)?;
                map.serialize_entry("key", &fields.key.field_type)?;
                map.serialize_entry("value-id", &fields.value.id)?;
                map.serialize_entry("value", &fields.value.field_type)?;
                map.serialize_entry("value-required", &fields.value.required)?;
                map.end()
            }
        }
    }
}

impl Serialize for NestedField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("required", &self.required)?;
        map.serialize_entry("type", &self.field_type)?;
        if let Some(doc) = &self.doc {
            map.serialize_entry("doc", doc)?;
        }
        if let Some(value) = &self.initial_default {
            map.serialize_entry("initial-default", value)?;
        }
        if let Some(value) = &self.write_default {
            map.serialize_entry("write-default", value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
