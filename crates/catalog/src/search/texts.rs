//! [`DocumentTexts`]: the current schema and the comment in the metadata of a table or view.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Error, Result};

/// The property of tables, views and namespaces with their comment.
const COMMENT: &str = "comment";

/// Number of bytes of a comment that the index contains.
const COMMENT_BYTES_MAX: usize = 1024;

/// The parts of a metadata document that the index needs.
pub(super) struct DocumentTexts<'a> {
    /// The current schema, as JSON.
    pub(super) schema: Option<&'a RawValue>,
    /// The property `comment`.
    pub(super) comment: Option<Cow<'a, str>>,
}

/// A string, borrowed from the JSON if it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document<'a> {
    #[serde(borrow, default)]
    schemas: Vec<&'a RawValue>,
    /// The only schema in documents of old writers.
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
    /// The current schema of a table.
    current_schema_id: Option<i32>,
    /// Only views have this member.
    #[serde(borrow)]
    view_uuid: Option<&'a RawValue>,
    /// The current version of a view.
    current_version_id: Option<i32>,
    #[serde(default)]
    versions: Vec<ViewVersion>,
    #[serde(borrow)]
    properties: Option<Properties<'a>>,
}

#[derive(Deserialize)]
struct Properties<'a> {
    #[serde(borrow)]
    comment: Option<Text<'a>>,
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
    schema_id: Option<i32>,
}

impl<'a> DocumentTexts<'a> {
    /// Reads the texts from a metadata document, which may lack its chunks.
    pub(super) fn parse(json: &'a [u8]) -> Result<Self> {
        let document: Document<'a> = serde_json::from_slice(json).map_err(Error::internal)?;
        // A table or view keeps unknown members, such as those of the other kind.
        let current = match document.view_uuid {
            None => document.current_schema_id,
            Some(_) => {
                let version = document.current_version_id;
                let mut versions = document.versions.iter();
                versions.find(|it| Some(it.version_id) == version).map(|it| it.schema_id)
            }
        };
        let schema = match &*document.schemas {
            [] => document.schema,
            [only] => Some(*only),
            schemas => current_of(schemas, current)?,
        };
        let comment = document.properties.and_then(|properties| properties.comment);
        Ok(Self { schema, comment: comment.and_then(|comment| shortened(comment.0)) })
    }
}

/// Returns the schema with this id. The current schema is usually the last one.
fn current_of<'a>(schemas: &[&'a RawValue], id: Option<i32>) -> Result<Option<&'a RawValue>> {
    for schema in schemas.iter().rev() {
        let SchemaId { schema_id } = serde_json::from_str(schema.get()).map_err(Error::internal)?;
        if id == Some(schema_id.unwrap_or_default()) {
            return Ok(Some(schema));
        }
    }
    Ok(None)
}

/// Returns the beginning of the property `comment`.
pub(super) fn comment_of(properties: &BTreeMap<String, String>) -> Option<Cow<'_, str>> {
    properties.get(COMMENT).and_then(|comment| shortened(Cow::Borrowed(comment)))
}

/// Returns the beginning of a comment. `None` if it is blank.
pub(super) fn shortened(comment: Cow<'_, str>) -> Option<Cow<'_, str>> {
    let beginning = match comment {
        Cow::Borrowed(comment) => Cow::Borrowed(beginning(comment)),
        Cow::Owned(comment) => Cow::Owned(beginning(&comment).to_owned()),
    };
    Some(beginning).filter(|comment| !comment.is_empty())
}

fn beginning(comment: &str) -> &str {
    let comment = comment.trim();
    &comment[..comment.floor_char_boundary(COMMENT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::super::columns::columns_of;
    use super::*;

    fn columns(texts: &DocumentTexts<'_>) -> Vec<String> {
        let columns = columns_of(texts.schema.expect("a schema")).expect("valid").into_iter();
        columns.map(|column| column.path.into_owned()).collect()
    }

    #[test]
    fn table_has_the_columns_of_its_current_schema() {
        let json = r#"{"properties": {"comment": " all orders ", "owner": "x"},
            "current-schema-id": 1, "snapshots": [{"snapshot-id": 1}], "schemas": [
            {"type": "struct", "schema-id": 1, "fields": [
                {"id": 1, "name": "id", "required": true, "type": "long", "doc": "the key"}]},
            {"type": "struct", "schema-id": 0, "fields": [
                {"id": 1, "name": "old", "required": true, "type": "long"}]}]}"#;
        let texts = DocumentTexts::parse(json.as_bytes()).expect("valid");
        assert_eq!(texts.comment.as_deref(), Some("all orders"));
        assert_eq!(columns(&texts), ["id"]);
    }

    #[test]
    fn view_has_the_columns_of_its_current_version() {
        let json = r#"{"view-uuid": "7ba8a9b4-5a35-4b11-b8a1-a5a2e6c1a9f1", "current-schema-id": 0,
            "current-version-id": 2, "versions": [
            {"version-id": 1, "schema-id": 0}, {"version-id": 2, "schema-id": 1}], "schemas": [
            {"type": "struct", "fields": [
                {"id": 1, "name": "old", "required": true, "type": "long"}]},
            {"type": "struct", "schema-id": 1, "fields": [
                {"id": 1, "name": "total", "required": true, "type": "long"}]}]}"#;
        let texts = DocumentTexts::parse(json.as_bytes()).expect("valid");
        assert_eq!(columns(&texts), ["total"]);
    }
}
