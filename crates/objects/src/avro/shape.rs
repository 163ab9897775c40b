//! Encoding of values in bytes: the part of an Avro schema that is needed to read or skip values.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

/// Encoding of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// No bytes.
    Nothing,
    /// A fixed number of bytes.
    Fixed(usize),
    /// A fixed number of bytes without a logical type. Some writers write the length before them.
    PlainFixed(usize),
    /// One byte.
    Bool,
    /// A number of variable length.
    Number,
    /// A length, and then this number of bytes.
    Text,
    /// Items of one type.
    Array(Box<Shape>),
    /// Strings as keys, and values of one type.
    Map(Box<Shape>),
    /// The index of one of these types, and a value of that type.
    Union(Vec<Shape>),
    /// A record, by its index in the schema. It may contain itself.
    Record(usize),
}

/// A schema.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Schema {
    /// Type of an entry.
    pub(super) root: Shape,
    /// Whether a type is a [`Shape::PlainFixed`].
    pub(super) has_fixed: bool,
    records: Vec<Vec<Field>>,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// Its name.
    pub(super) name: String,
    /// Iceberg's id of the field. `None` if the writer did not record one.
    pub(super) id: Option<i32>,
    /// Whether its values are dates, or null.
    pub(super) is_date: bool,
    /// Its type.
    pub(super) shape: Shape,
}

impl Schema {
    /// Parses a schema. The JSON parser limits its depth.
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| format!("has an invalid schema: {error}");
        let json: Json = serde_json::from_slice(json).map_err(wrong)?;
        let mut names = Names::default();
        let root = names.shape(&json, "")?;
        Ok(Self { root, has_fixed: names.has_fixed, records: names.records })
    }

    /// Returns the fields of a record.
    pub(super) fn fields(&self, record: usize) -> &[Field] {
        self.records.get(record).map_or(&[], Vec::as_slice)
    }
}

/// Names that a schema has defined so far.
#[derive(Default)]
struct Names {
    records: Vec<Vec<Field>>,
    has_fixed: bool,
    known: HashMap<String, Shape>,
}

