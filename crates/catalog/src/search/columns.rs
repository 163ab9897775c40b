//! Reads the columns of a schema without building the whole [schema](slateberg_model::schema).
//!
//! The search reads the schemas of all tables for its first answer. Schemas in the store were
//! checked when they were written. They can contain further members, which this reader ignores even
//! if they have the name of a member that it reads. If a JSON object has a member twice, the last
//! one counts, as for other readers of schemas.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::texts::shortened;
use crate::Error;

/// Number of bytes of the columns of a schema that the index contains, with their comments.
const COLUMNS_BYTES_MAX: usize = 256 * 1024;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnText<'a> {
    /// The names of the column and the columns around it, with dots between them.
    pub(super) path: Cow<'a, str>,
    /// The `doc` of the column.
    pub(super) comment: Option<Cow<'a, str>>,
}

/// Returns the columns of a schema, each before the columns inside it.
pub(super) fn columns_of(schema: &RawValue) -> crate::Result<Vec<ColumnText<'_>>> {
    let schema: Json<'_> = serde_json::from_str(schema.get()).map_err(Error::internal)?;
    let fields = schema.into_object().map(|schema| schema.fields).unwrap_or_default();
    let (mut columns, mut bytes) = (Vec::with_capacity(fields.len()), 0);
    let mut pending = Vec::with_capacity(fields.len());
    push_fields(&mut pending, None, fields);
    while let Some(Field { path, comment, field_type, is_column }) = pending.pop() {
        if let Some(field_type) = field_type {
            let Object { fields, element, key, value, .. } = *field_type;
            push_fields(&mut pending, Some(&path), fields);
            // The elements of lists and maps have no names of their own.
            for (name, field_type) in [("value", value), ("key", key), ("element", element)] {
                if field_type.is_some() {
                    let path = Cow::Owned(format!("{path}.{name}"));
                    pending.push(Field { path, comment: None, field_type, is_column: false });
                }
            }
        }
        if !is_column {
            continue;
        }
        let comment = comment.and_then(shortened);
        bytes += path.len() + comment.as_ref().map_or(0, |comment| comment.len());
        if bytes > COLUMNS_BYTES_MAX {
            break;
        }
        columns.push(ColumnText { path, comment });
    }
    Ok(columns)
}

/// A field of a struct, or an element of a list or map.
struct Field<'a> {
    path: Cow<'a, str>,
    comment: Option<Cow<'a, str>>,
    /// The type, if it contains other types.
    field_type: Option<Box<Object<'a>>>,
    is_column: bool,
}

/// Adds the fields of a struct, so that the first one is read next.
fn push_fields<'a>(pending: &mut Vec<Field<'a>>, parent: Option<&str>, fields: Vec<Object<'a>>) {
    pending.extend(fields.into_iter().rev().map(|Object { name, doc, field_type, .. }| {
        let name = name.unwrap_or_default();
        let path = match parent {
            Some(parent) => Cow::Owned(format!("{parent}.{name}")),
            None => name,
        };
        Field { path, comment: doc, field_type, is_column: true }
    }));
}

/// A schema, a field, or a type that contains other types. A schema has fields, like a struct.
/// Members with values of another JSON type are missing.
#[derive(Default)]
struct Object<'a> {
    name: Option<Cow<'a, str>>,
    doc: Option<Cow<'a, str>>,
    /// The member `type`. `None` for a primitive type.
    field_type: Option<Box<Object<'a>>>,
    fields: Vec<Object<'a>>,
    element: Option<Box<Object<'a>>>,
    key: Option<Box<Object<'a>>>,
    value: Option<Box<Object<'a>>>,
}

/// The members that are read.
#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Member {
    Name,
    Doc,
    Type,
    Fields,
    Element,
    Key,
    Value,
    #[serde(other)]
    Other,
}

