//! [`DocumentTexts`]: the columns and comments in the metadata of a table or view.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Error, Result};
use slateberg_model::ident::TabularKind;
use slateberg_model::schema::Schema;
use slateberg_model::types::{NestedField, Type};

/// The property of tables, views and namespaces with their comment.
const COMMENT: &str = "comment";

/// Number of bytes of a comment that the index contains.
const COMMENT_BYTES_MAX: usize = 1024;
/// Number of bytes of the columns of a schema that the index contains, with their comments.
const COLUMNS_BYTES_MAX: usize = 256 * 1024;

/// The parts of a metadata document that the index needs.
pub(super) struct DocumentTexts<'a> {
    /// The current schema, as JSON.
    pub(super) schema: Option<&'a RawValue>,
    /// The property `comment`.
    pub(super) comment: Option<String>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnText {
    /// The names of the column and the columns around it, with dots between them.
    pub(super) path: String,
    /// The `doc` of the column.
    pub(super) comment: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document<'a> {
    #[serde(borrow, default)]
    schemas: Vec<&'a RawValue>,
    /// The only schema in documents of old writers.
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
    current_schema_id: Option<i32>,
    current_version_id: Option<i32>,
    #[serde(default)]
    versions: Vec<ViewVersion>,
    #[serde(default)]
    properties: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ViewVersion {
    version_id: i32,
    schema_id: i32,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SchemaId {
    #[serde(default)]
    schema_id: i32,
}

impl<'a> DocumentTexts<'a> {
    /// Reads the texts from a metadata document, which may lack its chunks.
    pub(super) fn parse(kind: TabularKind, json: &'a [u8]) -> Result<Self> {
        let document: Document<'a> = serde_json::from_slice(json).map_err(Error::internal)?;
        let schema_id = match kind {
            TabularKind::Table => document.current_schema_id,
            TabularKind::View => {
                let current = document.current_version_id;
                let mut versions = document.versions.iter();
                versions.find(|it| Some(it.version_id) == current).map(|it| it.schema_id)
            }
        };
        let mut schema = document.schema.filter(|_| document.schemas.is_empty());
        for raw in document.schemas {
            let SchemaId { schema_id: id } =
                serde_json::from_str(raw.get()).map_err(Error::internal)?;
            if Some(id) == schema_id {
                schema = Some(raw);
            }
        }
        let comment = document.properties.as_ref().and_then(comment_of);
        Ok(Self { schema, comment })
    }
}

/// Returns the beginning of the property `comment`.
pub(super) fn comment_of(properties: &BTreeMap<String, String>) -> Option<String> {
    properties.get(COMMENT).map(String::as_str).and_then(shortened)
}

/// Returns the columns of a schema, each before the columns inside it.
pub(super) fn columns_of(schema: &RawValue) -> Result<Vec<ColumnText>> {
    let schema = Schema::parse(schema).map_err(Error::internal)?;
    let (mut columns, mut bytes) = (Vec::new(), 0);
    let outermost = schema.fields().iter().rev();
    let mut open: Vec<(String, &NestedField, bool)> =
        outermost.map(|field| (field.name.clone(), field, true)).collect();
    while let Some((path, field, is_column)) = open.pop() {
        let inside = |field: &'_ NestedField| format!("{path}.{}", field.name);
        // The elements of lists and maps have no names of their own.
        match &field.field_type {
            Type::Struct(fields) => {
                open.extend(fields.iter().rev().map(|field| (inside(field), field, true)));
            }
            Type::List(element) => open.push((inside(element), element, false)),
            Type::Map(fields) => {
                open.push((inside(&fields.value), &fields.value, false));
                open.push((inside(&fields.key), &fields.key, false));
            }
            Type::Primitive(_) | Type::Variant => {}
        }
        if !is_column {
            continue;
        }
        let comment = field.doc.as_deref().and_then(shortened);
        bytes += path.len() + comment.as_ref().map_or(0, String::len);
        if bytes > COLUMNS_BYTES_MAX {
            break;
        }
        columns.push(ColumnText { path, comment });
    }
    Ok(columns)
}

/// Returns the beginning of a comment. `None` if it is blank.
fn shortened(comment: &str) -> Option<String> {
    let comment = comment.trim();
    let end = comment.floor_char_boundary(COMMENT_BYTES_MAX);
    Some(comment[..end].to_owned()).filter(|comment| !comment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_the_current_schema_have_dotted_paths() {
        let json = r#"{"properties": {"comment": " all orders ", "owner": "x"},
            "current-schema-id": 1, "snapshots": [{"snapshot-id": 1}], "schemas": [
            {"type": "struct", "schema-id": 0, "fields": [
                {"id": 1, "name": "old", "required": true, "type": "long"}]},
            {"type": "struct", "schema-id": 1, "fields": [
                {"id": 1, "name": "id", "required": true, "type": "long", "doc": "the key"},
                {"id": 2, "name": "address", "required": false, "type": {"type": "struct", "fields": [
                    {"id": 3, "name": "city", "required": false, "type": "string", "doc": " "}]}},
                {"id": 4, "name": "items", "required": false, "type": {"type": "list",
                    "element-id": 5, "element-required": true, "element": {"type": "struct", "fields": [
                    {"id": 6, "name": "sku", "required": false, "type": "string"}]}}}]}]}"#;
        let texts = DocumentTexts::parse(TabularKind::Table, json.as_bytes()).expect("valid");
        assert_eq!(texts.comment.as_deref(), Some("all orders"));
        let columns = columns_of(texts.schema.expect("a schema")).expect("valid");
        let paths: Vec<_> = columns.iter().map(|column| &*column.path).collect();
        assert_eq!(paths, ["id", "address", "address.city", "items", "items.element.sku"]);
        assert_eq!(columns[0].comment.as_deref(), Some("the key"));
        assert_eq!(columns[2].comment, None);
    }

    #[test]
    fn view_has_the_columns_of_its_current_version() {
        let json = r#"{"current-version-id": 2, "versions": [
            {"version-id": 1, "schema-id": 0}, {"version-id": 2, "schema-id": 1}], "schemas": [
            {"type": "struct", "schema-id": 0, "fields": [
                {"id": 1, "name": "old", "required": true, "type": "long"}]},
            {"type": "struct", "schema-id": 1, "fields": [
                {"id": 1, "name": "total", "required": true, "type": "long"}]}]}"#;
        let texts = DocumentTexts::parse(TabularKind::View, json.as_bytes()).expect("valid");
        let columns = columns_of(texts.schema.expect("a schema")).expect("valid");
        let total = ColumnText { path: "total".to_owned(), comment: None };
        assert_eq!(columns, [total]);
    }
}