impl Names {
    /// Parses a type in a namespace. Logical types have the encoding of their base types.
    fn shape(&mut self, json: &Json, namespace: &str) -> Result<Shape, String> {
        let object = match json {
            Json::String(name) => return self.named(name, namespace),
            Json::Array(variants) => {
                let variants = variants.iter().map(|variant| self.shape(variant, namespace));
                return variants.collect::<Result<_, _>>().map(Shape::Union);
            }
            Json::Object(object) => object,
            _ => return Err("has a schema with an unknown type".to_owned()),
        };
        let part = |name: &str| {
            let found = object.get(name);
            found.ok_or_else(|| format!("has a schema with a type that has no {name}"))
        };
        match part("type")?.as_str() {
            Some("record" | "error") => self.record(object, namespace),
            Some("array") => self.shape(part("items")?, namespace).map(Box::new).map(Shape::Array),
            Some("map") => self.shape(part("values")?, namespace).map(Box::new).map(Shape::Map),
            Some("enum") => self.define(object, namespace, Shape::Number),
            Some("fixed") => {
                let size = part("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or("has a schema with an invalid size")?;
                let is_plain = !object.contains_key("logicalType");
                self.has_fixed |= is_plain;
                let shape = if is_plain { Shape::PlainFixed(size) } else { Shape::Fixed(size) };
                self.define(object, namespace, shape)
            }
            _ => self.shape(part("type")?, namespace),
        }
    }

    fn record(&mut self, object: &Map<String, Json>, namespace: &str) -> Result<Shape, String> {
        let record = self.records.len();
        self.records.push(Vec::new());
        self.define(object, namespace, Shape::Record(record))?;
        let name = full_name(object, namespace)?;
        let inside = name.rsplit_once('.').map_or("", |(namespace, _)| namespace);
        let none = || "has a schema with a record without fields".to_owned();
        let fields = object.get("fields").and_then(Json::as_array).ok_or_else(none)?;
        let mut shapes = Vec::with_capacity(fields.len());
        for field in fields {
            let name = field.get("name").and_then(Json::as_str);
            let (name, json) = name.zip(field.get("type")).ok_or_else(none)?;
            let id = field.get("field-id").and_then(Json::as_i64);
            shapes.push(Field {
                name: name.to_owned(),
                id: id.and_then(|id| i32::try_from(id).ok()),
                is_date: is_date(json),
                shape: self.shape(json, inside)?,
            });
        }
        if let Some(fields) = self.records.get_mut(record) {
            *fields = shapes;
        }
        Ok(Shape::Record(record))
    }

    /// Defines a name.
    fn define(
        &mut self,
        object: &Map<String, Json>,
        namespace: &str,
        shape: Shape,
    ) -> Result<Shape, String> {
        self.known.insert(full_name(object, namespace)?, shape.clone());
        Ok(shape)
    }

    fn named(&self, name: &str, namespace: &str) -> Result<Shape, String> {
        Ok(match name {
            "null" => Shape::Nothing,
            "boolean" => Shape::Bool,
            "float" => Shape::Fixed(4),
            "double" => Shape::Fixed(8),
            "int" | "long" => Shape::Number,
            "bytes" | "string" => Shape::Text,
            name => {
                let known = self.known.get(&within(namespace, name));
                let known = known.or_else(|| self.known.get(name)).cloned();
                known.ok_or("has a schema with an undefined name")?
            }
        })
    }
}

/// Whether the values of a type are dates, or null.
fn is_date(json: &Json) -> bool {
    match json {
        Json::Array(variants) => variants.iter().any(is_date),
        json => json.get("logicalType").and_then(Json::as_str) == Some("date"),
    }
}

/// Returns the name of a type, with its namespace.
fn full_name(object: &Map<String, Json>, namespace: &str) -> Result<String, String> {
    let text = |key: &str| object.get(key).and_then(Json::as_str);
    let name = text("name").ok_or("has a schema with a type that has no name")?;
    Ok(within(text("namespace").unwrap_or(namespace), name))
}

fn within(namespace: &str, name: &str) -> String {
    if namespace.is_empty() || name.contains('.') {
        name.to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Schema, String> {
        Schema::parse(json.as_bytes())
    }

    #[test]
    fn logical_types_have_the_encoding_of_their_base_types() {
        for (json, expected) in [
            (r#""long""#, Shape::Number),
            (r#"{"type":"int","logicalType":"date"}"#, Shape::Number),
            (r#"{"type":"fixed","name":"u","size":16,"logicalType":"uuid"}"#, Shape::Fixed(16)),
            (r#"{"type":"fixed","name":"f","size":16}"#, Shape::PlainFixed(16)),
            (r#"{"type":"string","logicalType":"uuid"}"#, Shape::Text),
            (r#"{"type":"bytes","logicalType":"decimal","precision":9}"#, Shape::Text),
            (r#"{"type":{"type":"double"}}"#, Shape::Fixed(8)),
            (r#"{"type":"enum","name":"e","symbols":["a"]}"#, Shape::Number),
            (r#"{"type":"map","values":"int"}"#, Shape::Map(Box::new(Shape::Number))),
            (r#"["null",{"type":"array","items":"float"}]"#, {
                Shape::Union(vec![Shape::Nothing, Shape::Array(Box::new(Shape::Fixed(4)))])
            }),
        ] {
            assert_eq!(parse(json).map(|it| it.root), Ok(expected), "{json}");
        }
    }

    #[test]
    fn schema_names_resolve_in_their_namespace() {
        let json = r#"{"type":"record","name":"a.b.r","fields":[
            {"name":"x","type":{"type":"fixed","name":"f","size":3}},
            {"name":"y","type":"f"},
            {"name":"z","type":"a.b.f"},
            {"name":"next","type":["null","r"]}]}"#;
        let schema = parse(json).expect("it is one");
        let shapes: Vec<_> = schema.fields(0).iter().map(|field| field.shape.clone()).collect();
        let next = Shape::Union(vec![Shape::Nothing, Shape::Record(0)]);
        let fixed = || Shape::PlainFixed(3);
        assert_eq!(shapes, [fixed(), fixed(), fixed(), next]);
        assert_eq!(schema.root, Shape::Record(0));
    }

    #[test]
    fn invalid_schema_is_rejected() {
        for json in [
            "",
            "1",
            "{}",
            r#""nothing""#,
            r#"{"type":"record","name":"r"}"#,
            r#"{"type":"record","fields":[]}"#,
            r#"{"type":"record","name":"r","fields":[{"name":"x"}]}"#,
            r#"{"type":"fixed","name":"f","size":-1}"#,
            r#"{"type":"array"}"#,
            &"[".repeat(100_000),
        ] {
            assert!(parse(json).is_err(), "{json:.40}");
        }
    }
}