/// A JSON value.
enum Json<'a> {
    Text(Cow<'a, str>),
    Object(Object<'a>),
    /// The objects in an array.
    Array(Vec<Object<'a>>),
    Other,
}

impl<'a> Json<'a> {
    fn into_text(self) -> Option<Cow<'a, str>> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn into_object(self) -> Option<Box<Object<'a>>> {
        if let Self::Object(object) = self { Some(Box::new(object)) } else { None }
    }

    fn into_objects(self) -> Vec<Object<'a>> {
        if let Self::Array(objects) = self { objects } else { Vec::new() }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json<'de>, A::Error> {
        let mut object = Object::default();
        while let Some(member) = members.next_key()? {
            if let Member::Other = member {
                let IgnoredAny = members.next_value()?;
                continue;
            }
            let value: Json<'de> = members.next_value()?;
            match member {
                Member::Name => object.name = value.into_text(),
                Member::Doc => object.doc = value.into_text(),
                Member::Type => object.field_type = value.into_object(),
                Member::Fields => object.fields = value.into_objects(),
                Member::Element => object.element = value.into_object(),
                Member::Key => object.key = value.into_object(),
                Member::Value => object.value = value.into_object(),
                Member::Other => {}
            }
        }
        Ok(Json::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Json<'de>, A::Error> {
        let mut objects = Vec::new();
        while let Some(value) = values.next_element()? {
            if let Json::Object(object) = value {
                objects.push(object);
            }
        }
        Ok(Json::Array(objects))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json<'de>, E> {
        Ok(Json::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json<'de>, E> {
        Ok(Json::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json<'de>, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json<'de>, E> {
        Ok(Json::Other)
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(json: &str) -> Vec<(String, Option<String>)> {
        let schema: &RawValue = serde_json::from_str(json).expect("it is JSON");
        let columns = columns_of(schema).expect("it is a schema").into_iter();
        columns
            .map(|column| (column.path.into_owned(), column.comment.map(Cow::into_owned)))
            .collect()
    }

    fn paths(json: &str) -> Vec<String> {
        columns(json).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn columns_inside_others_have_dotted_paths() {
        let json = r#"{"type": "struct", "schema-id": 1, "fields": [
            {"id": 1, "name": "id", "required": true, "type": "long", "doc": " the key "},
            {"id": 2, "name": "address", "required": false, "type": {"type": "struct", "fields": [
                {"id": 3, "name": "city", "required": false, "type": "string", "doc": " "},
                {"id": 4, "name": "zip", "required": false, "type": "string", "doc": null}]}},
            {"id": 5, "name": "items", "required": false, "type": {"type": "list",
                "element-id": 6, "element-required": true, "element": {"fields": [
                {"id": 7, "name": "sku", "required": false, "type": "string"}], "type": "struct"}}},
            {"id": 8, "name": "tags", "required": false, "type": {"type": "map", "key-id": 9,
                "key": {"type": "struct", "fields": [
                    {"id": 10, "name": "k", "required": true, "type": "string"}]},
                "value-id": 11, "value-required": false, "value": {"type": "struct", "fields": [
                    {"id": 12, "name": "v", "required": true, "type": "fixed[16]"}]}}},
            {"id": 13, "name": "last", "required": false, "type": "variant"}]}"#;
        let expected = [
            "id",
            "address",
            "address.city",
            "address.zip",
            "items",
            "items.element.sku",
            "tags",
            "tags.key.k",
            "tags.value.v",
            "last",
        ];
        assert_eq!(paths(json), expected);
        let comments = columns(json).into_iter().filter_map(|(_, comment)| comment);
        assert_eq!(comments.collect::<Vec<_>>(), ["the key"]);
    }

    #[test]
    fn members_of_other_types_are_ignored() {
        let json = r#"{"type": "struct", "name": 5, "key": [1, {"a": null}], "fields": [
            {"id": 1, "name": "a", "type": "int", "key": true, "value": -1, "fields": null,
             "element": 1.5, "doc": {"text": "x"}},
            7,
            {"id": 2, "name": "b", "type": {"type": "struct", "name": null, "fields": [
                {"id": 3, "name": "c", "type": "int"}]}}]}"#;
        assert_eq!(paths(json), ["a", "b", "b.c"]);
    }

    #[test]
    fn last_of_two_equal_members_counts() {
        let json = r#"{"fields": 5, "type": "struct", "fields": [{"name": "a", "id": 1,
            "type": {"type": "struct", "fields": []}, "name": "\u0062", "type": "long"}]}"#;
        assert_eq!(paths(json), ["b"]);
    }

    #[test]
    fn columns_of_a_wide_schema_end_at_the_maximum_size() {
        let field = |at: usize| {
            format!(r#"{{"id": {at}, "name": "{at:05}", "required": false, "type": "int"}}"#)
        };
        let fields: Vec<_> = (0..COLUMNS_BYTES_MAX / 5 + 9).map(field).collect();
        let json = format!(r#"{{"type": "struct", "fields": [{}]}}"#, fields.join(","));
        assert_eq!(paths(&json).len(), COLUMNS_BYTES_MAX / 5);
    }
}
