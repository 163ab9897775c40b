//! Reads the columns of a schema without building the whole [schema](slateberg_model::schema).
//!
//! The search reads the schemas of all tables for its first answer. Schemas in the store were
//! checked when they were written, so this reader accepts every schema. If a JSON object has a
//! member twice, the last one counts, as for other readers of schemas.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::texts::{Text, shortened};
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
    let schema: Object<'_> = serde_json::from_str(schema.get()).map_err(Error::internal)?;
    let (mut columns, mut bytes) = (Vec::with_capacity(schema.fields.len()), 0);
    let mut open = Vec::with_capacity(schema.fields.len());
    open_fields(&mut open, None, schema.fields);
    while let Some(Open { path, comment, contents, is_column }) = open.pop() {
        match contents {
            Some(Contents::Object(object)) => {
                let Object { fields, element, key, value, .. } = *object;
                open_fields(&mut open, Some(&path), fields);
                // The elements of lists and maps have no names of their own.
                for (name, contents) in [("value", value), ("key", key), ("element", element)] {
                    if contents.is_some() {
                        let path = Cow::Owned(format!("{path}.{name}"));
                        open.push(Open { path, comment: None, contents, is_column: false });
                    }
                }
            }
            Some(Contents::Name) | None => {}
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

/// A field whose contents are not read yet.
struct Open<'a> {
    path: Cow<'a, str>,
    comment: Option<Cow<'a, str>>,
    contents: Option<Contents<'a>>,
    is_column: bool,
}

/// Opens the fields of a struct, so that the first one is read next.
fn open_fields<'a>(open: &mut Vec<Open<'a>>, parent: Option<&str>, fields: Vec<Object<'a>>) {
    open.extend(fields.into_iter().rev().map(|Object { name, doc, contents, .. }| Open {
        path: match parent {
            Some(parent) => Cow::Owned(format!("{parent}.{}", name.0)),
            None => name.0,
        },
        comment: doc.map(|doc| doc.0),
        contents,
        is_column: true,
    }));
}

/// A schema, a field, or a type with other types inside it. A schema has fields, like a struct.
#[derive(Default)]
struct Object<'a> {
    name: Text<'a>,
    doc: Option<Text<'a>>,
    /// The member `type`.
    contents: Option<Contents<'a>>,
    fields: Vec<Object<'a>>,
    element: Option<Contents<'a>>,
    key: Option<Contents<'a>>,
    value: Option<Contents<'a>>,
}

/// A type.
enum Contents<'a> {
    /// A primitive type. The `type` of an object is also a name.
    Name,
    Object(Box<Object<'a>>),
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

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema, field or type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Object<'de>, A::Error> {
        let mut object = Object::default();
        while let Some(member) = members.next_key()? {
            match member {
                Member::Name => object.name = members.next_value()?,
                Member::Doc => object.doc = members.next_value()?,
                Member::Type => object.contents = members.next_value()?,
                Member::Fields => object.fields = members.next_value()?,
                Member::Element => object.element = members.next_value()?,
                Member::Key => object.key = members.next_value()?,
                Member::Value => object.value = members.next_value()?,
                Member::Other => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(object)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Contents<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentsVisitor)
    }
}

struct ContentsVisitor;

impl<'de> Visitor<'de> for ContentsVisitor {
    type Value = Contents<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a type")
    }

    fn visit_str<E>(self, _: &str) -> Result<Contents<'de>, E> {
        Ok(Contents::Name)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Contents<'de>, A::Error> {
        ObjectVisitor.visit_map(members).map(|object| Contents::Object(Box::new(object)))
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
    fn last_of_two_equal_members_counts() {
        let json = r#"{"fields": [], "type": "struct", "fields": [{"name": "a", "id": 1,
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
